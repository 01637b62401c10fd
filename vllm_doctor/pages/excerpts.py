"""Page -> excerpts of server output, each with the command before it, and which of them are of one server.

Prose is no evidence, and a command that no output follows started no server: both are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from vllm_doctor import gpu_status
from vllm_doctor.gpu_status import Card
from vllm_doctor.logs.pasted_text import Row
from vllm_doctor.pages import line_kinds, servers
from vllm_doctor.pages.page_text import TextLine, lines_of, repaired
from vllm_doctor.text.patterns import lazy_pattern

_FENCE = lazy_pattern(r"\s{0,8}(?:```+|~~~+)\s{0,4}([\w+.#{} -]{0,30})\s*$")
_STARTS_VLLM = lazy_pattern(r"(?m)^[ \t]{0,40}(?:image|command|args|model|entrypoint):|LLM\(|EngineArgs\(")
_PROSE_LINES = 3
_PROSE_SHARE = 0.04
_MOST_EXCERPTS = 64
_LONGEST_CALL = 40  # lines
_FEW = 5  # lines up to which a text without a mark of a page is none
_LONGEST_MESSAGE = 600  # characters of the line that an exception's message begins on
_CONTINUED = ("\\", " ^", " `")
_CALL = lazy_pattern(r"\s{0,40}File \"[^\"\n]{1,400}\", line \d")
_EXCEPTION = lazy_pattern(r"(?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception):")
_QUOTED = lazy_pattern(
    r"\s{0,8}`{1,3}(?P<text>(?:[a-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?:Error|Exception): [^`\n]{3,600})`{1,3}\.?\s*$")
_MOST_QUOTES = 8
_NEXT_EXCEPTION = lazy_pattern(
    r"(?:The above exception was the direct cause|During handling of the above exception)\b")
_LONGEST_ADVICE = 60  # lines of an exception's message


class Excerpt(NamedTuple):
    """Consecutive output of a server, after the lines of the command that precedes it.

    `is_new_server` says that it does not belong to the server of the excerpt before.
    """

    rows: tuple[Row, ...]
    first_line: int
    is_new_server: bool = False


class Page(NamedTuple):
    """What a page holds; `is_converted` says that its lines are counted in its text, not in the input.

    `quotes` are the exceptions that lines of their own show as code.
    """

    excerpts: tuple[Excerpt, ...]
    cards: tuple[Card, ...]
    is_converted: bool
    line_count: int
    quotes: tuple[Row, ...] = ()


@dataclass
class _Block:
    """Lines that the page shows together: a code block, or lines of text."""

    is_code: bool
    lines: list[TextLine] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


def read_page(data: bytes) -> Page | None:
    """Return the excerpts of server output on a page; None if the text is no page but a log."""
    lines, is_converted = lines_of(data.decode("utf-8", "replace"))
    if not is_converted and not _is_page(lines):
        return None
    lines = repaired(lines)
    text = "\n".join(line.text for line in lines)
    cards = tuple(card._replace(line=lines[card.line - 1].number) for card in gpu_status.cards_in(text)
                  if 0 < card.line <= len(lines))
    tables = gpu_status.line_numbers(text) if cards else frozenset()
    kept = [line._replace(text="") if number in tables else line for number, line in enumerate(lines, 1)]
    excerpts = _with_commands(_blocks(kept))[-_MOST_EXCERPTS:]
    quotes = tuple(Row(line.number, match["text"], 1) for line in lines if (match := _QUOTED.match(line.text)))
    marked = tuple(servers.with_server_boundaries(excerpts, Excerpt))
    return Page(marked, cards, is_converted, len(lines), quotes[:_MOST_QUOTES])


def _is_page(lines: Sequence[TextLine]) -> bool:
    """Return whether lines are of an article, a chat or a mail, by their marks or their sentences.

    A page has words of its own before the first output. Text in a log that clients wrote follows the server's own
    output, so it never makes a page of a log.
    """
    filled = [line.text for line in lines if line.text.strip()]
    first = next((at for at, text in enumerate(filled) if line_kinds.is_output(line_kinds.unquoted(text))), len(filled))
    before = filled[:first]
    if not any(_FENCE.match(text) or line_kinds.kind_of(line_kinds.unquoted(text)) == "prose" for text in before):
        return False
    if len(filled) <= _FEW:
        return sum(map(line_kinds.is_prose, filled)) >= 2
    fences = sum(_FENCE.match(text) is not None for text in filled)
    prose = sum(line_kinds.kind_of(line_kinds.unquoted(text)) == "prose" for text in filled)
    if fences >= 2 and prose:
        return True
    spoken = [line_kinds.without_speaker(text) for text in filled if line_kinds.is_speaker(text)]
    if len(spoken) >= 2 and any(not line_kinds.is_output(text) for text in spoken) and prose > len(spoken) / 2:
        return True
    return prose >= _PROSE_LINES and prose >= _PROSE_SHARE * len(filled)


def _blocks(lines: Sequence[TextLine]) -> list[_Block]:
    """Return the blocks of a page: code between fences or in `pre`, runs of other lines."""
    blocks: list[_Block] = []
    fenced = False
    current: _Block | None = None
    code = 0
    for line in lines:
        text = line_kinds.unquoted(line.text)
        if not line.is_code and (mark := _FENCE.match(text)) is not None and (not fenced or not mark[1]):
            fenced = not fenced
            current = None
            continue
        is_code = fenced or line.is_code
        if current is None or current.is_code != is_code or line.block != code:
            current = _Block(is_code)
            blocks.append(current)
            code = line.block
        current.lines.append(line._replace(text=text))
    return [part for block in blocks for part in _opened(block)]


def _opened(block: _Block) -> list[_Block]:
    """Return the block; one that a fence never closed is read as text behind its first paragraph of prose."""
    if not block.is_code or not any(line_kinds.is_output(line.text) for line in block.lines):
        return [block]
    prose = sum(line_kinds.kind_of(line.text) == "prose" for line in block.lines)
    output = sum(line_kinds.is_output(line.text) for line in block.lines)
    return [_Block(False, block.lines)] if prose > max(4, output) else [block]


def _with_commands(blocks: Sequence[_Block]) -> list[list[TextLine]]:
    """Return the excerpts of output, each after the last command before it that no other output separates."""
    excerpts: list[list[TextLine]] = []
    command: list[TextLine] = []
    for block in blocks:
        if block.is_code:
            if any(line_kinds.is_output(line.text) for line in block.lines):
                excerpts.append([*command, *_printed(block.lines)])
                command = []
            elif any(line_kinds.is_command(line.text) for line in block.lines) or _is_configuration(block):
                command = _command_of(block)
            continue
        for part, is_output in _parts(block.lines):
            if is_output:
                excerpts.append([*command, *part])
                command = []
            else:
                command = part
    return excerpts


def _printed(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the lines of a code block; text after its last output that types a command is left out."""
    last = max(at for at, line in enumerate(lines) if line_kinds.is_output(line.text))
    behind = next((at for at in range(last + 1, len(lines)) if line_kinds.is_command(lines[at].text)), len(lines))
    return [line._replace(text=_said(line.text)) for line in lines[:behind]]


