"""Bytes to lines: inputs, encodings, progress bars, wrapped rows, wrappers."""
