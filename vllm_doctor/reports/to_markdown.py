"""Markdown for a job summary: the cause, its evidence, the fixes with their commands, a folded memory table.

Everything a template prints is escaped (`finalize`), as autoescape does for HTML; only what is `Raw` is not.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from vllm_doctor.language import Language
from vllm_doctor.messages import N_
from vllm_doctor.reports import escape, incident_text, texts
from vllm_doctor.reports.model import Finding, Fix, Report
from vllm_doctor.reports.template_folder import TEMPLATES

LIMIT = (1 << 20) - (1 << 12)  # bytes: GitHub takes 1 MiB of one step, and the step may have said something itself
_TOO_LONG = N_("What to run is too long for a summary; the text report shows it.")


class Raw(str):
    """Markdown of ours, not to be escaped."""

    __slots__ = ()


def render(report: Report) -> str:
    """Return the summary of one log, at most 1 MiB: what does not fit is left out, with a note."""
    return _fitting(report)


def render_many(reports: list[Report]) -> str:
    """Return a table of the logs, followed by as many of the reports as fit in 1 MiB."""
    page = _environment(reports[0].language).get_template("report.md").render(report=None, reports=reports[:500],
                                                           left=max(0, len(reports) - 500))
    page = escape.inert_text(page)
    size = len(page.encode())
    for number, report in enumerate(reports):
        more = "\n" + _fitting(report)
        size += len(more.encode())
        if size > LIMIT - 200:
            return page + "\n" + report.language.say(
                "{count} more logs are left out here: a summary holds 1 MiB.", count=len(reports) - number) + "\n"
        page += more
    return page


def _fitting(report: Report) -> str:
    page = _page(report)
    for characters, most in ((8000, 20), (1000, 5), (250, 2)):
        if len(page.encode()) <= LIMIT:
            break
        page = _page(_shortened(report, characters, most))
    return page


def _page(report: Report) -> str:
    text = _environment(report.language).get_template("report.md").render(report=report, reports=[], left=0)
    return escape.inert_text(text).strip("\n") + "\n"


@lru_cache(maxsize=4)
def _environment(language: Language) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - finalize escapes
        keep_trailing_newline=True, finalize=escaped)
    environment.filters.update(block=_block, link=_link)
    environment.globals.update(_=partial(markdown_in, language), language=language, texts=texts,
                               incident_text=incident_text)
    return environment


def markdown_in(language: Language, source: str, /, **values: Any) -> Raw:
    """Return a text of the template in a language: the text is ours, the values are escaped."""
    return Raw(language.say(source, **{
        name: escaped(value) if isinstance(value, str) else value for name, value in values.items()}))


def escaped(value: Any) -> str:
    """Return the escaped value that an expression of the template prints."""
    return value if isinstance(value, Raw) else escape.markdown(str(value))


def _block(text: str, language: str = "") -> Raw:
    return Raw(escape.code_block(text, language))


def _link(address: str) -> Raw:
    """Return a rule's link as an autolink, or as text if it is no web address."""
    plain = escape.is_web_address(address) and not set(address) & set("<> \"'`") and address.isprintable()
    return Raw(f"<{address}>" if plain else escape.markdown(address))


def _shortened(report: Report, characters: int, most: int) -> Report:
    """Return the report with at most `most` items of each kind and no text longer than `characters`."""
    failure = report.failure
    return report._replace(
        facts={}, facts_at={}, derived={},
        findings=tuple(_short_finding(finding, characters, most, report.language)
                       for finding in report.findings[:most]),
        failure=failure and failure._replace(
            text=_cut(failure.text, characters), message=_cut(failure.message, characters),
            fixes=tuple(_short_fix(fix, characters, most, report.language) for fix in failure.fixes[:most])),
        notes=(*(_cut(note, characters) for note in report.notes[:most]), report.language.say(
            "Shortened to fit in a summary of 1 MiB.")),
    )


def _short_finding(finding: Finding, characters: int, most: int, language: Language) -> Finding:
    return finding._replace(title=_cut(finding.title, characters), explanation=_cut(finding.explanation, characters),
        background=_cut(finding.background, characters),
        evidence=tuple(item._replace(text=_cut(item.text, characters)) for item in finding.evidence[:most]),
        fixes=tuple(_short_fix(fix, characters, most, language) for fix in finding.fixes[:most]),
        links=finding.links[:most])


def _short_fix(fix: Fix, characters: int, most: int, language: Language) -> Fix:
    """Return the fix with its texts shortened; a command that is too long is dropped, never cut."""
    steps = tuple(_cut(step, characters) for step in fix.steps[:most])
    short: dict[str, Any] = {"title": _cut(fix.title, characters), "why": _cut(fix.why, characters),
                             "cost": _cut(fix.cost, characters), "verify": _cut(fix.verify, characters)}
    if len(texts.change(fix)[1]) > characters:
        short |= {"command": None, "patch": None, "flags": {}, "env": {}, "unset": ()}
        steps += (language.gettext(_TOO_LONG),)
    return fix._replace(steps=steps, **short)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
