"""Extract the texts for users into gettext catalogues, and check their translations.

    python tools/translations.py update        after a change of English texts: adds, drops and marks messages
    python tools/translations.py check         what is missing, fuzzy or wrong; exits with 1 if anything is out of date
    python tools/translations.py check FILE... only these catalogues; exits with 1 if a message in them is not translated

Catalogues, all below `locale/zh/LC_MESSAGES`:

    rules/…/FOLDER.po       the rules of a folder; a paragraph, a title or words in `let` are one message
    rules/…/shared.po       texts that rules of several folders have
    rules/…/actions.po      rules/actions.yaml
    rules/…/stalls.po       rules/stalls.yaml
    rules/…/facts.po        the labels of facts and, for `explain`, what they are
    vllm_doctor/…/report.po templates, code and next_steps.yaml
    vllm_doctor/…/cli.po    the help of the commands
    vllm_doctor/…/flags.po  flag_meanings.yaml, features.yaml, frontends.yaml and the notes of replaced flags

A message keeps the English source with its placeholders as its msgid. Where the English text changes, the translation
becomes fuzzy: the report is English there until a translator has looked at it and removed the mark.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from vllm_doctor.authoring.translations import problems  # noqa: E402
from vllm_doctor.catalog import flags  # noqa: E402
from vllm_doctor.catalog.flag_file import table  # noqa: E402
from vllm_doctor.reports.texts import fact_label  # noqa: E402
from vllm_doctor.rulebase.lint import DERIVED_FACTS  # noqa: E402
from vllm_doctor.rulebase.model import rule_of  # noqa: E402
from vllm_doctor.templating.evaluator import parse, yielded  # noqa: E402
from vllm_doctor.templating.renderer import one_line, split_paragraphs  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

LANGUAGE = "zh"
RULES = ROOT / "rules"
PACKAGE = ROOT / "vllm_doctor"
CALLS = {"_": 0, "N_": 0, "message": 0, "say": 0, "gettext": 0, "_action": 1, "FixRule": 1, "_Way": 0}
"""Functions whose text is translated, and which of their arguments that is."""
_WORD = re.compile(r"[^\W\d_]{2}|^[,;] $|^\{\w+\}[.:]|^ \(\{|\{\w+\} \(\{")
_WORDS = re.compile(r"(?:^|\s)[A-Za-z]+\s(?=.)")  # in a constant: prose, and no value of a flag
_EXPRESSION = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")

_HEADER = b'msgid ""\nmsgstr "Language: zh\\nContent-Type: text/plain; charset=utf-8\\n"\n\n'


def catalogue_path(name: str) -> Path:
    """Return the path of a catalogue such as `rules/kv-cache`."""
    folder, _, file = name.partition("/")
    return ROOT / folder / "locale" / LANGUAGE / "LC_MESSAGES" / f"{file}.po"


def texts_of_rule(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (message, part of the rule) of a rule file."""
    rule = rule_of(yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), str(path))
    parts = [*(("title", text) for text in rule.titles), *(("explain", text) for text in rule.explanations),
             ("background", rule.background), ("verify", rule.verify)]
    for fix in rule.fixes:
        parts += [(f"fix {fix.id} {part}", getattr(fix, part)) for part in ("title", "why", "cost", "verify")]
    for part, text in parts:
        is_long = part in {"explain", "background"}
        for paragraph in split_paragraphs(text) if is_long else [text]:
            yield one_line(paragraph), part
    for name, alternatives in rule.let.items():
        for source in alternatives:
            for text in yielded(parse(str(source)).tree):
                if _WORDS.search(text):
                    yield text, f"let {name}"


def rules() -> Iterator[tuple[str, str, str]]:
    """Yield (folder, message, place) of the texts of all rules."""
    for path in sorted(RULES.glob("*/*.yaml")):
        if path.parent.name in {"facts", "locale"}:
            continue
        for text, part in texts_of_rule(path):
            yield path.parent.name, text, f"{path.parent.name}/{path.name}: {part}"


