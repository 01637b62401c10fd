"""The search of the documentation site, in a browser and from files: an error that is pasted leads to the page of its failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import docs_site
import pytest
from test_page import CHROMIUM
from yaml_texts import load_file

from vllm_doctor import diagnose

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
pytest.importorskip("material", reason="mkdocs-material is not installed")
LOGS = docs_site.ROOT / "fixtures" / "logs"
FIRST = {  # logs whose line leads to one page; the others below have lines that several failures print
    "arg-block-size-17", "arg-dtype-int3", "env-host-unassignable", "env-port-in-use", "env-ready-timeout", "mem-utilization-0.99",
    "model-arch-unknown", "model-gemma2-half", "model-remote-code", "model-tp2-heads3", "offline-no-main-guard",
}
AMONG_THREE = {
    "arg-auto-tool-choice-alone", "arg-max-lora-rank-48", "env-cache-read-only", "env-vllm-port-k8s", "model-hub-offline",
    "model-lora-rank-64", "model-max-len-over-derived", "model-quant-bitsandbytes", "model-rope-incomplete", "model-safetensors-truncated", "model-tokenizer-missing",
    "model-tp4-cpu", "model-type-unknown", "model-weights-missing", "real-0.20.2-config-file-is-a-list", "real-0.29.0-socket-path-too-long",
    "real-0.32.0-loader-not-installed", "v0.14-fp8-kv-cache-on-cpu", "v0.14-port-in-use",
}
PASTE = """text => {
  const field = document.querySelector("input[name=query]"), data = new DataTransfer();
  data.setData("text", text);
  if (field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}))) field.value = text;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  field.dispatchEvent(new Event("keyup", {bubbles: true}));
  return field.value;
}"""
RESULTS = "[...document.querySelectorAll('.md-search-result__list > li > a')].map(link => link.getAttribute('href').split('#')[0].split('?')[0].split('/').pop())"


class Search:
    """The opened search of the site."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))

    def open(self, site: Path) -> None:
        self.page.goto((site / "index.html").as_uri())
        self.page.click("input[name=query]")
        self.page.keyboard.type("port")
        self.page.wait_for_selector(".md-search-result__list > li", timeout=60_000)

    def paste(self, text: str) -> tuple[str, list[str]]:
        """Return what the field then shows, and the pages that are found."""
        self.page.fill("input[name=query]", "")
        self.page.press("input[name=query]", "Backspace")
        self.page.wait_for_function("!document.querySelector('.md-search-result__list > li')")
        shown = self.page.evaluate(PASTE, text)
        self.page.wait_for_selector(".md-search-result__list > li", timeout=30_000)
        self.page.wait_for_timeout(300)  # the theme adds further results as it has time
        return shown, list(dict.fromkeys(name.removesuffix(".html") for name in self.page.evaluate(RESULTS)))

    def addresses(self) -> list[str]:
        """Return the pages that are shown as found, below the site's folder."""
        links = self.page.evaluate("[...document.querySelectorAll('.md-search-result__list > li > a')].map(link => link.href)")
        root = self.page.url.rpartition("/")[0] + "/"
        return list(dict.fromkeys(link.partition("#")[0].partition("?")[0].removeprefix(root) for link in links))


@pytest.fixture(scope="module")
def search(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Search:
    found = Search(browser.new_page())
    found.open(docs_site.built(docs_site.shared_folder(tmp_path_factory.getbasetemp())))
    return found


@pytest.mark.parametrize("share", [slice(0, None, 20), pytest.param(slice(None), marks=pytest.mark.exhaustive)])
def test_the_lines_of_real_logs_lead_to_their_pages(search: Search, share: slice) -> None:
    misses, firsts, names = [], 0, sorted(FIRST | AMONG_THREE)[share]
    for name in names:
        report = diagnose(LOGS / f"{name}.log")
        line, wanted = report.cause.evidence[0].text, load_file(LOGS / f"{name}.yaml")["expect"]["primary"]
        _, pages = search.paste(line)
        firsts += pages[:1] == [wanted]
        if wanted not in pages[:1 if name in FIRST else 3]:
            misses.append((name, wanted, pages[:3]))
    assert misses == []
    assert firsts >= len(names) * 2 / 3


def test_of_several_lines_the_one_with_the_error_is_searched(search: Search) -> None:
    shown, pages = search.paste('Traceback (most recent call last):\n  File "/opt/venv/bin/vllm", line 8, in <module>\n'
                                "OSError: [Errno 98] Address already in use\n\n[shutdown] done\n")
    assert shown == "OSError: [Errno 98] Address already in use"
    assert pages[0] == "port-in-use"


def test_a_flag_is_searched_not_excluded(search: Search) -> None:
    assert search.paste("--enable-auto-tool-choice")[1][0] == "auto-tool-choice-not-enabled"


def test_an_error_leads_to_both_languages_and_chinese_words_to_chinese_pages(search: Search) -> None:
    search.paste("OSError: [Errno 98] Address already in use")
    assert {"failures/port-in-use.html", "zh/failures/port-in-use.html"} <= set(search.addresses())
    for words, wanted in (("端口已被占用", "zh/failures/port-in-use.html"), ("显存不足", "zh/failures/profile-run-activation-oom.html")):
        search.paste(words)
        assert wanted in search.addresses()[:5], search.addresses()[:5]


def test_nothing_is_loaded_from_elsewhere(search: Search) -> None:
    assert [url for url in search.requests if not url.startswith("file:")] == []
