"""Run `vllm-doctor watch` for a long time behind a busy server; measure memory, delay and lost bytes.

    python benchmarks/soak.py --minutes 30 --lines 2000

Writes the log of a serving vLLM live into the pipe, line by line as such a server does (requests and addresses that
never repeat, statistics of two engines, hours of saturation, refused requests, tracebacks a client causes), samples the
memory of both processes from /proc, compares SHA-256, and prints one line of JSON. Exit status 1 when a byte was lost.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TICK = 0.02  # seconds between two writes
_STATISTICS = 10  # seconds of the log between two statistics lines, as vLLM has it
_SPEED = 6  # the log's clock runs that much faster, so that half an hour holds spells of an afternoon
_HEAD = """\
(APIServer pid=7) INFO 11-20 08:00:00 [api_server.py:1977] vLLM API server version 0.12.0
(APIServer pid=7) INFO 11-20 08:00:00 [utils.py:253] non-default args: {'model': '/models/base', 'max_num_seqs': 256, 'data_parallel_size': 2}
(EngineCore_DP0 pid=90) INFO 11-20 08:00:20 [core.py:93] Initializing a V1 LLM engine (v0.12.0) with config: model='/models/base', max_seq_len=32768, tensor_parallel_size=1
(EngineCore_DP0 pid=90) INFO 11-20 08:00:40 [gpu_model_runner.py:3467] Starting to load model /models/base...
(EngineCore_DP0 pid=90) INFO 11-20 08:01:10 [gpu_model_runner.py:3549] Model loading took 15.2700 GiB memory and 28.412345 seconds
(EngineCore_DP0 pid=90) INFO 11-20 08:01:40 [kv_cache_utils.py:1291] GPU KV cache size: 412,384 tokens
(APIServer pid=7) INFO:     Application startup complete.
"""
_TRACEBACK = """\
(APIServer pid=7) ERROR {time} [serving.py:302] Error in preprocessing prompt inputs
(APIServer pid=7) ERROR {time} [serving.py:302] Traceback (most recent call last):
(APIServer pid=7) ERROR {time} [serving.py:302]   File "/opt/venv/lib/python3.12/site-packages/vllm/entrypoints/openai/serving.py", line 284, in create
(APIServer pid=7) ERROR {time} [serving.py:302]     raise ValueError(message)
(APIServer pid=7) ERROR {time} [serving.py:302] ValueError: the request {id} asks for {n} choices
"""


def serving_log(per_second: int, seed: int = 1) -> Iterator[str]:
    """Yield the startup lines and then endlessly the lines of a busy server, `per_second` for each logged second."""
    yield from _HEAD.splitlines(keepends=True)
    rng = random.Random(seed)  # noqa: S311 - test data
    for second in range(10**9):
        clock = 8 * 3600 + 120 + second * _SPEED
        stamp = f"11-{20 + clock // 86400 % 10:02d} {clock // 3600 % 24:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
        for engine in range(2) if second * _SPEED % _STATISTICS < _SPEED else ():
            busy = second * _SPEED // 1800 % 3 == 1  # every third half hour the cache is full
            usage, waiting = (rng.uniform(94, 100), rng.randrange(5, 200)) if busy else (rng.uniform(20, 75), 0)
            yield (f"(APIServer pid=7) INFO {stamp} [loggers.py:248] Engine {engine:03d}: Avg prompt throughput: {rng.uniform(900, 9000):.1f} tokens/s, "
                   f"Avg generation throughput: {rng.uniform(300, 3000):.1f} tokens/s, Running: {rng.randrange(20, 200)} reqs, Waiting: {waiting} reqs, "
                   f"GPU KV cache usage: {usage:.1f}%, Prefix cache hit rate: {rng.uniform(0, 60):.1f}%\n")
        for _ in range(per_second):
            kind, name = rng.random(), f"{rng.getrandbits(128):032x}"
            address = f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(256)}:{rng.randrange(1024, 65536)}"
            if kind < 0.9:
                yield f'(APIServer pid=7) INFO:     {address} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
            elif kind < 0.97:
                yield f"(APIServer pid=7) INFO {stamp} [async_llm.py:413] Added request chatcmpl-{name}.\n"
            elif kind < 0.99:
                yield f'(APIServer pid=7) INFO:     {address} - "POST /v1/completions HTTP/1.1" 400 Bad Request\n'
            elif kind < 0.998:
                yield f"(APIServer pid=7) WARNING {stamp} [protocol.py:{rng.randrange(999)}] The following fields were present in the request but ignored: {{'user_{name}'}}\n"
            elif kind < 0.9998:
                yield f"{name} ünïcode {name * rng.randrange(1, 40)}\n"
            else:
                yield from _TRACEBACK.format(time=stamp, id=name, n=rng.randrange(99)).splitlines(keepends=True)


class Process:
    """The /proc statistics of a process: MiB now, after the warm-up and at the peak; CPU seconds."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.seen: list[float] = []
        self.cpu = 0.0

    def sample(self) -> None:
        """Take a sample; do nothing if the process has ended."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
            times = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, IndexError):
            return
        self.seen.append(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)
        self.cpu = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def figures(self, warm: int) -> dict[str, float]:
        """Return the figures; the first `warm` samples are the warm-up."""
        after = self.seen[warm:] or self.seen
        return {"first_mib": round(after[0], 1), "last_mib": round(after[-1], 1), "peak_mib": round(max(after), 1), "cpu_s": round(self.cpu, 2)}


def soak(minutes: float, per_second: int, every: float = 5.0) -> dict[str, Any]:
    """Run the soak test and return the figures. Raises OSError on systems without /proc."""
    with tempfile.TemporaryFile() as stderr:
        watch = subprocess.Popen([sys.executable, "-m", "vllm_doctor", "watch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0)
        assert watch.stdin  # noqa: S101 - for the type checker
        assert watch.stdout  # noqa: S101 - for the type checker
        marks: deque[tuple[int, float]] = deque()  # bytes written so far, and when
        passed, lags = hashlib.sha256(), []

        def collect(fd: int) -> None:
            size = 0
            while data := os.read(fd, 1 << 20):
                passed.update(data)
                size += len(data)
                while marks and marks[0][0] <= size:
                    lags.append(time.monotonic() - marks.popleft()[1])

        collector = threading.Thread(target=collect, args=(watch.stdout.fileno(),))
        collector.start()
        children: list[str] = []
        while not children and watch.poll() is None:
            time.sleep(0.05)
            children = Path(f"/proc/{watch.pid}/task/{watch.pid}/children").read_text().split()
        processes = {"pump": Process(watch.pid), "analyser": Process(int(children[0]))}
        written, size, count, log = hashlib.sha256(), 0, 0, serving_log(per_second)
        began = now = time.monotonic()
        next_sample = began
        while now < began + minutes * 60:
            due = int((now - began) * per_second) - count
            data = "".join(next(log) for _ in range(due)).encode()
            count += due
            written.update(data)
            size += len(data)
            if data:
                marks.append((size, time.monotonic()))
                view = memoryview(data)
                while view:
                    view = view[os.write(watch.stdin.fileno(), view):]
            if now >= next_sample:
                next_sample += every
                for process in processes.values():
                    process.sample()
            time.sleep(_TICK)
            now = time.monotonic()
        for process in processes.values():
            process.sample()
        watch.stdin.close()
        collector.join()
        watch.stdout.close()
        status = watch.wait()
        verdict = time.monotonic() - now
        stderr.seek(0)
        output = stderr.read().decode("utf-8", "replace")
    lags.sort()
    warm = min(int(60 / every), len(processes["pump"].seen) // 10)
    return {
        "minutes": round((now - began) / 60, 2), "lines": count, "mib": round(size / 2**20, 1),
        "sha256_equal": passed.hexdigest() == written.hexdigest(), "status": status,
        **{name: process.figures(warm) for name, process in processes.items()},
        "lag_ms": {"median": round(lags[len(lags) // 2] * 1000, 2), "p99": round(lags[len(lags) * 99 // 100] * 1000, 2), "worst": round(lags[-1] * 1000, 2)},
        "verdict_s": round(verdict, 2), "reports": output.count("--- vllm-doctor"), "not_analysed": "were not analysed" in output,
        "found": "kv-cache-saturated" in output,
    }


def main() -> int:
    """Run the soak test with the options of the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--lines", type=int, default=2000, metavar="PER_SECOND")
    given = parser.parse_args()
    result = soak(given.minutes, given.lines)
    print(json.dumps(result))
    return 0 if result["sha256_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
