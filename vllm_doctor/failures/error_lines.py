"""Which lines belong to the message of an exception, and which lines tell a failure without one."""

from __future__ import annotations

import re
from typing import NamedTuple

from vllm_doctor.events.event import LEVELS
from vllm_doctor.text.patterns import lazy_pattern

_LONGEST = 500  # characters of a line that are looked at
_SENTENCE_WORDS = 4
# Lines behind which the message is over, whatever it was.
_OVER = lazy_pattern(
    r"\s*(?:Traceback \(most|The above exception was|During handling of|(?:" + LEVELS + r")[ :]"
    r"|\[rank ?\d+\]:?\[|\[[WEIF]\d|Process [\w-]+:|Exception ignored|sys:\d|nanobind: |Killed\b|Aborted\b"
    r"|Segmentation|[$#>+] |\w*[\w.-]*@[\w.-]+[:$#]|\(\S+ pid=\d+\)|/\S+\.py:\d+: \w*Warning|warnings\.warn"
    r"|Future exception|future: <|\d{4}-\d\d-\d\d[ T]\d\d:\d\d|Loading |Capturing |Processed prompts|Name: |Version: "
    r"|\w+ \d\d-\d\d \d\d:\d\d:\d\d|={3,}|-{20,}|_{10,}|\w+-\d+ +\| |\+-[+-]{3}"
    r"|\[end of output\]|(?:srun|slurmstepd): error"
    r"|File <(?:command|ipython)-|stack backtrace:|note: (?:run with `RUST_|[Ss]ome details are omitted)"
    r"|EngineCore (?:failed to start|encountered a fatal error|hit an exception)|AsyncLLM output_handler failed"
    r"|WorkerProc (?:hit an exception|failed to start|initialization failed)|Invocation of \w+ method failed"
    r"|Error in (?:chat )?completion stream generator|Error executing method|Exception in (?:worker |callback )"
    r"|NoneType: None\s*$)")
# A first line whose message goes on behind blank lines and over many lines: compilers, validation, wrapped errors.
_QUOTES_ERROR = lazy_pattern(r"Worker failed with error '(?!.*', please check)(?!.*'\s*$)")
_LONG = lazy_pattern(
    r"(?::|\braised:|validation errors? for \S+|Error building extension .*|returned non-zero exit status \d+\.?"
    r"|with outputs?|stderr|failed with)\s*$")
MOST_LINES, MOST_LONG_LINES = 12, 80


def may_be_long(message: str) -> bool:
    """Return whether a message with this beginning has many lines, and may have blank ones."""
    return _LONG.search(message) is not None or _QUOTES_ERROR.search(message) is not None


def ends_message(text: str) -> bool:
    """Return whether a line is not part of the message before it."""
    return _OVER.match(text[:_LONGEST]) is not None


# --- failures without an exception -------------------------------------------------------------------------------

_FATAL = lazy_pattern(
    r"(?:^|[\s\]):|]|(?=LLVM ERROR: ))(?P<text>"
    r"The command was ended by signal \d+ .*|Fatal Python error: .*|Caught signal \d+ .*"
    r"|!{5,} ?\w*(?: \w+)* encountered.*|Segmentation fault.*|Bus error.*"
    r"|Aborted \(core dumped\)|Illegal instruction.*|Floating point exception.*|Killed$|Killed +\S.*"
    r"|Memory access fault by GPU node-\d+.*|HW Exception by GPU node-\d+.*"
    r"|Out of memory: Killed process.*|\S*oom[-_]kill\S*.*|\A.*\bOOMKilled\b.*"
    r"|Failed: (?:Cuda|CUDA|HIP|NCCL) error.*|terminate called after throwing an instance of .*|LLVM ERROR: .*"
    r"|libc\+\+abi: terminating (?:due to|with) uncaught (?:foreign )?exception.*"
    r"|\A.*Error response from daemon: .*|standard_init_linux\.go.*|exec \S+: (?:exec format error|no such file.*)"
    r"|\A.*executable file not found in .*|(?:\S+: )*(?:line \d+: )?\S+: command not found"
    r"|\A\S{1,200}: \S{1,200}\.(?:c|cc|cpp|cu|h|hpp|cuh|inl):\d+: (?!.*\bblock: \[).*Assertion .*"
    r"|\*\*\* (?:SIG\w+|Process received signal).*|Signal: \w+ .*|corrupted size vs\. prev_size.*|double free or .*"
    r"|\A.*free\(\): invalid pointer.*|munmap_chunk\(\).*|malloc\(\): .*|panicked at .*|thread '.*' panicked at .*"
    r"|nvidia-container-cli: .*|(?:/\S+|\S+\.sh): line \d+: .*(?:Killed|Aborted|Segmentation fault|Bus error).*"
    r"|CMake Error at .*|No solution found when resolving dependencies.*"
    r"|error: \S{1,200}:\d{1,7}:\d{1,5}: stack frame size .*"
    r"|(?:rocblaslt|rocBLAS|hipBLASLt) error: (?:Cannot|Could not) .*"
    r"|\A(?!\s{0,40}│).*\bexit(?:ed)?(?: with)?(?: exit)?[ -](?:code|status):? ?(?!0\b)-?\d+.*)$")
