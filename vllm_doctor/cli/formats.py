"""The report formats (`--format`) and the modules that render them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

WRITERS: Mapping[str, str] = {
    "text": "to_text",
    "json": "to_json",
    "jsonl": "to_json",
    "markdown": "to_markdown",
    "html": "to_html",
    "sarif": "to_sarif",
    "junit": "to_junit",
    "github": "to_github",
    "gitlab": "to_gitlab",
    "command": "to_command",
    "agent": "to_agent",
}


def writer(format_: str) -> ModuleType:
    """Import the module that renders a format: a report is written in one of them, and the others take time to load."""
    return import_module(f"vllm_doctor.reports.{WRITERS[format_]}")