def steps_of(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the steps of the tree in next_steps.yaml."""
    if isinstance(node, dict) and "title" in node:
        yield node
    elif isinstance(node, (dict, list)):
        for part in node.values() if isinstance(node, dict) else node:
            yield from steps_of(part)


def tables() -> Iterator[tuple[str, str, str]]:
    """Yield (catalogue, message, place) of the texts in other YAML files."""
    def read(path: Path) -> Any:
        return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)

    for name, action in read(RULES / "actions.yaml").items():
        yield "rules/actions", one_line(action["title"]), f"{name}: title"
        for number, step in enumerate(action.get("steps", ()), 1):
            yield "rules/actions", one_line(step), f"{name}: step {number}"
    for phase, stall in read(RULES / "stalls.yaml").items():
        for key in ("doing", "then", "likely"):
            yield "rules/stalls", one_line(stall[key]), f"{phase}: {key}"
    for name, fact in read(RULES / "facts" / "names.yaml").items():
        yield "rules/facts", fact_label(name), f"{name}: label"
        yield "rules/facts", one_line(fact["about"]), f"{name}: about"
    for name in sorted(DERIVED_FACTS):
        yield "rules/facts", fact_label(name), f"{name}: label"
    catalog = PACKAGE / "catalog"
    for flag, text in read(catalog / "flag_meanings.yaml")["meanings"].items():
        yield "vllm_doctor/flags", one_line(text), flag
    for flag, text in read(catalog / "flag_meanings.yaml")["unset"].items():
        yield "vllm_doctor/flags", one_line(text), f"{flag}: default"
    for name in table().flags:
        known = flags.lookup(name)
        if known is not None and known.replaced_by is not None and known.replaced_by.note:
            yield "vllm_doctor/flags", known.replaced_by.note, f"{name}: replacement"
    for feature in read(catalog / "features.yaml"):
        for switch in feature.get("without", ()):
            yield "vllm_doctor/flags", f"As a test, {switch['title']}", f"features: {feature['id']}"
    for step in steps_of(read(catalog / "next_steps.yaml")):
        for key in ("title", "why", "cost"):
            if key in step:
                yield "vllm_doctor/report", step[key], f"next_steps: {step.get('id', step.get('action'))}"
    for frontend in read(catalog / "frontends.yaml"):
        for key in ("where", "variables"):
            if isinstance(frontend.get(key), str):
                yield "vllm_doctor/flags", one_line(frontend[key]), f"frontends: {frontend['name']}: {key}"
        for flag, text in (frontend.get("absent") or {}).items():
            yield "vllm_doctor/flags", one_line(text), f"frontends: {frontend['name']}: {flag}"


def texts_of_module(source: str) -> Iterator[str]:
    """Yield the texts in the calls of a module that translate them, in the order of the lines.

    Babel's own reader of Python looks at words, not at calls: 2.19 takes the variable `message` for one.
    """
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        function = call.func
        name = function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
        position = CALLS.get(name, len(call.args))
        argument = call.args[position] if position < len(call.args) else None
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def texts_of_template(source: str) -> Iterator[str]:
    """Yield the texts in a template that are translated."""
    options = {"trim_blocks": "true", "lstrip_blocks": "true", "silent": "false"}
    for _, text, _, _ in extract("jinja2", BytesIO(source.encode()), dict.fromkeys(CALLS), options=options):
        yield from (text,) if isinstance(text, str) else filter(None, text)


def code() -> Iterator[tuple[str, str, str]]:
    """Yield (catalogue, message, place) of the code, the templates and the help of the commands."""
    for path in sorted(PACKAGE.rglob("*")):
        place = str(path.relative_to(ROOT))
        is_template = path.parent.name == "templates" and path.suffix in {".html", ".md", ".txt"}
        if path.suffix != ".py" and not is_template:
            continue
        source = path.read_text(encoding="utf-8")
        for text in texts_of_template(source) if is_template else texts_of_module(source):
            yield "vllm_doctor/report", text, place
    from vllm_doctor.cli.help_texts import texts  # noqa: PLC0415 - imports every command
    from vllm_doctor.cli.root import cli  # noqa: PLC0415

    for command, text in texts(cli):
        yield "vllm_doctor/cli", text, command


def messages() -> dict[str, dict[str, list[str]]]:
    """Return the places of each message in each catalogue."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    of_rules: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for folder, text, place in rules():
        of_rules[text][folder].append(place)
    for text, folders in of_rules.items():
        name = next(iter(folders)) if len(folders) == 1 else "shared"
        if _WORD.search(_EXPRESSION.sub("", text)):
            found[f"rules/{name}"][text] = [place for places in folders.values() for place in places]
    for name, text, place in (*tables(), *code()):
        if _WORD.search(_EXPRESSION.sub("", text)) and place not in found[name][text]:
            found[name][text].append(place)
    return found


def catalogue(places: dict[str, list[str]]) -> Catalog:
    """Return a catalogue of messages without translations."""
    made = Catalog(locale=LANGUAGE)
    for text, where in places.items():
        made.add(text, auto_comments=where)
        made[text].flags.clear()
    return made


def update() -> None:
    """Bring all catalogues up to date with the texts."""
    found = messages()
    old = {path: _read(path) for folder in (RULES, PACKAGE)
           for path in (folder / "locale" / LANGUAGE / "LC_MESSAGES").glob("*.po")}
    memory = {entry.id: entry for catalog in old.values() for entry in catalog if entry.id and entry.string}
    known = {text for places in found.values() for text in places}
    for name, places in sorted(found.items()):
        path = catalogue_path(name)
        made = catalogue(places)
        gone = [entry.id for entry in old.pop(path, ()) if entry.id in memory and entry.id not in known]
        for text in places:
            near = [text] if text in memory else get_close_matches(text, gone, 1, 0.7)
            if near:
                gone = [one for one in gone if one != near[0]]
                entry = memory[near[0]]
                made[text].string = entry.string
                if near[0] != text or entry.fuzzy:
                    made[text].flags.add("fuzzy")
                    made[text].previous_id = entry.previous_id or [near[0]]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_written(made))
    for path in old:
        path.unlink()


