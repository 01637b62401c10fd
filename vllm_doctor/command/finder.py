"""Find the command in a log that is fed line by line, including commands of several lines.

Memory is bounded: one command of at most 200 lines, one document of at most 400, and the latest commands found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from vllm_doctor.command.command_in_line import command_starts, find_command, is_prompted
from vllm_doctor.command.model import Command
from vllm_doctor.command.python import CALL, parse_call
from vllm_doctor.command.shell import MAX_CHARACTERS, may_start, parse_bare
from vllm_doctor.command.words import split
from vllm_doctor.command.yaml_commands import is_item, key_of, parse_document
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern

_MAX_LINES = 200
_MAX_CALL_LINES = 40
_MAX_DOCUMENT_LINES = 400
_MAX_QUOTED = 8 * 1024
_MAX_EXPORTS = 64

_CONTINUATIONS = ("\\", " ^", " `")
_FLAG_LINE = lazy_pattern(r"\s*(?:>\s*)?--[A-Za-z][\w.-]*(?:[=\s]|$)", cues=("--",))
_OTHER_PROMPT = lazy_pattern(
    r"(?:\([\w .-]{1,40}\)\s)?[\w.+-]{1,64}@[\w.-]{1,64}[:\s]|\$\s|\[[\w.-]+@", cues=("@", "$"))
_SECOND_PROMPT = lazy_pattern(r">\s+")
_LOG_LINE = lazy_pattern(r"(?:\(\w+[^()]{0,60}\)\s)?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[\s:]|Traceback \(most recent")
_OUTPUT = lazy_pattern(  # output of a server or of a program around it, which nobody types
    r"(?:\[[^\]\n]{1,80}\]:? {0,4}){0,2}(?:\(\w[^()]{0,80}pid=\d+[^()]{0,40}\) {0,4}){0,3}"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\b[\s:]|(?<=\) )\S|Traceback \(most recent"
    r"|[\d/-]{8,10}[ T][\d:.,]{8,18}\S{0,6}[ -].{0,80}\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b"
    r"|[\d.a-f:]{7,39} - - \[|\[[\d-]{10}T[\d:.Z]{8,16}\] \"|\{\")"
)
# The message of Python's subprocess module when a program that launched vLLM logs its failure.
_LAUNCHED = lazy_pattern(
    r"[\w.:+,() -]{1,200}: Command '\[.{1,16000}\]' (?:returned non-zero exit status|died with) .{1,40}$",
    cues=("Command '[",),
)
_ERROR_RECORD = lazy_pattern(r"(?:\([^()]{0,80}\) {0,4}){0,3}(?:ERROR|CRITICAL)\b")
_PLATFORM_MESSAGES = ("usage: ", "Automatically detected platform", "No platform detected")
_START_MESSAGES = (
    "vLLM API server version", "args: Namespace(", "non-default args: {", "Initializing an LLM engine",
    "Initializing a LLM engine", "Initializing a V0 LLM engine", "Initializing a V1 LLM engine",
)  # fmt: skip
_EXPORT = lazy_pattern(r"(?:.{0,120}?[$#%>]\s+)?export\s+([A-Za-z_]\w{0,80})=(.*)$")
_CALL_LEAD = lazy_pattern(
    r"\s*(?:\([^()]{0,60}\)\s*|\[[^\]]{0,60}\]:?\s*|>>>\s*|In\s\[\d+\]:\s*|-*>(?:\s+|(?=\d))|\d+\s+)*"
    r"(?:[\w.]{1,80}\s*=\s*|return\s+)?(?:await\s+)?$"
)
_FRAME = lazy_pattern(r"File \"(?P<path>[^\"]{1,400})\", line \d+")
_NOTEBOOK_FRAME = lazy_pattern(r"\s*(?:File )?(?P<path>[~/][^\s:]{1,400}\.py)(?::\d+,)? in \w")
_NUMBERED = lazy_pattern(r"\s*(?:-+>?\s*|>\s*)?\d+ ?")  # numbered source lines of a notebook cell
_CURRENT_CELL_LINE = lazy_pattern(r"\s*-+>\s*\d+ ")
_LIBRARY_PATHS = (
    "site-packages", "dist-packages", "/vllm/entrypoints/", "/vllm/engine/", "/vllm/v1/", "/vllm/executor/",
    "/vllm/worker/", "/vllm/benchmarks/",
)  # fmt: skip
_DESCRIBED = lazy_pattern(r"\s*(?:Args|Command|Image):(?:\s|$)", cues=("Args:", "Command:", "Image:"))
WORDS = (
    "vllm", "export ", "LLM(", "EngineArgs(", "command", "Command:", "entrypoint", "args:", "Args:", "image:", "Image:",
    "environment:", "env:", 'args"', 'image"', "args'", "image'", 'File "', "vLLM API server version", "LLM engine",
    "--tensor-parallel-size", "--max-model-len", "--gpu-memory-utilization", "--max-num-seqs",
)  # fmt: skip
"""Literals of which every line that begins a command or reports the start of a server contains at least one."""
_YAML_LINE = lazy_pattern(r"\s*(?:- |[\"']?[\w./ -]{1,60}[\"']?:(?:\s|$)|[\]})#])")


class CommandFinder:
    """The search for the command that the user typed for the current server start.

    Call `feed` with every line in order and `start_run` when the server starts again.
    """

    def __init__(self) -> None:
        self._current: tuple[int, Command] | None = None
        self._next: tuple[int, Command] | None = None  # typed after a server's output, for a later start
        self._start_follows = False  # a message of a server start followed that command
        self._start_due = False  # a server start followed that command
        self._printed = False  # a server has printed something
        self._serves_http = False
        self._quoted_line = -2  # the last line that quotes a client, or that may continue it
        self._started = False
        self._exports: dict[str, str] = {}
        self._frame_is_user_code = True
        self._follows_user_frame = False  # the previous line shows a call in the user's own code
        self._call: _Pending | None = None
        self._shell: _Pending | None = None
        self._document: _Pending | None = None
        self._document_indent = 0
        self._claimed = range(0)  # the line numbers of the last document that was a command

    @property
    def command(self) -> Command | None:
        """Return the command of the current start: the last one typed before it."""
        return None if self._current is None else self._current[1]

    @property
    def line(self) -> int | None:
        """Return the number of the line on which `command` begins."""
        return None if self._current is None else self._current[0]

    @property
    def is_idle(self) -> bool:
        """Return whether no command, document or call is being read, so that the next line cannot continue one."""
        return self._shell is self._document is self._call is None

    @property
    def is_reading(self) -> bool:
        """Return whether the command being read may continue on the next line."""
        return self._shell is not None

    def start_run(self) -> None:
        """Begin a new server start; a command typed immediately before it is its command."""
        self.finish()
        self._start_due = True
        self._take_next()
        self._started = True

    def _take_next(self) -> None:
        """Use the command typed after a server's output for the server start that follows it."""
        if self._next is not None and self._start_due and self._start_follows:
            self._current, self._next = self._next, None

    def skip_output(self) -> None:
        """Skip lines that a running server prints or that quote a client: a command before them started no server."""
        self.finish()
        self._printed = True
        self._next = None

    def quote_client(self, number: int) -> None:
        """Note that line `number` quotes a client: what follows may be the client's words, up to the next record."""
        self._quoted_line = number

    def contain_no_command(self, lines: Sequence[str]) -> bool:
        """Return whether the lines of a traceback contain no part of a command, in any context."""
        separate_finder = CommandFinder()
        for number, text in enumerate(lines):
            separate_finder.feed(number, text)
            if not separate_finder.is_idle:
                return False
        return separate_finder.command is None and not separate_finder._exports and not separate_finder._started

    def record_call(self, text: str) -> None:
        """Record a traceback line that shows a call; it is no part of a command. Call it only while `is_idle`."""
        is_users = _is_user_code(text)
        if is_users is not None:
            self._frame_is_user_code = is_users
            self._follows_user_frame = is_users

    def feed(self, number: int, text: str) -> None:
        """Read the line with this number."""
        if self._quoted_line == number - 1 and not _OUTPUT.match(text):
            self._quoted_line = number
            self.skip_output()
            return
        is_output = (not self._printed or not self.is_idle or self._next is not None) and bool(_OUTPUT.match(text))
        if is_output:
            self._record_output(text)
        if self.is_idle and not (any_of(WORDS).search(text) or _is_bare(text) or _is_continued(text) or key_of(text)):
            return
        if len(text) > MAX_CHARACTERS:
            self.finish()
            return
        is_output = is_output or bool(_OUTPUT.match(text))
        is_log = is_output or bool(_LOG_LINE.match(text))
        self._read_document(number, text, is_log=is_log)
        if self._shell is not None and not self._continue_shell(text, is_log=is_log):
            self._close_shell()
        elif self._shell is not None:
            return
        self._read_call(number, text)
        if not is_output:
            self._open_shell(number, text)
        elif not self._serves_http and self._current is None and _LAUNCHED.match(text):
            command = find_command(text)
            if command is not None:
                self._record(number, command)
        if any(word in text for word in _START_MESSAGES):
            self._started = True
            self._serves_http = self._serves_http or _START_MESSAGES[0] in text

    def _record_output(self, text: str) -> None:
        """Record a line that a server prints."""
        self._printed = True
        if self._shell is not None:
            self._close_shell()
        if self._next is None:
            return
        if any(word in text for word in _START_MESSAGES) or any(word in text for word in _PLATFORM_MESSAGES):
            self._start_follows = True
            self._take_next()
        elif not self._start_follows and _ERROR_RECORD.match(text):
            self._next = None

    def finish(self) -> None:
        """Parse every command, document and call that is still open."""
        self._close_document()
        self._close_shell()
        self._close_call()

    # Commands of a shell

    def _open_shell(self, number: int, text: str) -> None:
        if self._printed and not is_prompted(text):
            return
        if not self._printed and "export " in text and (export := _EXPORT.match(text)):
            self._export(export)
        continued = _is_continued(text)
        starts = may_start(text)
        bare = _is_bare(text)
        if not starts and not bare and not (continued and command_starts(text)):
            return
        self._shell = _Pending(number, [text], after_output=self._printed)
        if not continued and not bare and not self._quote_is_open() and not command_starts(text):
            self._close_shell()

    def _continue_shell(self, text: str, *, is_log: bool) -> bool:
        """Add a line to the shell command being read; return False when it does not belong to it."""
        pending = self._shell
        if pending is None or is_log or len(pending.lines) >= _MAX_LINES or pending.size > MAX_CHARACTERS:
            return False
        if _is_bare(pending.lines[0]) and not _FLAG_LINE.match(text):
            return False
        if _is_continued(pending.lines[-1]):
            pending.add(_SECOND_PROMPT.sub("", text, count=1) if _SECOND_PROMPT.match(text) else text)
            return True
        if _OTHER_PROMPT.match(text):
            return False
        if self._quote_is_open() and len(pending.lines) < _MAX_CALL_LINES:
            pending.add(text)
            return True
        if _FLAG_LINE.match(text):  # pasted without the backslashes
            pending.lines[-1] += " \\"
            pending.add(text.lstrip("> \t"))
            return True
        return False

    def _quote_is_open(self) -> bool:
        pending = self._shell
        if pending is None or pending.size > _MAX_QUOTED or not may_start(pending.text):
            return False
        lead = command_starts(pending.lines[0])
        start = lead[0].start if lead else 0
        return bool(lead) and not split(pending.text[start:])[1]

    def _close_shell(self) -> None:
        pending, self._shell = self._shell, None
        if pending is None or pending.line in self._claimed:
            return
        bare = _is_bare(pending.lines[0])
        command = parse_bare(pending.text) if bare else find_command(pending.text)
        if command is None and not bare and len(pending.lines) > 1:  # the lines after the first were not part of it
            command = find_command(pending.lines[0].removesuffix(" \\"))
        if command is not None:
            self._record(pending.line, command, after_output=pending.after_output)

    def _export(self, match: re.Match[str]) -> None:
        if len(self._exports) < _MAX_EXPORTS or match.group(1) in self._exports:
            words, _ = split(match.group(2))
            if words and words[0].word.value is not None and not words[0].operator:
                self._exports[match.group(1)] = words[0].word.value

    # Documents

    def _read_document(self, number: int, text: str, *, is_log: bool) -> None:
        pending = self._document
        if pending is not None:
            column = len(text) - len(text.lstrip())
            belongs = (not text.strip() or column > self._document_indent or _YAML_LINE.match(text) is not None
                       or is_item(text, pending.lines))
            full = len(pending.lines) >= _MAX_DOCUMENT_LINES or pending.size > MAX_CHARACTERS
            if belongs and not is_log and not full:
                pending.add(text)
                return
            self._close_document()
        if not (is_log or self._printed) and (key_of(text) or _DESCRIBED.match(text)):
            self._document = _Pending(number, [text])
            self._document_indent = len(text) - len(text.lstrip())

    def _close_document(self) -> None:
        pending, self._document = self._document, None
        if pending is None:
            return
        text = pending.text
        command = parse_document(text) if "vllm" in text or "--model" in text else None
        if command is not None:
            self._claimed = range(pending.line, pending.line + len(pending.lines))
            self._discard_since(pending.line)  # the part of it that was read as a shell command
            self._record(pending.line, command)

    def _discard_since(self, line: int) -> None:
        if self._current is not None and self._current[0] >= line:
            self._current = None

    # Python calls

    def _read_call(self, number: int, text: str) -> None:
        is_users = _is_user_code(text)
        follows_user_frame = self._follows_user_frame
        self._follows_user_frame = bool(is_users) or (follows_user_frame and _NUMBERED.match(text) is not None)
        if is_users is not None:
            self._frame_is_user_code = is_users
            self._close_call()
            return
        if self._call is not None:
            numbered = _NUMBERED.match(text) if _CURRENT_CELL_LINE.match(self._call.lines[0]) else None
            self._call.add(text[numbered.end() :] if numbered else text)
            if len(self._call.lines) >= _MAX_CALL_LINES or is_complete_call(self._call.text):
                self._close_call()
            return
        match = CALL.search(text) if "LLM(" in text or "EngineArgs(" in text else None
        if match is None:
            return
        shown = follows_user_frame if self._printed else self._frame_is_user_code
        if shown and not self._serves_http and _CALL_LEAD.match(text[: match.start()]):
            self._call = _Pending(number, [text])
            if is_complete_call(text):
                self._close_call()
        self._frame_is_user_code = True

    def _close_call(self) -> None:
        pending, self._call = self._call, None
        if pending is None:
            return
        command = parse_call(pending.text)
        if command is not None and (command.complete or len(pending.lines) == 1):
            self._record(pending.line, command)

    # What was found

    def _record(self, line: int, command: Command, *, after_output: bool = False) -> None:
        """Record a command; `after_output` says that a server had printed a line before it."""
        if self._exports:
            command = command._replace(environment=tuple({**self._exports, **dict(command.environment)}.items()))
        known = self._current
        if command.form == "python" and known is not None and known[1].form != "python":
            return  # the traceback shows code that the typed command runs
        if command.is_bare and known is not None:
            return  # flags without a program are weaker evidence than a command
        if after_output:
            self._next, self._start_follows, self._start_due = (line, command), False, False
        else:
            self._current = (line, command)


class _Pending:
    """The lines of one command, document or call that are parsed together once complete."""

    def __init__(self, line: int, lines: list[str], *, after_output: bool = False) -> None:
        self.line = line
        self.after_output = after_output
        self.lines = lines
        self.size = sum(map(len, lines))

    def add(self, text: str) -> None:
        self.lines.append(text)
        self.size += len(text)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@lru_cache(maxsize=64)
def _is_user_code(text: str) -> bool | None:
    """Return whether a line shows a call in the user's own code; None when it shows no call."""
    frame = _FRAME.search(text) if 'File "' in text else _NOTEBOOK_FRAME.match(text) if " in " in text else None
    return None if frame is None else not any(word in frame["path"] for word in _LIBRARY_PATHS)


def _is_bare(text: str) -> bool:
    """Return whether a line may begin a list of flags that was pasted without the program."""
    return text.startswith("--") and bool(_FLAG_LINE.match(text))


def _is_continued(text: str) -> bool:
    """Return whether the shell (sh, cmd, PowerShell) continues this command on the next line."""
    return text.rstrip().endswith(_CONTINUATIONS)


def is_complete_call(text: str) -> bool:
    """Return whether a call's closing bracket is present."""
    command = parse_call(text)
    return command is not None and command.complete
