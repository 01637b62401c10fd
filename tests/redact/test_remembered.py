"""A secret that was seen once with its name is masked wherever it stands, in every format and syntax."""

from __future__ import annotations

import pytest

from vllm_doctor.redact.redactor import Redactor, _anywhere, is_distinct
from vllm_doctor.redact.rendered import redact_rendered

SAID = "--hf-token correct9horse"
ALONE = "x correct9horse"


def redactor_after(*lines: str) -> Redactor:
    redactor = Redactor()
    for line in lines:
        redactor.learn_line(line)
    return redactor


@pytest.mark.parametrize("lines", [
    (f"$ vllm serve m {SAID}",),
    ("$ vllm serve m --hf-token \\", "  correct9horse"),
    ("vllm-1  | $ vllm serve m --hf-token \\", "vllm-1  |   correct9horse"),
])
def test_a_line_teaches(lines: tuple[str, ...]) -> None:
    redactor = redactor_after(*lines)
    assert redactor.redact(ALONE) == "x ***"
    assert [(span.start, span.end, span.kind) for span in redactor.spans(ALONE)] == [(2, 15, "")]


def test_what_goes_on_behind_a_line_end_is_remembered() -> None:
    redactor = Redactor()
    redactor.learn("--hf-token hf_abcdefghij\nklmnopqrstuvwxyz0123456789abcd")
    assert redactor.redact("x klmnopqrstuvwxyz0123456789abcd") == "x ***"


def test_a_common_word_is_masked_behind_its_name_only() -> None:
    redactor = Redactor()
    assert redactor.redact("--hf-token correct") == "--hf-token ***"
    assert redactor.redact("the correct word") == "the correct word"


@pytest.mark.parametrize(("value", "distinct"), [
    ("ab12cd", True), ("ab1cd", False), ("ab***12cd", False), ("########", False), ("123456", False), ("run/t0ken", False), ("correct9horse", True),
])
def test_what_is_remembered(value: str, distinct: bool) -> None:
    assert is_distinct(value) is distinct


@pytest.mark.parametrize(("text", "found"), [
    ('p"q1r', True), (r"p\"q1r", True), ("p&quot;q1r", True), ("p%22q1r", True), ("", False), ("p", False),
])
def test_a_value_in_each_syntax(text: str, found: bool) -> None:
    assert (_anywhere('p"q1r').fullmatch(text) is not None) is found


@pytest.mark.parametrize(("format_", "text", "masked"), [
    ("jsonl", '{"a":"%s","n":1}\n{"b":1}\n', '{"a":"%s","n":1}\n{"b":1}\n'),
    ("json", '{"a": "%s", "n": 1}\n', '{\n  "a": "%s",\n  "n": 1\n}\n'),
    ("html", '<p title="%s &amp; x">a &lt; %s</p>', '<p title="%s &amp; x">a &lt; %s</p>'),
    ("junit", "<a>%s</a>", "<a>%s</a>"),
    ("text", "%s", "%s"),
])
@pytest.mark.parametrize(("said", "shown"), [(SAID, "--hf-token ***"), (ALONE, "x ***")])
def test_a_report_keeps_its_syntax(format_: str, text: str, masked: str, said: str, shown: str) -> None:
    assert redact_rendered(text.replace("%s", said), format_, redactor_after(SAID)) == masked.replace("%s", shown)


def test_a_mask_is_no_emphasis_in_markdown() -> None:
    assert redact_rendered(SAID, "markdown", Redactor()) == r"--hf-token \*\*\*"


def test_a_report_without_a_secret_stays_as_it_was_written() -> None:
    assert redact_rendered('{"a":1 }\n', "json", Redactor()) == '{"a":1 }\n'
