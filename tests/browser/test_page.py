"""The HTML report in a real browser: it loads nothing, runs nothing of the log's, copies commands, and is accessible."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from nightly import some
from report_sample import BUSY, CAUSE, FAILED, HEALTHY, UNEXPLAINED
from report_texts import reports
from test_hostile import ATTACKS

from vllm_doctor.reports import to_html, to_markdown
from vllm_doctor.reports.model import Evidence, Fix, Report, Source

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (Debian: apt-get install chromium, or set CHROMIUM to one)")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
         "--disable-sync"]
HOSTILE_TEXT = " ".join(ATTACKS)
HOSTILE = FAILED._replace(source=Source("<script>EVIL()</script>.log", 1, 1, 1, 1), facts={"model": HOSTILE_TEXT, "gpu_name": HOSTILE_TEXT},
    notes=(HOSTILE_TEXT,), findings=(CAUSE._replace(title=HOSTILE_TEXT, explanation=HOSTILE_TEXT, evidence=tuple(Evidence(n, text) for n, text in enumerate(ATTACKS)),
        fixes=(Fix(id="x", title=HOSTILE_TEXT, command=HOSTILE_TEXT, why=HOSTILE_TEXT, steps=ATTACKS, proof={"model": HOSTILE_TEXT}),),
        links=("javascript:EVIL()", *CAUSE.links)),))
REPORTS = {"failed": [FAILED], "healthy": [HEALTHY], "unexplained": [UNEXPLAINED], "busy": [BUSY], "many": [FAILED, HEALTHY, UNEXPLAINED, BUSY], "hostile": [HOSTILE]}
SCREENS = {"desktop": (1280, 900, "light"), "dark": (1280, 900, "dark"), "phone": (390, 844, "light"), "dark-phone": (390, 844, "dark")}
ACCESSIBLE = ("desktop", "dark-phone")  # both widths and both sets of colors, which are independent of each other


class Opened:
    """A page, and what it asked for and said while it was open."""

    def __init__(self, browser: Any, url: str, screen: str) -> None:
        width, height, scheme = SCREENS[screen]
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                           permissions=["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.messages: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: self.messages.append(dialog.message))
        self.url = url
        self.page.goto(url)


def written(reports: list[Report], folder: Path) -> str:
    path = folder / "report.html"
    path.write_text(to_html.render(reports[0]) if len(reports) == 1 else to_html.render_many(reports), encoding="utf-8")
    return path.as_uri()


def violations(page: Any) -> list[tuple[str, list[str]]]:
    """What axe finds: the rule, and the elements."""
    found = axe.Axe().run(page).response["violations"]
    return [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in found]


def keep_picture(page: Any, name: str, folder: Path) -> None:
    """Save a picture of the entire page, in the folder that VLLM_DOCTOR_PICTURES names or the test's own."""
    target = Path(os.environ.get("VLLM_DOCTOR_PICTURES") or folder)
    target.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(target / f"{name}.png"), full_page=True)


def shape(report: Report) -> tuple[object, ...]:
    """What decides which parts a page has."""
    causes = [finding for finding in report.findings if finding.role == "cause"]
    fixes = [fix for finding in causes for fix in finding.fixes]
    return (report.status, bool(report.cause), bool(report.unexplained), min(len(causes), 2), min(len(report.findings) - len(causes), 1),
            bool(report.memory), bool(report.load[2:]), bool(report.capacity), any(fix.patch for fix in fixes),
            any(finding.background for finding in causes))


def shapes() -> dict[str, Report]:
    """A report of each shape among all logs and all rules' tests, by its name."""
    found: dict[tuple[object, ...], str] = {}
    for name, report in reports().items():
        found.setdefault(shape(report), name)
    return {name: reports()[name] for name in found.values()}


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages = []

    def open_(name: str, screen: str = "desktop") -> Opened:
        pages.append(Opened(browser, written(REPORTS[name], tmp_path), screen))
        return pages[-1]

    yield open_
    for page in pages:
        page.context.close()


@pytest.mark.parametrize(("name", "screen"), some(product(REPORTS, SCREENS), 10))
def test_the_page_loads_nothing_and_is_accessible(opened: Any, name: str, screen: str, tmp_path: Path) -> None:
    page = opened(name, screen)
    assert page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
    assert page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if screen in ACCESSIBLE:
        assert violations(page.page) == []
    keep_picture(page.page, f"{name}-{screen}", tmp_path)
    assert page.requests == [page.url]
    assert page.messages == []


@pytest.mark.parametrize("alone", [slice(0, None, 20), pytest.param(slice(None), marks=pytest.mark.exhaustive)])
def test_reports_of_every_shape_are_accessible(browser: Any, tmp_path: Path, alone: slice) -> None:
    """Real reports, some alone (all each night), opened out on a phone; then all of them on one page."""
    found: dict[str, Any] = {}
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = context.new_page()
    found_shapes = shapes()
    assert len(found_shapes) > 30
    pages = {**{name: [report] for name, report in list(found_shapes.items())[alone]}, "all": list(found_shapes.values())}
    for name, many in pages.items():
        page.goto(written(many, tmp_path))
        page.evaluate("document.querySelectorAll('details').forEach(box => { box.open = true; })")
        faults = violations(page)
        if not page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"):
            faults.append(("wider than the screen", []))
        if faults:
            found[name] = faults
    context.close()
    assert found == {}


