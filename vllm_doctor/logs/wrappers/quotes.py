"""The quote marks of mails and issues.

A line of the log itself may begin with `>`, so it is removed only once a log line has followed one.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.wrapper_match import Peeled


def quoted(text: str) -> Peeled | None:
    """Match `> msg` of a mail or an issue."""
    if text.startswith("> ") or text == ">":
        return Peeled("quote", text[2:], key="quote", sure=False)
    return Peeled("quote", text[1:], key="quote", sure=False) if text.startswith(">>") else None
