"""Events against the rule base."""
