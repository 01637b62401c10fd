"""What each vLLM release has: releases, flags, environment variables."""
