#!/usr/bin/env python3
"""Generate the schema of rules and the README's report from the data. The site's pages are made by site_pages.py.

usage: build_docs.py [--check]     (--check writes nothing, prints what is not current and exits with status 1)
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # these files' own package, whichever is installed

from vllm_doctor import diagnose
from vllm_doctor.reports import to_text
from vllm_doctor.rulebase.schema import RULE_SCHEMA

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 96


def generated() -> dict[str, str]:
    """Return all generated files: path in the repository and content."""
    return {"schema/rule.schema.json": json.dumps(RULE_SCHEMA, indent=2) + "\n", "README.md": _readme()}


def _readme() -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    log = re.search(r"diagnose (\S+\.log)\n", text)
    assert log is not None  # noqa: S101 - the README has the demo command
    report = to_text.render(diagnose(ROOT / log[1], path=log[1]), width=WIDTH).rstrip()
    return re.sub(r"(<!-- report -->\n```text\n).*?(\n```)", lambda match: match[1] + report + match[2], text,
                  flags=re.DOTALL)


def main() -> int:
    """Write the files, or check that they are current."""
    made = generated()
    stale = [name for name, text in made.items()
             if not (ROOT / name).is_file() or (ROOT / name).read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        print("\n".join(stale))
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(made[name], encoding="utf-8")
    print(f"{len(stale)} of {len(made)} files written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
