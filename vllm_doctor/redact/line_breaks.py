"""Secrets that a terminal or a text box broke at its width: `hf_abc⏎def`."""

from __future__ import annotations

from bisect import bisect_right

from vllm_doctor.redact.spans import Span, compiled, looks_generated, looks_random

_NARROWEST = 40  # columns of what wraps lines
_NARROW = 20  # where what follows a secret is plainly random
_LAST = r"[A-Za-z0-9_+/=.~%-]\Z"
_NEXT = r"[A-Za-z0-9_+/=.~%-]{1,400}"
# What goes on although no line was full: a line of one long word.
_REST = r"[ \t>|]{0,80}([A-Za-z0-9_+/-]{16,400}=?=?)(?=[ \t]*(?:\n|\Z))"
# A word that begins a line by itself: a level, a date, a shell's word, a name before its value.
_BEGINS_LINE = r"""(?x) (?: DEBUG | INFO | WARN(?:ING)? | ERROR | CRITICAL | FATAL | TRACE | Traceback | File | During
  | [IWEF][0-9]{4} | [0-9]{4}-[0-9]{2}-[0-9]{2}.* | [0-9]{2}-[0-9]{2} | [A-Z][A-Za-z]*(?:Error|Exception|Warning)
  | -.* | [A-Za-z]+ )\Z"""


class Unwrapped:
    """A text whose wrapped lines are joined, and where they were."""

    def __init__(self, text: str, dropped: list[int]) -> None:
        pieces, at = [], 0
        for newline in dropped:
            pieces.append(text[at:newline])
            at = newline + 1
        self.text = "".join([*pieces, text[at:]])
        self._joints = [place - number for number, place in enumerate(dropped)]  # where they are in the joined text

    def across(self, spans: list[Span]) -> list[Span]:
        """Return the spans that cross a joint, as spans of the text with its line ends."""
        found = []
        for span in spans:
            first, last = bisect_right(self._joints, span.start), bisect_right(self._joints, span.end - 1)
            if last > first:
                found.append(span._replace(start=span.start + first, end=span.end + last, repeats=False))
        return found


def unwrapped(text: str) -> Unwrapped | None:
    """Join the wrapped lines of a text; return None if no line was wrapped."""
    dropped, begin = [], 0
    while (newline := text.find("\n", begin)) >= 0:
        if newline - begin >= _NARROWEST and _goes_on(text, newline):
            dropped.append(newline)
        begin = newline + 1
    return Unwrapped(text, dropped) if dropped else None


def over_line_ends(text: str, spans: list[Span]) -> list[Span]:
    """Return the continuations, on the next line, of secrets that end where a line was wrapped."""
    found: list[Span] = []
    seen: set[int] = set()  # line ends: each is looked at once
    for span in spans:
        end = span.end
        while end not in seen and text[end : end + 1] == "\n":
            seen.add(end)
            run = compiled(_NEXT).match(text, end + 1)
            line = end - text.rfind("\n", max(0, end - 1000), end) - 1
            if line < _NARROWEST and (rest := compiled(_REST).match(text, end + 1)) and looks_random(rest[1]):
                found.append(Span(rest.start(1), rest.end(1), "", repeats=True))
                end = rest.end()
                continue
            is_narrow = line < _NARROWEST and not (line >= _NARROW and run and looks_generated(run[0]))
            if run is None or is_narrow or not _goes_on(text, end):
                break
            found.append(Span(end + 1, run.end(), "", repeats=looks_generated(run[0])))
            end = run.end()
    return found


def _goes_on(text: str, newline: int) -> bool:
    """Return whether a word continues after a line end: the text that follows does not look like a new word."""
    if not compiled(_LAST).match(text, max(newline - 1, 0), newline):
        return False
    run = compiled(_NEXT).match(text, newline + 1)
    if run is None or text[run.end() : run.end() + 1] in {":", "=", "("}:
        return False
    word = run[0].rstrip(".,")
    return looks_generated(word) or (
        not compiled(_BEGINS_LINE).match(word) and (looks_random(word) or _is_mixed(word)))


def _is_mixed(word: str) -> bool:
    return len(word) >= 4 and any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
