"""One self-contained HTML file: nothing is loaded, and its own policy forbids it.

Texts reach the page through Jinja's autoescape. Style and script are ours, allowed by their hashes in the
Content-Security-Policy; a style attribute or an inline handler that slipped in would not run.
"""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vllm_doctor.phases import PHASES
from vllm_doctor.redact import safe_text
from vllm_doctor.reports import command_diff, incident_text, shared_text, timeline_text
from vllm_doctor.reports.escape import inert_markup
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.version import __version__

_FOLDER = Path(__file__).resolve().parent / "templates"
_HOLDERS = ("weights", "activations", "non_torch", "cuda_graphs", "kv_cache", "other_processes", "reserved_unallocated",
            "free", "outside_budget")  # each has its colour in report.css
_WIDTH, _BAR = 1000, 72  # the picture's units


@dataclass(frozen=True, slots=True)
class Step:
    """A phase of the start and how far the server came: done, reached, failed, ahead."""

    name: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the memory as a piece of the bar, in the picture's units; `kind` names its colour."""

    label: str
    gib: float
    origin: str
    kind: str
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The memory of one GPU as a bar: its segments and the line where the budget ends (None: not known)."""

    segments: tuple[Segment, ...]
    budget_x: float | None


def render(report: Report) -> str:
    """Return the page of one log."""
    return _page([report])


def render_many(reports: list[Report]) -> str:
    """Return a page with a table of the logs, followed by each report."""
    return _page(reports)


def policy() -> str:
    """Return the Content-Security-Policy of a page, for a server that sends it as a header."""
    return (f"default-src 'none'; style-src {_hash(_style())}; script-src {_hash(_script())}; base-uri 'none'; "
            "form-action 'none'")


def timeline(report: Report) -> tuple[Step, ...]:
    """Return the ten phases, with the one reached marked, and the one of the cause when the server failed."""
    reached = PHASES.index(report.phase) if report.phase in PHASES else -1
    cause = report.cause
    failed = report.status == "failed"
    broken = PHASES.index(cause.phase) if failed and cause is not None and cause.phase in PHASES else -1
    if failed and cause is None:
        broken = reached
    steps = []
    for number, name in enumerate(PHASES):
        if number == broken:
            state, words = "failed", "failed here" if number != reached else "reached, failed here"
        elif number == reached:
            state, words = "reached", "reached"
        elif number < reached:
            state, words = "done", "done"
        else:
            state, words = "ahead", "not reached"
        steps.append(Step(name, state, words))
    return tuple(steps)


def picture(report: Report) -> Picture | None:
    """Return the memory as a bar, or None if the log shows too little. A negative part (a shortage) has no width."""
    memory = shared_text.memory_shown(report)
    if memory is None:
        return None
    total = max(memory.device_gib or 0.0, sum(max(part.gib, 0.0) for part in memory.parts))
    if total <= 0:
        return None
    segments, x = [], 0.0
    for part in memory.parts:
        width = max(part.gib, 0.0) / total * _WIDTH
        segments.append(Segment(shared_text.part_label(part.name), part.gib, part.origin, _kind(part.name), round(x, 2),
                                round(width, 2)))
        x += width
    budget = memory.budget_gib
    return Picture(tuple(segments), round(min(budget / total, 1) * _WIDTH, 2) if budget else None)


def _kind(name: str) -> str:
    """Return the part whose colour to use: its own, or that of the first part where the log prints only a sum."""
    return next((known for known in _HOLDERS if name == known or name.startswith(known + "_and_")), "unaccounted")


def _page(reports: list[Report]) -> str:
    text = _environment().get_template("report.html").render(
        reports=reports, policy=Markup(policy()), style=Markup(_style()), script=Markup(_script()),  # noqa: S704 - our own files
        version=__version__, shared_text=shared_text, timeline=timeline, timeline_text=timeline_text,
        incident_text=incident_text, picture=picture, pieces=_pieces,
        bar=_BAR, full=_WIDTH)
    return inert_markup(text)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    made = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                       undefined=StrictUndefined, keep_trailing_newline=True, finalize=_shown)
    made.tests["web_address"] = _is_web_address
    return made


def _shown(value: Any) -> Any:
    """Return the value an expression prints, with the control characters and direction marks in text made visible."""
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _is_web_address(link: str) -> bool:
    return link.startswith(("https://", "http://"))


@lru_cache(maxsize=1)
def _style() -> str:
    return (_FOLDER / "report.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _script() -> str:
    return (_FOLDER / "report.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"


def _pieces(report: Report, fix: Fix, text: str) -> list[tuple[bool, str]]:
    """Return the corrected command in pieces, each with whether it is new."""
    if fix.command is None or report.command is None or "\n" in text:
        return [(False, text)]
    rows = command_diff.rows(report.command, text, len(text))
    return [(row.mark == "+", row.text) for row in rows if row.mark != "-"]
