"""Event: one message of the log, with the process, the calls and the server start that it belongs to."""

from __future__ import annotations

from typing import NamedTuple

LEVELS = "DEBUG|INFO|WARNING|ERROR|CRITICAL"
"""The levels of records, as alternatives of an expression."""
QUIET_LEVELS = frozenset({"DEBUG", "INFO", "WARNING"})
"""Levels of records that report no failure."""


class Event(NamedTuple):
    """One message of the log.

    `line` is its 1-based line number; `process` who printed it, which is `source` where no process is named: the
    names in the line's wrappers, such as a container's; `rank` the worker, if the prefix names one; `run` counts the
    starts of the server from 1. In the last lines of a traceback `frames` holds its calls, outermost first, as
    `path/file.py:function` joined by newlines (behind a function of vLLM's envs.py, which has no name, and a module
    that reads a number from the environment stands the variable), and `context` the earlier lines of the exception's
    message.
    `is_code` marks a source line of a traceback, which is no message. `refusal` marks vLLM's message about a request it
    refused. `releases` is the version range that prints such a prefix, `time` the time in it as printed.
    """

    line: int
    text: str
    level: str = ""
    process: str = ""
    rank: int | None = None
    run: int = 1
    releases: str = ""
    frames: str = ""
    is_code: bool = False
    context: str = ""
    refusal: bool = False
    time: str = ""
    source: str = ""

    @property
    def names_process(self) -> bool:
        """Return whether vLLM or Ray names the process that printed it, which is most often not the first one."""
        return "pid=" in self.process
