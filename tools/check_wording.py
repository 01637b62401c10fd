"""Check rules/facts against the sources of vLLM: every line that shows a fact must give the fact.

    python tools/check_wording.py SDISTS_DIR [--only 0.33.0 ...] [--since 0.2.0] [--table FILE.md] [--seen LOGS_DIR]

SDISTS_DIR holds vllm-<version>/ (tools/sdists.py). Of each release every message template is read by `ast` (logger
calls, `raise`, assertions, strings that are joined or formatted first), filled with sample values, and given to the
patterns of rules/facts. tools/wording_clues.yaml says how a placeholder is known to be a fact: by the words around
it, loosely, so that a new wording shows up here as "not covered" instead of passing in silence; it also names the
look-alikes, with the reason. Beside what the sources print the table names the releases in whose own logs a fact was seen: those
of LOGS_DIR (fixtures/logs) that a real server wrote. Nothing of vLLM is imported or run, and no text of vLLM is written: the table has ids, counts and releases.

Exit status 1 when a template is not covered, a pattern's `vllm` is shorter than the life of its wording, or a pattern
says an engine that its own source contradicts.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from message_templates import Field, Parts, Template, templates
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from sdists import unpacked

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from vllm_doctor.facts.store import FactName, FactStore
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.model import RuleBase

FILLINGS = 3
"""How often a template is filled in differently: placeholders may be optional or of several kinds."""

_WHOLE = re.compile(r"len|num_|size|max_|count|tokens|blocks|rank|seconds|timeout|TIMEOUT|limit|heads|code|vocab|index")
_NUMBER = re.compile(r"GiB\(|gib|memory|util|int\(|bytes|dim|ports?\b|elapsed|" + _WHOLE.pattern)
_NUMERIC = {"gib", "int", "float", "capability"}
_MEASURE = re.compile(r"[\d.]+ [A-Z]")
_UNIT = re.compile(r" ?(?:[KMGT]i?B|bytes)")


class Clues:
    """The content of tools/wording_clues.yaml."""

    def __init__(self, names: dict[str, FactName]) -> None:
        data = yaml.safe_load(Path(__file__).with_name("wording_clues.yaml").read_text(encoding="utf-8"))
        self.facts = {
            fact: [(re.compile(before), re.compile(after)) for before, after in clues]
            for fact, clues in data["clues"].items()
        }
        self.lookalike = [(re.compile(before), re.compile(after)) for before, after in data["lookalike"]]
        self.no_fact = [re.compile(words) for words, _ in data["no_fact"]]
        self.of_fact: dict[str, list[str]] = data["facts"]
        self.of_expression = [(re.compile(words), texts) for words, *texts in data["expressions"]]
        self.types = {name: definition.type for name, definition in names.items()}

    def exempt(self, template: Template) -> bool:
        """Return whether the template is known not to show a fact."""
        skeleton = template.skeleton()
        return any(words.search(skeleton) for words in self.no_fact)

    def carriers(self, template: Template) -> dict[int, str]:
        """Return which placeholder (index in `parts`) is which fact; "" for one that only resembles memory."""
        found: dict[int, str] = {}
        texts = [part if isinstance(part, str) else "{}" for part in template.parts]
        for at, part in enumerate(template.parts):
            if isinstance(part, str):
                continue
            before, after = "".join(texts[:at]), "".join(texts[at + 1 :])
            fact = next(
                (fact for fact, clues in self.facts.items() if any(b.search(before) and a.search(after) for b, a in clues)),
                None,
            )
            if fact is not None:
                found[at] = fact
            elif template.kind != "text" and any(b.search(before) and a.search(after) for b, a in self.lookalike):
                found[at] = ""
        return found

    def fill(self, template: Template, carriers: dict[int, str], choice: int) -> tuple[str, dict[int, str]]:
        """Return the template with samples in its placeholders, and the text of each placeholder."""
        texts: dict[int, str] = {}
        for at, part in enumerate(template.parts):
            if isinstance(part, Field):
                texts[at] = self._sample(part, carriers.get(at, ""), len(texts), choice)
        line = "".join(part if isinstance(part, str) else texts[at] for at, part in enumerate(template.parts))
        return re.sub(r"\$\{\w\}", "", line), texts  # the colours of the logo

    def _sample(self, part: Field, fact: str, number: int, choice: int) -> str:
        """Return a sample text for one placeholder; `choice` selects among several possible ones."""
        kind = part.spec[-1:]
        numeric = self.types.get(fact) in _NUMERIC
        texts: list[str] = next((texts for words, texts in self.of_expression if words.search(part.expression)), [])
        if (kind and kind in "diouxeEfFgG") or (numeric and texts and not _MEASURE.match(texts[0])):
            texts = []
        texts = self.of_fact.get(fact, texts)
        if texts:
            text = texts[choice % len(texts)]
            return repr(text) if part.spec == "!r" else text
        whole = self.types.get(fact) == "int" or (kind and kind in "dioux")
        if "," in part.spec or ":," in part.expression:
            return f"{41001 + number:,}"
        if kind and kind in "eEfFgG":
            places = re.search(r"\.(\d+)", part.spec)
            return f"{11.5 + number:.{places[1] if places else 6}f}"
        if whole or (_WHOLE.search(part.expression) and not re.search(r"GiB|gib", part.expression)):
            return f"{101 + number:03d}"
        if numeric or _NUMBER.search(part.expression):
            return f"{11.5 + number}"
        return ["alpha", str(201 + number), ""][choice % FILLINGS]


# --- asking the rules ----------------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """The result of matching the patterns against one template."""

    facts: dict[str, bool] = field(default_factory=dict)  # fact: found, with the right value
    unknown: bool = False  # it looks like memory, and no pattern takes the figure
    patterns: set[str] = field(default_factory=set)


class Rules:
    """The patterns of rules/facts, applied to lines."""

    def __init__(self, base: RuleBase) -> None:
        self.base = base
        self.clues = Clues(dict(base.names))
        self.regexes = [(pattern, re.compile(pattern.regex)) for pattern in base.facts]

    def values(self, line: str) -> tuple[dict[str, list[Any]], set[str]]:
        """Return all values of each fact in `line`, and the patterns that matched."""
        found: dict[str, list[Any]] = defaultdict(list)
        matched = set()
        for pattern, regex in self.regexes:
            if pattern.anchor in line and (match := regex.search(line)):
                matched.add(pattern.id)
                for name, raw in match.groupdict().items():
                    if raw is not None:
                        found[name].append(self.convert(name, raw))
        return found, matched

    def convert(self, name: str, raw: str) -> Any:
        """Return a captured text converted as the engine converts it."""
        store = FactStore({name: self.base.names[name]})
        store.add(name, raw, 1)
        return store.get(name)

    def judge(self, template: Template) -> Verdict:
        """Fill the template in several ways; a fact is covered if one of them yields it."""
        carriers = self.clues.carriers(template)
        verdict = Verdict(dict.fromkeys(filter(None, carriers.values()), False))
        for choice in range(FILLINGS):
            whole, texts = self.clues.fill(template, carriers, choice)
            for line in {whole, *whole.splitlines()}:  # each line of a message is a line of the log
                found, matched = self.values(line)
                verdict.patterns |= matched
                for at, fact in carriers.items():
                    if fact and not verdict.facts[fact]:
                        verdict.facts[fact] = self._right(fact, texts[at], template.parts[at + 1 : at + 3], found.get(fact, []))
        exempt = self.clues.exempt(template)
        verdict.unknown = "" in carriers.values() and not verdict.patterns and not exempt
        verdict.facts = {fact: right for fact, right in verdict.facts.items() if right or not exempt}
        return verdict

    def _right(self, fact: str, text: str, after: Parts, got: list[Any]) -> bool:
        """Return whether a value is the text of the placeholder, possibly followed by its unit or remainder."""
        following = str(after[0]) if after else ""
        if self.clues.types[fact] not in _NUMERIC:
            return any(str(value) in text for value in got)
        unit = _UNIT.match(following) if self.clues.types[fact] == "gib" else None
        wanted = [self.convert(fact, text + (unit[0] if unit else ""))]
        if fact.endswith("capability") and text:  # 75 for 7.5, or the two numbers apart
            wanted += [float(text), float(text) / 10]
            if following == ".":
                return any(str(value).startswith(f"{text}.") for value in got)
        return any(value in wanted for value in got)


def engine_of(path: str) -> str | None:
    """Return the engine of a file that only one engine uses."""
    if path.startswith("v1/"):
        return "V1"
    if re.match(r"(?:worker|core|spec_decode)/|engine/(?:llm_engine|async_llm_engine|metrics|multiprocessing)", path):
        return "V0"
    return None


# --- the report ----------------------------------------------------------------------------------------------------


@dataclass
class Coverage:
    """The results for all releases."""

    releases: list[str] = field(default_factory=list)
    cells: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))  # fact: release: [covered, all]
    config: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # release: keys of the engine's config line
    missing: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    lives: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    contradictions: set[str] = field(default_factory=set)
    seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # fact: releases whose own log shows it


def survey(folder: Path, rules: Rules, since: Version, only: list[str]) -> Coverage:
    """Check the releases one by one, oldest first."""
    verdicts: dict[tuple[Parts, str], Verdict] = {}
    coverage = Coverage()
    engines = {pattern.id: pattern.set.get("engine") for pattern in rules.base.facts}
    for version, path in unpacked(folder).items():
        release = path.name[5:]
        if version < since or (only and release not in only):
            continue
        coverage.releases.append(release)
        for template in templates(path):
            key = (template.parts, template.kind)
            if key not in verdicts:
                verdicts[key] = rules.judge(template)
            verdict = verdicts[key]
            _note(coverage, release, template, verdict, engines)
        print(f"{release}: {len(verdicts)} templates so far", file=sys.stderr, flush=True)
    return coverage


def look(folder: Path, rules: Rules) -> dict[str, set[str]]:
    """Return the facts that the patterns find in logs of real servers, with the releases that wrote them.

    A log counts when its label says that it was captured.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for path in sorted(folder.glob("*.yaml")):
        label = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not str(label.get("source", "")).startswith("captured"):
            continue
        for line in set(path.with_suffix(".log").read_text(encoding="utf-8").splitlines()):
            for fact in rules.values(line)[0]:
                seen[fact].add(str(label["vllm_version"]))
    return seen


