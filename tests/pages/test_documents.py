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


def test_an_exception_quoted_in_a_line_of_its_own_is_a_message() -> None:
    text = ("I quantized the model with my own recipe, and it does not load.\n\n## What I did\n- loaded it\n- saved it\n\n"
            "This is what I get from the server:\n`KeyError: 'layers.3.mlp.experts.w13_weight_packed'`\n")
    report = diagnose(text.encode())
    assert report.primary == "checkpoint-layout-mismatch"
    assert report.notes[0].startswith("The text is a page that quotes this message")


def test_an_exception_quoted_within_a_sentence_is_none() -> None:
    text = ("I am writing a guide for my colleagues about vLLM.\n\n## Errors\n- the first\n- the second\n\n"
            "You can get `KeyError: 'layers.3.mlp.experts.w13_weight_packed'` if the checkpoint is wrong.\n")
    assert diagnose(text.encode()).primary is None


def test_a_message_above_a_script_is_read_where_the_script_shows_nothing() -> None:
    text = ("I updated vLLM and I get the following error when I load my model:\n"
            "`AttributeError: 'NoneType' object has no attribute 'cdequantize_blockwise_bf16_nf4'`.\n\n"
            '```python\nfrom vllm import LLM\nllm = LLM(model="a/b", quantization="bitsandbytes")\n```\n\n```\n'
            "AttributeError                            Traceback (most recent call last)\nCell In[2], line 2\n```\n")
    assert diagnose(text.encode()).primary == "bitsandbytes-library-broken"


def test_words_above_a_traceback_are_a_message_where_the_traceback_names_no_error() -> None:
    text = ("A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.1.0 as it may crash. To support both "
            "1.x and 2.x\nversions of NumPy, modules must be compiled with NumPy 2.0.\n\nIf you are a user of the module, "
            "the easiest solution will be to\ndowngrade to 'numpy<2' or try to upgrade the affected module.\n"
            "We expect that some modules will need time to support NumPy 2.\n\n"
            'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.10/site-packages/vllm/config.py", line 9, '
            "in <module>\n    import torch\n")
    report = diagnose(text.encode())
    assert report.primary == "transformers-version-conflict"
    assert report.notes[0].startswith("The text is a page that quotes this message")


def test_the_body_of_a_response_is_output() -> None:
    text = ("I deployed the reranker and it is healthy, but I cannot use it.\n\nThe answer is\n```json\n{\n"
            '    "object": "error",\n    "message": "The model does not support Rerank (Score) API",\n'
            '    "type": "BadRequestError",\n    "param": null,\n    "code": 400\n}\n```\nand what I see is\n```\n'
            "2026-01-07 05:51:31,120 - proxy - ERROR - Error processing usage: 3 validation errors for RerankResponse\n"
            "```\nThanks for your help!\n")
    assert diagnose(text.encode()).primary == "pooling-task-mismatch"
