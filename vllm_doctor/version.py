"""The version of this package, for the build, the reports and the rule cache."""

__version__ = "0.1.0"
