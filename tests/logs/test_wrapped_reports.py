"""A known log behind each wrapper gives the report of the bare one: the same cause, facts, fixes and line numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_wrappers import INNER, OUTER, WRAPPERS

from vllm_doctor import diagnose
from vllm_doctor.logs.lines import LineReader
from vllm_doctor.reports import to_json

ROOT = Path(__file__).resolve().parents[2]
LOG = (ROOT / "fixtures" / "logs" / "fatkv-cpu-space-1.log").read_text(encoding="utf-8")
# The shell's prompt line is the user's, no wrapper carries it.
LINES = [line for line in LOG.splitlines() if line.strip() and not line.startswith("$ ")]


def report_on(data: bytes) -> dict[str, Any]:
    document = to_json.document(diagnose(data))
    document["source"].pop("bytes")
    for places in document["facts_at"].values():
        for place in places:
            del place["rank"]  # some wrappers name the rank, which the bare line does not
    return document


BARE = report_on(("\n".join(LINES) + "\n").encode())


def test_the_bare_log_tells_its_cause() -> None:
    assert BARE["primary"] == "cpu-kv-cache-space-too-small"
    assert BARE["facts"]["max_model_len"] == 131072


@pytest.mark.parametrize("name", WRAPPERS)
def test_behind_a_wrapper(name: str) -> None:
    wrap = WRAPPERS[name][0]
    report = report_on(("\n".join(wrap(line) for line in LINES) + "\n").encode())
    if name == "ray serve":  # that names the program: its fixes are in the form of a Serve application
        assert report["findings"][0]["fixes"][0]["program"]["name"] == "Ray Serve LLM"
        assert without_form(report) == without_form(BARE)
    else:
        assert report == BARE


def without_form(report: dict[str, Any]) -> dict[str, Any]:
    """The report without what depends on how vLLM was started."""
    findings = [{**finding, "fixes": [{**fix, "command": None, "patch": None, "steps": [], "program": None} for fix in finding["fixes"]]}
                for finding in report["findings"]]
    return {**report, "findings": findings}


def _shipped(line: str) -> str:
    """A record whose message stands at its end."""
    return json.dumps({"ts": "2025-11-20T11:42:48Z", "level": "INFO", "message": line})


@pytest.mark.parametrize("outer", ["", *OUTER])
@pytest.mark.parametrize("inner", ["", "shipped", *INNER])
def test_line_by_line_as_in_one_piece(outer: str, inner: str) -> None:
    """As a server's lines come to `watch`."""
    texts = LINES[:60]
    for wrap in (WRAPPERS[inner][0] if inner in WRAPPERS else _shipped if inner else str, WRAPPERS[outer][0] if outer else str):
        texts = list(map(wrap, texts))
    lines = [text.encode() + b"\n" for text in texts]
    whole, live = LineReader(join_wrapped=False), LineReader(join_wrapped=False)
    expected = [*whole.feed(b"".join(lines)), *whole.finish()]
    assert [line for data in lines for line in live.feed(data)] + live.finish() == expected
    assert (live.wrappers, live.line_count, live.byte_count) == (whole.wrappers, whole.line_count, whole.byte_count)


@pytest.mark.parametrize(("outer", "inner"), [(OUTER[0], INNER[0]), (OUTER[3], INNER[5]), (OUTER[4], INNER[8])])
def test_behind_two_wrappers(outer: str, inner: str) -> None:
    if outer == inner:
        pytest.skip("no log is wrapped twice in the same")
    text = "\n".join(WRAPPERS[outer][0](WRAPPERS[inner][0](line)) for line in LINES)
    assert report_on((text + "\n").encode()) == BARE


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_in_other_encodings(encoding: str) -> None:
    text = "\n".join(LINES) + "\n"
    assert report_on(text.encode(encoding)) == BARE


def test_with_windows_line_ends_and_colours() -> None:
    coloured = [line.replace("ERROR", "\x1b[31mERROR\x1b[0m").replace("INFO", "\x1b[32mINFO\x1b[0m") for line in LINES]
    assert report_on(("\r\n".join(coloured) + "\r\n").encode()) == BARE
