"""Create the scaffold of a rule from a log: the pattern and the first test are taken from one of its lines."""

from __future__ import annotations

import re

from vllm_doctor.errors import InputError
from vllm_doctor.events.reader import Event, EventReader
from vllm_doctor.logs.inputs import chunks
from vllm_doctor.logs.lines import LineReader
from vllm_doctor.phases import PHASES
from vllm_doctor.redact import redact
from vllm_doctor.terminal_safe import safe_text

_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|/[\w./-]+")
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
  - name: the line it was made from
    log: |
{log}
    fires: message
  - name: a healthy line is another matter
    log: |
      INFO 05-06 10:00:01 [api_server.py:1090] Starting vLLM API server on http://0.0.0.0:8000
    fires: null
references: []
"""


def scaffold(rule_id: str, log: str | None, line: int | None, phase: str) -> str:
    """Return the text of a new rule file. Raises InputError if the log does not have the line."""
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", rule_id):
        raise InputError(f"`{rule_id}` is no id: small letters and digits, joined by -")
    if phase and phase not in PHASES:
        raise InputError(f"`{phase}` is no phase: {', '.join(PHASES)}")
    raw, message = "RuntimeError: the line that says it", "RuntimeError: the line that says it"
    if log:
        raw, message = _message(log, line)
    anchor = max(_ANCHOR_WORDS.findall(message) or [message[:40]], key=len).strip()
    return _TEMPLATE.format(id=rule_id, phase=phase or "config", anchor=_quoted(anchor), pattern=_pattern(message),
                            log="      " + raw)


def _message(log: str, line: int | None) -> tuple[str, str]:
    """Return the line (secrets masked) and its message; without a line number, the log's first error."""
    reader, events = LineReader(), EventReader()
    best: Event | None = None
    lines = [item for chunk in chunks(log, 1 << 18) for item in reader.feed(chunk)] + reader.finish()
    for item in lines:
        event = events.read(item)
        if event is None:
            continue
        if line is not None and event.line == line:
            return safe_text(redact(item.text)), safe_text(redact(event.text))
        if line is None and not event.is_code and event.frames:
            best = best or event
    if line is not None or best is None:
        raise InputError(f"{log}: " + (f"there is no line {line}" if line else "no error was found; name the --line"))
    text = safe_text(redact(best.text))
    return text, text


def _pattern(message: str) -> str:
    """Return an expression for the message: numbers and quoted names become character classes."""
    expression, at = "", 0
    for match in sorted([*_NUMBER.finditer(message), *_QUOTED.finditer(message)], key=lambda m: m.start()):
        if match.start() < at:
            continue
        expression += re.escape(message[at:match.start()])
        expression += r"[\d.,]+" if _NUMBER.fullmatch(match[0]) else r"\S+"
        at = match.end()
    return (expression + re.escape(message[at:])).replace(r"\ ", " ")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
