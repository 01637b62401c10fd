"""Tracebacks that come again are read in short: reports are compared whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle

import pytest
from wraps import WRAPS

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.fastpath import line_skipper
from vllm_doctor.fastpath.repeated_tracebacks import traceback_at
from vllm_doctor.fastpath.shortcuts import Shortcuts
from vllm_doctor.reports.to_json import render

HEAD = "Traceback (most recent call last):"
PLACES = ("/opt/venv/lib/python3.11/site-packages/starlette/routing.py", "/opt/venv/lib/python3.11/site-packages/vllm/v1/engine/core.py",
          "/opt/venv/lib/python3.11/site-packages/vllm/engine/llm_engine.py", "/home/me/serve.py")
CODE = ("await self.app(scope, receive, send)", "return self._call_impl(*args, **kwargs)", "llm = LLM(model='m', gpu_memory_utilization=0.5)",
        "engine_args = EngineArgs(model='x')", "      ^^^^^^^^^^^^", "vllm serve m --port 1", "export A=1")
EXCEPTIONS = (
    "ValueError: This model's maximum context length is 8192 tokens. However, you requested {} tokens.",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.{} GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.05 GiB is free.",
    "RuntimeError: CUDA error: an illegal memory access was encountered", "KeyError: 'layers.{}'", "asyncio.exceptions.CancelledError",
    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.", "SystemExit: 1",
)
PROCESSES = ("", "(APIServer pid=7) ", "(EngineCore pid=8) ", "(Worker_TP1 pid=9) ", "(VllmWorker rank=0 pid=12) ",
             "(VllmWorker TP1 pid=12) ")
RECORDS = ("", "", "ERROR 11-20 11:{:02}:48 [serving.py:20] ", "ERROR 11-20 11:{:02}:48 core.py:20] ", "INFO 11-20 11:{:02}:48 [x.py:1] ")
ANSWERED = 'INFO:     127.0.0.1:51414 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
STATISTICS = ("INFO 11-20 11:38:{:02} [loggers.py:280] Engine 000: Avg prompt throughput: 7.1 tokens/s, Avg generation throughput: 3.0 "
              "tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: {}.4%, Prefix cache hit rate: {}.0%")
ASIDE = ("(EngineCore pid=8) INFO 11-20 11:38:49 [async_llm.py:261] hello", "  indented", "bare text", "(APIServer pid=7) WARNING 11-20 11:38:49 [a.py:1] oh")


def block(*lines: str) -> bytes:
    return "".join(f"\n{line}" for line in lines).encode() + b"\n"


@pytest.mark.parametrize("prefix", ["", "(APIServer pid=7) ", "(Worker_TP1 pid=9) ERROR 11-20 11:38:49 [a.py:7] ", "ERROR 11-20 11:38:49 a.py:7] "])
def test_a_traceback_ends_before_its_exception(prefix: str) -> None:
    lines = [f"{prefix}{text}" for text in (HEAD, '  File "a.py", line 7, in f', "    g()", "KeyError: 1")]
    data = block(*lines, "INFO: more")
    found = traceback_at(data, 1, len(data))
    assert found is not None
    assert found.lines == block(*lines[:-1])[1:]
    assert found.line_count == 3


def test_the_same_calls_are_known_at_another_time_but_not_elsewhere() -> None:
    def calls(prefix: str, line: int = 7) -> bytes:
        data = block(f"{prefix}{HEAD}", f'{prefix}  File "a.py", line {line}, in f', f"{prefix}KeyError: 1")
        found = traceback_at(data, 1, len(data))
        assert found is not None
        return found.calls

    once = calls("(APIServer pid=7) ERROR 11-20 11:38:49 [a.py:7] ")
    assert calls("(APIServer pid=7) ERROR 11-21 04:00:01 [a.py:7] ") == once
    for other in ("(APIServer pid=8) ERROR 11-20 11:38:49 [a.py:7] ", "(APIServer pid=7) ERROR 11-20 11:38:49 [a.py:8] ", "(APIServer pid=7) ", ""):
        assert calls(other) != once
    assert calls("(APIServer pid=7) ERROR 11-20 11:38:49 [a.py:7] ", 8) != once


@pytest.mark.parametrize("prefix", ["", "(APIServer pid=7) "])
def test_of_tracebacks_that_begin_alike_each_is_reported(prefix: str) -> None:
    call, other = '  File "a.py", line 7, in f', '  File "a.py", line 8, in g'
    forms = [[HEAD, call], [HEAD, call, other], [HEAD, call, other, call], [HEAD, other], [HEAD, other, other]]
    forms = [[f"{prefix}{line}" for line in lines] for lines in forms]
    told = set()
    for lines in forms * 2:
        data = block(*lines, f"{prefix}KeyError: 1")
        found = traceback_at(data, 1, len(data))
        assert found is not None
        assert found.lines == block(*lines)[1:]
        assert traceback_at(data, 1, len(found.lines) - 2) is None
        told.add(found.calls)
    assert len(told) == len(forms)


@pytest.mark.parametrize("lines", [
    [HEAD, '  File "a.py", line 7, in f', "(EngineCore pid=8) INFO 11-20 11:38:49 [a.py:1] hello"],
    [f"(APIServer pid=7) {HEAD}", '(APIServer pid=7)   File "a.py", line 7, in f', '(EngineCore pid=8)   File "b.py", line 7, in f'],
    [HEAD, '  File "a.py", line 7, in f'],
    [HEAD, "KeyError: 1"],
    [f"INFO 11-20 11:38:49 [a.py:1] {HEAD}", '  File "a.py", line 7, in f', "KeyError: 1"],
    [HEAD, '  File "' + "a" * 40_000 + '", line 7, in f', "KeyError: 1"],
])
def test_what_is_cut_off_or_mixed_is_none(lines: list[str]) -> None:
    data = block(*lines)
    assert traceback_at(data, 1, len(data)) is None


class Form:
    """A traceback that comes again and again, now and then with another one in it or cut off."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.process, self.record = chance.choice(PROCESSES), chance.choice(RECORDS)
        self.calls = [(chance.choice(PLACES), chance.randrange(500), chance.choice(CODE if chance.random() < 0.3 else CODE[:2]))
                      for _ in range(chance.randrange(1, 6))]
        self.exception, self.indent = chance.choice(EXCEPTIONS), " " * 4 * (chance.random() < 0.05)
        self.details, self.chained = chance.choice((0, 0, 1, 3)), chance.random() < 0.2

    def prefix(self) -> str:
        return self.process + self.record.format(self.chance.randrange(60)) + self.indent

    def lines(self) -> Iterator[str]:
        if self.chance.random() < 0.3:
            yield f"{self.process}ERROR:    Exception in ASGI application"
        yield f"{self.prefix()}{HEAD}"
        for place, line, code in self.calls:
            yield f'{self.prefix()}  File "{place}", line {line}, in f'
            yield f"{self.prefix()}    {code}"
            if self.chance.random() < 0.02:
                return
            if self.chance.random() < 0.02:
                yield self.chance.choice(ASIDE)
        yield self.prefix() + self.exception.format(self.chance.randrange(9999))
        yield from (f"{self.prefix() * (self.chance.random() < 0.5)}detail {self.chance.randrange(9)}" for _ in range(self.details))
        if self.chained:
            yield from (f"{self.prefix()}{text}" for text in (
                "", "During handling of the above exception, another exception occurred:", "", HEAD, '  File "a.py", line 1, in g', "    g()", "RuntimeError: 7"))


