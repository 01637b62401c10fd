"""The starts of the server in one log ("runs"): what a start prints, what tells its end, how many there are."""

from __future__ import annotations

from vllm_doctor.literal_search import any_of
from vllm_doctor.patterns import lazy

_PROMPT = lazy(r"(?:^|[$#>%+]\s)\S*(?:vllm serve |python3? -m vllm\.entrypoints)")
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
"""Literals without which a message says nothing of a start or its end: of each expression here one."""
_STAGES = (  # what a start prints, and of each the words that a line of it holds
    ("prompt", ("vllm serve ", "-m vllm.entrypoints"), _PROMPT),
    ("usage", ("usage: ",), lazy(r"usage: (?:vllm|api_server\.py|__main__\.py)\b")),
    ("banner", ("server version", " version "), lazy(r"vLLM API server version|[█▀▄ ]{3,} version \d")),
    ("arguments", ("args: ",), lazy(r"args: Namespace\(|non-default args: \{")),
    ("engine", ("LLM engine",), lazy(r"Initializing an? (?:V\d )?LLM engine")),
)


def name_of(process: str) -> str:
    """A process without its id, which a new start has anew."""
    return process.partition(" ")[0]


def stage_of(message: str) -> str:
    """Which of these a message is; empty for another one."""
    for name, words, pattern in _STAGES:
        for word in words:
            if word in message and pattern.search(message):
                return name
    return ""


def ends(message: str) -> bool:
    """Whether a message tells the end of a start, where it is none of _STAGES."""
    return any(word in message for word in _ENDED)


def concerns(message: str) -> bool:
    """Whether a message may begin or end a start."""
    return stage_of(message) != "" or ends(message)


class RunCounter:
    """Counts the starts of the server in one log.

    A start prints up to three banners in this order: the version, its arguments, the engine. A banner that is not
    behind the one last seen, or that comes after an end, is a new start. Where no banner is printed (a script with
    `LLM(…)`), an engine that begins after the last one ended is.
    """

    _ORDER = ("prompt", "usage", "banner", "arguments", "engine")

    def __init__(self) -> None:
        self.run = 1
        self._seen: dict[str, str] = {}
        self._ended = False
        self._crashed = False

    def crash(self) -> None:
        """Note an exception that nobody logged: most often the end of a process."""
        self._crashed = True

    def see(self, message: str, process: str, level: str = "") -> int:
        """The number of the run `message` belongs to."""
        if not any_of(WORDS).search(message):
            return self.run
        stage = stage_of(message)
        return self.hear(stage, name_of(process), level) if stage or (not self._ended and ends(message)) else self.run

    def hear(self, stage: str, name: str, level: str) -> int:
        """The number of the run that a banner belongs to, or, where `stage` is empty, that it ends."""
        if not stage:
            self._ended = True
            return self.run
        if stage == "prompt" and level == "WARNING":  # when it stops it logs the command that holds its port, its own
            return self.run
        if self._anew(stage, name):
            self.run += 1
            self._seen, self._ended, self._crashed = {}, False, False
        self._seen[stage] = name
        return self.run

    def _anew(self, stage: str, name: str) -> bool:
        """Whether a banner of this stage begins another start."""
        if stage == "engine":
            return (self._ended or self._crashed) and self._seen.get("engine") == name
        if stage == "arguments":
            return self._ended or self._seen.get("arguments") == name
        if stage == "prompt":  # a line of a log may look like one
            over = self._ended or self._crashed
            return bool(self._seen) and (over or (self._seen.keys() <= {"prompt", "usage"} and stage in self._seen))
        at = self._ORDER.index(stage)
        return self._ended or self._crashed or any(self._ORDER.index(seen) >= at for seen in self._seen)
