"""The formats of a report (`--format`), each with its module of `vllm_doctor.reports`, imported when asked for."""

from __future__ import annotations

WRITERS = {
    "text": "to_text",
    "json": "to_json",
    "jsonl": "to_json",
    "markdown": "to_markdown",
    "html": "to_html",
    "sarif": "to_sarif",
    "junit": "to_junit",
    "github": "to_github",
}
