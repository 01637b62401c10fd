"""The local page to paste or drop a log into."""
