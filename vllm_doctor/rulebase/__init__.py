"""The rule base: model, schema, YAML files, checks, compiled rules and their cache."""
