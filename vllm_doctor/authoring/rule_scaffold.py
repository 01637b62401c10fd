"""Create the scaffold of a rule from a log: the pattern and the first test are taken from one of its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from vllm_doctor.errors import InputError
from vllm_doctor.events.event import Event
from vllm_doctor.events.reader import EventReader
from vllm_doctor.logs.inputs import chunks
from vllm_doctor.logs.lines import LineReader
from vllm_doctor.phases import PHASES
from vllm_doctor.redact import redact
from vllm_doctor.text.terminal_safe import safe_text

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*\"|/[\w./-]+")
_ANCHOR_WORDS = re.compile(r"[A-Za-z][A-Za-z ,'-]{5,}[A-Za-z]")

_TEMPLATE = """\
id: {id}
title: Say what is wrong, without advice and without a full stop
severity: error            # error | warning | info
phase: {phase}
role: cause                # cause | cascade | advice
status: draft
match:
  any:
    - id: message
      # vllm: ">=0.8.0"    # the releases that print this wording; look it up in vLLM's sources
      anchor: {anchor}
      pattern: >-
        {pattern}
explain: |
  Say what happened, mechanically, with this log's numbers (as in: vLLM {{{{ vllm_version }}}}).
fixes:
  - id: first
    title: Say what to do, in one line
    # set: {{--flag: expression}}   env: {{NAME: expression}}   unset: [--flag]
    action: find-root-cause-above
    safety: review         # safe | review | manual
    cost: Say what it costs.
tests:
{tests}
  - name: a healthy line is another matter
    log: |
      INFO 05-06 10:00:01 [api_server.py:1090] Starting vLLM API server on http://0.0.0.0:8000
    fires: null
references: []
"""


_TEST = """\
  - name: {name}
    log: |
{log}
    fires: {fires}"""
_GAP = ".{0,200}?"  # where the messages of a group differ
_MOST_TOKENS = 60  # of a message that are compared


class Sample(NamedTuple):
    """A line of a log, and its message without prefixes."""

    line: str
    message: str


def scaffold(rule_id: str, log: str | None, line: int | None, phase: str) -> str:
    """Return the text of a new rule file. Raises InputError if the log does not have the line."""
    sample = Sample("RuntimeError: the line that says it", "RuntimeError: the line that says it")
    if log:
        sample = sample_of(log, line)
    return draft(rule_id, [sample], [], phase)


def draft(rule_id: str, samples: Sequence[Sample], near_misses: Sequence[str], phase: str) -> str:
    """Return the text of a new rule file whose pattern matches all samples; each is a test, as is each near miss.

    A near miss that the pattern matches all the same is left out. Raises InputError for an invalid id or phase.
    """
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", rule_id):
        raise InputError(f"`{rule_id}` is no id: small letters and digits, joined by -")
    if phase and phase not in PHASES:
        raise InputError(f"`{phase}` is no phase: {', '.join(PHASES)}")
    texts = _shared_texts([sample.message for sample in samples])
    words = [found for text in texts for literal, _ in _pieces(text) for found in _ANCHOR_WORDS.findall(literal)]
    anchor = max(words or [texts[0][:40]], key=len).strip()
    pattern = _GAP.join(_pattern(text) for text in texts)
    tests = [_test("the line it was made from" if number == 1 else f"another line of the group ({number})", sample.line,
                   "message") for number, sample in enumerate(samples, 1)]
    missed = [text for text in near_misses if re.search(pattern, text) is None]
    tests += [_test(f"another failure ({number})", text, "null") for number, text in enumerate(missed, 1)]
    return _TEMPLATE.format(id=rule_id, phase=phase or "config", anchor=_quoted(anchor), pattern=pattern,
                            tests="\n".join(tests))


def _test(name: str, line: str, fires: str) -> str:
    return _TEST.format(name=name, log="      " + line, fires=fires)


def _shared_texts(messages: Sequence[str]) -> list[str]:
    """Return the texts that all messages have, in their order; of one message it is the message itself."""
    first = messages[0].split(" ")[:_MOST_TOKENS] if len(messages) > 1 else [messages[0]]
    kept = set(range(len(first)))
    for message in messages[1:]:
        blocks = SequenceMatcher(None, first, message.split(" ")[:_MOST_TOKENS], autojunk=False).get_matching_blocks()
        kept &= {place for block in blocks for place in range(block.a, block.a + block.size)}
    texts: list[list[str]] = []
    for place in sorted(kept):
        if texts and place - 1 in kept:
            texts[-1].append(first[place])
        else:
            texts.append([first[place]])
    return [" ".join(words) for words in texts] or [messages[0]]


def sample_of(log: str, line: int | None) -> Sample:
    """Return the line (secrets masked) and its message; without a line number, the log's first error."""
    reader, events = LineReader(), EventReader()
    best: Event | None = None
    lines = [item for chunk in chunks(log, 1 << 18) for item in reader.feed(chunk)] + reader.finish()
    for item in lines:
        event = events.read(item)
        if event is None:
            continue
        if line is not None and event.line == line:
            return Sample(safe_text(redact(item.text)), safe_text(redact(event.text)))
        if line is None and not event.is_code and event.frames:
            best = best or event
    if line is not None or best is None:
        raise InputError(f"{log}: " + (f"there is no line {line}" if line else "no error was found; name the --line"))
    text = safe_text(redact(best.text))
    return Sample(text, text)


def _pattern(message: str) -> str:
    """Return an expression for the message: numbers and quoted names become character classes."""
    return "".join(re.escape(literal) + expression for literal, expression in _pieces(message)).replace(r"\ ", " ")


def _pieces(message: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a message: a text that stays, and the expression for the number or name behind it."""
    at = 0
    for match in sorted([*_NUMBER.finditer(message), *_QUOTED.finditer(message)], key=lambda m: m.start()):
        if match.start() < at:
            continue
        mark = match[0][0]
        quoted = f"{mark}[^{mark}]*{mark}" if mark in "'\"" else r"\S+"
        yield message[at:match.start()], r"[\d.,]+" if _NUMBER.fullmatch(match[0]) else quoted
        at = match.end()
    yield message[at:], ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
