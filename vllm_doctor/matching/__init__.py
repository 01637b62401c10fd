"""Events matched against the patterns of the rule base."""
