"""The message of an exception: its first line, its length, and sentences broken at the width of a page."""

from __future__ import annotations

from vllm_doctor.text.patterns import lazy_pattern

_EXCEPTION = lazy_pattern(r"(?:\| +)*[A-Za-z_][\w.]*(?:\([\w.]*\))?(?:: |:$|$)")
_INDENTED = lazy_pattern(r" {1,8}(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception)(?:: |:?$)")
_PYDANTIC = lazy_pattern(r"(?<!\d)\d{1,9} validation errors? for \w+\s*$", cues=(" validation error",))
_PAGE = 40  # a shorter line was not broken at the width of a page
_REST = lazy_pattern(r"[a-z(\d][^=:]{0,40} ")
_COMPLETE = lazy_pattern(r"[.:;!?'\"`)\]}]$|validation errors? for \w+$")


def is_exception(text: str) -> bool:
    """Return whether a text may be the last line of a traceback: the class of an exception and its message."""
    return _EXCEPTION.match(text) is not None


def is_indented_exception(text: str) -> bool:
    """Return whether a text is surely the last line of a traceback, indented in a paste that moved its lines."""
    return _INDENTED.match(text) is not None


def validation_errors(message: str) -> int:
    """Return how many errors pydantic announces in the first line of its message."""
    errors = _PYDANTIC.search(message) if " validation error" in message else None
    return int(errors[0].split()[0]) if errors else 0


def begins_message(message: str) -> bool:
    """Return whether a message is the first line of an exception printed without its traceback."""
    if "Error: " in message or "Exception: " in message:
        return is_exception(message) or _PYDANTIC.search(message) is not None
    return " validation error" in message and _PYDANTIC.search(message) is not None


def continues_sentence(line: str, text: str) -> bool:
    """Return whether a text continues a sentence that was broken between two words at the width of a page."""
    if len(line) < _PAGE or text.count(" ") < 2 or not (text[0].isalnum() or text[0] == "("):
        return False
    return _REST.match(text) is not None and not _COMPLETE.search(line)