def _note(coverage: Coverage, release: str, template: Template, verdict: Verdict, engines: dict[str, Any]) -> None:
    if "tensor_parallel_size=" in template.skeleton() and "max_seq_len=" in template.skeleton():
        coverage.config[release] |= set(re.findall(r"(\w+)=(?:\{\}|$)", template.skeleton()))
    for fact, right in verdict.facts.items():
        cell = coverage.cells[fact].setdefault(release, [0, 0])
        cell[0] += right
        cell[1] += 1
        if not right:
            coverage.missing[(fact, template.skeleton())].append(release)
    if verdict.unknown:
        coverage.missing[("?", template.skeleton())].append(release)
    for pattern in verdict.patterns:
        coverage.lives[pattern].add(release)
        said, known = engines.get(pattern), engine_of(template.path)
        if said and known and said != known:
            coverage.contradictions.add(f"{pattern} says {said}, {template.path} of {release} is {known}")


def lives(coverage: Coverage, rules: Rules) -> tuple[list[str], list[str]]:
    """Return the patterns whose `vllm` is shorter than their wording's lifetime (wrong) or longer (imprecise)."""
    short, long = [], []
    for pattern in rules.base.facts:
        seen = coverage.lives.get(pattern.id, set())
        if not seen or "(?P<vllm_version>" in pattern.regex:  # a line that names its release needs no life
            continue
        allowed = {r for r in coverage.releases if not pattern.vllm or SpecifierSet(pattern.vllm).contains(r, prereleases=True)}
        if seen - allowed:
            short.append(f"{pattern.id}: {pattern.vllm}, but also in {', '.join(sorted(seen - allowed, key=Version))}")
        if allowed - seen and pattern.vllm:
            long.append(f"{pattern.id}: {pattern.vllm}, not found in {', '.join(sorted(allowed - seen, key=Version))}")
    return short, long


