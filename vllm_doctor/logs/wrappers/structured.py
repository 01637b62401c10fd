"""The prefix that vLLM would have written before the lines of a structured record."""

from __future__ import annotations

import zlib

_NAMES = {
    "WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "CRIT": "CRITICAL", "TRACE": "DEBUG", "NOTICE": "INFO",
    "10": "DEBUG", "20": "INFO", "30": "WARNING", "40": "ERROR", "50": "CRITICAL",
}  # fmt: skip


def level_name(value: str) -> str:
    """Return a logger's level as Python names it; empty for another word."""
    name = value.strip().upper()
    name = _NAMES.get(name, name)
    return name if name in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"} else ""


def record_head(level: str, file: str, record: str) -> str:
    """Return the prefix of each line of a record; no two records have the same, so that each ends at the next."""
    return f"{level} [{file or 'record'}.py:{zlib.crc32(record.encode('utf-8', 'replace')) % 1_000_000}] "