def _said(text: str) -> str:
    """Return a line without the name of the person who pasted it."""
    rest = line_kinds.without_speaker(text)
    return rest if rest is not text and (line_kinds.is_output(rest) or line_kinds.is_command(rest)) else text


def _is_configuration(block: _Block) -> bool:
    """Return whether a code block is a document or a script that starts vLLM, such as a compose file."""
    text = block.text
    return line_kinds.concerns_vllm(text) and _STARTS_VLLM.search(text) is not None


def _command_of(block: _Block) -> list[TextLine]:
    """Return the last command of a code block with the lines before it; a block may list several alternatives."""
    starts = [at for at, line in enumerate(block.lines) if line_kinds.is_command(line.text)]
    if len(starts) < 2 or _is_configuration(block):
        return block.lines
    return block.lines[starts[-1]:]


def _parts(lines: Sequence[TextLine]) -> list[tuple[list[TextLine], bool]]:
    """Return the excerpts and commands among lines that the page does not mark: (lines, whether they are output)."""
    parts: list[tuple[list[TextLine], bool]] = []
    excerpt: list[TextLine] = []
    typed: list[TextLine] = []
    message = False  # the previous line is an exception whose message may go on
    waiting = 0  # empty lines since

    def close() -> None:
        if excerpt:
            parts.append((list(excerpt), True))
            excerpt.clear()

    traced = _in_tracebacks(lines)
    for at, line in enumerate(lines):
        text = _said(line.text)
        if typed:
            if text.strip() and _goes_on(typed, text):
                typed.append(line._replace(text=text))
                continue
            parts.append((list(typed), False))
            typed.clear()
        kind = "output" if at in traced else line_kinds.kind_of(text)
        if kind == "output":
            excerpt.append(line._replace(text=text))
            message, waiting = _opens_message(text), 0
        elif kind == "blank":
            if excerpt:
                excerpt.append(line)
            waiting += 1
            message = message and waiting < 2
        elif kind == "command":
            close()
            typed.append(line._replace(text=text))
        elif excerpt and ((message and not waiting and not line_kinds.is_apart(text))
                          or (kind == "other" and waiting < 2)):
            excerpt.append(line._replace(text=text))
            waiting = 0
            message = message and not text.rstrip().endswith((".", "`"))
        elif kind == "prose" or not excerpt:
            close()
            message = False
        else:
            close()
    close()
    if typed:
        parts.append((typed, False))
    return parts


def _in_tracebacks(lines: Sequence[TextLine]) -> set[int]:
    """Return the places of lines that are part of a traceback whatever they say.

    They are the source of its calls, and a message in paragraphs that the next exception of the chain follows.
    """
    found: set[int] = set()
    begin: int | None = None  # the line of an exception whose message may go on
    for at, line in enumerate(lines):
        text = line.text
        if at and text.startswith(" ") and _CALL.match(lines[at - 1].text):
            found.add(at)
        elif _EXCEPTION.match(text):
            begin = at
        elif begin is None:
            continue
        elif _NEXT_EXCEPTION.match(text):
            found.update(range(begin, at))
        elif line_kinds.is_apart(text) or at - begin > _LONGEST_ADVICE or text.startswith("Traceback (most recent"):
            begin = None
    return found


def _goes_on(typed: Sequence[TextLine], text: str) -> bool:
    """Return whether a line continues a command, or a call whose bracket is still open."""
    if typed[-1].text.rstrip().endswith(_CONTINUED) or text.lstrip().startswith("--"):
        return True
    call = "".join(line.text for line in typed[-_LONGEST_CALL:])
    return "LLM(" in call and len(typed) < _LONGEST_CALL and call.count("(") > call.count(")")


def _opens_message(text: str) -> bool:
    """Return whether the message of an exception may go on in the next line."""
    head, _, rest = text.replace("Exception:", "Error:").rpartition("Error:")
    return bool(head) and len(rest) <= _LONGEST_MESSAGE and not rest.rstrip(" ").endswith((".", "`", ")", "]"))
