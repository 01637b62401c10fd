"""What may be skipped in long logs."""