def table(coverage: Coverage, rules: Rules, title: str = "Wordings of vLLM that rules/facts covers") -> str:
    """Return a Markdown table: per fact, the releases that print it and how many of its lines are covered."""
    first, last = coverage.releases[0], coverage.releases[-1]
    lines = [
        f"# {title}", "",
        f"Made by `tools/check_wording.py` from the sources of {len(coverage.releases)} releases, {first} to {last}. A line is one message template",
        "of one release; it counts as read when the patterns give the very value that stood in it. The engine's configuration line and the",
        "lines of arguments are read key by key (rules/facts/names.yaml); PyTorch's own text (out of memory) is not in vLLM's sources.", "",
        "*Seen* are the releases in whose own logs (fixtures/logs) a pattern found the fact; all else is from the sources.", "",
        "| fact | printed by | lines read | engine config key | seen |", "| --- | --- | --- | --- | --- |",
    ]
    for name, definition in rules.base.names.items():
        cells = coverage.cells.get(name, {})
        releases = sorted(cells, key=Version)
        keyed = [r for r in coverage.releases if definition.config and definition.config in coverage.config.get(r, ())]
        if not cells and not keyed:
            continue
        read, every = (sum(cell[i] for cell in cells.values()) for i in (0, 1))
        lines.append(
            f"| `{name}` | {_span(releases, coverage.releases)} | {f'{read} of {every}' if every else '-'} | "
            f"{f'`{definition.config}` {_span(keyed, coverage.releases)}' if keyed else '-'} | "
            f"{', '.join(sorted(coverage.seen.get(name, ()), key=Version)) or '-'} |"
        )
    lines += ["", "| release | lines with facts | read |", "| --- | --- | --- |"]
    for release in coverage.releases:
        cells_of = [cell[release] for cell in coverage.cells.values() if release in cell]
        lines.append(f"| {release} | {sum(c[1] for c in cells_of)} | {sum(c[0] for c in cells_of)} |")
    return "\n".join(lines) + "\n"


