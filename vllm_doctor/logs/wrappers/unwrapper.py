"""Wrappers off a line, one inside the other, with a memory for those that were in doubt.

The first character of a text says which wrapper functions are asked, in order. What was proven once (a name, a kind of
wrapper) is remembered; messages that came in parts are put together. All that is kept is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from vllm_doctor.logs.line_prefix import BARE, LOG_HEAD
from vllm_doctor.logs.wrappers.ci import (
    actions_mark,
    buildkite,
    buildkite_row,
    gh_run_view,
    gitlab,
    jenkins,
    pytest_failure,
)
from vllm_doctor.logs.wrappers.containers import compose, process_manager
from vllm_doctor.logs.wrappers.journal import journald, syslog
from vllm_doctor.logs.wrappers.json_lines import WHOLE, json_line
from vllm_doctor.logs.wrappers.kubernetes import google_viewer, kubectl_prefix, loki, pod, pod_only
from vllm_doctor.logs.wrappers.logfmt import logfmt
from vllm_doctor.logs.wrappers.quotes import quoted
from vllm_doctor.logs.wrappers.ranks import djl, mpirun, ray, srun, torchrun, torchserve
from vllm_doctor.logs.wrappers.timestamps import PART_WORDS, clock, clock_wide, stamped
from vllm_doctor.logs.wrappers.wrapper_match import Peeled, Wrapper

MAX_DEPTH = 8  # wrappers around one line; more is not a log
MAX_KNOWN = 4096  # names remembered; bounds memory on hostile input
MAX_PARTIAL = 256 * 1024  # characters of one message put together from parts
MAX_PARTIALS = 64  # messages that may be incomplete at once

_STRINGS = ("docker-json", "json-lines", "containerd", "logfmt")  # what was inside may hold line ends of its own
_LETTERS: tuple[Wrapper, ...] = (
    gitlab, compose, journald, gh_run_view, google_viewer, djl, torchserve, process_manager, pod, logfmt,
)  # fmt: skip
_DIGITS: tuple[Wrapper, ...] = (
    stamped, process_manager, gitlab, compose, clock_wide, clock, srun, journald, gh_run_view, pod,
)  # fmt: skip
_BY_HEAD: dict[str, tuple[Wrapper, ...]] = {
    "{": (json_line, loki),
    "[": (kubectl_prefix, jenkins, torchrun, mpirun, clock_wide, clock, djl, torchserve, journald),
    "(": (ray,),
    "<": (syslog,),
    ">": (quoted,),
    "#": (actions_mark,),
    "_": (buildkite,),
    "-": (clock,),
    " ": (buildkite_row, srun, journald),
    **dict.fromkeys("0123456789", _DIGITS),
    **dict.fromkeys("ямфаисонд", (journald,)),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTERS),
    "E": (pytest_failure, *_LETTERS),
}


class Piece(NamedTuple):
    """A message on its way out: the first physical line, the text so far, the source so far."""

    number: int
    text: str
    source: str = ""
    follows: bool = False  # behind a carriage return: the source of the piece before is its own
    doubt: str = ""  # the key that would have to be proven to go on
    repeats: bool = False


class Unwrapper:
    """Takes wrappers off, one inside the other, and remembers what was proven.

    `unfold` makes the lines of a text that may hold newlines, carriage returns and terminal escapes: it is applied
    to what a JSON string or the parts of a containerd message held.
    """

    def __init__(self, unfold: Callable[[str], list[str]]) -> None:
        self.counts: dict[str, int] = {}
        self.cut = 0  # messages put together from parts that were longer than MAX_PARTIAL
        self._known: set[str] = set()
        self._partial: dict[tuple[str, str, str], tuple[int, list[str], int]] = {}
        self._unfold = unfold

    def count(self, name: str) -> None:
        """Note that a wrapper was taken off a line."""
        self.counts[name] = self.counts.get(name, 0) + 1

    @property
    def known(self) -> int:
        """How many keys have been proven: it only grows."""
        return len(self._known)

    @property
    def waiting(self) -> bool:
        """Whether messages that came in parts lack their last one."""
        return bool(self._partial)

    def learn(self, key: str) -> None:
        """Take `key` for proven from now on, and with it its kind."""
        if len(self._known) < MAX_KNOWN:
            self._known.update((key, key.partition(":")[0]))

    def unwrap(self, piece: Piece, *, final: bool = False, depth: int = 0) -> list[Piece]:
        """The messages in `piece`: none (a marker, or a part), one, or several (a JSON record with newlines).

        One whose `doubt` is set waits for evidence; given again with `final`, it is taken as it stands.
        """
        number, text, source, follows = piece.number, piece.text, piece.source, piece.follows
        composed = False
        while depth < MAX_DEPTH and not BARE.match(text):
            found = self._peel(text)
            if found is not None and found.name == "compose":
                if composed:
                    break  # a table inside a compose log
                composed = True
            if found is not None and not self._proven(found):
                if not final:
                    return [Piece(number, text, source, follows, found.key, found.repeats)]
                found = pod_only(text) if found.name == "stern" else None
                if found is not None and not self._proven(found):
                    found = None
            if found is None:
                break
            depth += 1
            self.count(found.name)
            if found.source:
                source = f"{found.source} / {source}" if source else found.source
            if found.drop:
                return []
            text = found.rest
            if found.part:
                joined = self._join(number, source, found)
                if joined is None:
                    return []
                number, text = joined
            if found.name in _STRINGS:
                lines = self._unfold(text)
                if len(lines) > 1:
                    pieces = (Piece(number, line, source, follows) for line in lines)
                    return [p for piece in pieces for p in self.unwrap(piece, final=final, depth=depth)]
                text = lines[0]
        return [Piece(number, text, source, follows)]

    def rest(self) -> list[Piece]:
        """At the end of the input: messages whose last part never came."""
        parts = sorted(self._partial.items(), key=lambda item: item[1][0])
        self._partial.clear()
        out: list[Piece] = []
        for (_, source, _), (number, texts, _) in parts:
            for line in self._unfold("".join(texts)):
                out += self.unwrap(Piece(number, line, source), final=True, depth=1)
        return out

    def wrapped(self, text: str) -> bool:
        """Whether something that looks like a wrapper stands in front (proven or not)."""
        return not BARE.match(text) and self._peel(text) is not None

    def alone(self, text: str) -> Piece | None:
        """The message in a line that is one by itself; None where it has to wait for others, or may. Only at rest."""
        if BARE.match(text):
            return Piece(0, text)
        if any(word in text for word in PART_WORDS) or (text[:1] == "{" and WHOLE not in text):
            return None
        counts = self.counts.copy()
        pieces = self.unwrap(Piece(0, text))
        if len(pieces) == 1 and not pieces[0].doubt:
            return pieces[0]
        self.counts = counts  # the line will be given again
        return None

    def evident(self, text: str) -> bool:
        """Whether `text` begins as a log line does, wrapped or not."""
        bare = BARE.match(text)
        if bare and not text[:1].isspace():
            return True
        if LOG_HEAD.match(text):
            return True
        found = None if bare else self._peel(text)
        return found is not None and self._proven(found)

    def _proven(self, found: Peeled) -> bool:
        """By its form, by its name, or because the file has others of its kind."""
        return found.sure or found.key in self._known or (found.repeats and found.name in self._known)

    def _join(self, number: int, source: str, found: Peeled) -> tuple[int, str] | None:
        """Put the parts of one stream's message together: (first line's number, text), or None until it is whole."""
        key = (found.name, source, found.part)
        first, texts, size = self._partial.pop(key, (number, [], 0))
        if found.last and not texts:
            return number, found.rest
        room = MAX_PARTIAL - size
        if 0 < room < len(found.rest) or room == 0 < len(found.rest):
            self.cut += 1
        texts.append(found.rest[: max(room, 0)])
        size = min(size + len(found.rest), MAX_PARTIAL + 1)
        if found.last or len(self._partial) >= MAX_PARTIALS:
            return first, "".join(texts)
        self._partial[key] = (first, texts, size)
        return None

    def _peel(self, text: str) -> Peeled | None:
        """The outermost wrapper; a doubtful one is proven here when a log line stands behind it."""
        doubtful: Peeled | None = None
        for wrapper in _BY_HEAD.get(text[:1], ()):
            found = wrapper(text)
            if found is None:
                continue
            if found.name == "compose" and f"pod:{found.source}" in self._known:
                continue  # the bar is an exception group's
            if found.name == "stern" and "pod" in self._known and found.key not in self._known:
                found = pod_only(text) or found  # pods without a container were seen
            if not self._proven(found) and not self._proof(found.rest):
                doubtful = doubtful or found
                continue
            if found.key and found.key not in self._known:
                self.learn(found.key)
            return found
        return doubtful

    def _proof(self, rest: str) -> bool:
        if LOG_HEAD.match(rest):
            return True
        for wrapper in _BY_HEAD.get(rest[:1], ()):
            found = wrapper(rest)
            if found is not None and (found.sure or LOG_HEAD.match(found.rest)):
                return True
        return False