_OF_SHELL = lazy_pattern(
    r"(?:Killed|Aborted|Segmentation fault|Bus error|Illegal instruction|Floating point exception)\b")
_THROWN = lazy_pattern(
    r"terminate called after throwing an instance of '(?P<name>[\w:]{1,80})"
    r"|libc\+\+abi: terminating .{1,12} uncaught exception of type (?P<clang_name>[\w:]{1,80}?)(?:: |$)")
_WHAT = lazy_pattern(r"\s*what\(\): ")
_CMAKE = "CMake Error at "
_NOT_OF_CMAKE = lazy_pattern(r"\s*(?:$|--|CMake |Call Stack|\[|\w+: |[│×╰├└])")
_USAGE = lazy_pattern(
    r"(?:^|[\s)\]])(?P<program>vllm(?: [a-z-]+)*|[\w.-]+\.py|python3?(?: -m \S+)?): error: (?P<text>.+)$"
    r"|(?:^|[:|)\]] )(?P<other>[\w.-]{1,40}(?: [\w.-]{1,40}){0,3}): error: "
    r"(?P<rejection>(?:argument \S{1,80}: |unrecognized arguments: |ambiguous option: "
    r"|(?:the following|one of the) arguments ).+)$")
_SERVER_ERROR = lazy_pattern(
    r'(?:"(?:GET|POST|PUT|DELETE|PATCH) \S+ HTTP/[\d.]+"|^< HTTP/[\d.]+) (?P<text>[45]\d\d(?: [\w -]+)?)')
_LEVEL = lazy_pattern(
    r"(?:^|[\s|\[\]-])(?P<level>ERROR|CRITICAL|FATAL)(?=[\s|:\]-])|\[(?:error|critical|fatal)\]"
    r"|\blevel\W{1,3}(?:error|critical|fatal)\b"
    r"|^[EF]\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d{3,6} +\d+ [\w /.-]{1,120}\.(?:cpp|cc|cu|h):\d+\]")
_QUIET_LEVEL = lazy_pattern(r"(?:^|[\s|\[])(?:DEBUG|INFO|WARNING|WARN|info|warning)(?=[\s|:\]-])")
_MESSAGE_OF_OTHERS = lazy_pattern(
    r"^.{0,60}?\|\s*(?:ERROR|CRITICAL)\s*\|\s*(?P<text>.*)$", re.DOTALL)
_RECORD_OF_OTHERS = lazy_pattern(
    r"^(?:\[?\d{4}-\d\d-\d\d[T ][\d:.,]{5,18}(?:Z|[+-]\d\d:?\d\d)?\]?(?: +[\w.-]{1,40}){0,3}(?: +-)? +"
    r"(?:ERROR|CRITICAL|FATAL)(?::| -)?|ERROR) +(?:\[[^\[\]\s]{1,160}\] +)?(?P<text>\S.*)$", re.DOTALL)
