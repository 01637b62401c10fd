"""One self-contained HTML file: nothing is loaded, and its own policy forbids it.

Texts reach the page through Jinja's autoescape. Style and script are ours, allowed by their hashes in the
Content-Security-Policy; a style attribute or an inline handler that slipped in would not run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vllm_doctor.language import Language
from vllm_doctor.messages import N_
from vllm_doctor.phases import PHASES
from vllm_doctor.redact import safe_text
from vllm_doctor.reports import command_diff, incident_text, texts, timeline_text, to_markdown
from vllm_doctor.reports.escape import inert_markup, is_web_address
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.reports.template_folder import TEMPLATES
from vllm_doctor.text.patterns import lazy_pattern
from vllm_doctor.version import __version__

_HOLDERS = ("weights", "activations", "non_torch", "cuda_graphs", "kv_cache", "other_processes", "reserved_unallocated",
            "free", "outside_budget")  # each has its colour in report.css
_WIDTH, _BAR, _PLOT = 1000, 72, 140  # the pictures' units
_FEWEST_POINTS = 3  # statistics lines of a plot
_FLAG = lazy_pattern(r"(?<![^\s'\"])(--[a-zA-Z][\w.-]*)")


@dataclass(frozen=True, slots=True)
class Step:
    """A phase of the start and its state: done, reached, failed, ahead."""

    name: str
    state: str
    words: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: what it shows, and its points in the plot's units."""

    kind: str
    points: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A panel of the plot: its lines, and the value at its upper edge."""

    lines: tuple[Line, ...]
    top: float


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


def render(report: Report, *, back: str = "") -> str:
    """Return the page of one log; `back` is the address at which another log can be given."""
    return _page([report], back)


def render_many(reports: list[Report], *, back: str = "") -> str:
    """Return a page with a table of the logs, followed by each report."""
    return _page(reports, back)


def policy() -> str:
    """Return the Content-Security-Policy of a page, for a server that sends it as a header."""
    return (f"default-src 'none'; style-src {_hash(_style())}; script-src {_hash(_script())}; base-uri 'none'; "
            "form-action 'none'")


def timeline(report: Report) -> tuple[Step, ...]:
    """Return the ten phases up to the last one reached, where a failed server stopped."""
    phases = [report.phase] if report.phase in PHASES else []
    cause = report.cause
    failed = report.status == "failed"
    if failed and cause is not None and cause.phase in PHASES:
        phases.append(cause.phase)
    last = max((PHASES.index(phase) for phase in phases), default=-1)
    at_last = ("failed", N_("failed here")) if failed else ("reached", N_("reached"))
    states = [("done", N_("done"))] * last + [at_last] * (last >= 0) + \
        [("ahead", N_("not reached"))] * (len(PHASES) - 1 - last)
    return tuple(Step(name, *state) for name, state in zip(PHASES, states, strict=True))


def plot(report: Report) -> tuple[Curve, Curve] | None:
    """Return the curves of the KV cache usage and of the requests; None for fewer than three points."""
    points = report.load
    if len(points) < _FEWEST_POINTS:
        return None
    usage = Curve((Line("usage", _path([point.usage for point in points], 100)),), 100)
    most = max(1, *(max(point.running, point.waiting) for point in points))
    lines = [Line("running", _path([point.running for point in points], most))]
    if any(point.waiting for point in points):
        lines.append(Line("waiting", _path([point.waiting for point in points], most)))
    return usage, Curve(tuple(lines), most)


def _path(values: Sequence[float], top: float) -> str:
    """Return the points of a polyline in the plot's units; zero is at the bottom."""
    step = _WIDTH / (len(values) - 1)
    heights = [(1 - min(value / top, 1)) * _PLOT for value in values]
    return " ".join(f"{number * step:.1f},{height:.1f}" for number, height in enumerate(heights))


def picture(report: Report) -> Picture | None:
    """Return the memory as a bar, or None if the log shows too little. A negative part (a shortage) has no width."""
    memory = texts.memory_shown(report)
    if memory is None:
        return None
    total = max(memory.device_gib or 0.0, sum(max(part.gib, 0.0) for part in memory.parts))
    if total <= 0:
        return None
    segments, x = [], 0.0
    for part in memory.parts:
        width = max(part.gib, 0.0) / total * _WIDTH
        segments.append(Segment(texts.part_label(part.name, report.language), part.gib, part.origin,
                                _kind(part.name), round(x, 2),
                                round(width, 2)))
        x += width
    budget = memory.budget_gib
    return Picture(tuple(segments), round(min(budget / total, 1) * _WIDTH, 2) if budget else None)


def _kind(name: str) -> str:
    """Return the part whose colour to use: its own, or that of the first part where the log prints only a sum."""
    return next((known for known in _HOLDERS if name == known or name.startswith(known + "_and_")), "unaccounted")


def _page(reports: list[Report], back: str) -> str:
    language = reports[0].language
    text = _environment(language).get_template("report.html").render(
        reports=reports, policy=Markup(policy()), style=Markup(_style()), script=Markup(_script()),  # noqa: S704 - our own files
        version=__version__, texts=texts, timeline=timeline, timeline_text=timeline_text,
        incident_text=incident_text, picture=picture, plot=plot, pieces=_pieces,
        markdown=to_markdown.render, back=back, bar=_BAR, full=_WIDTH, plot_height=_PLOT)
    return inert_markup(text)


def markup_in(language: Language) -> Callable[..., Markup]:
    """Return what says a text of a template in a language: the text is ours, the values are shown and escaped."""
    def say(source: str, /, **values: Any) -> Markup:
        text = Markup(language.gettext(source))  # noqa: S704 - our own files
        return text.format(**{name: visible(value) for name, value in values.items()}) if values else text

    return say


@lru_cache(maxsize=4)
def _environment(language: Language) -> Environment:
    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                              undefined=StrictUndefined, keep_trailing_newline=True, finalize=visible)
    environment.globals.update(_=markup_in(language), language=language)
    environment.tests["web_address"] = is_web_address
    return environment


def visible(value: Any) -> Any:
    """Return the value an expression prints, with the control characters and direction marks in text made visible."""
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=1)
def _style() -> str:
    return (TEMPLATES / "report.css").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _script() -> str:
    return (TEMPLATES / "report.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"


def _pieces(report: Report, fix: Fix, text: str) -> list[tuple[bool, list[tuple[bool, str]]]]:
    """Return the corrected command in pieces, each with whether it is new, split at its flags."""
    pieces = [(False, text)]
    if fix.command is not None and report.command is not None and "\n" not in text:
        rows = command_diff.rows(report.command, text, len(text))
        pieces = [(row.mark == "+", row.text) for row in rows if row.mark != "-"]
    return [(is_new, [(bool(_FLAG.match(part)), part) for part in _FLAG.split(piece) if part])
            for is_new, piece in pieces]
