"""`vllm-doctor web` in a real browser: a log pasted, chosen, dropped; nothing else is asked for, nothing is kept."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_page import CHROMIUM, SCREENS, Opened, keep_picture, violations

from vllm_doctor.web.server import Server

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium, or set CHROMIUM to one)")
ROOT = Path(__file__).resolve().parent.parent.parent
LOG = (ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log").read_bytes()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    web_server = Server(most_bytes=1 << 20)
    threading.Thread(target=web_server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield web_server
    web_server.shutdown()
    web_server.server_close()


@pytest.fixture
def opened(browser: Any, server: Server) -> Iterator[Any]:
    pages = []

    def open_(screen: str = "desktop") -> Opened:
        pages.append(Opened(browser, server.url, screen))
        return pages[-1]

    yield open_
    for page in pages:
        page.context.close()


def shows_the_report(page: Opened, server: Server, name: str) -> None:
    page.page.wait_for_url("**/report")
    assert page.page.get_by_role("heading", level=1).inner_text() == "CPU KV cache too small for --max-model-len 131072"
    assert name in page.page.inner_text("main")
    assert {url for url in page.requests if not url.endswith("/favicon.ico")} == {server.url, server.url + "report"}
    assert [text for text in page.messages if "favicon" not in text] == []


def test_a_pasted_log(opened: Any, server: Server) -> None:
    page = opened()
    page.page.evaluate("text => navigator.clipboard.writeText(text)", LOG.decode())
    page.page.get_by_label("The log's text").focus()
    page.page.keyboard.press("Control+V")
    page.page.get_by_role("button", name="Diagnose").click()
    shows_the_report(page, server, "pasted log")
    page.page.get_by_role("button", name="Copy").first.click()
    assert "--max-model-len 8064" in page.page.evaluate("navigator.clipboard.readText()")


def test_a_file_that_was_chosen(opened: Any, server: Server, tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(LOG))
    page = opened()
    page.page.set_input_files("#file", str(path))
    page.page.get_by_role("button", name="Diagnose").click()
    shows_the_report(page, server, "server.log.gz")


def test_a_file_dropped_anywhere(opened: Any, server: Server) -> None:
    page = opened()
    data = page.page.evaluate_handle("""text => {
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(atob(text), c => c.charCodeAt(0))], "dropped.log"));
        return data;
    }""", base64.b64encode(LOG).decode())
    page.page.dispatch_event("h1", "dragover", {"dataTransfer": data})
    page.page.dispatch_event("h1", "drop", {"dataTransfer": data})
    shows_the_report(page, server, "dropped.log")


def test_a_log_too_large_is_refused_before_it_is_sent(opened: Any, tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_bytes(b"x\n" * (1 << 20))
    page = opened()
    page.page.set_input_files("#file", str(path))
    page.page.get_by_role("button", name="Diagnose").click()
    assert "more than 1 MiB" in page.page.get_by_role("status").inner_text()
    assert not [url for url in page.requests if url.endswith("report")]


def test_nothing_is_kept(opened: Any, server: Server) -> None:
    page = opened()
    page.page.get_by_label("The log's text").fill(LOG.decode())
    page.page.get_by_role("button", name="Diagnose").click()
    page.page.wait_for_url("**/report")
    assert page.context.cookies() == []
    assert page.page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    assert page.page.evaluate("document.referrer") == ""
    other = opened()
    other.page.goto(server.url)
    assert other.page.get_by_label("The log's text").input_value() == ""


def test_the_policy_is_obeyed(opened: Any) -> None:
    page = opened()
    page.page.evaluate("""() => {
        const script = document.createElement('script'); script.textContent = 'window.ran = true'; document.body.append(script);
        const image = document.createElement('img'); image.src = 'https://evil.example/x.png'; document.body.append(image);
    }""")
    assert page.page.evaluate("window.ran") is None
    assert page.page.evaluate("fetch(location.href).then(() => 'read', () => 'refused')") == "refused"
    assert len([text for text in page.messages if "Content Security Policy" in text]) >= 2


def test_another_page_cannot_frame_send_or_read_it(browser: Any, server: Server) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.route("http://evil.example/**", lambda route: route.fulfill(content_type="text/html", body="<h1>evil</h1>"))
    page.goto("http://evil.example/")
    assert page.evaluate("url => fetch(url).then(() => 'read', () => 'refused')", server.url) == "refused"
    statuses = []
    page.on("response", lambda response: statuses.append(response.status))
    with page.expect_navigation():
        page.evaluate("""url => {
            const form = document.createElement('form'); form.method = 'post'; form.action = url + 'report'; form.enctype = 'multipart/form-data';
            const log = document.createElement('textarea'); log.name = 'log'; log.value = 'x'; form.append(log); document.body.append(form);
            form.submit();
        }""", server.url)
    assert statuses[-1] == 403
    context.close()


@pytest.mark.parametrize("screen", SCREENS)
def test_it_is_accessible_and_fits(opened: Any, screen: str, tmp_path: Path) -> None:
    page = opened(screen)
    assert page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert violations(page.page) == []
    keep_picture(page.page, f"paste-{screen}", tmp_path)


def test_an_empty_form_is_answered_on_the_page(opened: Any) -> None:
    page = opened()
    page.page.get_by_role("button", name="Diagnose").click()
    assert page.page.get_by_role("status").inner_text() == "Paste a log, or choose a file."
    assert page.page.url == page.url
    assert not [url for url in page.requests if url.endswith("report")]


def test_another_log_is_one_click_away(opened: Any, server: Server) -> None:
    page = opened()
    page.page.get_by_label("The log's text").fill(LOG.decode())
    page.page.get_by_role("button", name="Diagnose").click()
    page.page.wait_for_url("**/report")
    page.page.get_by_role("link", name="Diagnose another log").click()
    page.page.wait_for_url(server.url)
    assert page.page.get_by_label("The log's text").input_value() == ""


def test_without_script_it_works_too(browser: Any, server: Server) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    page.get_by_label("The log's text").fill(LOG.decode())
    page.get_by_role("button", name="Diagnose").click()
    assert page.get_by_role("heading", level=1).inner_text() == "CPU KV cache too small for --max-model-len 131072"
    context.close()
