"""Parse a Python call that starts vLLM: `LLM(model="…", tensor_parallel_size=2)`, `AsyncEngineArgs(…)`.

The call is parsed as text. An expression that is no literal (`args.model`) is kept as written; its value is unknown.
"""

from __future__ import annotations

from vllm_doctor.command.model import Command, Document, Option, Word, compact_json
from vllm_doctor.facts.python_literals import Repr, read_value
from vllm_doctor.text.patterns import lazy_pattern

CALL = lazy_pattern(r"(?<![\w.])(?:vllm\.)?(?:LLM|AsyncEngineArgs|EngineArgs)\(")
"""The beginning of a call that may start vLLM."""

_QUOTED = r"[rbuf]{0,2}(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
_STRING = lazy_pattern(_QUOTED)
_COMMENT = lazy_pattern(rf"(?P<kept>{_QUOTED}|\\.)|(?<!\s)\s*#[^\n]*", cues=("#",))
_NAME = lazy_pattern(r"(?<![\w.])(?!(?:True|False|None)\b)[A-Za-z_]\w*")
_KEYWORD = lazy_pattern(r"\s*([A-Za-z_]\w*)\s*=(?!=)\s*")
_LEAD = lazy_pattern(r"(?:(?<![\w.])[A-Za-z_][\w.]{0,80}\s*=\s*)?(?:await\s+)?$")
_MARK = lazy_pattern(r"[\"'()\[\]{},]")
_MAX_CHARACTERS = 16 * 1024


def parse_call(text: str) -> Command | None:
    """Parse the first call in a text that starts vLLM with arguments; return None when there is none."""
    match = CALL.search(text)
    if match is None:
        return None
    text = text[: match.end()] + _without_comments(text[match.end() : match.end() + _MAX_CHARACTERS])
    parts, end, complete = _arguments(text, match.end())
    options = tuple(_option(part) for part in parts if part.strip())
    if not options:
        return None
    line = text.rfind("\n", 0, match.start()) + 1
    lead = _LEAD.search(text[line : match.start()])
    closing = ")" if not parts or "\n" not in parts[-1] else parts[-1][len(parts[-1].rstrip()) :] + ")"
    if parts and not parts[-1].strip():  # a trailing comma
        closing = "," + parts[-1] + ")"
    rest = text[end:].partition("\n")[0]
    return Command(
        form="python",
        entry="call",
        options=options,
        document=Document(callee=match.group()[:-1], lead=lead.group().lstrip() if lead else "", tail=closing + rest),
        complete=complete,
    )


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match["kept"] or "", text)


def _arguments(text: str, pos: int) -> tuple[list[str], int, bool]:
    """Return the source of each argument, the position after the closing bracket, and whether it is present."""
    parts: list[str] = []
    start, depth = pos, 0
    while match := _MARK.search(text, pos):
        mark, pos = match.group(), match.end()
        if mark in "\"'":
            string = _STRING.match(text, match.start())
            if string is None:
                break
            pos = string.end()
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0:
                return [*parts, text[start : match.start()]], pos, True
            depth -= 1
        elif depth == 0:
            parts.append(text[start : match.start()])
            start = pos
    return parts, len(text), False


def _option(source: str) -> Option:
    gap = source[: len(source) - len(source.lstrip())]
    keyword = _KEYWORD.match(source)
    if keyword is None:
        return Option(None, (_value(source.strip(), gap),))
    flag = Word(keyword.group(1), keyword.group(1), gap)
    return Option(flag, (_value(source[keyword.end() :].strip(), ""),), "=")


def _value(source: str, gap: str) -> Word:
    if not source or _NAME.search(_STRING.sub("''", source)):
        return Word(source, None, gap)
    read = read_value(source)
    if not read.complete or read.end != len(source) or read.value is None or isinstance(read.value, Repr):
        return Word(source, None, gap)
    value = read.value
    if isinstance(value, bool):
        return Word(source, "" if value else "false", gap)
    if isinstance(value, str):  # other sources, such as 1024 * 8, are read as their own text
        return Word(source, value if _STRING.match(source) else None, gap)
    return Word(source, source if isinstance(value, (int, float)) else compact_json(value), gap)
