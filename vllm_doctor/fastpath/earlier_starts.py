"""Skip the earlier starts of a server that restarts again and again.

Skipped: everything but the begin and end of each start, in the part of a file before the last starts.
Safe, because the report describes only the last starts: at least twice as many as it keeps are read in full, and
`has_enough_starts` checks afterwards that they all began after the skipped part; otherwise the file is read again.
Where that part ends is estimated from the end of the file: the messages that begin a start are counted backwards.
Gain: a crash loop of thousands of starts is read at the speed of a search for these messages.
"""

from __future__ import annotations

import io
import os

from vllm_doctor.text.patterns import lazy_pattern

_MANY = 32  # starts after which the estimate is made
_START_LINE = lazy_pattern(
    rb"vLLM API server version|\xe2\x96\x88 +version | LLM engine|args: |usage: |-m vllm\.|vllm serve ")
_MARGIN = 2  # times as many starts as the report keeps are read in full
_REACH = 1 << 26  # bytes that are searched for such messages
_STEP = 1 << 20


class EarlierStarts:
    """The part of a file with the starts that the report does not describe."""

    def __init__(self, file: io.BufferedReader, kept: int) -> None:
        self._fd = file.fileno()
        self._kept = kept
        self._read = 0  # bytes read so far
        self._end: int | None = None  # not estimated yet
        self._starts = 0  # the number of starts when the last byte of that part was read

    def contains(self, size: int, starts: int) -> bool:
        """Return whether the next `size` bytes of the file belong to that part, after so many starts."""
        if self._end is None and starts >= _MANY:
            self._end = self._estimate_end(starts)
        if self._read <= (self._end or 0):
            self._starts = starts
        self._read += size
        return self._read <= (self._end or 0)

    def has_enough_starts(self, starts: int) -> bool:
        """Return whether all starts that the report keeps began after that part."""
        return not self._end or starts - self._starts > self._kept

    def _estimate_end(self, starts: int) -> int:
        """Estimate the position at which that part ends; return 0 if it is unknown."""
        head = min(self._read, _REACH)
        count = len(_START_LINE.findall(os.pread(self._fd, head, 0)))
        wanted = -(-count * self._kept * _MARGIN * self._read // (starts * max(head, 1)))
        end = os.fstat(self._fd).st_size
        lowest = max(self._read, end - _REACH)
        while wanted and end > lowest:
            begin = max(lowest, end - _STEP)
            places = [match.start() for match in _START_LINE.finditer(os.pread(self._fd, end - begin, begin))]
            if len(places) >= wanted:
                return begin + places[-wanted]
            wanted, end = wanted - len(places), begin
        return 0
