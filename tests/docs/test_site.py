"""The documentation site: it builds without a warning, loads nothing from elsewhere, and has a page for each failure."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import docs_site
import pytest

from vllm_doctor.rulebase.loader import builtin

pytest.importorskip("material", reason="mkdocs-material is not installed")
TAG = re.compile(r"<[^>]+>")
JINJA = re.compile(r"\{%|%\}|\{#|(?<!\$)\{\{(?!\.)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return docs_site.built(docs_site.shared_folder(tmp_path_factory.getbasetemp()))


def text_of(path: Path) -> str:
    return html.unescape(TAG.sub("", path.read_text(encoding="utf-8")))


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        page = path.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?([^\"' >]+)", page)
        assert [url for url in loaded if re.match(r"(?:https?:)?//", url)] == [], path.name
    for path in (site / "assets" / "stylesheets").glob("*.css"):
        assert re.findall(r"url\(['\"]?https?:", path.read_text(encoding="utf-8")) == []


def test_each_failure_has_its_page_with_title_and_messages(site: Path) -> None:
    rules = builtin().rules
    assert {path.stem for path in (site / "failures").glob("*.html")} == {*rules, "index"}
    page = text_of(site / "failures" / "kv-cache-too-small-for-max-len.html")
    assert "KV cache too small for --max-model-len <max_model_len>" in page
    assert "To serve at least one request with the models's max seq len" in page


def test_each_failure_has_its_page_in_chinese_too(site: Path) -> None:
    assert {path.name for path in (site / "zh" / "failures").glob("*.html")} == {path.name for path in (site / "failures").glob("*.html")}
    page = text_of(site / "zh" / "failures" / "kv-cache-too-small-for-max-len.html")
    assert "KV 缓存" in page
    assert "To serve at least one request with the models's max seq len" in page
    for name in ("kv-cache-too-small-for-max-len", "index"):
        assert f'href="../zh/failures/{name}.html">中文</a>' in (site / "failures" / f"{name}.html").read_text(encoding="utf-8")
        assert f'href="../../failures/{name}.html">English</a>' in (site / "zh" / "failures" / f"{name}.html").read_text(encoding="utf-8")
    assert 'href="failures/index.html"' in (site / "zh" / "index.html").read_text(encoding="utf-8")


def test_no_page_shows_a_template(site: Path) -> None:
    for path in site.rglob("*.html"):
        if path.name != "rules.html":  # how to write rules
            page = re.sub(r"(?s)<pre.*?</pre>", "", path.read_text(encoding="utf-8"))
            assert JINJA.search(html.unescape(TAG.sub("", page))) is None, path.name


def test_flags_and_facts(site: Path) -> None:
    assert re.search(r"--max-num-seqs\s+Sets how many requests run at the same time; further requests wait\.\s+by GPU memory, 1024", text_of(site / "flags.html"))
    assert re.search(r"kv_cache_tokens\s+Capacity of the KV cache in tokens\.\s+226736", text_of(site / "facts.html"))


def test_the_search_has_the_messages_as_sections_of_their_own(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert index["config"]["fields"]["title"]["boost"] == 3.0
    found = [entry for entry in index["docs"] if "max seq len (131072), (16.00 GiB KV cache is needed" in entry["text"]]
    assert sorted(entry["location"].partition("#")[0] for entry in found) == [
        "failures/kv-cache-too-small-for-max-len.html", "zh/failures/kv-cache-too-small-for-max-len.html"]
    assert not [entry for entry in index["docs"] if "/failures/" in f"/{entry['location']}" and entry["title"] in {"Example", "示例"}]


def test_everything_that_the_navigation_promises_is_there(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    for page in ("read-a-report", "watch", "ci", "kubernetes", "size", "fleet", "rules", "flags", "facts", "failures/index"):
        assert (site / f"{page}.html").is_file()
    for page in ("read-a-report", "watch", "ci", "kubernetes", "size", "fleet", "rules"):
        assert f'href="{page}.html"' in start
