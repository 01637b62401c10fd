"""Lines that stand for lines left out."""

from __future__ import annotations

import pytest

from vllm_doctor.text.omissions import is_omission


@pytest.mark.parametrize("text", [
    "...", "…", "[...]", "  ...", "<snip>", "[truncated]", "... 200 lines omitted ...", "--- snipped ---",
    "(... 12 more frames ...)", "... 3 calls ...", "[12 frames omitted]",
])
def test_people_mark_what_they_leave_out(text: str) -> None:
    assert is_omission(text)


@pytest.mark.parametrize("text", [
    "", "-----", "Loading...", "... waiting for the server ...", "lines", "12 more frames", "truncated weights", "." * 60,
    "The prompt was truncated",
])
def test_other_lines_stand_for_themselves(text: str) -> None:
    assert not is_omission(text)
