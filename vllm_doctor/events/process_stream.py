"""ProcessStream: the traceback or exception message that one process is printing."""

from __future__ import annotations

from vllm_doctor.events.exception_messages import validation_errors
from vllm_doctor.events.notebook_tracebacks import NotebookTraceback
from vllm_doctor.events.rich_tracebacks import RichBox

MOST_PROCESSES = 512
"""As many are told apart at once, so that memory does not grow with the log."""
_BARE_DETAIL = 6  # lines that may belong to the message of an exception without a traceback
_MAX_DETAIL = 40  # lines that may belong to the message of an exception
_MAX_OTHER_MESSAGES = 1  # other messages of a process within its traceback, after which the traceback is abandoned


class ProcessStream:
    """The state of one process: the traceback it is printing."""

    def __init__(self) -> None:
        self.last = 0  # the line number at which it was last open
        self.level = ""  # of the traceback's first line
        self.other_messages = 0  # other messages since then
        self.frames: list[str] = []
        self.code = ""  # the source line of the last call
        self.depth = 2  # the indentation of the last call's line
        self.inside = False  # between "Traceback" and the exception's line
        self.is_clients = False  # the traceback began in the message of a request's exception, or of a refusal
        self.indent = 0  # the indentation of the entire traceback (a log pasted as a quotation)
        self.detail = 0  # how many more lines may belong to the exception's message
        self.last_frames = ""  # the frames of the exception just printed
        self.message: list[str] = []  # the lines of that exception's message so far
        self._box = RichBox()
        self._notebook = NotebookTraceback()

    def row(self, text: str) -> str | None:
        """Return the line that Python prints for a row of Rich's or IPython's traceback; see their modules."""
        row = self._box.line(text)
        return self._notebook.line(text) if row is None else row

    @property
    def is_open(self) -> bool:
        """Return whether a traceback or a message may go on."""
        return self.inside or self.detail > 0

    def open(self, level: str, indent: int = 0) -> None:
        """Begin a traceback."""
        self.indent = indent
        self.frames, self.code = [], ""
        self.inside, self.detail, self.level, self.other_messages = True, 0, level, 0

    def begin_message(self, message: str) -> None:
        """Begin the message of an exception without a traceback; pydantic prints three lines for each error."""
        self.indent = 0
        lines = max(_BARE_DETAIL, 3 * validation_errors(message))
        self.detail, self.last_frames, self.message = min(lines, _MAX_DETAIL), "", [message]

    def end(self, message: str, frames: str) -> None:
        """End a traceback with the first line of its exception's message; `frames` are its calls."""
        self.inside, self.last_frames = False, frames
        self.detail, self.message = _MAX_DETAIL, [message]

    def record_other_message(self) -> None:
        """Record a message outside the traceback.

        It ends the message of an exception; after more than _MAX_OTHER_MESSAGES of them the traceback is abandoned.
        """
        self.detail = 0
        self.other_messages += 1
        self.inside = self.inside and self.other_messages <= _MAX_OTHER_MESSAGES
