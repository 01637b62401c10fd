"""The report formats (`--format`) and the modules that render them."""

from __future__ import annotations

from types import ModuleType

from vllm_doctor.reports import (
    to_agent,
    to_command,
    to_github,
    to_gitlab,
    to_html,
    to_json,
    to_junit,
    to_markdown,
    to_sarif,
    to_text,
)

WRITERS: dict[str, ModuleType] = {
    "text": to_text,
    "json": to_json,
    "jsonl": to_json,
    "markdown": to_markdown,
    "html": to_html,
    "sarif": to_sarif,
    "junit": to_junit,
    "github": to_github,
    "gitlab": to_gitlab,
    "command": to_command,
    "agent": to_agent,
}
