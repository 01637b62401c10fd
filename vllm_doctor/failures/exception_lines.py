"""Exceptions in lines of a log: their class, the first line of their message, what stands before them."""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.text.patterns import lazy_pattern

_ENDINGS = (
    r"Error|Exception|ExceptionGroup|Interrupt|Exit|Failure|Fault|Expired|Exceeded|Timeout|NotFound|Refused|Died|Killed"
)
_NAME = (
    rf"(?:(?:[A-Za-z_]\w*\.)*_?[A-Z]\w*(?:{_ENDINGS})"
    r"|(?:[a-z_]\w*\.)+(?:[A-Z]\w+|[a-z]\w*(?:Error|Exception)|error|timeout|gaierror|herror)"
    r"|Exception|gaierror)"
)
# The last line of a traceback: any class will do, and nothing stands before it.
_ENDS_TRACEBACK = lazy_pattern(
    r"(?:\| +)*(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\((?P<inner>[A-Z]\w*)\))?(?::(?: (?P<message>.*))?)?\s*$",
    re.DOTALL)
_CALL = "File"  # the line of a call begins with it; a log may be cut off within the word
# A line of its own, behind any prefix that is no sentence.
_BARE = lazy_pattern(
    rf"(?P<before>.{{0,200}}?)(?<![\w.'\"`(=/<$-])(?P<name>{_NAME})(?:\((?P<inner>[A-Z]\w*)\))?"
    r":(?!:) ?(?P<message>.*)$",  # not `c10::DistError::DistError(`, a call in a C++ stack
    re.DOTALL)
_ALONE = lazy_pattern(
    r"(?P<before>(?:\[(?:[^\[\]]{0,60}\]|(?![^\[\]]{0,60}\]))|\((?:[^()]{0,60}\)|(?![^()]{0,60}\)))|[^\w\[(]|E )*)"
    r"(?P<name>(?:[a-z_]\w*\.)*_?[A-Z]\w*(?:Error|Exception|Interrupt))\s*$")
_QUOTED = lazy_pattern(
    r"\b(?P<name>_?[A-Z]\w*(?:Error|Exception)|Exception)\((?P<quote>['\"])(?P<message>.*?)(?P=quote),?\)", re.DOTALL)
_REPR = lazy_pattern(
    r"(?:engine\.[a-z_]{1,40}: )?(?P<name>[A-Za-z_]\w*(?:Error|Exception|Interrupt)|OutOfResources)\("
    r"(?:\)|(?P<numbers>-?\d[^()\n]{0,300})\)"
    r"|(?P<quote>['\"])(?P<message>(?:(?!(?P=quote),?\)).)*)(?:(?P=quote),?\))?)\s*$", re.DOTALL)
"""Also behind the function that Dynamo's records name."""
REPR_WORDS = ("rror(", "xception(", "OutOfResources(")
"""Words of a line in which an exception may stand as repr() prints it."""
_REFUSED = lazy_pattern(r"(?P<number>\d{1,4}), '(?P<text>[^']{1,200})'")
_OF_RUNPY = lazy_pattern(
    rf".{{0,200}}?: Error while finding module specification for '[\w.]+' \((?P<name>{_NAME}): (?P<message>.*)\)\s*$",
    cues=("Error while finding module specification",))
"""What `python -m` prints where the import of a package fails."""
_OF_JAVA = lazy_pattern(r'\AException in thread "[^"\n]{1,100}" (?=[a-z]\w*\.)')
_BEHIND_CALL = lazy_pattern(
    rf'.{{0,200}}?File "[^"]{{1,400}}", line \d{{1,9}}, in \S{{1,200}} .{{1,400}}? (?P<name>{_NAME}): (?P<message>.*)$',
    re.DOTALL, cues=("Error: ", "Exception: "))
"""The end of a traceback of which a paste made one line."""
_WORDINGS = (("KeyError", lazy_pattern(r"\A'[^'\n]{1,300}'\Z")),
             ("AttributeError", lazy_pattern(r"\A'[^'\n]{1,100}' object has no attribute '[^'\n]{1,100}'")),
             ("ModuleNotFoundError", lazy_pattern(r"\ANo module named '[^'\n]{1,200}'")),
             ("FileNotFoundError", lazy_pattern(r"\A\[Errno 2\] ")),
             ("PermissionError", lazy_pattern(r"\A\[Errno 13\] ")),
             ("ImportError", lazy_pattern(r"\Acannot import name '")),
             ("OutOfMemoryError", lazy_pattern(r"\A(?:CUDA|HIP|XPU|NPU) out of memory\. +Tried to allocate ")))
"""What Python and PyTorch say with these exceptions only, for a message that is quoted without its class."""
_SENTENCE = lazy_pattern(r"[A-Za-z]{2}(?:,? [a-z']{2,}){2}")
_VALIDATION = lazy_pattern(r"(?P<before>.{0,120}?)(?P<message>\d+ validation errors? for \w+)\s*$")
_RAISES = lazy_pattern(r"raise (?P<name>(?:\w+\.)*[A-Z]\w*)(?:\(\s*[rbf]*(?P<quote>['\"])(?P<message>.*?)(?P=quote))?")
_LONGEST = 1_000  # characters of a line in which a quoted message is looked for
_ASSERTS = lazy_pattern(r"assert .*?(?:, \(?[rbf]*(?P<quote>['\"])(?P<message>.*?)(?P=quote)\)?)?$")
_FILLED_IN = lazy_pattern(r"\{[^{}]{1,200}\}")
_OPEN_ENDS = ("(", "[", "{", ",", "\\", " and", " or")  # of a statement that goes on in the next line
_WORD_ERROR = {"Error", "HTTPStatus", "Failure"}


