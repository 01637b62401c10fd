"""Whole logs of at most 64 KiB that make an expression try much: its texts that attack it, in every place where a log has text."""

from __future__ import annotations

from collections.abc import Iterator

from vllm_doctor.rulebase.slow_regex_texts import AttackText

SIZE = 65_536
_RECORD = "ERROR 05-06 10:00:01 [core.py:489] "
_HEAD = "Traceback (most recent call last):\n"
_CALL = '  File "/x/vllm/v1/worker/a.py", line 1, in f\n'


def logs(attack: AttackText, anchor: str) -> Iterator[tuple[str, str]]:
    """Yield logs, each with a name of what it is."""
    long = attack.text(SIZE - 400)
    flat = attack.text(4_000).replace("\n", " ")
    yield "line", f"{anchor} {long}"
    yield "record", f"{_RECORD}{anchor} {long}"
    yield "records", f"{_RECORD}{anchor} {flat}\n" * 15
    yield "short lines", f"{anchor} {attack.text(300).replace(chr(10), ' ')}\n" * (SIZE // (302 + len(anchor)))
    yield "message", f"{_HEAD}{_CALL * 20}RuntimeError: {long}{anchor}"
    yield "lines of a message", f"{_HEAD}{_CALL * 20}RuntimeError: " + f"{anchor} {flat[:1_500]}\n" * 39
    calls = [_call(piece) for line in attack.text(40_000).split("\n") for piece in _pieces(line, 230)][:220]
    yield "calls", f"{_HEAD}{''.join(calls)}RuntimeError: {anchor} x\n"
    yield "tracebacks", f"{_HEAD}{''.join(calls[:20])}RuntimeError: {anchor}\n" * 8


def _pieces(line: str, size: int) -> list[str]:
    return [line[at : at + size] for at in range(0, max(1, len(line)), size)]


def _call(text: str) -> str:
    path, _, function = text.replace('"', "").partition(":")
    return f'  File "/x/{path}", line 1, in {"".join(function.split()) or "f"}\n'
