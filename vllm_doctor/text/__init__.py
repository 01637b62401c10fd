"""Text: lazily compiled expressions, searches for many literals, units of sizes, what a terminal shows."""
