"""What a second reading undoes of a paste."""

from __future__ import annotations

from vllm_doctor import diagnose
from vllm_doctor.logs.pasted_text import is_altered, restored

NUMBERED = "".join(f"{number}.\tline {number}: {word}\n" for number, word in enumerate("abcdef", 1))


def _texts(text: str) -> list[str]:
    return [row.text for row in restored(text.encode())]


def test_line_numbers_are_dropped_where_text_surrounds_the_rows() -> None:
    text = f"It fails:\n\n{NUMBERED}Copy\nWhy?\n"
    assert _texts(text) == ["It fails:", "", *(f"line {number}: {word}" for number, word in enumerate("abcdef", 1)), "Copy", "Why?"]
    assert is_altered(text.encode())


def test_a_numbered_list_in_a_log_is_kept() -> None:
    text = "".join(f"row {word}\n" for word in "abcdefg") + NUMBERED
    assert _texts(text)[7] == "1.    line 1: a"
    assert not is_altered(text.encode())


def test_records_that_a_page_put_on_one_row_are_read_one_by_one() -> None:
    head = "(VllmWorker rank=0 pid=77) ERROR 08-02 10:11:12 [multiproc_executor.py:487]"
    text = ("It fails with:\n\n"
            f'File "/opt/modules/widget.py", line 4, in {head} from .bent import Bent {head} '
            f"ModuleNotFoundError: No module named 'transformers_modules.org.Widget-1' {head} the end\n")
    report = diagnose(text.encode())
    assert report.primary == "model-code-missing"
    assert [one.line for finding in report.findings for one in finding.evidence] == [3]


def test_a_record_that_quotes_another_is_kept() -> None:
    row = "INFO 08-02 10:11:12 [x.py:1] it said ERROR 08-02 10:11:11 [y.py:2] no"
    assert _texts(f"{row}\n") == [row]
