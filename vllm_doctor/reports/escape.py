"""Make untrusted text inert in each format: text of the log is displayed, never interpreted.

Every function takes text as it is in the report (secrets masked already) and shows control characters and
direction marks as `<U+202E>` itself, so a writer can't forget it.
"""

from __future__ import annotations

import re

from vllm_doctor.redact import safe_text
from vllm_doctor.text.patterns import lazy_pattern

__all__ = ["code_block", "inert_json", "inert_markup", "inert_text", "is_web_address", "markdown", "one_line",
           "place_name", "relative_path", "workflow_data", "workflow_property", "xml_text"]

# A build runner reads its own standard output: GitHub `::error::` at the start of a line and `##[error]` anywhere in
# it, Azure `##vso[...]`, TeamCity `##teamcity[...]`.
_LEGACY_COMMAND = lazy_pattern(r"##(?=\w*\[)", cues=("##",))
_COMMAND = lazy_pattern(r"(?m)^([^\S\n]*):(?=:)", cues=("::",))


def one_line(text: str) -> str:
    """Return `text` on one line, with terminal control characters made visible."""
    return " ".join(safe_text(text).split())


def inert_text(text: str) -> str:
    """Return plain text in which no line is a CI runner command; for example, `::error` becomes `: :error`."""
    return _LEGACY_COMMAND.sub("# #", _COMMAND.sub(r"\1: ", text))


def inert_json(text: str) -> str:
    """Return the same JSON document without `##[`; no line of JSON starts with `::`."""
    return _LEGACY_COMMAND.sub(r"#\\u0023", text)


def inert_markup(text: str) -> str:
    """Return the same XML or HTML document without `##[` and without `::` at the start of a line."""
    return _LEGACY_COMMAND.sub("#&#35;", _COMMAND.sub(r"\1&#58;", text))


def workflow_data(text: str) -> str:
    """Return `text` escaped as the message of a GitHub workflow command."""
    data = _LEGACY_COMMAND.sub("# #", safe_text(text))
    return data.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """Return `text` escaped as a property (`title=`, `file=`) of a GitHub workflow command."""
    return workflow_data(one_line(text)).replace(":", "%3A").replace(",", "%2C")


def is_web_address(text: str) -> bool:
    """Return whether a link leads to a web page, and to nothing that runs."""
    return text.startswith(("https://", "http://"))


_MARKDOWN = lazy_pattern(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # an underscore inside a word is none
_MENTION = lazy_pattern(r"([@#!%]|\\[~$])(?=\\?\w)")  # @user #12 !12 %milestone ~label $snippet
_URL = lazy_pattern(r":(?=//)|(?<=www)(?=\.)|:(?=[\w+-]+:)", re.IGNORECASE)  # autolinks, :emoji:
_BLOCK_START = lazy_pattern(r"^(\d{1,9}(?=[.)](?:\s|$))|(?=[-+](?:[-+\s]|$))|(?=[=#]))")
_BREAK = "&#8203;"  # a zero-width space, written so that it is seen in the source


def markdown(text: str) -> str:
    """Return `text` as one line of plain Markdown prose: no mention, link, image, heading, list, table or HTML.

    Code hosts look for mentions and addresses after they have parsed the Markdown and removed its backslashes; a
    zero-width space (as `&#8203;`) breaks those.
    """
    escaped = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = _MARKDOWN.sub(lambda match: "\\" + match[0], escaped)
    escaped = _MENTION.sub(lambda match: match[1] + _BREAK, escaped)
    escaped = _URL.sub(lambda match: match[0] + _BREAK, escaped)
    return _BLOCK_START.sub(r"\1\\", escaped)


def code_block(text: str, language: str = "") -> str:
    """Return a fenced Markdown block that its text cannot close: the fence is longer than any backtick run in it."""
    body = inert_text(safe_text(text)).rstrip("\n")
    longest = max((len(run) for run in re.findall("`+", body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{body}\n{fence}"


_NOT_XML = lazy_pattern("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, production 2


def xml_text(text: str) -> str:
    """Return `text` with the characters that XML 1.0 forbids made visible; the writer escapes the markup."""
    return _NOT_XML.sub(lambda match: f"<U+{ord(match[0]):04X}>", safe_text(text))


_COMPRESSED = (".gz", ".xz", ".bz2", ".zst")  # the report's line numbers are not those of such a file
_DRIVE = lazy_pattern(r"^[A-Za-z]:")


def relative_path(path: str) -> str | None:
    """Return the log's path with slashes if it may be repository-relative; else None (stdin, absolute, outside)."""
    name = path.replace("\\", "/")
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    if not name or name == "-" or name.startswith(("/", "~")) or _DRIVE.match(name) or "://" in name:
        return None
    parts = name.split("/")
    if ".." in parts or name.lower().endswith(_COMPRESSED) or safe_text(name) != name or not name.isprintable():
        return None
    return name


def place_name(path: str) -> str:
    """Return the log's repository-relative path; its file name where it has none, `stdin` for standard input."""
    if (relative := relative_path(path)) is not None:
        return relative
    return "stdin" if path == "-" else one_line(path.replace("\\", "/").rstrip("/").rpartition("/")[2]) or "log"
