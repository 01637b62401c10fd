"""The options of `diagnose`, and those that `watch` and `run` have as well.

Click's options are made of them (`options`), and `argv` reads an ordinary command line by them, for click is a third of
a start. What a kind of value refuses, click tells the user.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from vllm_doctor.cli.formats import WRITERS

SEVERITIES = ("error", "warning", "info", "never")


class Text:
    """Any text."""

    def read(self, text: str) -> Any:
        """The value that a text is. Raises ValueError for one that is none, or that click may know to read."""
        return text


class RuleId(Text):
    """A rule's id. Whether it exists is checked when the rules are known."""


class File(Text):
    """A file that can be read, if it is there."""

    def read(self, text: str) -> str:
        """The name."""
        if os.path.exists(text) and not os.access(text, os.R_OK):
            raise ValueError(text)
        return text


class Choice(Text):
    """One of some words."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def read(self, text: str) -> str:
        """The word."""
        if text not in self.words:
            raise ValueError(text)
        return text


class Whole(Text):
    """A whole number from `least` on."""

    def __init__(self, least: int) -> None:
        self.least = least

    def read(self, text: str) -> int:
        """The number."""
        if not text.isdecimal() or int(text) < self.least:
            raise ValueError(text)
        return int(text)


class Quantity(Text):
    """A number above 0."""

    def read(self, text: str) -> float:
        """The number."""
        if not text.replace(".", "", 1).isdecimal() or not float(text) > 0:
            raise ValueError(text)
        return float(text)


class Own(Text):
    """A kind of value of ours. What it says of another one is for the user."""

    name = ""


class RunNumber(Own):
    """`last`, `all`, or a run's number."""

    name = "N|last|all"

    def read(self, text: str) -> str:
        """The text."""
        if text not in {"last", "all"} and not (text.isdigit() and int(text) > 0):
            raise ValueError(f"{text!r} is not a number from 1, `last` or `all`")
        return text


class ReportFile(Own):
    """`FORMAT=FILE`."""

    name = "FORMAT=FILE"

    def read(self, text: str) -> tuple[str, str]:
        """The format and the file."""
        format_, _, path = text.partition("=")
        if format_ not in WRITERS or not path:
            raise ValueError(f"{text!r} is not FORMAT=FILE with one of {', '.join(WRITERS)}")
        return format_, path


class Option(NamedTuple):
    """One option: its names, what its value is called here and may be (None: a switch), its default; `many` repeat."""

    names: tuple[str, ...]
    key: str
    kind: Text | None
    default: Any = None
    metavar: str | None = None
    help: str | None = None
    many: bool = False


SHARED = (
    Option(("--rules",), "rules", Text(), (), "DIR", "A folder of rules of your own; repeatable.", many=True),
    Option(("--only",), "only", RuleId(), (), "ID", "Look for this rule only; repeatable.", many=True),
    Option(("--ignore",), "ignore", RuleId(), (), "ID", "Leave this rule out; repeatable.", many=True),
    Option(("--command",), "command_text", Text(), "", "TEXT", "What you ran, if the log does not show it."),
    Option(("--config",), "config_file", Text(), "", "FILE", "The YAML file you gave to vllm serve --config."),
    Option(("--gpu-memory",), "gpu_memory", Quantity(), None, "GIB", "The card's size."),
    Option(("--vllm-version",), "vllm_version", Text(), "", "V", "The vLLM release."),
    Option(("--max-fixes",), "max_fixes", Whole(1), 5, "N"),
    Option(("--show-secrets",), "show_secrets", None, False, None, "Do not mask API keys and tokens."),
    Option(("--fail-on",), "fail_on", Choice(*SEVERITIES), "error", None,
           "Exit with status 1 from this severity on."),
    Option(("--color",), "color", Choice("auto", "always", "never"), "auto"),
    Option(("--width",), "width", Whole(40), None, "N", "Columns of the text report."),
    Option(("--settings",), "settings_file", File(), None, "FILE",
           "Read this instead of the pyproject.toml or vllm-doctor.toml found upward from here."),
    Option(("--isolated",), "isolated", None, False, None, "Read no settings file."),
    Option(("-v", "--verbose"), "verbose", None, False, None, "Every finding, proof and link."),
    Option(("-q", "--quiet"), "quiet", None, False, None, "Say nothing when nothing was found."),
)
DIAGNOSE = (
    Option(("--format",), "format_", Choice(*WRITERS), "text"),
    Option(("--output",), "output", Text(), None, "FILE", "Write the report there instead of to stdout."),
    Option(("--report",), "also", ReportFile(), (), None,
           "Write the report in another format as well; repeatable, the log is read once.", many=True),
    Option(("--run",), "run_number", RunNumber(), "last", None, "Which start of the server in the log."),
    Option(("--why",), "why", RuleId(), None, "ID", "Say why this rule fired, or why it did not."),
)