_GLOG = lazy_pattern(
    r"^[EF]\d{4}(?:\d{4})? [\d:.]{8,18} +\d{1,9} [^\]]{1,160}:\d{1,6}\] (?P<text>\S.*)$", re.DOTALL)
"""Records of C++ libraries, such as Mooncake's."""
_CUT_PREFIX = lazy_pattern(
    r"(?:(?:\([^()\n]{1,80}(?:\) ?)?)*(?:ERR(?:OR?)?|CRITICAL|FATAL)"
    r"(?: [\d-]{0,10}(?: [\d:]{0,8}(?: \[?[\w./]{0,80}(?::\d{0,6}\]?)?)?)?)?"
    r"|\d\d-\d\d(?: \d\d:\d\d:\d\d(?: \[?[\w./]{0,80}(?::\d{0,6}\]?)?)?)?"
    r"|\w{0,60} pid=\d{1,9}\) (?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[\w./]{1,80}:\d{1,6}\][ ~^]{0,200})$")
"""A record that a paste cut within its prefix."""
_MARKED_CODE = lazy_pattern(r"\s*-{1,5}> \d{1,6} {1,40}(?P<code>\S.*)$")
_COLUMNS = lazy_pattern(  # up to a place (`module:function:12 - `), or the name of a stream or a logger
    r"^(?:(?:[^|\n]{1,80}\| ){0,6}(?=\S{1,120}(?::\S{1,80}){1,2} - )"
    r"|(?!(?:int|str|float|bool|bytes|dict|list|tuple|type) )[a-z_][\w.]{2,60} {1,20}\| )")
_PLACE = lazy_pattern(r"^\S{1,120}(?::\S{1,80}){1,2} - ")
# A sentence that can only be the words of an error, for a log that shows nothing else.
_SENTENCE = lazy_pattern(
    r"\b(?:error|failed|failure|cannot|can't|could not|couldn't|unable to|must (?:not )?be|not found|no such|invalid"
    r"|unexpected|unsupported|not supported|does not (?:exist|support|have|recognize)|doesn't|has no attribute"
    r"|object is not|unexpectedly"
    r"|missing \d+ required|got an unexpected keyword|no module named|out of memory|refused|denied|not allowed"
    r"|exceeds|too (?:large|long|small|many)|is larger than|not available|incompatible|mismatch|timed out|problem"
    r"|is required|undefined symbol|unrecognized)\b", re.IGNORECASE)
_NO_SENTENCE = lazy_pattern(
    r"^\s*(?:[$#>+] |usage: |[\w.-]+=|--?\w|warnings\.warn\()|\bTriton is installed\b"
    r"|\b(?:0 errors?|no errors?|without errors?)\b"
    r"|(?-i:(?:^|[ (])(?:I|I'm|I've|I'd|my|My)(?=[ ,.]))", re.IGNORECASE)
_SOURCE_LINE = lazy_pattern(
    r" {4}(?:return |raise |await |yield (?:from )?|[\w.\[\], ]{1,120} = )?(?:await )?[\w.\[\]]{1,120}\("
    r"|(?:return|raise|await|yield from) [\w.\[\]]{1,120}\(| {4,40}(?:raise|return)(?: [\w.]{1,80}){0,3}\s*$"
    r"| {4,40}\^{3,}| {0,40}[~^]{4,}\s*$"
    r"| {0,8}File \"[^\"]{0,300}(?:\"(?:, line \d{0,9},?)?)?$")  # a call that is cut off
_DEVICE_MEMORY = lazy_pattern(
    r"\b(?:CUDA|HIP|XPU|NPU)(?:(?: driver)? error:)? out of memory|CUBLAS_STATUS_ALLOC_FAILED")
_OWN_SOURCE = lazy_pattern(
    r"(?:/workspace|/vllm(?:-workspace)?|\s)/?(?P<file>csrc/[\w./-]{1,200}\.(?:cpp|cu|cuh|h)):\d{1,6}\b")
