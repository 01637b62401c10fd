"""What each vLLM release has: importable names and the packages it asks for."""
