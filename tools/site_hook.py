"""The hook of mkdocs.yml: adds the pages that are made from the data, and the links that differ between GitHub and the site."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel

sys.path.insert(0, str(Path(__file__).resolve().parent))

import site_pages

_PAGES = site_pages.pages()
_OUTSIDE = (  # links that leave docs/, and the pages of the site that they stand for
    (re.compile(r"\]\(\.\./rules/README\.md"), "](rules.md"),
    (re.compile(r"\]\(\.\./rules/[\w-]+/([\w-]+)\.yaml"), r"](failures/\1.md"),
    (re.compile(r"\[(\w+)\]\(\.\./\1\)"), r"`\1`"),
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of failures to the navigation."""
    assert config.nav is not None  # noqa: S101 - mkdocs.yml has it
    failures = next(entry["Failures"] for entry in config.nav if "Failures" in entry)
    failures += site_pages.failures_by_phase()
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages. The Chinese ones of failures are reached from their list, so each page's menu is short."""
    for path, text in _PAGES.items():
        is_listed = path.startswith("zh/failures/") and not path.endswith("/index.md")
        inclusion = InclusionLevel.NOT_IN_NAV if is_listed else InclusionLevel.INCLUDED
        files.append(File.generated(config, path, content=text, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Point the links that leave docs/ to the pages of the site."""
    for link, replacement in _OUTSIDE:
        markdown = link.sub(replacement, markdown)
    return markdown
