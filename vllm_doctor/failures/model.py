"""The failure object: what failed, where it was raised, whose code that is, and what it belongs to."""

from __future__ import annotations

from typing import NamedTuple

from vllm_doctor.text.patterns import lazy_pattern

MAX_MESSAGE = 4096  # characters of a message that are kept
ENGINE_PROCESS = lazy_pattern(r"EngineCore|(?:Vllm|Ray)?Worker")
"""Names of the processes that run the engine and the model."""


class Frame(NamedTuple):
    """One call of a traceback: the path as printed, the line, the function and its source line, where they are shown.

    `function` is empty and `line` is 0 where the log does not show them. `shown` is the path as printed, where `path`
    completes it.
    """

    path: str
    line: int = 0
    function: str = ""
    code: str = ""
    shown: str = ""


class Place(NamedTuple):
    """A place in code: the package (None for the user's own), the file from the package on, the function, the line.

    `line` is 0 if the log does not show it.
    """

    package: str | None
    file: str
    function: str
    line: int


class Setting(NamedTuple):
    """A flag or variable that the user set, and where: command, arguments, environment."""

    flag: str
    value: str
    source: str


class Candidate(NamedTuple):
    """One thing in the log that may be the failure.

    `shape` is what it was read from: traceback, exception (a bare line), record, fatal, http, cut (a traceback without
    its exception) or sentence. `chain` says how the next exception of its traceback follows from it: cause, handling
    or nothing; `group` is the number that all exceptions of one chained traceback share.
    """

    line: int
    last_line: int
    shape: str
    exception: str | None
    message: str
    frames: tuple[Frame, ...] = ()
    level: str = ""
    process: str = ""
    phase: str = ""
    served: bool = False
    advances: int = 0  # how often the start had made progress by then
    group: int = 0
    chain: str = ""
    introduction: str = ""  # what the record says before the exception: `Error in applying chat template from request`
    ignored: bool = False  # Python printed that it ignores it
    begin: int = 0  # the line with which its traceback begins; its own line where it has none
    module: str = ""  # of the exception's class, where the log shows it
    is_of_worker: bool = False  # a worker's error that the engine quotes
    is_logged: bool = False  # vLLM's logger printed it
    native: str = ""  # the symbols of native code on the stack of a crash, one a line, the most recent first

    @property
    def is_of_engine(self) -> bool:
        """Return whether a process printed it that runs the engine or the model."""
        return ENGINE_PROCESS.match(self.process) is not None

    @property
    def is_refused_request(self) -> bool:
        """Return whether it is the answer 4xx to a request that the server rejected as invalid."""
        return self.shape == "http" and self.message.startswith("4")

    @property
    def is_server_error(self) -> bool:
        """Return whether it is the answer 5xx to a request."""
        return self.shape == "http" and self.message.startswith("5")

    @property
    def is_cut(self) -> bool:
        """Return whether it is a traceback of which the log does not show the exception."""
        return self.shape == "cut" and self.exception is None

    @property
    def has_cut_calls(self) -> bool:
        """Return whether its calls are those of a traceback that the log cuts off: deeper ones may be missing."""
        return self.is_cut or self.shape == "record"


class Failure(NamedTuple):
    """What failed. `exception` is None where the log shows none; features.yaml lists the features."""

    line: int
    last_line: int
    exception: str | None
    message: str
    origin: Place | None
    vllm_frame: Place | None
    caller: str | None
    own_frame: Place | None
    feature: str | None
    kind: str
    settings: tuple[Setting, ...]
    signature: str
    direction: str = ""  # what the names of vLLM's releases say of it: a kind of catalog.names.Direction
    direction_sentence: str = ""
    direction_command: str = ""
    source_line: str = ""  # the code at the origin, where the log shows it
    is_consequence: bool = False  # of another failure, which the log does not show
    is_alone: bool = False  # nothing of a server stands in the log beside it
    message_file: str = ""  # the file of vLLM that has an error with these words, if the log shows no calls
    is_of_worker: bool = False  # the engine quotes it, and the worker's own traceback is not in the log
