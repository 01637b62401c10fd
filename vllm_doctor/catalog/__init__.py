"""What each vLLM release has: releases, flags, environment variables, importable names and required packages."""