class Raised(NamedTuple):
    """An exception found in a line: its class without module, its message so far, and what was said before it."""

    name: str
    message: str
    introduction: str = ""
    quoted: bool = False  # within a sentence, as repr() prints it
    module: str = ""  # of the class, where the line shows it


def class_of(name: str, inner: str | None = None) -> str:
    """Return the class without its module; for an error that Ray wraps, the inner one."""
    return inner or name.rpartition(".")[2]


def module_of(name: str, inner: str | None = None) -> str:
    """Return the module of a class; empty for an error that Ray wraps, whose own module the line does not show."""
    return "" if inner else name.rpartition(".")[0]


def class_by_wording(message: str) -> str | None:
    """Return the class of the exception that a message is of, if only one class has such a message."""
    return next((name for name, wording in _WORDINGS if wording.search(message)), None)


def ending_traceback(text: str) -> Raised | None:
    """Return the exception that ends a traceback."""
    match = _ENDS_TRACEBACK.match(text)
    if match is None or not _is_class(match["name"]) or _CALL.startswith(match["name"]):
        return None
    return _raised(match)


def on_own_line(text: str) -> Raised | None:
    """Return the exception on a line of its own, also after a prefix or the text of a record."""
    text = _OF_JAVA.sub("", text)
    if text[:1] == text.rstrip()[-1:] == '"':
        text = text.rstrip()[1:-1]
    match = _OF_RUNPY.match(text)
    if match is not None:
        return _raised(match)
    match = _BARE.match(text)
    if match is not None and match["name"] not in _WORD_ERROR:
        before = match["before"].strip()
        if before.endswith(("except", "raise", "import", "class", "->", "#", "CUDA")) or '"' in before[-1:]:
            return None  # a statement, a comment, or what cuda-gdb says
        introduction = before.rstrip(": ") if _SENTENCE.search(before) else ""
        return _raised(match, introduction)
    match = _ALONE.match(text)
    if match is not None:
        return Raised(class_of(match["name"]), "")
    match = _VALIDATION.match(text)
    if match is not None and not _SENTENCE.search(match["before"]):
        return Raised("ValidationError", match["message"])
    return None


def after_call(text: str) -> Raised | None:
    """Return the exception behind a call and its source line, if all are in one line."""
    match = _BEHIND_CALL.match(text)
    return _raised(match) if match else None


def in_sentence(text: str) -> Raised | None:
    """Return the exception that a sentence shows as `ValueError('message')`."""
    match = _QUOTED.search(text[:_LONGEST])
    return Raised(match["name"], match["message"], text[:match.start()].strip(), quoted=True) if match else None


def from_repr(record: str) -> Raised | None:
    """Return the exception of which a record is what repr() prints, or its beginning where a paste cuts it."""
    match = _REPR.match(record[:_LONGEST])
    if match is None:
        return None
    message = match["numbers"] or match["message"] or ""
    refused = _REFUSED.fullmatch(message)  # OSError(28, 'No space left on device')
    if refused is not None:
        message = f"[Errno {refused['number']}] {refused['text']}"
    return Raised(match["name"], message, quoted=True)


def raised_by_code(code: str) -> tuple[str | None, str]:
    """Return the exception that a source line raises and its message, as far as both are in the line.

    An ellipsis stands for what the message is filled in with.
    """
    match = _RAISES.match(code)
    if match is not None:
        message = _FILLED_IN.sub("…", match["message"] or "")
        return class_of(match["name"]), message if message.strip("… ,;:.()'\"") else code
    match = _ASSERTS.match(code[:_LONGEST].rstrip())
    if match is not None:
        return "AssertionError", match["message"] or code.strip()
    return None, code


def with_full_class(raised: Raised, code: str) -> Raised:
    """Return an exception with the class that a source line raises, if a cut log shows only the class's beginning."""
    name, _ = raised_by_code(code)
    if name is None or raised.message or not name.startswith(raised.name):
        return raised
    return raised._replace(name=name)


def raised_in_code(code: str) -> str:
    """Return the exception that a source line raises as Python prints it; empty if the line lacks the message."""
    name, message = raised_by_code(code)
    return f"{name}: {message}" if name is not None and message not in {"", code} else ""


def assertion_in_code(code: str) -> str:
    """Return the source line of an assertion, if the line has all of it; otherwise an empty text."""
    line = code[:_LONGEST].strip()
    return line if line.startswith("assert ") and not line.endswith(_OPEN_ENDS) else ""


def _raised(match: re.Match[str], introduction: str = "") -> Raised:
    name, inner = match["name"], match.groupdict().get("inner")
    return Raised(class_of(name, inner), match["message"] or "", introduction, module=module_of(name, inner))


def _is_class(name: str) -> bool:
    """Return whether it reads like the name of an exception: with a module, or written like a class name."""
    last = name.rpartition(".")[2]
    return last[:1].isupper() or last.startswith("_") or ("." in name and (
        last in {"error", "timeout", "gaierror", "herror"} or last.endswith(("Error", "Exception"))))
