"""Remove the wrappers of a line, from the outermost inwards, and remember the doubtful ones that were proven.

The first character of a text selects the wrapper functions to try, in order. A name or a kind of wrapper that was
proven once is remembered; messages that arrive in parts are joined. Everything that is kept is bounded.
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
from vllm_doctor.logs.wrappers.containers import compose, docker_build, process_manager, relayed
from vllm_doctor.logs.wrappers.journal import journald, syslog
from vllm_doctor.logs.wrappers.json_lines import WHOLE, json_line
from vllm_doctor.logs.wrappers.kubernetes import google_viewer, kubectl_prefix, loki, pod, pod_only
from vllm_doctor.logs.wrappers.logfmt import logfmt
from vllm_doctor.logs.wrappers.quotes import quoted
from vllm_doctor.logs.wrappers.ranks import djl, labelled, mpirun, ray, srun, torchrun, torchserve, unsloth
from vllm_doctor.logs.wrappers.timestamps import PART_WORDS, clock, clock_wide, cloudwatch, stamped
from vllm_doctor.logs.wrappers.wrapper_match import Wrapper, WrapperMatch

MAX_DEPTH = 8  # wrappers around one line; a line with more is no log line
MAX_KNOWN = 4096  # names remembered; bounds memory on hostile input
MAX_PARTIAL = 256 * 1024  # characters of one message joined from parts
MAX_PARTIALS = 64  # messages that may be incomplete at once

_STRINGS = ("docker-json", "json-lines", "otlp", "containerd", "logfmt")  # the inner text may contain line ends
_LETTERS: tuple[Wrapper, ...] = (
    gitlab, compose, journald, gh_run_view, google_viewer, djl, torchserve, process_manager, pod, logfmt,
)  # fmt: skip
_DIGITS: tuple[Wrapper, ...] = (
    relayed, stamped, cloudwatch, process_manager, docker_build, gitlab, compose, clock_wide, clock, srun, journald,
    gh_run_view, pod,
)  # fmt: skip
_BY_HEAD: dict[str, tuple[Wrapper, ...]] = {
    "{": (json_line, loki),
    "[": (kubectl_prefix, jenkins, torchrun, mpirun, clock_wide, clock, djl, torchserve, journald, labelled),
    "(": (ray,),
    "<": (syslog,),
    ">": (quoted,),
    "#": (actions_mark, docker_build),
    "_": (buildkite,),
    "-": (clock,),
    " ": (buildkite_row, srun, journald),
    **dict.fromkeys("0123456789", _DIGITS),
    **dict.fromkeys("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", _LETTERS),
    "E": (pytest_failure, *_LETTERS),
    "v": (unsloth, *_LETTERS),
}


class Piece(NamedTuple):
    """A message being unwrapped: its first physical line, and its text and source so far."""

    number: int
    text: str
    source: str = ""
    follows: bool = False  # after a carriage return: it has the source of the piece before
    doubt: str = ""  # the key that must be proven before unwrapping continues
    repeats: bool = False


class Unwrapper:
    """The removal of wrappers; remembers what was proven.

    `unfold` splits a text that may contain newlines, carriage returns and terminal escapes into lines: it is applied to
    the text in a JSON string or in the parts of a containerd message.
    """

    def __init__(self, unfold: Callable[[str], list[str]]) -> None:
        self.counts: dict[str, int] = {}
        self.cut = 0  # messages joined from parts that were longer than MAX_PARTIAL
        self._known: set[str] = set()
        self._partial: dict[tuple[str, str, str], tuple[int, list[str], int]] = {}
        self._unfold = unfold

    def count(self, name: str) -> None:
        """Count a wrapper that was removed from a line."""
        self.counts[name] = self.counts.get(name, 0) + 1

    @property
    def proven_count(self) -> int:
        """Return how many keys have been proven; the number only grows."""
        return len(self._known)

    @property
    def has_incomplete_messages(self) -> bool:
        """Return whether a message in parts lacks its last part."""
        return bool(self._partial)

    def mark_proven(self, key: str) -> None:
        """Record that `key`, and with it its kind, is proven."""
        if len(self._known) < MAX_KNOWN:
            self._known.update((key, key.partition(":")[0]))

    def unwrap(self, piece: Piece, *, final: bool = False, depth: int = 0) -> list[Piece]:
        """Return the messages in `piece`: none (a marker, or a part), one, or several (a JSON record with newlines).

        One whose `doubt` is set waits for evidence; with `final` it is returned unchanged.
        """
        number, text, source, follows = piece.number, piece.text, piece.source, piece.follows
        composed = False
        while depth < MAX_DEPTH and not BARE.match(text):
            found = self._match_outermost(text)
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
                if found.head:
                    return [Piece(number, found.head + line, source, follows) for line in lines]
                if len(lines) > 1:
                    pieces = (Piece(number, line, source, follows) for line in lines)
                    return [p for piece in pieces for p in self.unwrap(piece, final=final, depth=depth)]
                text = lines[0]
        return [Piece(number, text, source, follows)]

    def rest(self) -> list[Piece]:
        """Return the messages whose last part is missing at the end of the input."""
        parts = sorted(self._partial.items(), key=lambda item: item[1][0])
        self._partial.clear()
        out: list[Piece] = []
        for (_, source, _), (number, texts, _) in parts:
            for line in self._unfold("".join(texts)):
                out += self.unwrap(Piece(number, line, source), final=True, depth=1)
        return out

    def looks_wrapped(self, text: str) -> bool:
        """Return whether the text begins with something that looks like a wrapper, proven or not."""
        return not BARE.match(text) and self._match_outermost(text) is not None

    def unwrap_single_line(self, text: str) -> Piece | None:
        """Return the message of a line that is independent of other lines; None if it has to wait for them, or may.

        Call it only while no line is held back.
        """
        if BARE.match(text):
            return Piece(0, text)
        if any(word in text for word in PART_WORDS) or (text[:1] == "{" and WHOLE not in text):
            return None
        counts = self.counts.copy()
        pieces = self.unwrap(Piece(0, text))
        if len(pieces) == 1 and not pieces[0].doubt:
            return pieces[0]
        self.counts = counts  # the line will be passed in again
        return None

    def begins_log_line(self, text: str) -> bool:
        """Return whether `text` begins as a log line does, wrapped or not."""
        bare = BARE.match(text)
        if bare and not text[:1].isspace():
            return True
        if LOG_HEAD.match(text):
            return True
        found = None if bare else self._match_outermost(text)
        return found is not None and self._proven(found)

    def _proven(self, found: WrapperMatch) -> bool:
        """Return whether a wrapper is proven: by its form, its name, or others of its kind in the file."""
        return found.sure or found.key in self._known or (found.repeats and found.name in self._known)

    def _join(self, number: int, source: str, found: WrapperMatch) -> tuple[int, str] | None:
        """Add a part of a message; return its first line's number and its text once it is complete, else None."""
        key = (found.name, source, found.part)
        first, texts, size = self._partial.pop(key, (number, [], 0))
        if found.last and not texts:
            return number, found.rest
        room = MAX_PARTIAL - size
        if 0 <= room < len(found.rest):
            self.cut += 1
        texts.append(found.rest[: max(room, 0)])
        size = min(size + len(found.rest), MAX_PARTIAL + 1)
        if found.last or len(self._partial) >= MAX_PARTIALS:
            return first, "".join(texts)
        self._partial[key] = (first, texts, size)
        return None

    def _match_outermost(self, text: str) -> WrapperMatch | None:
        """Match the outermost wrapper; a doubtful one is proven here if a log line follows it."""
        doubtful: WrapperMatch | None = None
        for wrapper in _wrappers_of(text):
            found = wrapper(text)
            if found is None:
                continue
            if found.name == "compose" and f"pod:{found.source}" in self._known:
                continue  # the bar belongs to an exception group
            if found.name == "stern" and "pod" in self._known and found.key not in self._known:
                found = pod_only(text) or found  # pods without a container were seen
            if not self._proven(found) and not self._proven_by_rest(found.rest):
                doubtful = doubtful or found
                continue
            if found.key and found.key not in self._known:
                self.mark_proven(found.key)
            return found
        return doubtful

    def _proven_by_rest(self, rest: str) -> bool:
        if LOG_HEAD.match(rest):
            return True
        for wrapper in _wrappers_of(rest):
            found = wrapper(rest)
            if found is not None and (found.sure or LOG_HEAD.match(found.rest)):
                return True
        return False


def _wrappers_of(text: str) -> tuple[Wrapper, ...]:
    """Return the wrappers that may begin with the first character of a text; of another alphabet, a month."""
    first = text[:1]
    return _BY_HEAD.get(first, (journald,) if first.isalpha() else ())
