"""Tools for rule authors: tests, scaffolds, explanations."""
