"""The starts of the server in one log ("runs"): the messages that begin and end them, and their count."""

from __future__ import annotations

from vllm_doctor.events.event import QUIET_LEVELS
from vllm_doctor.logs.line_prefix import QUOTING
from vllm_doctor.text.literal_search import any_of
from vllm_doctor.text.patterns import lazy_pattern

_PROMPT = lazy_pattern(r"(?:^|[$#>%+]\s)\S*(?:vllm serve |python3? -m vllm\.entrypoints)")
_ENDED = (
    "Engine core initialization failed", "Engine process failed to start", "EngineCore failed to start",
    "vllm: error: ", "vllm serve: error: ", "api_server.py: error: ", "Finished server process",
    "Application shutdown complete", "EngineDeadError", "Engine loop is dead", "Out of memory: Killed process",
    "exited with code", "SystemExit", "Segmentation fault",
)  # fmt: skip
WORDS = (
    "vllm serve ", "-m vllm.entrypoints", "usage: vllm", "usage: api", "usage: __main__", "vLLM API server version",
    "version ", "args: ", "LLM engine", "Engine core initialization failed", "failed to start", "error: ",
    "Finished server process", "Application shutdown complete", "EngineDeadError", "Engine loop is dead",
    "Killed process", "exited with code", "SystemExit", "Segmentation fault",
)  # fmt: skip
"""Literals; a message without any of them neither begins nor ends a start (one for each expression here)."""
_LOGO = "█▀▄ "
_OF_STARTS = frozenset({"", "DEBUG", "INFO"})  # levels of the messages of a start
_TYPED = frozenset({"prompt", "usage"})  # not printed by vLLM's logger
_STAGES = (  # the messages of a start, each with literals of which its line contains at least one
    ("prompt", ("vllm serve ", "-m vllm.entrypoints"), _PROMPT),
    ("usage", ("usage: ",), lazy_pattern(r"usage: (?:vllm|api_server\.py|__main__\.py)\b")),
    ("banner", ("server version", " version "), lazy_pattern(r"vLLM API server version|█ {1,8}version \d")),
    ("arguments", ("args: ",), lazy_pattern(r"args: Namespace\(|non-default args: \{")),
    ("engine", ("LLM engine",), lazy_pattern(r"Initializing an? (?:V\d )?LLM engine")),
)


def process_name(process: str) -> str:
    """Return the name of a process without its id, which changes with every start."""
    return process.partition(" ")[0]


def stage_of(message: str, level: str = "") -> str:
    """Return the stage of a start that a message belongs to; empty for other messages.

    The message of a record, which has a level, begins with the words; a client may be quoted behind its own, and behind
    the record of another program.
    """
    for name, words, pattern in _STAGES:
        for word in words:
            if word in message and (found := pattern.search(message)):
                before = message[: found.start()].strip(_LOGO)
                if not before or not (level or QUOTING.search(before)):
                    return name if level in _OF_STARTS or name in _TYPED else ""
    return ""


def ends_run(message: str, level: str = "") -> bool:
    """Return whether a message that belongs to no stage ends a start."""
    if level in QUIET_LEVELS:
        return message.startswith(_ENDED)
    return any(word in message for word in _ENDED)


def concerns_run(message: str, level: str = "") -> bool:
    """Return whether a message may begin or end a start."""
    return stage_of(message, level) != "" or ends_run(message, level)


class RunCounter:
    """The number of server starts in one log.

    A start prints up to three banners in this order: the version, its arguments, the engine. A banner that does not
    follow the previous one in this order, or that follows an end, begins a new start. A server prints its version
    first, so arguments alone begin none after it. Where no banner is printed (a script with `LLM(…)`), an engine
    that begins after the previous one ended does.
    """

    _ORDER = ("prompt", "usage", "banner", "arguments", "engine")

    def __init__(self) -> None:
        self.run = 1
        self._seen: dict[str, str] = {}
        self._ended = False
        self._crashed = False

    def begin(self) -> int:
        """Begin another run; return its number."""
        self.run += 1
        self._seen, self._ended, self._crashed = {}, False, False
        return self.run

    def crash(self) -> None:
        """Record an exception without a record prefix: most often the end of a process."""
        self._crashed = True

    def record_message(self, message: str, process: str, level: str = "") -> int:
        """Return the number of the run that `message` belongs to."""
        if not any_of(WORDS).search(message):
            return self.run
        stage = stage_of(message, level)
        if stage or (not self._ended and ends_run(message, level)):
            return self.record_stage(stage, process_name(process), level)
        return self.run

    def record_stage(self, stage: str, name: str, level: str) -> int:
        """Record a stage, or the end of a run if `stage` is empty; return the number of the run."""
        if not stage:
            self._ended = True
            return self.run
        if stage == "prompt" and level == "WARNING":  # logged by a stopping server: its command holds its port
            return self.run
        if name and not level and stage in {"prompt", "arguments"}:  # the text of an exception: nobody types there
            return self.run
        if self._begins_run(stage, name):
            self.begin()
        self._seen[stage] = name
        return self.run

    def _begins_run(self, stage: str, name: str) -> bool:
        """Return whether a banner of this stage begins another start."""
        if stage == "engine":
            return (self._ended or self._crashed) and self._seen.get("engine") == name
        if stage == "arguments":
            return self._ended or (self._seen.get("arguments") == name and "banner" not in self._seen)
        if stage == "prompt":  # a log line may look like a prompt
            over = self._ended or self._crashed
            return bool(self._seen) and (over or (self._seen.keys() <= {"prompt", "usage"} and stage in self._seen))
        at = self._ORDER.index(stage)
        return self._ended or self._crashed or any(self._ORDER.index(seen) >= at for seen in self._seen)
