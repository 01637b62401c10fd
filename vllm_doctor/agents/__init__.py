"""The same answers for coding agents, over the Model Context Protocol."""
