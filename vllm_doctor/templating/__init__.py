"""The expressions and texts of rules."""
