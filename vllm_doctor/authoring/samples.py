"""The log lines in the rule files: the tests of rules and the samples of facts. Only pages about them need these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from vllm_doctor.events.reader import EventReader
from vllm_doctor.logs.lines import LineReader
from vllm_doctor.rulebase.folders import builtin_folder
from vllm_doctor.rulebase.model import Pattern, Rule, RuleBase
from vllm_doctor.rulebase.user_rules import read_rule
from vllm_doctor.rulebase.yaml_files import read_yaml
from vllm_doctor.text.patterns import portable


class Example(NamedTuple):
    """A value of a fact, and the line that it is read from ("" if it comes from a setting)."""

    value: Any
    line: str


@lru_cache(maxsize=512)
def rule_tests(path: str) -> tuple[Mapping[str, Any], ...]:
    """Return the tests of the rule in a file; compiled rules do not keep them."""
    return read_rule(Path(path)).tests


def messages(rule: Rule) -> dict[str, str]:
    """Return for each pattern of the rule the message that it matches in the tests, without prefixes."""
    found: dict[str, str] = {}
    for test in rule_tests(rule.path):
        pattern = next((one for one in rule.any if one.id == test["fires"]), None)
        if pattern is not None and pattern.id not in found:
            found[pattern.id] = _message(str(test["log"]), pattern)
    return {pattern.id: found[pattern.id] for pattern in rule.any if found.get(pattern.id)}


def _message(log: str, pattern: Pattern) -> str:
    """Return the first message of a log that a pattern matches, else the last one with its anchor, else ""."""
    reader, events = LineReader(), EventReader()
    texts = [event.text for line in [*reader.feed(log.encode()), *reader.finish()]
             if (event := events.read(line)) is not None and not event.is_code]
    with_anchor = [text for text in texts if pattern.anchor in text]
    expression = re.compile(portable(pattern.regex))
    whole = next((text for text in with_anchor if expression.search(text)), "")
    over_lines = None if whole else expression.search("\n".join(texts))
    return whole or (over_lines[0] if over_lines else with_anchor[-1] if with_anchor else "")


def example(name: str, base: RuleBase) -> Example | None:
    """Return an example of a fact: a sample of its patterns, else what a rule's pattern captures; None without one."""
    found = _fact_examples().get(name)
    if found is not None:
        return found
    for rule in base.rules.values():
        for pattern in (*rule.any, *rule.also):
            for message in _messages_of(rule, pattern) if f"(?P<{name}>" in pattern.regex else ():
                match = re.search(portable(pattern.regex), message)
                if match is not None and match[name]:
                    return Example(match[name], message)
            if f"(?P<{name}>" in pattern.frames and (value := _tested(rule, pattern, name)) is not None:
                return Example(value, messages(rule).get(pattern.id, ""))
    return None


def _tested(rule: Rule, pattern: Pattern, name: str) -> Any:
    """Return the value of a fact that a test of the pattern expects: the calls above a message are no line."""
    return next((test["facts"][name] for test in rule_tests(rule.path)
                 if test["fires"] == pattern.id and name in (test.get("facts") or {})), None)


def _messages_of(rule: Rule, pattern: Pattern) -> list[str]:
    """Return what a pattern of the rule matches in the tests: one message, or for `also` that of each test."""
    if pattern in rule.any:
        return [text for id_, text in messages(rule).items() if id_ == pattern.id]
    return [_message(str(test["log"]), pattern) for test in rule_tests(rule.path)]


@lru_cache(maxsize=1)
def _fact_examples() -> Mapping[str, Example]:
    found: dict[str, Example] = {}
    for path in sorted((builtin_folder() / "facts").glob("*.yaml")):
        entries = read_yaml(path)
        for entry in entries if isinstance(entries, list) else ():
            for sample in entry.get("samples", ()):
                for name, value in (sample.get("facts") or {}).items():
                    found.setdefault(name, Example(value, str(sample["log"]).rstrip()))
    return found