def test_nothing_of_the_log_runs(opened: Any) -> None:
    page = opened("hostile")
    page.page.evaluate("() => { window.EVIL = () => { document.title = 'EVIL ran'; }; }")
    for element in page.page.query_selector_all("pre, p, summary, h1, h3, h4, td"):
        element.dispatch_event("mouseover")
        element.dispatch_event("click")
    assert page.page.title() != "EVIL ran"
    assert page.page.locator("script").count() == 1
    assert page.page.locator("img, iframe, evil, object").count() == 0
    assert [link.get_attribute("href") for link in page.page.query_selector_all("a")] == list(CAUSE.links)
    assert page.requests == [page.url]
    assert "<U+202E>LIVE" in page.page.inner_text("main")


def test_the_policy_is_obeyed(opened: Any) -> None:
    page = opened("failed")
    page.page.evaluate("""() => {
        const script = document.createElement('script'); script.textContent = 'window.ran = true'; document.body.append(script);
        const image = document.createElement('img'); image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; document.body.append(image);
        const box = document.createElement('p'); box.setAttribute('style', 'color: rgb(1, 2, 3)'); box.id = 'styled'; document.body.append(box);
    }""")
    assert page.page.evaluate("window.ran") is None
    assert page.page.evaluate("getComputedStyle(document.getElementById('styled')).color") != "rgb(1, 2, 3)"
    assert len([text for text in page.messages if "Content Security Policy" in text]) == 3


def test_the_copy_button_copies_the_command(opened: Any) -> None:
    page = opened("failed").page
    first = page.get_by_role("button", name="Copy").first
    first.click()
    assert page.evaluate("navigator.clipboard.readText()") == CAUSE.fixes[0].command
    assert page.get_by_role("status").inner_text() == "Copied"
    assert page.get_by_role("button", name="Copied").count() == 1


def test_a_report_is_copied_as_markdown(opened: Any) -> None:
    page = opened("failed").page
    page.get_by_role("button", name="Copy as Markdown").click()
    assert page.evaluate("navigator.clipboard.readText()") == to_markdown.render(FAILED)
    assert page.get_by_role("button", name="Copied").count() == 1


def test_the_load_is_a_plot(opened: Any) -> None:
    page = opened("busy").page
    assert page.locator("svg.plot").count() == 2
    assert page.locator("svg.plot polyline").evaluate_all("all => all.map(line => line.className.baseVal)") == ["usage", "running", "waiting"]
    points = page.locator("polyline.usage").get_attribute("points").split()
    assert (len(points), points[0], points[-1]) == (60, "0.0,140.0", "1000.0,0.0")
    assert "from 0 to 64" in page.locator("figcaption").nth(1).inner_text()
    assert opened("failed").page.locator("svg.plot").count() == 0


def test_no_name_of_a_variable_is_shown(opened: Any) -> None:
    text = opened("failed").page.locator("main").inner_text()
    assert "From the log: KV cache available (GiB) 4.12" in text
    assert not re.search(r"\b(?:kv_cache_available_gib|model_weights_gib|fit_len|more_util)\b", text)


def test_a_flag_is_not_broken(opened: Any) -> None:
    page = opened("failed", "phone").page
    heights = page.eval_on_selector_all(".flag", "all => all.map(item => item.getClientRects().length)")
    assert heights
    assert set(heights) == {1}


def test_copying_without_the_clipboard_selects_the_command(opened: Any) -> None:
    page = opened("failed").page
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined}); document.execCommand = () => false")
    page.get_by_role("button", name="Copy").first.click()
    assert page.evaluate("getSelection().toString()").split() == CAUSE.fixes[0].command.split()
    assert "press Ctrl+C" in page.get_by_role("status").inner_text()


def test_without_script_nothing_is_lost_but_the_buttons(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(to_html.render(FAILED), encoding="utf-8")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("button:visible").count() == 0
    assert page.locator(".command pre", has_text="vllm serve").is_visible()
    context.close()


def test_it_prints_whole(opened: Any) -> None:
    page = opened("failed").page
    page.emulate_media(media="print")
    assert page.locator("button:visible").count() == 0
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    assert page.pdf().startswith(b"%PDF")


def test_the_picture_and_the_timeline_are_seen(opened: Any) -> None:
    page = opened("failed").page
    widths = page.eval_on_selector_all("svg.memory rect[class]:not(.frame)", "all => all.map(item => item.getBoundingClientRect().width)")
    assert len(widths) == 7
    assert widths[0] / sum(widths) == pytest.approx(15.27 / 24, abs=0.01)
    fills = page.eval_on_selector_all("svg.memory rect[class]:not(.frame)", "all => all.map(item => getComputedStyle(item).fill)")
    assert len(set(fills)) == 7
    assert page.locator("[aria-current=step]").inner_text().split() == ["kv-cache", "failed", "here"]
    assert page.locator(".steps .done").count() == 6
    phone = opened("failed", "phone").page
    tops = phone.eval_on_selector_all(".steps li", "all => all.map(item => item.getBoundingClientRect().top)")
    assert tops == sorted(set(tops))  # one below the other
