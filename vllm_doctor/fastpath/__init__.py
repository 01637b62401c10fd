"""The lines of a long log that need not be read in full."""
