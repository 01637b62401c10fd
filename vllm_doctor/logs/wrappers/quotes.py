"""The quote marks of mails and issues.

A line of the log itself may begin with `>`, so it is removed only once a log line has followed one.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.wrapper_match import WrapperMatch


def quoted(text: str) -> WrapperMatch | None:
    """Match `> msg` of a mail or an issue."""
    if text.startswith("> ") or text == ">":
        return WrapperMatch("quote", text[2:], key="quote", sure=False)
    return WrapperMatch("quote", text[1:], key="quote", sure=False) if text.startswith(">>") else None