"""How a message names a file of vLLM's C++ and CUDA code."""
REFUSED_CALL = lazy_pattern(r"\[Errno -?\d{1,4}\] (?:[^':]{1,100}(?P<path>: ')?)?")
"""How an exception begins that reports a refused system call, whatever its class; `path` matches before a path."""
_QUOTE_MARK = lazy_pattern(r"\s{0,3}> (?=[A-Z])")
"""Markdown's mark of a quoted sentence; behind a shell's prompt stands a command."""


class Rejection(NamedTuple):
    """What a command-line parser rejects, and the program that it is of; empty for vLLM's."""

    text: str
    program: str


def has_sentence_length(message: str) -> bool:
    """Return whether a message has enough words to tell a user something."""
    return len(message.split()) >= _SENTENCE_WORDS


def process_death(text: str, *, logged: bool = False) -> str | None:
    """Return what a line reports about a killed process: a signal, the kernel, a runtime, a container.

    The shell's words count only outside of a record of the server (`logged`), which may quote a client.
    """
    match = _FATAL.search(text[:_LONGEST])
    if match is None or (logged and _OF_SHELL.match(match["text"])):
        return None
    return match["text"].strip()


def cpp_exception_class(text: str) -> str | None:
    """Return the class of a C++ exception that ended a process."""
    match = _THROWN.search(text[:_LONGEST])
    return match["name"] or match["clang_name"] if match else None


def continues_message(message: str, text: str) -> bool:
    """Return whether a line belongs to what a line before it reports about a process: what CMake or C++ says."""
    if message.startswith(_CMAKE):
        return _NOT_OF_CMAKE.match(text[:_LONGEST]) is None
    return _WHAT.match(text[:_LONGEST]) is not None and cpp_exception_class(message) is not None


def argument_parser_error(text: str) -> Rejection | None:
    """Return what a command-line parser rejects."""
    match = _USAGE.search(text[:_LONGEST])
    return Rejection(match["text"] or match["rejection"], match["other"] or "") if match else None


def http_answer(text: str) -> str | None:
    """Return the status and its words if a line of an access log, or of `curl -v`, reports a failed request."""
    match = _SERVER_ERROR.search(text)
    return match["text"] if match else None


def level_of(text: str, level: str) -> str:
    """Return the level of a record, also of other loggers' formats; empty for a line without one."""
    if level:
        return level
    head = text[:100]
    found = _LEVEL.search(head)
    quiet = _QUIET_LEVEL.search(head)
    if quiet and (found is None or quiet.start() < found.start()):
        return "INFO"
    return "ERROR" if found else ""


def record_message(text: str) -> str:
    """Return the message of another logger's record, without its prefix."""
    match = _MESSAGE_OF_OTHERS.match(text)
    if match is None:
        other = _RECORD_OF_OTHERS.match(text) or _GLOG.match(text)
        return text if other is None else other["text"]
    return _PLACE.sub("", _COLUMNS.sub("", match["text"]))


def is_cut_prefix(text: str) -> bool:
    """Return whether a line is only the beginning of a record's prefix, as where a paste ends."""
    return _CUT_PREFIX.match(text.strip()[:_LONGEST]) is not None


def is_source_line(text: str) -> bool:
    """Return whether a record is a line of source code, whose call was above the beginning of the log."""
    return _SOURCE_LINE.match(text[:_LONGEST]) is not None


def is_of_device_memory(text: str) -> bool:
    """Return whether a message says that a device ran out of memory."""
    return _DEVICE_MEMORY.search(text) is not None


def own_source(message: str) -> str | None:
    """Return the file of vLLM's C++ or CUDA code that a message names."""
    match = _OWN_SOURCE.search(message[:_LONGEST])
    return match["file"] if match else None


def without_quote_mark(text: str) -> str:
    """Return a line without the mark with which Markdown quotes a sentence."""
    return _QUOTE_MARK.sub("", text, count=1)


def marked_code(text: str) -> str | None:
    """Return the source line that IPython marks as the place of an exception (`-> 1740     assert x`); else None."""
    match = _MARKED_CODE.match(text[:_LONGEST])
    return match["code"] if match else None


def is_error_sentence(text: str) -> bool:
    """Return whether a line reads like an error message."""
    return len(text) < 2000 and _SENTENCE.search(text) is not None and _NO_SENTENCE.search(text) is None