def storm(chance: random.Random) -> bytes:
    forms = [Form(chance) for _ in range(chance.randrange(1, 5))]
    lines = ["a line longer than any terminal is wide" * 8]
    lines += [f"{process}INFO 11-20 11:38:49 {place} hello" for process in PROCESSES for place in ("[a.py:1]", "a.py:1]")]
    lines += ["INFO:     Application startup complete."] if chance.random() < 0.8 else []
    for _ in range(150):
        form = chance.choice(forms)
        shown = STATISTICS.format(chance.randrange(60), chance.randrange(9), chance.randrange(99), chance.randrange(2))
        lines += [*form.lines(), *[chance.choice((ANSWERED, form.process + ANSWERED, form.process + shown))] * chance.randrange(4)]
    return "".join(f"{line}\n" for line in lines).encode()


def report(data: bytes, size: int) -> str:
    diagnosis = Diagnosis()
    for at in range(0, len(data), size):
        diagnosis.feed(data[at:at + size])
    return render(diagnosis.finish())


@pytest.mark.parametrize(("wrap", "seeds", "least"), [
    (bytes, [0, 2, 4], 50), *((wrap, [seed], 10) for wrap, seed in zip(WRAPS[::3], cycle([5, 7, 0, 2]))),  # in which tracebacks come again
    *(pytest.param(wrap, range(28), 500, marks=pytest.mark.exhaustive) for wrap in (bytes, *WRAPS)),
])
def test_tracebacks_that_come_again_change_no_report(wrap: Callable[[bytes], bytes], seeds: Iterable[int], least: int,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    read = Shortcuts.read_traceback
    monkeypatch.setattr(Shortcuts, "read_traceback", lambda *given: taken.append(read(*given)) or taken[-1])
    for seed in seeds:
        chance = random.Random(seed)
        data = b"".join(map(wrap, storm(chance).splitlines(keepends=True)))
        monkeypatch.setattr(line_skipper, "READ_WHOLE", 1 << 60)
        whole = report(data, 1 << 18)
        monkeypatch.setattr(line_skipper, "READ_WHOLE", 12)
        assert report(data, chance.choice([2000, 1 << 18])) == whole
    assert taken.count(True) > least
