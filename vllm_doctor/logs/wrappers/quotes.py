"""The quote marks of mails and issues.

`>` may begin a line of the log itself, so it is taken off only where a log line stands behind one of them.
"""

from __future__ import annotations

from vllm_doctor.logs.wrappers.wrapper_match import Peeled


def quoted(text: str) -> Peeled | None:
    """`> msg` of a mail or an issue."""
    if text.startswith("> ") or text == ">":
        return Peeled("quote", text[2:], key="quote", sure=False)
    return Peeled("quote", text[1:], key="quote", sure=False) if text.startswith(">>") else None
