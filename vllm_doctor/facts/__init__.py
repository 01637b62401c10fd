"""Facts that a log states, how they merge over ranks, and the load of a running engine."""