def _read(path: Path) -> Catalog:
    return read_po(BytesIO(path.read_bytes()), locale=LANGUAGE)


def _written(catalog: Catalog) -> bytes:
    out = BytesIO()
    for entry in catalog:
        entry.flags.discard("python-brace-format")
        entry.flags.discard("python-format")
    write_po(out, catalog, width=0, omit_header=True, ignore_obsolete=True, include_previous=True)
    return _HEADER + out.getvalue().lstrip(b"\n")


def check(files: list[str]) -> int:
    """Print what is missing or wrong; return the exit status."""
    wrong = missing = total = 0
    found = messages()
    named = {Path(file).resolve() for file in files}
    for name, places in sorted(found.items()):
        path = catalogue_path(name)
        if named and path not in named:
            continue
        catalog = _read(path) if path.exists() else Catalog()
        stale = {entry.id for entry in catalog if entry.id} ^ set(places)
        if stale:
            wrong += 1
            print(f"{path.relative_to(ROOT)}: {len(stale)} messages are out of date: run tools/translations.py update")
        open_ = [entry for entry in catalog if entry.id and (not entry.string or entry.fuzzy)]
        missing += len(open_)
        total += len(places)
        fuzzy = sum(entry.fuzzy for entry in open_)
        print(f"{path.relative_to(ROOT)}: {len(places)} messages, {len(open_) - fuzzy} missing, {fuzzy} fuzzy")
        for entry in catalog:
            if entry.id and entry.string and not entry.fuzzy:
                for problem in problems(entry.id, entry.string, is_template=name.startswith("rules/")):
                    wrong += 1
                    print(f"  {problem}: {entry.id[:80]}\n      {entry.string[:100]}")
        if named:
            for entry in open_:
                print(f"  {'fuzzy' if entry.fuzzy else 'missing'}: {entry.id[:100]}")
    print(f"{total} messages, {missing} missing or fuzzy, {wrong} problems")
    return 1 if wrong or (named and missing) else 0


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("update", "check"))
    parser.add_argument("files", nargs="*")
    given = parser.parse_args()
    if given.what == "update":
        update()
        return 0
    return check(given.files)


if __name__ == "__main__":
    sys.exit(main())
