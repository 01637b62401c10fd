"""Which settings a failure is about, by its own words, by the rule that explains it and by the fixes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from vllm_doctor.catalog import flags
from vllm_doctor.catalog.features import features
from vllm_doctor.command.flags import keyword_of
from vllm_doctor.diagnosis.run_analysis import RunAnalysis
from vllm_doctor.reports.model import Fix, Report
from vllm_doctor.rulebase.model import Rule

_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9_-]+")
_NAME = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)*\b")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9]+(?:_[A-Z0-9]+)+\b")
_VALUE = re.compile(  # as argparse prints them
    r"argument (?:-\w/)?(?P<flag>--[\w-]+)[^:]{0,80}: (?:invalid \w+(?: \w+)?: |Value )'?(?P<value>[^',\s]{1,100})"
    r"|unrecognized arguments: (?P<unknown>--[\w-]+)(?:[ =](?P<given>[^-\s]\S{0,100}))?")
_PIECE = re.compile(r"[\w.:+-]{0,100}/[\w./:+-]{2,100}|(?<![\w.])\d{2,}(?![\w.])|\b[a-z]\w{2,40}\d\w{0,40}|\b\w{7,80}")
_TITLE, _EVIDENCE, _FIRST_FIX, _RULE, _FIX = 6, 5, 4, 3, 2
DIRECT = 2 * _EVIDENCE
"""The strength from which a setting is named by the failure itself, however strongly another one is."""


class Named(NamedTuple):
    """The keywords of settings that a failure names, each with how directly; `values` are those it prints.

    `related` are the settings of the same feature, `text` its own words.
    """

    strengths: Mapping[str, int]
    values: Mapping[str, Any]
    related: frozenset[str]
    text: str

    def strength(self, keyword: str, value: Any = None) -> int:
        """Return how directly the failure names a setting or its value: 0 if it does not."""
        has_value = any(re.search(rf"(?<![\w./-]){re.escape(piece)}(?![\w-])", self.text) for piece in _pieces(value))
        return 2 * self.strengths.get(keyword, 0) + 2 * has_value + (keyword in self.related)


def _pieces(value: Any) -> Iterator[str]:
    """Yield the parts of a value that can be recognised in a text: names, paths, numbers of several digits."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _pieces(item)
    elif not isinstance(value, bool) and value is not None:
        yield from _PIECE.findall(str(value))


def named_by_failure(case: RunAnalysis, report: Report) -> Named:
    """Return the settings that the failure of a report is about."""
    found: dict[str, int] = {}

    def add(names: Iterable[str], strength: int) -> None:
        for name in names:
            found[name] = max(found.get(name, 0), strength)

    failure, cause = report.failure, report.cause
    texts = [item.text for item in cause.evidence] if cause is not None else []
    texts += [failure.message] if failure is not None else []
    for text in texts:
        add(_names_in(text, case), _EVIDENCE)
    if cause is not None:
        add(_names_in(cause.title, case), _TITLE)
        rule = case.base.rules.get(cause.id)
        add(_names_of_rule(rule, case) if rule is not None else (), _RULE)
        for number, fix in enumerate(cause.fixes):
            add(_names_of_fix(fix), _FIRST_FIX if number == 0 else _FIX)
    elif failure is not None:
        add((keyword_of(setting.flag) for setting in failure.settings), _RULE)
        for fix in failure.fixes:
            add(_names_of_fix(fix), _FIX)
    text = "\n".join(texts)
    return Named(found, _values(texts, found), _related(found, failure.feature if failure is not None else None), text)


def _related(found: Mapping[str, int], name: str | None) -> frozenset[str]:
    """Return the settings of the failure's feature, and of the features whose settings it names itself."""
    direct = {keyword for keyword, strength in found.items() if strength >= _EVIDENCE}
    related: set[str] = set()
    for one in features():
        keywords = {keyword_of(flag) for flag in one.flags}
        if one.id == name or keywords & direct:
            related |= keywords
    return frozenset(related)


def _values(texts: Iterable[str], found: Mapping[str, int]) -> dict[str, Any]:
    """Return the values that an error about arguments prints, and None for the other flags it names."""
    values: dict[str, Any] = {}
    for text in texts:
        for match in _VALUE.finditer(text):
            flag = match["flag"] or match["unknown"]
            values.setdefault(keyword_of(flag), match["value"] or match["given"] or "set")
        for flag in _FLAG.findall(text):
            values.setdefault(keyword_of(flag), None)
    return {name: value for name, value in values.items() if name in found}


def _names_in(text: str, case: RunAnalysis) -> set[str]:
    """Return the keywords of the flags, arguments and variables that a text names."""
    words = set(_NAME.findall(text))
    arguments = {definition.args for definition in case.base.names.values() if definition.args}
    known = {word for word in words if "_" in word and (word in arguments or flags.lookup(word) is not None)}
    facts = {case.base.names[word].args for word in words if word in case.base.names and "_" in word}
    return known | (facts - {""}) | {keyword_of(flag) for flag in _FLAG.findall(text)} | set(_VARIABLE.findall(text))


def _names_of_rule(rule: Rule, case: RunAnalysis) -> set[str]:
    """Return the settings and facts that the conditions and texts of a rule read."""
    text = " ".join([*rule.titles, *rule.explanations, *rule.when, *rule.unless,
                     *(str(value) for values in rule.let.values() for value in values)])
    words = [word for word in _NAME.findall(text) if word in case.base.names]
    return {case.base.names[word].args or word for word in words} | set(_VARIABLE.findall(text))


def _names_of_fix(fix: Fix) -> set[str]:
    return {keyword_of(flag) for flag in (*fix.flags, *fix.unset)} | set(fix.env)
