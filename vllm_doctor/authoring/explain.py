"""Generate pages about a rule, a flag or a fact, for `explain` and for the documentation site."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from typing import Any

from vllm_doctor.authoring import samples
from vllm_doctor.authoring import template_outline as outline
from vllm_doctor.catalog import flag_meanings, flags
from vllm_doctor.errors import InputError
from vllm_doctor.language import ENGLISH, Language
from vllm_doctor.messages import N_, Translate, joined, message
from vllm_doctor.phases import ORDER
from vllm_doctor.rulebase.lint import names_in
from vllm_doctor.rulebase.loader import load
from vllm_doctor.rulebase.model import FixRule, Rule, RuleBase
from vllm_doctor.templating.renderer import split_paragraphs, translated

Link = Callable[[str], str]
"""Returns the Markdown that refers to a rule by its id."""

_CASE = "{{ case }}"
_LONGEST_BLOCK = 4000  # characters of a log on a page
_MOST_TITLES = 4  # of a fix that are listed
MERGED = {"max": N_("the largest"), "min": N_("the smallest"), "first": N_("the first"), "last": N_("the last")}
_HEADS = (N_("Meaning"), N_("Background"), N_("Fixes"), N_("Messages"), N_("Conditions"), N_("Example"),
          N_("Similar failures"), N_("References"), N_("any release"), N_("Failure"), N_("Severity"))
"""What is translated inside of f-strings, where it is not extracted."""
_KINDS = {
    "bool": N_("switch"), "bool_value": N_("true or false"), "int": N_("integer"), "float": N_("number"),
    "str": N_("text"),
    "json": N_("JSON"),
    "human_int": N_("integer, also 8k (8,000) or 8K (8,192)"),
    "human_int_or_auto": N_("integer, also 8k (8,000), 8K (8,192) or auto"),
    "key_values": N_("key=value pairs"), "json_or_key_values": N_("JSON or key=value pairs"),
    "str_or_json": N_("text or JSON"),
    "list": N_("one or more values"),
}


def page(name: str, version: str = "", folders: Iterable[str] = (), language: Language = ENGLISH) -> str:
    """Return the page about `name` in Markdown. Raises InputError with similar names if there is none."""
    base = load(folders)
    if name in base.rules:
        return rule_page(base.rules[name], base, language=language)
    if name in base.names:
        return fact_page(name, base, language=language)
    flag = flags.lookup(name)
    if flag is not None:
        return flag_page(flag, version, base, language=language)
    known = [*base.rules, *base.names, *flags.flags_of(flags.releases()[-1])]
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    if near:
        raise InputError(message("no rule, flag or fact is named `{name}`; near: {names}", name=name,
                                 names=joined(", ", near)))
    raise InputError(message("no rule, flag or fact is named `{name}`", name=name))


def rule_page(rule: Rule, base: RuleBase, link: Link = "`{}`".format, language: Language = ENGLISH) -> str:
    """Return the page of a rule: title, messages, meaning, fixes, releases, conditions, similar rules, references."""
    _, translate = language.say, language.gettext
    meaning = _meaning(rule, translate)
    titles = [title for text in rule.titles for title in outline.titles(translated(text, translate))
              if f"**{title}.**" not in meaning]
    role = " · " + _("always the consequence of another failure") if rule.role == "cascade" else ""
    phase = _("phase {phase}", phase=rule.phase)
    parts = [f"# {outline.title(translated(rule.title, translate))}",
             f"`{rule.id}` · {_(rule.severity)} · {phase}{role}"]
    parts += [f"## {_('Meaning')}", meaning]
    if len(titles) > 1:
        parts += [_("The report's title depends on the log:"), "\n".join(f"- {title}" for title in titles)]
    if rule.background:
        parts += [f"## {_('Background')}", outline.prose(translated(rule.background, translate), translate)]
    if rule.fixes:
        parts += [f"## {_('Fixes')}", _fixes(rule, base, language)]
    parts += _messages(rule, language)
    if rule.when or rule.unless:
        conditions = [f"- `{source}`" for source in rule.when] + ["- " + _(
            "not `{condition}`", condition=source) for source in rule.unless]
        parts += [f"## {_('Conditions')}", "\n".join(conditions)]
    example = next((test["log"] for test in samples.rule_tests(rule.path) if test["fires"]), None)
    if example and "\n" in str(example).strip():
        parts += [f"## {_('Example')}", _block(str(example).rstrip())]
    similar_rules = [other for other in rule.refines if other in base.rules]
    similar_rules += [other.id for other in base.rules.values() if rule.id in other.refines]
    if similar_rules:
        similar = [f"- {link(other)}: {outline.title(translated(base.rules[other].title, translate))}"
                   for other in similar_rules]
        parts += [f"## {_('Similar failures')}", "\n".join(similar)]
    if rule.references:
        parts += [f"## {_('References')}", "\n".join(f"- <{url}>" for url in rule.references)]
    return "\n\n".join(parts) + "\n"


def _meaning(rule: Rule, translate: Translate) -> str:
    """Return the explanation, with those of all cases where one of them stands in a report."""
    paragraphs: list[str] = []
    for paragraph in split_paragraphs(rule.explain):
        if _CASE in paragraph:
            paragraphs += _cases(rule, translate)
        paragraphs.append(outline.prose(translated(paragraph, translate).replace(_CASE, ""), translate))
    return "\n\n".join(filter(None, paragraphs))


def _cases(rule: Rule, translate: Translate) -> Iterator[str]:
    """Yield the explanation of each case, behind its title if it has one."""
    seen = False
    for case in rule.cases:
        if not case.explain:
            continue
        text = outline.prose(translated(case.explain, translate), translate)
        if case.title:
            yield f"**{outline.title(translated(case.title, translate))}.** {text}"
        else:
            yield message("Or: {text}", text=text).translated(translate) if seen else text
        seen = True


def rules_by_phase(base: RuleBase) -> list[tuple[str, list[Rule]]]:
    """Return the rules of each phase of a start, in order."""
    rules = sorted(base.rules.values(), key=lambda rule: (ORDER[rule.phase], rule.id))
    return [(phase, list(group)) for phase, group in groupby(rules, key=lambda rule: rule.phase)]


def failures_page(base: RuleBase, language: Language = ENGLISH) -> str:
    """Return the page that lists all failures, with links to their pages."""
    _, translate = language.say, language.gettext
    parts = ["# " + _("Failures"), _("Paste the error line into the search, or look under the phase of the start in "
                                     "which the server failed.")]
    head = f"| {_('Failure')} | id | {_('Severity')} |\n| --- | --- | --- |\n"
    for phase, rules in rules_by_phase(base):
        rows = [f"| [{outline.title(translated(rule.title, translate))}]({rule.id}.md) | `{rule.id}` "
                f"| {_(rule.severity)} |" for rule in rules]
        parts += [f"## {phase}", head + "\n".join(rows)]
    return "\n\n".join(parts) + "\n"


def _messages(rule: Rule, language: Language) -> list[str]:
    """Return each message of the rule under the releases that print it, a section each for the search of the site."""
    messages = samples.messages(rule)
    parts = [f"## {language.say('Messages')}"]
    shown: set[str] = set()
    for pattern in rule.any:
        text = messages.get(pattern.id, "")
        if text and text not in shown:
            shown.add(text)
            parts += ["### " + (f"vLLM {pattern.vllm}" if pattern.vllm else language.say("Any release")), _block(text)]
    return parts if shown else []


def _block(text: str) -> str:
    """Return text of a log as Markdown."""
    return f"```text\n{_shortened(text)}\n```"


def _shortened(message: str) -> str:
    """Return a message of a log as a page shows it."""
    return message if len(message) <= _LONGEST_BLOCK else message[:_LONGEST_BLOCK].rstrip() + " …"


def _fixes(rule: Rule, base: RuleBase, language: Language) -> str:
    """Return the numbered list of fixes."""
    order = (language.say("Only those that apply to the log are offered, ordered by what the user loses.")
             if rule.order == "loss" else language.say("Only those that apply to the log are offered, in this order."))
    return "\n".join([order, "", *(_fix_line(number, fix, base, language) for number, fix in enumerate(rule.fixes, 1))])


def _fix_line(number: int, fix: FixRule, base: RuleBase, language: Language) -> str:
    translate = language.gettext
    titles = outline.titles(translated(fix.title, translate))
    one = outline.title(translated(fix.title, translate))
    line = f"{' / '.join(titles) if len(titles) <= _MOST_TITLES else one}"
    line += language.say(" ({remark})", remark=f"vLLM {fix.vllm}") if fix.vllm else ""
    if fix.cost:
        line = language.say("{title}. Cost: {cost}", title=line, cost=outline.title(translated(fix.cost, translate)))
    line = f"{number}. {line}"
    if fix.action in base.actions:
        steps = "\n".join(f"    - {line}" for step in base.actions[fix.action].steps
                          for line in outline.steps(translated(step, translate), translate))
        line += f"\n{steps}" if steps else ""
    return line


def flag_page(flag: flags.Flag, version: str, base: RuleBase, link: Link = "`{}`".format,
              language: Language = ENGLISH) -> str:
    """Return the page of a flag in a release: meaning, lifetime, default, choices, spellings, rules that change it."""
    release = flags.resolve(version) if version else flags.releases()[-1]
    _ = language.say
    since = _("{release} or earlier", release=flag.first) if flag.first == flags.releases()[0] else flag.first
    life = (_("In vLLM since {first}, removed after {last}.", first=since, last=flag.last)
            if flag.last != flags.releases()[-1] else _("In vLLM since {first}.", first=since))
    parts = [f"# {flag.name}", language.gettext(flag_meanings.meaning(flag.name)), life]
    if flag.exists(release):
        parts.append(_("Default in {release}: {default}. Type: {type}.", release=release,
                       default=message(flag_meanings.default_text(flag, release).replace("{", "{{").replace("}", "}}")),
                       type=_(_KINDS[flag.kind_in(release)])))
        choices = flag.choices(release)
        if choices:
            parts.append(_("Choices in {release}: {choices}.", release=release,
                           choices=joined(", ", (f"`{choice}`" for choice in choices))))
    else:
        parts.append(_("vLLM {release} does not have it.", release=release) + _replacement_advice(flag, language))
    spellings = [f"`{alias}`" for alias in flag.aliases]
    if flag.yaml_key:
        spellings.append(f"YAML `{flag.yaml_key}`")
    if flag.keyword:
        spellings.append(f"Python `{flag.keyword}=`")
    if spellings:
        parts.append(_("Other spellings: {names}.", names=joined(", ", spellings)))
    users = sorted(rule.id for rule in base.rules.values()
                   if any(flag.name in fix.set or flag.name in fix.unset for fix in rule.fixes))
    if users:
        parts.append(_("Rules that change it: {rules}.", rules=joined(", ", map(link, users))))
    return "\n\n".join(part for part in parts if part) + "\n"


def _replacement_advice(flag: flags.Flag, language: Language) -> str:
    """Return what to write instead of a removed flag."""
    advice = flag.replaced_by
    if advice is None:
        return ""
    replacement = " ".join(f"{name} {value}".strip() for name, value in advice.set.items())
    sentence = language.say(" Write `{words}` instead.", words=replacement) if replacement else ""
    if advice.drop and not replacement:
        sentence = language.say(" Leave it out.")
    if not advice.note:
        return sentence
    return joined(" ", [sentence, language.gettext(advice.note)]).translated(language.gettext)


def fact_page(name: str, base: RuleBase, link: Link = "`{}`".format, language: Language = ENGLISH) -> str:
    """Return the page of a fact: meaning, example, how values are merged, and the patterns it is read from."""
    fact = base.names[name]
    _ = language.say
    parts = [f"# {name}", language.gettext(fact.about),
             _("Type {type}; of several values, {which} is used.", type=fact.type, which=_(MERGED[fact.merge]))]
    example = samples.example(name, base)
    if example is not None:
        parts += [_("Example: {value}, read from", value=value_text(example.value)), _block(example.line)]
    lines = [f"- `{pattern.anchor}` ({pattern.vllm or _('any release')})" for pattern in base.facts
             if f"(?P<{name}>" in pattern.regex or name in pattern.set]
    if fact.args:
        lines.append("- " + _("the argument `{name}` in the lines that print the arguments", name=fact.args))
    if fact.config:
        lines.append("- " + _("`{name}` in the engine's config line", name=fact.config))
    if lines:
        parts += [_("Read from lines with:"), "\n".join(lines)]
    users = _rules_by_name(base).get(name)
    if users:
        parts.append(_("Rules that mention it: {rules}.", rules=joined(", ", map(link, users))))
    return "\n\n".join(parts) + "\n"


@lru_cache(maxsize=1)
def _rules_by_name(base: RuleBase) -> dict[str, list[str]]:
    """Return name -> the ids of the rules whose explanations use it: the site has a page for each fact."""
    users: dict[str, list[str]] = {}
    for rule in sorted(base.rules.values(), key=lambda rule: rule.id):
        for name in set().union(*map(names_in, (*rule.explanations, rule.background))):
            users.setdefault(name, []).append(rule.id)
    return users


def value_text(value: Any) -> str:
    """Return the value of a fact as Markdown."""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"
