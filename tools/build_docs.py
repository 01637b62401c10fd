#!/usr/bin/env python3
"""Generate docs/rules/, docs/flags.md, docs/facts.md, the schemas and the README's report from the data.

usage: build_docs.py [--check]     (--check writes nothing, prints what is not current and exits with status 1)
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # these files' own package, whichever is installed

from vllm_doctor import diagnose
from vllm_doctor.authoring import explain, template_outline
from vllm_doctor.catalog import flags
from vllm_doctor.phases import ORDER
from vllm_doctor.reports import to_text
from vllm_doctor.rulebase.loader import builtin
from vllm_doctor.rulebase.schema import RULE_SCHEMA

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 96


def pages() -> dict[str, str]:
    """Return all generated files: path in the repository and content."""
    base = builtin()
    rules = sorted(base.rules.values(), key=lambda rule: (ORDER[rule.phase], rule.id))
    made = {f"docs/rules/{rule.id}.md": explain.rule_page(rule, base) for rule in rules}
    rows = [f"| {rule.phase} | [{rule.id}](rules/{rule.id}.md) | {rule.severity} | {template_outline.title(rule.title)} |"
            for rule in rules if rule.role == "cause"]
    made["docs/README.md"] = "\n".join([
        "# Known failures", "",
        "One page a rule, made from the rule itself (`python tools/build_docs.py`). Also: [facts](facts.md), [flags](flags.md), [answers by raise site](raise-sites.md).",
        "", "| phase | id | severity | what |", "| --- | --- | --- | --- |",
        *rows, ""])
    made["docs/facts.md"] = _facts()
    made["docs/flags.md"] = _flags()
    made["schema/rule.schema.json"] = json.dumps(RULE_SCHEMA, indent=2) + "\n"
    made["README.md"] = _readme()
    return made


def _facts() -> str:
    names = builtin().names.values()
    rows = [f"| `{fact.name}` | {fact.type} | {fact.merge} | {fact.about} |" for fact in names]
    about = ("What is read from a log. Units are part of the name; GiB are 2^30 bytes. Of several values (ranks, lines) one "
             "is used: the largest, the smallest, the first or the last.")
    return "\n".join(["# Facts", "", about, "",
                      "| fact | type | used | meaning |", "| --- | --- | --- | --- |", *rows, ""])


def _flags() -> str:
    newest = flags.releases()[-1]
    names = sorted({name for release in flags.releases() for name in flags.flags_of(release)})
    rows = []
    for name in names:
        flag = flags.lookup(name)
        assert flag is not None  # noqa: S101 - the name is the table's own
        last = "" if flag.last == newest else flag.last
        advice = flag.replaced_by.note if flag.replaced_by else ""
        rows.append(f"| `{flag.name}` | {flag.first} | {last} | {advice} |")
    about = (f"Since and until which release, of those from {flags.releases()[0]} to {newest}; "
             "`vllm-doctor explain --FLAG` says more.")
    return "\n".join(["# Flags of `vllm serve`", "", about, "",
                      "| flag | since | until | then |", "| --- | --- | --- | --- |", *rows, ""])


def _readme() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    log = re.search(r"diagnose (\S+\.log)\n", text)
    assert log is not None  # noqa: S101 - the README has the demo command
    report = to_text.render(diagnose(ROOT / log[1], path=log[1]), width=WIDTH).rstrip()
    return re.sub(r"(<!-- report -->\n```text\n).*?(\n```)", lambda match: match[1] + report + match[2], text,
                  flags=re.DOTALL)


def main() -> int:
    """Write the files, or check that they are current."""
    made = pages()
    stale = [name for name, text in made.items()
             if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text]
    stale += [f"docs/rules/{path.name}" for path in (ROOT / "docs" / "rules").glob("*.md")
              if f"docs/rules/{path.name}" not in made]
    if "--check" in sys.argv[1:]:
        print("\n".join(stale))
        return 1 if stale else 0
    for name in stale:
        path = ROOT / name
        if name not in made:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made[name], encoding="utf-8")
    print(f"{len(stale)} of {len(made)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
