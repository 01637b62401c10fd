"""The summary of a fleet as text, Markdown and one self-contained HTML page, all from templates."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vllm_doctor.fleet import plots
from vllm_doctor.fleet.summary import Group, Summary
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import joined, message, say
from vllm_doctor.redact import Redactor
from vllm_doctor.redact.rendered import redact_rendered
from vllm_doctor.reports import escape
from vllm_doctor.reports.template_folder import TEMPLATES
from vllm_doctor.reports.to_html import markup_in, visible
from vllm_doctor.reports.to_markdown import escaped, markdown_in
from vllm_doctor.text.terminal_width import columns, cut
from vllm_doctor.version import __version__

_FOLDER = Path(__file__).resolve().parent / "templates"
_MOST_TEXT = 20  # causes that the text report names
_MOST_ROWS = 500  # of a table of a page
_SIGNS = {"error": "✗", "warning": "!", "info": "·"}


def text(summary: Summary, *, width: int = 100, every: bool = False, language: Language = ENGLISH) -> str:
    """Return the summary as text of about `width` columns; its last line has the totals."""
    groups = summary.groups if every else [one for one in summary.groups if one.severity != "info"][:_MOST_TEXT]
    page = _environment("text", language).get_template("summary.txt").render(
        _names(summary, language), groups=groups, left=len(summary.groups) - len(groups),
        row=lambda group: _row(group, width, language))
    return escape.inert_text(_redacted(page, "text"))


def markdown(summary: Summary, language: Language = ENGLISH) -> str:
    """Return the summary as Markdown."""
    groups = summary.groups[:_MOST_ROWS]
    page = _environment("markdown", language).get_template("summary.md").render(
        _names(summary, language), groups=groups, left=len(summary.groups) - len(groups))
    return escape.inert_text(_redacted(page, "markdown"))


def html(summary: Summary, language: Language = ENGLISH) -> str:
    """Return the summary as one HTML page that loads nothing."""
    style = (_FOLDER / "summary.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    groups = summary.groups[:_MOST_ROWS]
    hosts, releases, start_ups = say((plots.failures(summary.host_failed, summary.host_starts),
                                      plots.failures(summary.release_failed, summary.release_starts),
                                      plots.start_seconds(summary)), language.gettext)
    page = _environment("html", language).get_template("summary.html").render(
        _names(summary, language), groups=groups, left=len(summary.groups) - len(groups), style=Markup(style),  # noqa: S704 - our own file
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        version=__version__, over_time=plots.causes_over_time(summary), hosts=hosts,
        releases=releases, start_ups=start_ups)
    return escape.inert_markup(_redacted(page, "html"))


def _names(summary: Summary, language: Language) -> dict[str, Any]:
    return {"summary": summary, "span": partial(_span, language=language), "most": partial(_most, language=language),
            "words": partial(_words, language=language), "totals": summary.last_line().translated(language.gettext),
            "hosts_with_more": summary.conspicuous_hosts()}


def _redacted(page: str, format_: str) -> str:
    """Return the page redacted once more; its rows were redacted when their logs were read."""
    return redact_rendered(page, format_, Redactor())


def _row(group: Group, width: int, language: Language) -> str:
    """Return the first line of a cause, with its title cut to the width."""
    head = f"{_SIGNS.get(group.severity, '·')} {group.logs:>6} x  "
    change = f"  [{language.gettext(group.change)}]" if group.change else ""
    room = max(20, width - columns(head) - columns(change))
    return head + cut(escape.one_line(_words(group, language)), room) + change


def _words(group: Group, language: Language) -> str:
    return say(group.words, language.gettext)


def _span(group: Group, language: Language) -> str:
    """Return the first and the last time, as the logs print them."""
    if not group.first_seen or group.first_seen == group.last_seen:
        return group.last_seen
    return language.say("{first} to {last}", first=group.first_seen, last=group.last_seen)


def _most(counter: dict[str, int], most: int = 3, *, language: Language) -> str:
    """Return the most frequent names with their counts: `node3 (12), node7 (2) and 4 more`."""
    ranked = sorted(counter.items(), key=lambda item: (-item[1], item[0]))
    named = joined(", ", (message("{name} ({count})", name=name, count=count)
                          for name, count in ranked[:most])).translated(language.gettext)
    more = len(ranked) - most
    return language.say("{names} and {count} more", names=named, count=more) if more > 0 else named


@lru_cache(maxsize=6)
def _environment(format_: str, language: Language) -> Environment:
    finalize: dict[str, Callable[[Any], Any]] = {"text": visible, "markdown": escaped, "html": visible}
    jinja = Environment(loader=FileSystemLoader((_FOLDER, TEMPLATES)), autoescape=format_ == "html", trim_blocks=True,  # noqa: S701 - finalize escapes
                        lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True,
                        finalize=finalize[format_])
    says = {"text": language.say, "markdown": partial(markdown_in, language), "html": markup_in(language)}
    jinja.globals.update(_=says[format_], language=language)
    return jinja
