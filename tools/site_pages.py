"""Generate the pages of the documentation site that come from the data: failures, flags, facts and how to write rules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # these files' own package, whichever is installed

from vllm_doctor.authoring import explain, samples, template_outline
from vllm_doctor.catalog import flag_meanings, flags
from vllm_doctor.language import ENGLISH, Language, language
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import Rule, RuleBase

ROOT = Path(__file__).resolve().parent.parent
_CODE = re.compile(r"(?ms)(^```.*?^```$|``.+?``|`[^`\n]+`)")
_PLACEHOLDER = re.compile(r"<(?=[A-Za-z_])(?!https?:)")
_QUOTING = ("Example", "Similar failures", "Conditions", "References")  # headings of what is no text of the failure
_LONGEST_EXAMPLE = 80  # characters of an example in a table
_LISTS = ("failures/index.md", "zh/failures/index.md", "flags.md", "facts.md", "rules.md")
_LOW_RANK = "---\nsearch: {boost: 0.1}\n---\n\n"  # long pages of many words, of which a search wants the one about the failure


def pages() -> dict[str, str]:
    """Return the generated pages: path below docs/ and Markdown."""
    base = builtin()
    made = _failures(base, ENGLISH, "failures", "[中文](../zh/failures/{}.md)")
    made |= _failures(base, language("zh"), "zh/failures", "[English](../../failures/{}.md)")
    made["flags.md"] = _flags()
    made["facts.md"] = _facts()
    made["rules.md"] = (ROOT / "rules" / "README.md").read_text(encoding="utf-8")
    return {path: (_LOW_RANK if path in _LISTS else "") + _escaped(text) for path, text in made.items()}


def _failures(base: RuleBase, spoken: Language, folder: str, other: str) -> dict[str, str]:
    """Return the pages of all failures and their list in a language, with links to those in the `other` one."""
    made = {rule.id: _failure(rule, base, spoken) for rule in base.rules.values()}
    made["index"] = explain.failures_page(base, spoken)
    return {f"{folder}/{name}.md": _linked(text, other.format(name)) for name, text in made.items()}


def _failure(rule: Rule, base: RuleBase, spoken: Language) -> str:
    """Return the page of a failure. Sections that quote other failures' messages are left out of the search."""
    text = explain.rule_page(rule, base, _link, spoken)
    for heading in map(spoken.gettext, _QUOTING):
        text = text.replace(f"\n## {heading}\n", f"\n## {heading} {{ data-search-exclude }}\n")
    return text


def _linked(text: str, link: str) -> str:
    """Return a page with a link in a line of its own below its title."""
    title, _, rest = text.partition("\n\n")
    return f"{title}\n\n{link}\n\n{rest}"


def failures_by_phase() -> list[dict[str, list[dict[str, str]]]]:
    """Return the navigation of the failures: for each phase, the pages with their titles."""
    return [{phase: [{template_outline.title(rule.title): f"failures/{rule.id}.md"} for rule in rules]}
            for phase, rules in explain.rules_by_phase(builtin())]


def _link(rule_id: str) -> str:
    return f"[`{rule_id}`]({rule_id}.md)"


def _escaped(markdown: str) -> str:
    """Return Markdown whose placeholders (<max_model_len>) are text, not HTML tags."""
    parts = _CODE.split(markdown)
    return "".join(part if number % 2 else _PLACEHOLDER.sub("&lt;", part) for number, part in enumerate(parts))


def _flags() -> str:
    newest = flags.releases()[-1]
    names = sorted({name for release in flags.releases() for name in flags.flags_of(release)})
    known = [flag for name in names if (flag := flags.lookup(name)) is not None]
    present = [f"| `{flag.name}` | {flag_meanings.meaning(flag.name)} | {_cell(flag_meanings.default_text(flag, newest))} | {flag.first} |"
               for flag in known if flag.exists(newest)]
    removed = [f"| `{flag.name}` | {flag_meanings.meaning(flag.name)} | {flag.first}–{flag.last} | {_advice(flag)} |"
               for flag in known if not flag.exists(newest)]
    about = (f"The flags of `vllm serve` in {newest}, and those that older releases had, from {flags.releases()[0]} on. "
             "`vllm-doctor explain --FLAG --vllm-version V` adds choices, other spellings and the default of a release.")
    return "\n".join(["# Flags", "", about, "", f"## Flags of {newest}", "", "| flag | what it does | default | since |", "| --- | --- | --- | --- |",
                      *present, "", "## Removed flags", "", "| flag | what it did | releases | now |", "| --- | --- | --- | --- |", *removed, ""])


def _advice(flag: flags.Flag) -> str:
    """Return what to write instead of a removed flag."""
    advice = flag.replaced_by
    if advice is None:
        return ""
    instead = " ".join(f"{name} {value}".strip() for name, value in advice.set.items())
    return " ".join(part for part in (f"`{instead}`" if instead else "remove it" if advice.drop else "", _cell(advice.note)) if part)


def _facts() -> str:
    base = builtin()
    rows = []
    for fact in base.names.values():
        example = samples.example(fact.name, base)
        shown = _cell(explain.value_text(example.value)) if example is not None and len(str(example.value)) <= _LONGEST_EXAMPLE else ""
        rows.append(f"| `{fact.name}` | {_cell(fact.about)} | {shown} | {fact.type}, {explain.MERGED[fact.merge]} |")
    about = ("What is read from a log, under the names that rules and the JSON report use. Units are part of the name; GiB are 2^30 bytes. "
             "Ranks and lines can print different values; the last column says which one is used. `vllm-doctor explain NAME` shows the lines it is read from.")
    return "\n".join(["# Facts", "", about, "", "| fact | meaning | example | type, value used |", "| --- | --- | --- | --- |", *rows, ""])


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
