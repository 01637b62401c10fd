"""Lines to events: record prefixes, processes and ranks, tracebacks, server starts."""
