"""Generate pages about a rule, a flag or a fact. `docs/` consists of the same pages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vllm_doctor.authoring import template_outline as outline
from vllm_doctor.catalog import flags
from vllm_doctor.errors import InputError
from vllm_doctor.rulebase.loader import load
from vllm_doctor.rulebase.model import Rule, RuleBase, read_rule


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


def rule_page(rule: Rule, base: RuleBase) -> str:
    """Return the page of a rule: meaning, example, releases, conditions, fixes, similar rules, references."""
    titles = outline.titles(rule.title)
    named = titles[0] if len(titles) == 1 else "Depending on the log, the report's title is:\n\n" + "\n".join(
        f"- {title}" for title in titles)
    parts = [f"# {rule.id}", named, f"Severity {rule.severity}, phase {rule.phase}, role {rule.role}.", "## Meaning",
             outline.prose(rule.explain.strip())]
    if rule.background:
        parts += ["## Background", outline.prose(rule.background.strip())]
    example = next((test["log"] for test in read_rule(Path(rule.path)).tests if test["fires"]), None)
    if example:
        parts += ["## Example", "```text\n" + str(example).rstrip() + "\n```"]
    spans = [f"- `{pattern.id}`: {pattern.vllm or 'any release'}" for pattern in rule.any]
    parts += ["## Messages and their releases", "\n".join(spans)]
    if rule.when or rule.unless:
        conditions = [f"- `{source}`" for source in rule.when] + [f"- not `{source}`" for source in rule.unless]
        parts += ["## Conditions", "\n".join(conditions)]
    if rule.fixes:
        parts += ["## Fixes", "\n".join(_fix_line(fix, base) for fix in rule.fixes)]
    similar_rules = [other for other in rule.refines if other in base.rules]
    similar_rules += [other.id for other in base.rules.values() if rule.id in other.refines]
    if similar_rules:
        lines = [f"- `{other}`: {outline.title(base.rules[other].title)}" for other in similar_rules]
        parts += ["## Similar failures", "\n".join(lines)]
    if rule.references:
        parts += ["## References", "\n".join(f"- {link}" for link in rule.references)]
    return "\n\n".join(parts) + "\n"


def _fix_line(fix: Any, base: RuleBase) -> str:
    settings = [f"`{name}`" + (f" = `{outline.title(str(value))}`" if value is not True else "") for name, value in
                (*fix.set.items(), *fix.env.items())]
    settings += [f"without `{name}`" for name in fix.unset]
    line = f"1. {outline.title(fix.title)}" + (f": {', '.join(settings)}" if settings else "")
    line += f" (vLLM {fix.vllm})" if fix.vllm else ""
    line += f". Cost: {outline.title(fix.cost)}" if fix.cost else ""
    if fix.action in base.actions:
        steps = "\n".join(f"   - {line}" for step in base.actions[fix.action].steps for line in outline.steps(step))
        line += f"\n{steps}" if steps else ""
    return line


def flag_page(flag: flags.Flag, version: str, base: RuleBase) -> str:
    """Return the page of a flag in a release: lifetime, default, choices, other spellings, rules that change it."""
    release = flags.resolve(version) if version else flags.releases()[-1]
    since = f"{flag.first} or earlier" if flag.first == flags.releases()[0] else flag.first
    until = f", removed after {flag.last}" if flag.last != flags.releases()[-1] else ""
    parts = [f"# {flag.name}", f"In vLLM since {since}{until}."]
    if flag.exists(release):
        default = flag.default(release)
        parts.append(f"Default in {release}: `{'none' if default is None else default}`. Type: {flag.kind}.")
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
        parts.append("Rules that change it: " + ", ".join(f"`{user}`" for user in users) + ".")
    return "\n\n".join(parts) + "\n"


def _replacement_advice(flag: flags.Flag) -> str:
    """Return what to write instead of a removed flag."""
    advice = flag.replaced_by
    if advice is None:
        return ""
    replacement = " ".join(f"{name} {value}".strip() for name, value in advice.set.items())
    return (f" Write `{replacement}` instead." if replacement else " Leave it out." if advice.drop else "") + (
        f" {advice.note}" if advice.note else "")


def fact_page(name: str, base: RuleBase) -> str:
    """Return the page of a fact: meaning, how values are merged, and the patterns it is read from."""
    fact = base.names[name]
    merged = {"max": "the largest", "min": "the smallest", "first": "the first", "last": "the last"}[fact.merge]
    parts = [f"# {name}", fact.about, f"Type {fact.type}; of several values, {merged} is used."]
    lines = [f"- `{pattern.anchor}` ({pattern.vllm or 'any release'})" for pattern in base.facts
             if f"(?P<{name}>" in pattern.regex or name in pattern.set]
    if fact.args:
        lines.append(f"- the argument `{fact.args}` in the lines that print the arguments")
    if fact.config:
        lines.append(f"- `{fact.config}` in the engine's config line")
    if lines:
        parts += ["Read from:", "\n".join(lines)]
    users = sorted(rule.id for rule in base.rules.values() if name in rule.explain or name in rule.background)
    if users:
        parts.append("Rules that mention it: " + ", ".join(f"`{user}`" for user in users) + ".")
    return "\n\n".join(parts) + "\n"

