"""The rules: model, schema, YAML files, checks, compiled index."""
