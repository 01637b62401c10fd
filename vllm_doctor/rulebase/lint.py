"""Check rules for what a reviewer would object to.

Each check yields problems as `file:line: problem`. The structure of the file (keys, types) is checked by `schema`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import regex
from packaging.specifiers import InvalidSpecifier

from vllm_doctor.catalog import flags, subcommand_flags
from vllm_doctor.catalog.releases import admitted
from vllm_doctor.errors import did_you_mean
from vllm_doctor.facts.server_load import ServerLoad
from vllm_doctor.rulebase.folders import builtin_folder
from vllm_doctor.rulebase.model import Case, FixRule, Pattern, Rule, RuleBase
from vllm_doctor.rulebase.regex_check import slow_frames, slow_pattern
from vllm_doctor.rulebase.yaml_files import read_yaml
from vllm_doctor.templating import renderer
from vllm_doctor.templating.evaluator import compared_with, looked_up_in, parse
from vllm_doctor.templating.evaluator import names as used_names
from vllm_doctor.templating.parser import ExpressionError, Tree, read_text
from vllm_doctor.text.patterns import lazy_pattern

DERIVED_FACTS = frozenset({
    "kv_bytes_per_token", "kv_cache_capacity_tokens", "concurrency_at_max_model_len", "kv_tokens_per_sequence",
    "kv_gib_per_request", "kv_cache_deficit_gib", "device_gib", "budget_gib", "outside_budget_gib",
})
CONTEXT_NAMES = frozenset({"pattern", "groups", "phase", "run_phase", "status", "serving", "hits", "releases",
                           "settings_given", "caller_raised", "cut_traceback", "engine_raised",
                           "native_function", "native_functions", "crash_call", "typographic_flags"})
_ONLY_A_PATTERN = re.compile(r"pattern (?:== '[\w-]+'|in [(\[][^()\[\]]*[)\]])|'[\w-]+' in groups")
_UNBOUNDED_HEAD = lazy_pattern(r"^\(\?P<\w+>\.[*+]|^\.[*+]|^\(\?P<\w+>\[\^?[^\]]*\][*+]")
_UNBOUNDED_LOOKAHEAD = lazy_pattern(r"^(?:\(\?s\))?\(\?[=!]\.\*")
_SHORTENING = frozenset({"--max-model-len", "--max-num-seqs", "--limit-mm-per-prompt", "--kv-cache-dtype"})
_REQUEST_LINE = "received"  # the entry of `rules/healthy.yaml` for lines with a client's text
_SAMPLES = 3  # lines of a rule's tests from which slow texts are made, for each pattern


Complaints = Iterator[tuple[str, str]]
Check = Callable[[Rule, RuleBase], Complaints]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a rule."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.text.split())}"


def lint(rule: Rule, base: RuleBase) -> list[Problem]:
    """Return all problems of one rule."""
    return _run(_CHECKS, rule, base)


def check_usable(rule: Rule, base: RuleBase) -> list[Problem]:
    """Return the problems that would make the rule fail at run time; the other checks of `lint` are about style."""
    return _run((_patterns, _fix_releases, _expressions), rule, base)


def _run(checks: tuple[Check, ...], rule: Rule, base: RuleBase) -> list[Problem]:
    found = [entry for check in checks for entry in check(rule, base)]
    return [Problem(rule.path, line_of(rule.path, word), problem) for problem, word in found]


def line_of(path: str, word: str) -> int:
    """Return the line of a file where a word first occurs; 1 if it does not."""
    text = Path(path).read_text(encoding="utf-8") if path and word else ""
    at = text.find(word) if word else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else 1




@lru_cache(maxsize=1)
def _healthy_lines() -> tuple[str, ...]:
    """Return the most frequent lines of a busy server. A pattern that is tried on each of them slows down long logs."""
    return tuple(sample for entry in read_yaml(builtin_folder() / "healthy.yaml") if entry["id"] != _REQUEST_LINE
                 for sample in entry["samples"])


def _identity(rule: Rule, base: RuleBase) -> Complaints:
    path = Path(rule.path)
    if path.stem != rule.id:
        yield f"the file must be named {rule.id}.yaml", "id:"
    if path.parent.name not in {rule.phase, "environment"} and path.parent.parent.name in {"rules", "_rules"}:
        yield f"the file belongs in the folder {rule.phase}/", "phase:"
    for other in rule.refines:
        if other not in base.rules:
            yield f"`refines` names an unknown rule: `{other}`{did_you_mean(other, list(base.rules))}", other


def _patterns(rule: Rule, base: RuleBase) -> Complaints:
    seen: set[str] = set()
    for pattern in (*rule.any, *rule.also, *rule.absent):
        if pattern.id in seen:
            yield f"two patterns are named `{pattern.id}`", pattern.id
        seen.add(pattern.id)
        yield from check_pattern(pattern, base)
    for name, patterns in rule.groups.items():
        if name in seen:
            yield f"a pattern and a group are both named `{name}`", name
        if len(patterns) == 1:
            yield f"only one pattern is in the group `{name}`", name


def _listed_patterns(rule: Rule, base: RuleBase) -> Complaints:
    del base
    own = [pattern.id for pattern in rule.any]
    for key, names in (("of_request", rule.of_request), ("fallback", rule.fallback), ("general", rule.general)):
        for name in names:
            if name not in own:
                yield f"`{key}` names an unknown pattern: `{name}`{did_you_mean(name, own)}", f"{key}:"


def _cases(rule: Rule, base: RuleBase) -> Complaints:
    """Check that each case has a text that can be shown."""
    del base
    own = [pattern.id for pattern in rule.any]
    shown: dict[str, set[str]] = {"title": set(), "explain": set()}
    for case in rule.cases:
        where = case.title or case.explain
        if not where:
            yield "a case has neither a title nor an explanation", "cases:"
        for part, patterns in shown.items():
            if getattr(case, part) and patterns >= set(case.patterns or own):
                yield f"the {part} of a case is never shown: cases before it apply", where[:30]
            if getattr(case, part) and not case.when:
                patterns.update(case.patterns or own)
    with suppress(ExpressionError):  # told by _expressions
        if any(case.explain for case in rule.cases) != ("case" in names_in(rule.explain)):
            yield "the explanation of a case is shown where `explain` has {{ case }}", "explain:"


def names_in(text: str) -> set[str]:
    """Return the names that a text uses. Raises ExpressionError if it is not a template."""
    trees = chain.from_iterable(map(read_text, renderer.split_paragraphs(text)))
    return {name for tree in trees for name in used_names(tree)}


def check_pattern(pattern: Pattern, base: RuleBase) -> Complaints:
    """Yield the problems of one pattern of a rule or a fact, each with the text to locate it."""
    where = pattern.anchor
    for name, source in (("pattern", pattern.regex), ("frames", pattern.frames), ("not_frames", pattern.not_frames)):
        try:
            compiled = re.compile(source)
            if pattern.own:
                regex.compile(source)
        except (re.error, regex.error, OverflowError, RecursionError) as error:
            yield f"`{pattern.id}`: {name} is not a valid regular expression: {error}", where
            return
        if name == "pattern":
            for group in compiled.groupindex:
                if group not in base.names:
                    yield (f"`{pattern.id}`: the group `{group}` is not a fact in rules/facts/names.yaml"
                           f"{did_you_mean(group, list(base.names))}"), group
    if len(pattern.anchor) < 6:
        yield f"`{pattern.id}`: the anchor is shorter than 6 characters", where
    if any(pattern.anchor.strip() in line for line in _healthy_lines()):
        yield f"`{pattern.id}`: the anchor occurs in too many healthy lines", where
    if _UNBOUNDED_HEAD.search(pattern.regex):
        yield f"`{pattern.id}`: the pattern begins with an unbounded group, which is slow", where
    if any(_UNBOUNDED_LOOKAHEAD.search(regex) for regex in (pattern.regex, pattern.frames, pattern.not_frames)):
        yield f"`{pattern.id}`: an unbounded look-ahead is tried at every position: begin with `^`", where
    yield from _specifier(pattern.id, pattern.vllm, where)


def _linear(rule: Rule, base: RuleBase) -> Complaints:
    del base
    logs = [str(test["log"]) for test in rule.tests if "log" in test]
    for pattern in (*rule.any, *rule.also, *rule.absent):
        yield from check_linear(pattern, logs)


def check_linear(pattern: Pattern, logs: Sequence[str] = ()) -> Complaints:
    """Yield the expressions of a wording that take more than linear time, each with the text that proves it."""
    samples = [line for log in logs for line in log.splitlines() if pattern.anchor in line][:_SAMPLES]
    with suppress(re.error, regex.error, OverflowError, RecursionError):  # told by check_pattern
        found = [("pattern", slow_pattern(pattern.regex, samples))]
        found += [("frames", slow_frames(pattern.frames)), ("not_frames", slow_frames(pattern.not_frames))]
        for name, slow in found:
            if slow is not None:
                yield f"`{pattern.id}`: {name} is too slow: {slow}", pattern.anchor


def _fix_releases(rule: Rule, base: RuleBase) -> Complaints:
    del base
    for fix in rule.fixes:
        yield from _specifier(fix.id, fix.vllm, fix.id)


def _specifier(name: str, vllm: str, where: str) -> Complaints:
    try:
        if vllm and not admitted(vllm):
            yield f"`{name}`: no release matches {vllm}", where
    except InvalidSpecifier:
        yield f"`{name}`: `{vllm}` is not a version specifier", where


def _expressions(rule: Rule, base: RuleBase) -> Complaints:
    load = ServerLoad()
    load.add({"running_requests": 1, "kv_cache_usage_percent": 1.0})
    known = {*base.names, *DERIVED_FACTS, *CONTEXT_NAMES, *load.summary()}
    to_check: list[tuple[Any, set[str]]] = [(source, known) for source in rule.when + rule.unless]
    names = set(known)
    for name, alternatives in rule.let.items():
        to_check += [(source, set(names)) for source in alternatives]
        names.add(name)
    for sources in (*map(_computed, rule.fixes), *(case.when for case in rule.cases)):
        to_check += [(source, names) for source in sources]
    for source, allowed in to_check:
        if not isinstance(source, str):
            continue
        try:
            expression = parse(source)
        except ExpressionError as error:
            yield f"`{source}`: {error}", source
            continue
        for name in sorted(expression.names - allowed):
            yield f"`{source}`: unknown name `{name}`{did_you_mean(name, list(allowed))}", source
    for text in _texts(rule):
        yield from _unknown_names(text, {*names, "case"} if text is rule.explain else names)


def _computed(fix: FixRule) -> tuple[Any, ...]:
    """Return the conditions and values of a fix."""
    return (*fix.when, *fix.suffices, *fix.set.values(), *fix.env.values())


def _texts(rule: Rule) -> Iterator[str]:
    yield from (*rule.titles, *rule.explanations, rule.background, rule.verify)
    for fix in rule.fixes:
        yield from (fix.title, fix.why, fix.cost, fix.verify)


def _choices(rule: Rule, base: RuleBase) -> Complaints:
    """Check that expressions name existing patterns and groups, and that they are needed for that."""
    del base
    own = [pattern.id for pattern in rule.any]
    parts: tuple[Case | FixRule, ...] = (*rule.cases, *rule.fixes)
    for part in parts:
        for name in part.patterns:
            if name not in own:
                yield f"no pattern of the rule is named `{name}`{did_you_mean(name, own)}", name
        for source in part.when:
            if _ONLY_A_PATTERN.fullmatch(source):
                yield f"write `patterns: [NAME, …]` instead of `{source}`", source
    for tree in _trees(rule):
        for name in compared_with("pattern", tree):
            if name not in own:
                yield f"no pattern of the rule is named `{name}`{did_you_mean(name, own)}", name
        for name in looked_up_in("groups", tree):
            if name not in rule.groups:
                yield f"no group of the rule is named `{name}`{did_you_mean(name, list(rule.groups))}", name


def _trees(rule: Rule) -> Iterator[Tree]:
    """Yield the trees of the rule's valid expressions and texts."""
    sources = [*rule.when, *rule.unless, *chain(*rule.let.values())]
    for fix in rule.fixes:
        sources += _computed(fix)
    sources += chain.from_iterable(case.when for case in rule.cases)
    with suppress(ExpressionError):
        for source in sources:
            if isinstance(source, str):
                yield parse(source).tree
        for text in _texts(rule):
            for paragraph in renderer.split_paragraphs(text):
                yield from read_text(paragraph)


