"""The command line: one command per module."""

from __future__ import annotations

from vllm_doctor.cli.root import main

__all__ = ["main"]
