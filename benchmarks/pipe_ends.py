"""Source and sink of a measured pipe. Both report JSON: the source on stderr, the sink on stdout.

usage: pipe_ends.py source BURST_FILE SECONDS | … | pipe_ends.py sink
"""

from __future__ import annotations

import json
import os
import sys
import time

_EVERY = 0.001  # seconds between two timed lines
_WARM = 1.0  # seconds of timed lines before the burst, which let the middle start
_MARK = b"@@ "
_SHORT = 8192  # a longer read is part of the burst


def source(path: str, seconds: float) -> None:
    """Write timed lines, a burst, and timed lines again; report how long the burst was blocked."""
    with open(path, "rb") as file:
        burst = file.read()
    _timed(_WARM, counted=False)
    begun = time.monotonic()
    left = memoryview(burst)
    while left:
        left = left[os.write(1, left[:1 << 16]):]
    blocked = time.monotonic() - begun
    _timed(seconds, counted=True)
    print(json.dumps({"blocked": blocked}), file=sys.stderr)


def _timed(seconds: float, *, counted: bool) -> None:
    begun = time.monotonic()
    for number in range(int(seconds / _EVERY)):
        time.sleep(max(0.0, begun + number * _EVERY - time.monotonic()))
        mark = _MARK if counted else b"-- "
        os.write(1, mark + str(time.monotonic_ns()).encode() + b" a line of a server that serves\n")


def sink() -> None:
    """Read everything; report bytes, throughput and the delay of the timed lines."""
    delays: list[float] = []
    size, begun = 0, 0.0
    while data := os.read(0, 1 << 20):
        now = time.monotonic_ns()
        size += len(data)
        begun = begun or now / 1e9
        if len(data) < _SHORT and _MARK in data:
            delays += [(now - int(line.split(b" ")[1])) / 1e6 for line in data.split(b"\n") if line.startswith(_MARK)]
    seconds = time.monotonic() - begun
    delays.sort()
    late = {"p50": delays[len(delays) // 2], "p99": delays[len(delays) * 99 // 100]} if delays else {}
    print(json.dumps({"size": size, "seconds": seconds, "lines": len(delays), **late}))


if __name__ == "__main__":
    if sys.argv[1] == "source":
        source(sys.argv[2], float(sys.argv[3]))
    else:
        sink()