def _unknown_names(text: str, names: set[str]) -> Complaints:
    try:
        for name in sorted(names_in(text) - names):
            yield f"the text uses the unknown name `{name}`{did_you_mean(name, list(names))}", name
    except ExpressionError as error:
        yield f"not a template: {error}", text[:30]


def _fixes(rule: Rule, base: RuleBase) -> Complaints:
    seen: set[str] = set()
    for fix in rule.fixes:
        if fix.id in seen:
            yield f"two fixes are named `{fix.id}`", fix.id
        seen.add(fix.id)
        if not (fix.set or fix.unset or fix.env or fix.action):
            yield f"the fix `{fix.id}` changes nothing", fix.id
        if fix.suffices and rule.order != "loss":
            yield f"`suffices` of `{fix.id}` has no effect without `order: loss`", fix.id
        if rule.order == "loss" and fix.safety == "safe" and _SHORTENING & fix.set.keys():
            yield f"the fix `{fix.id}` is not safe: it lowers what the server can do", fix.id
        if fix.action and fix.action not in base.actions:
            yield f"unknown action `{fix.action}`{did_you_mean(fix.action, list(base.actions))}", fix.action
        for name in (*fix.set, *fix.unset):
            if name.startswith("-") and flags.lookup(name) is None and not subcommand_flags.life(name):
                yield f"no release of vLLM has the flag {name}", name
        for name in fix.env:
            if name.startswith("VLLM_") and flags.env(name) is None:
                yield f"vLLM reads no variable {name}", name
    if rule.role == "cause" and rule.severity == "error" and not rule.fixes:
        yield "a cause needs at least one fix", "role:"


def _tests(rule: Rule, base: RuleBase) -> Complaints:
    del base
    fired = {test["fires"] for test in rule.tests}
    for pattern in rule.any:
        if pattern.id not in fired and rule.status != "draft":
            yield f"no test fires `{pattern.id}`", pattern.id
    if None not in fired:
        yield "no near miss: a test with `fires: null`", "tests:"
    for name in fired - {None} - {pattern.id for pattern in rule.any}:
        yield f"a test expects the pattern `{name}`, which the rule does not have", str(name)


_CHECKS: tuple[Check, ...] = (_identity, _patterns, _listed_patterns, _cases, _linear, _fix_releases, _expressions,
                             _choices, _fixes, _tests)
