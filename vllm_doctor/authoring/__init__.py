"""Tools for rule authors: rule tests, scaffolds, recorded expectations, explain pages."""
