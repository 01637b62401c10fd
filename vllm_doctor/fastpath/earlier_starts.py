"""The starts of a server that restarts again and again: the report is about the last ones.

Of those before, once many were read, no more is asked than where they begin and end. Where that part of a file ends is
found from its end, by the lines in which starts are told, so many as were there for each start so far.
"""

from __future__ import annotations

import io
import os

from vllm_doctor.patterns import lazy

_MANY = 32  # starts behind which it is asked
_TOLD = lazy(rb"vLLM API server version|\xe2\x96\x88 +version | LLM engine|args: |usage: |-m vllm\.|vllm serve ")
_MARGIN = 2  # times as many starts as are kept are read in full
_REACH = 1 << 26  # bytes in which such lines are looked for
_STEP = 1 << 20


class Past:
    """The part of a file, which is not read yet, with the starts of which the report tells nothing."""

    def __init__(self, file: io.BufferedReader, kept: int) -> None:
        self._fd = file.fileno()
        self._kept = kept
        self._read = 0  # bytes so far
        self._end: int | None = None  # unknown as yet
        self._starts = 0  # behind it

    def holds(self, size: int, starts: int) -> bool:
        """Whether the next bytes of the file, so many, are of that part, given how many starts were read."""
        if self._end is None and starts >= _MANY:
            self._end = self._found(starts)
        if self._read <= (self._end or 0):
            self._starts = starts
        self._read += size
        return self._read <= (self._end or 0)

    def was_right(self, starts: int) -> bool:
        """Whether of all these starts those that are kept begin behind it."""
        return not self._end or starts - self._starts > self._kept

    def _found(self, starts: int) -> int:
        """Where it ends; 0 where nothing tells."""
        head = min(self._read, _REACH)
        told = len(_TOLD.findall(os.pread(self._fd, head, 0)))
        wanted = -(-told * self._kept * _MARGIN * self._read // (starts * max(head, 1)))
        end = os.fstat(self._fd).st_size
        lowest = max(self._read, end - _REACH)
        while wanted and end > lowest:
            begin = max(lowest, end - _STEP)
            places = [match.start() for match in _TOLD.finditer(os.pread(self._fd, end - begin, begin))]
            if len(places) >= wanted:
                return begin + places[-wanted]
            wanted, end = wanted - len(places), begin
        return 0
