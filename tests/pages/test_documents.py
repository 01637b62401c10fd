"""Pages composed for the purpose: the cause, the numbers and the command that a reader of each would name."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from vllm_doctor import diagnose
from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.options import Options
from vllm_doctor.reports.model import Report

FOLDER = Path(__file__).parent / "documents"
LABELS = yaml.safe_load((FOLDER / "labels.yaml").read_text(encoding="utf-8"))


def check(report: Report, wanted: dict[str, object]) -> None:
    assert report.primary == wanted["primary"]
    assert report.status == wanted.get("status", "failed")
    for name, value in wanted["facts"].items():  # type: ignore[attr-defined]
        shown = report.facts.get(name)
        assert shown == pytest.approx(value, rel=0.005) if isinstance(value, float) else str(shown) == str(value), name
    assert not set(wanted.get("absent", ())) & set(report.facts)  # type: ignore[call-overload]
    command = wanted["command"]
    assert report.command is None if command is None else str(command) in (report.command or "")
    assert report.source.runs == wanted["runs"]


@pytest.mark.parametrize("name", LABELS)
def test_a_page_pasted_whole(name: str) -> None:
    check(diagnose((FOLDER / name).read_bytes()), LABELS[name])


@pytest.mark.parametrize("name", LABELS)
def test_line_by_line_from_a_pipe(name: str) -> None:
    diagnosis = Diagnosis(Options())
    for line in io.BytesIO((FOLDER / name).read_bytes()):
        diagnosis.feed(line)
    check(diagnosis.finish(), LABELS[name])


def test_every_document_has_a_label() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*LABELS, "labels.yaml"}


def test_a_suggested_command_is_never_corrected() -> None:
    for name in LABELS:
        report = diagnose((FOLDER / name).read_bytes())
        offered = [fix.command or "" for finding in report.findings for fix in finding.fixes]
        assert not any(word in text for text in offered
                       for word in ("/models/other-model", "/models/some-model", "/models/70b", "/models/x", "9000"))


def test_the_starts_of_a_page_can_be_asked_for() -> None:
    data = (FOLDER / "two-servers.md").read_bytes()
    first = diagnose(data, Options(run=1))
    assert (first.status, first.facts["model_weights_gib"], first.facts["kv_cache_tokens"]) == ("serving", 5.2035, 278640)
    last = diagnose(data)
    assert any("Start 1 of the page (line 6)" in note and "no failure" in note for note in last.notes)


def test_a_page_without_output_is_no_failure() -> None:
    report = diagnose((FOLDER / "tutorial-no-log.md").read_bytes())
    assert (report.findings, report.failure, report.command, report.facts) == ((), None, None, {})
    assert report.notes[0].startswith("The text is a page without output of a server.")


def test_wrongly_decoded_text_is_repaired_in_quotes() -> None:
    text = ("# 说明\n\n这是一篇文章,里面有日志。\n\n```\nERROR 04-01 10:00:31 [core.py:396] OSError: 模型目录不存在: /models/没有\n```\n")
    report = diagnose(text.encode().decode("latin-1").encode())
    assert report.failure is not None
    assert report.failure.message == "模型目录不存在: /models/没有"