def _span(releases: list[str], every: list[str]) -> str:
    """Return a span such as `0.8.0-0.33.0`, with the number of gaps."""
    if not releases:
        return "-"
    within = every[every.index(releases[0]) : every.index(releases[-1]) + 1]
    gap = len(within) - len(releases)
    span = releases[0] if len(releases) == 1 else f"{releases[0]}-{releases[-1]}"
    return f"{span} (not in {gap} between)" if gap else span


def main(arguments: list[str] | None = None) -> int:
    """Check the sources and return the exit status: 0 if everything is covered."""
    parser = argparse.ArgumentParser(description="Check rules/facts against the sources of vLLM.")
    parser.add_argument("sdists", type=Path, metavar="SDISTS_DIR")
    parser.add_argument("--since", type=Version, default=Version("0.2.0"), metavar="VERSION")
    parser.add_argument("--only", nargs="+", default=[], metavar="VERSION")
    parser.add_argument("--table", type=Path, default=None, metavar="FILE.md", help="write the coverage (and FILE.json beside it)")
    parser.add_argument("--seen", type=Path, default=Path(__file__).resolve().parent.parent / "fixtures" / "logs", metavar="LOGS_DIR")
    options = parser.parse_args(arguments)
    rules = Rules(builtin())
    coverage = survey(options.sdists, rules, options.since, options.only)
    coverage.seen = look(options.seen, rules)
    if not coverage.releases:
        parser.error(f"no vllm-<version> in {options.sdists}")
    short, long = lives(coverage, rules)
    for (fact, skeleton), releases in sorted(coverage.missing.items()):
        print(f"not covered: {fact} ({_span(releases, coverage.releases)}): {skeleton[:300]!r}")
    for line in (*(f"life too short: {text}" for text in short), *(f"engine: {text}" for text in sorted(coverage.contradictions))):
        print(line)
    if not options.only:
        for text in long:
            print(f"life longer than seen: {text}")
    if options.table:
        options.table.write_text(table(coverage, rules), encoding="utf-8")
        rows = (
            f"{json.dumps(fact)}: {json.dumps({r: f'{read}/{every}' for r, (read, every) in sorted(cells.items(), key=lambda item: Version(item[0]))})}"
            for fact, cells in sorted(coverage.cells.items())
        )
        options.table.with_suffix(".json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    every = sum(cell[1] for cells in coverage.cells.values() for cell in cells.values())
    read = sum(cell[0] for cells in coverage.cells.values() for cell in cells.values())
    print(f"{read} of {every} lines read; {len(coverage.cells)} facts, {len(coverage.releases)} releases; {len(coverage.missing)} templates not covered")
    return 1 if coverage.missing or short or coverage.contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
