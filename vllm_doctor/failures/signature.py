"""Signatures: the same failure on another day, machine or port has the same one.

A message that the failing code words itself identifies the failure. One that Python, the operating system or a library
words for every caller does not: then the place in vLLM counts as well, as it does for a message of a word or two.
Of a path only the file counts, by its name if all users have the same one; of a name that the user gave, nothing does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from vllm_doctor.failures import frames
from vllm_doctor.failures.model import Frame
from vllm_doctor.text.patterns import lazy_pattern

_WORDS = 24  # content words of a message that count
_FEW = 2  # content words with fewer of which the place counts as well
_ENVELOPE = lazy_pattern(  # what pydantic writes around the message of a validator
    r"(?<!\d)\d{1,9} validation errors? for \S+|\bValue error, |\[type=\w{1,60}, input_value=.*"
    r"|For further information visit \S+")
_PATH = lazy_pattern(r"(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[/\\][\w.@+~-]+){2,}[/\\]?|\b[\w.-]+(?:/[\w.@-]+)+")
_FOLDER_OR_MODEL = lazy_pattern(
    r"(?<![\w./-])(?!/(?:dev|proc|sys|usr|lib\w{0,8}|opt/rocm[\w.-]{0,20})/)(?:~|\.{1,2})?(?:/[\w.@+~-]+){2,}/?|(?<![\w./-])[A-Za-z][\w.-]*/(?=[\w.-]*\d)[\w.-]+(?![\w/])")
_FILE = lazy_pattern(  # a program, a file with a name by convention, or the kind of another file
    r"(?:(?<=/bin/)(?P<program>[\w.+-]{1,60})|[/\\](?P<name>[A-Za-z_.-]{1,60}\.(?:json|so))"
    r"|\.(?P<kind>[A-Za-z]{1,12}))$")
_GIVEN = lazy_pattern(  # a name that the user gave: `model 'a'`, `host gpu-7`
    r"(?i)\b(model|tokenizer|checkpoint|adapter|lora|host|node|user|container|pod|repository)(?: named?| id| type)? "
    r"(?:'[^'\s]{1,100}'|\"[^\"\s]{1,100}\"|`[^`\s]{1,100}`|[a-z]{0,60}[\d_.-]\w[\w.-]{0,100}"
    r"|(?<=repository )[\w.@-]{1,100})")
_IDENTIFIER = lazy_pattern(r"(?:attribute|argument|keyword|symbol) ['\"]\w{1,100}['\"]")  # digits in it are no values
_DIGITS = lazy_pattern(r"\d+")
_ADDRESS = lazy_pattern(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\[[0-9a-fA-F:]{3,}\](?::\d+)?|\b0x[0-9a-fA-F]+\b"
                        r"|(?<![\w./-])[A-Za-z][\w-]{0,60}:\d{4,5}\b")
_WRAPPED = lazy_pattern(r"\(pid=\d{1,9}[^()]{0,80}\)|\bpid[= ]\d+|\brank\s{0,4}\d+|\bcuda:\d+|\bGPU \d+")
_NUMBER = lazy_pattern(r"\b(?=\w*\d)[\w.,:-]+")
_WORD = lazy_pattern(r"[^\W\d_][\w'.-]*[^\W_]|[^\W\d_]")
_CODE = lazy_pattern(  # numbers that name a failure instead of measuring it
    r"(?i)\b(?:errno|code|status|signal)[\s:=]{1,3}(-?\d{1,5})\b|(?<=: )(-\d{1,3})(?![\w.])|\A([45]\d\d) [a-z]")
_OWN_WORDS = ("raise ", "assert ")


def content_words(message: str) -> list[str]:
    """Return the words of a message without paths, addresses, numbers and what differs from machine to machine."""
    text = message
    for pattern in (_PATH, _ADDRESS, _WRAPPED, _NUMBER):
        text = pattern.sub(" ", text)
    return [word.lower() for word in _WORD.findall(text)]


def signature(exception: str | None, message: str, calls: Sequence[Frame]) -> str:
    """Return the class and eight hexadecimal digits of the first content words and codes, and of the place if needed.

    `calls` are those of the traceback, the deepest at the end.
    """
    words = content_words(_without_values(message))
    parts = words[:_WORDS] + ["".join(code) for code in _CODE.findall(message)]
    if calls and (len(words) < _FEW or not _has_own_words(calls[-1])):
        parts += _place(calls)
    if calls and not words:
        parts += content_words(calls[-1].code)
    digest = hashlib.sha256(" ".join(parts).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{exception or 'failure'}-{digest}"


def without_given_names(message: str) -> str:
    """Return a message without folders and the names of models, whose words say nothing on the failure."""
    return _FOLDER_OR_MODEL.sub(_file_or_nothing, message)


def _file_or_nothing(path: re.Match[str]) -> str:
    return path[0] if _FILE.search(path[0]) or ".so." in path[0] else " "


def _without_values(message: str) -> str:
    """Return a message without the names that the user gave, with the file of each path in its place."""
    text = _ENVELOPE.sub(" ", message)
    text = _GIVEN.sub(r"\1 ", text)
    text = _IDENTIFIER.sub(lambda match: _DIGITS.sub("", match[0]), text)
    return _PATH.sub(_file_of, text)


def _file_of(path: re.Match[str]) -> str:
    """Return what of a path is the same for all users."""
    found = _FILE.search(path[0])
    return f" {found[found.lastgroup or 0]} " if found else " "


def _has_own_words(call: Frame) -> bool:
    """Return whether vLLM, or code of the user's own, raised the exception with a message of its own."""
    package = frames.package_of(call.path)[0]
    return package in {None, "vllm"} and (not call.code or call.code.startswith(_OWN_WORDS))


def _place(calls: Sequence[Frame]) -> list[str]:
    """Return the function of vLLM that was called last; without one, the place where the exception was raised."""
    last = next((call for call in reversed(calls) if frames.package_of(call.path)[0] == "vllm"), calls[-1])
    return [last.path.rpartition("/")[2], last.function]  # folders change with the release
