"""Generate pages about a rule, a flag or a fact, for `explain` and for the documentation site."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import Any

from vllm_doctor.authoring import samples
from vllm_doctor.authoring import template_outline as outline
from vllm_doctor.catalog import flag_meanings, flags
from vllm_doctor.errors import InputError
from vllm_doctor.rulebase.loader import load
from vllm_doctor.rulebase.model import FixRule, Rule, RuleBase

Link = Callable[[str], str]
"""Returns the Markdown that refers to a rule by its id."""

_LONGEST_BLOCK = 4000  # characters of a log on a page
_MOST_TITLES = 4  # of a fix that are listed
MERGED = {"max": "the largest", "min": "the smallest", "first": "the first", "last": "the last"}
_KINDS = {
    "bool": "switch", "bool_value": "true or false", "int": "integer", "float": "number", "str": "text", "json": "JSON",
    "human_int": "integer, also 8k (8,000) or 8K (8,192)",
    "human_int_or_auto": "integer, also 8k (8,000), 8K (8,192) or auto",
    "key_values": "key=value pairs", "json_or_key_values": "JSON or key=value pairs", "str_or_json": "text or JSON",
    "list": "one or more values",
}


def page(name: str, version: str = "", folders: Iterable[str] = ()) -> str:
    """Return the page about `name` in Markdown. Raises InputError with similar names if there is none."""
    base = load(folders)
    if name in base.rules:
        return rule_page(base.rules[name], base)
    flag = flags.lookup(name) if name.startswith("-") or name not in base.names else None
    if flag is not None and not (name in base.names and not name.startswith("-")):
        return flag_page(flag, version, base)
    if name in base.names:
        return fact_page(name, base)
    known = [*base.rules, *base.names, *flags.flags_of(flags.releases()[-1])]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    raise InputError(f"no rule, flag or fact is named `{name}`" + (f"; near: {', '.join(near)}" if near else ""))


def rule_page(rule: Rule, base: RuleBase, link: Link = "`{}`".format) -> str:
    """Return the page of a rule: title, messages, meaning, fixes, releases, conditions, similar rules, references."""
    titles = outline.titles(rule.title)
    role = " · always the consequence of another failure" if rule.role == "cascade" else ""
    parts = [f"# {outline.title(rule.title)}", f"`{rule.id}` · {rule.severity} · phase {rule.phase}{role}"]
    parts += ["## Meaning", outline.prose(rule.explain.strip())]
    if len(titles) > 1:
        parts += ["The report's title depends on the log:", "\n".join(f"- {title}" for title in titles)]
    if rule.background:
        parts += ["## Background", outline.prose(rule.background.strip())]
    if rule.fixes:
        parts += ["## Fixes", _fixes(rule, base)]
    parts += _messages(rule)
    if rule.when or rule.unless:
        conditions = [f"- `{source}`" for source in rule.when] + [f"- not `{source}`" for source in rule.unless]
        parts += ["## Conditions", "\n".join(conditions)]
    example = next((test["log"] for test in samples.rule_tests(rule.path) if test["fires"]), None)
    if example and "\n" in str(example).strip():
        parts += ["## Example", _block(str(example).rstrip())]
    similar_rules = [other for other in rule.refines if other in base.rules]
    similar_rules += [other.id for other in base.rules.values() if rule.id in other.refines]
    if similar_rules:
        similar = [f"- {link(other)}: {outline.title(base.rules[other].title)}" for other in similar_rules]
        parts += ["## Similar failures", "\n".join(similar)]
    if rule.references:
        parts += ["## References", "\n".join(f"- <{url}>" for url in rule.references)]
    return "\n\n".join(parts) + "\n"


def _messages(rule: Rule) -> list[str]:
    """Return each message of the rule under the releases that print it, a section each for the search of the site."""
    messages = samples.messages(rule)
    parts = ["## Messages"]
    shown: set[str] = set()
    for pattern in rule.any:
        text = messages.get(pattern.id, "")
        if text and text not in shown:
            shown.add(text)
            parts += [f"### {f'vLLM {pattern.vllm}' if pattern.vllm else 'Any release'}", _block(text)]
    return parts if shown else []


def _block(text: str) -> str:
    """Return text of a log as Markdown."""
    return f"```text\n{_shortened(text)}\n```"


def _shortened(message: str) -> str:
    """Return a message of a log as a page shows it."""
    return message if len(message) <= _LONGEST_BLOCK else message[:_LONGEST_BLOCK].rstrip() + " …"


def _fixes(rule: Rule, base: RuleBase) -> str:
    """Return the numbered list of fixes."""
    order = "Only those that apply to the log are offered" + (
        ", ordered by what the user loses." if rule.order == "loss" else ", in this order.")
    return "\n".join([order, "", *(_fix_line(number, fix, base) for number, fix in enumerate(rule.fixes, 1))])


def _fix_line(number: int, fix: FixRule, base: RuleBase) -> str:
    titles = outline.titles(fix.title)
    line = f"{number}. {' / '.join(titles) if len(titles) <= _MOST_TITLES else outline.title(fix.title)}"
    line += f" (vLLM {fix.vllm})" if fix.vllm else ""
    line += f". Cost: {outline.title(fix.cost)}" if fix.cost else ""
    if fix.action in base.actions:
        steps = "\n".join(f"    - {line}" for step in base.actions[fix.action].steps for line in outline.steps(step))
        line += f"\n{steps}" if steps else ""
    return line


def flag_page(flag: flags.Flag, version: str, base: RuleBase, link: Link = "`{}`".format) -> str:
    """Return the page of a flag in a release: meaning, lifetime, default, choices, spellings, rules that change it."""
    release = flags.resolve(version) if version else flags.releases()[-1]
    since = f"{flag.first} or earlier" if flag.first == flags.releases()[0] else flag.first
    until = f", removed after {flag.last}" if flag.last != flags.releases()[-1] else ""
    parts = [f"# {flag.name}", flag_meanings.meaning(flag.name), f"In vLLM since {since}{until}."]
    if flag.exists(release):
        parts.append(f"Default in {release}: {flag_meanings.default_text(flag, release)}. "
                     f"Type: {_KINDS[flag.kind_in(release)]}.")
        choices = flag.choices(release)
        if choices:
            parts.append(f"Choices in {release}: {', '.join(f'`{choice}`' for choice in choices)}.")
    else:
        parts.append(f"vLLM {release} does not have it." + _replacement_advice(flag))
    spellings = [f"`{alias}`" for alias in flag.aliases]
    if flag.yaml_key:
        spellings.append(f"YAML `{flag.yaml_key}`")
    if flag.keyword:
        spellings.append(f"Python `{flag.keyword}=`")
    if spellings:
        parts.append("Other spellings: " + ", ".join(spellings) + ".")
    users = sorted(rule.id for rule in base.rules.values()
                   if any(flag.name in fix.set or flag.name in fix.unset for fix in rule.fixes))
    if users:
        parts.append("Rules that change it: " + ", ".join(link(user) for user in users) + ".")
    return "\n\n".join(part for part in parts if part) + "\n"


def _replacement_advice(flag: flags.Flag) -> str:
    """Return what to write instead of a removed flag."""
    advice = flag.replaced_by
    if advice is None:
        return ""
    replacement = " ".join(f"{name} {value}".strip() for name, value in advice.set.items())
    return (f" Write `{replacement}` instead." if replacement else " Leave it out." if advice.drop else "") + (
        f" {advice.note}" if advice.note else "")


def fact_page(name: str, base: RuleBase, link: Link = "`{}`".format) -> str:
    """Return the page of a fact: meaning, example, how values are merged, and the patterns it is read from."""
    fact = base.names[name]
    parts = [f"# {name}", fact.about, f"Type {fact.type}; of several values, {MERGED[fact.merge]} is used."]
    example = samples.example(name, base)
    if example is not None:
        parts += [f"Example: {value_text(example.value)}, read from", _block(example.line)]
    lines = [f"- `{pattern.anchor}` ({pattern.vllm or 'any release'})" for pattern in base.facts
             if f"(?P<{name}>" in pattern.regex or name in pattern.set]
    if fact.args:
        lines.append(f"- the argument `{fact.args}` in the lines that print the arguments")
    if fact.config:
        lines.append(f"- `{fact.config}` in the engine's config line")
    if lines:
        parts += ["Read from lines with:", "\n".join(lines)]
    users = sorted(rule.id for rule in base.rules.values() if name in rule.explain or name in rule.background)
    if users:
        parts.append("Rules that mention it: " + ", ".join(link(user) for user in users) + ".")
    return "\n\n".join(parts) + "\n"


def value_text(value: Any) -> str:
    """Return the value of a fact as Markdown."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
