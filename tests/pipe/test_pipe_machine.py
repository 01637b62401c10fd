"""Whatever happens around the pipe: what comes out is what went in, or its beginning; and no process is left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from test_pipe import Doctor, sha

_WAIT = 20.0


class Pipe(RuleBasedStateMachine):
    """A pump between a writer and a reader, with an analyser that may be slow, stopped or dead."""

    @initialize(blocking=st.booleans(), verdict=st.sampled_from([0, 1]))
    def begin(self, blocking: bool, verdict: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.verdict = verdict
        self.out, sink = os.pipe()
        os.set_blocking(sink, blocking)
        self.doctor = Doctor(self.folder, "finds" if verdict else "read", popen={"stdout": sink})
        os.close(sink)
        self.stdin = self.doctor.process.stdin.fileno()
        os.set_blocking(self.stdin, False)
        self.written, self.due = b"", 0  # what went in; how much of it must come out
        self.read = bytearray()
        self.reading, self.closing = threading.Event(), threading.Event()
        self.reading.set()
        self.killed = self.terminated = self.reader_gone = False
        self.aimed = False  # at the analyser; what a rule depends on must be decided, not come from the clock
        self.reader = threading.Thread(target=self._collect)
        self.reader.start()
        self.analyser = self.doctor.note(".pid")["pid"]
        self.doctor.await_handler(signal.SIGTERM)

    def _collect(self) -> None:
        while True:
            self.reading.wait()
            if self.closing.is_set():
                break
            data = os.read(self.out, 30_000)
            if not data:
                break
            self.read += data
        os.close(self.out)

    @rule(data=st.binary(min_size=1, max_size=300), times=st.sampled_from([1, 1, 50, 400]))
    def write(self, data: bytes, times: int) -> None:
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            size = os.write(self.stdin, data * times)
            self.written += (data * times)[:size]
        if not self.terminated and not self.reader_gone:
            self.due = len(self.written)

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.03]))
    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    @rule()
    def reader_waits(self) -> None:
        self.reading.clear()

    @rule()
    def reader_goes_on(self) -> None:
        self.reading.set()

    @precondition(lambda self: not self.reader_gone)
    @rule()
    def reader_goes(self) -> None:
        self.reader_gone = True
        self.closing.set()
        self.reading.set()
        with contextlib.suppress(BlockingIOError, BrokenPipeError):  # the reader may be waiting for a byte
            self.written += b"\n"[:os.write(self.stdin, b"\n")]
        self.due = 0

    @precondition(lambda self: not self.aimed)
    @rule()
    def analyser_is_killed(self) -> None:
        self.aimed = True
        self.killed = self._signal_analyser(signal.SIGKILL)

    @precondition(lambda self: not self.aimed)
    @rule(number=st.sampled_from([signal.SIGSTOP, signal.SIGCONT, signal.SIGINT, signal.SIGTERM]))
    def analyser_gets(self, number: int) -> None:
        self._signal_analyser(number)

    def _signal_analyser(self, number: int) -> bool:
        """Send it a signal, if it is still the pump's child: its number may be another's by now."""
        pump = self.doctor.process.pid
        with contextlib.suppress(OSError):
            if str(self.analyser) in Path(f"/proc/{pump}/task/{pump}/children").read_text().split():
                os.kill(self.analyser, number)
                return True
        return False

    @precondition(lambda self: not self.reader_gone and not self.terminated)  # else the pump may have ended
    @rule()
    def ctrl_c(self) -> None:
        self._signal(signal.SIGINT)

    @precondition(lambda self: not self.terminated and not self.aimed and not self.reader_gone)  # as for Ctrl-C
    @rule()
    def terminated_from_outside(self) -> None:
        self.reading.set()
        self.terminated = True
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self.doctor.process.poll() is None:
            self.doctor.process.send_signal(number)

    @invariant()
    def what_came_is_a_beginning_of_what_went(self) -> None:
        if hasattr(self, "read"):
            seen = bytes(self.read)
            assert self.written.startswith(seen)

    def teardown(self) -> None:
        if not hasattr(self, "doctor"):
            return
        process = self.doctor.process
        try:
            self.reading.set()
            self._signal_analyser(signal.SIGCONT)
            process.stdin.close()
            status = process.wait(_WAIT)
            self.reader.join(_WAIT)
            assert not self.reader.is_alive()
            self.what_came_is_a_beginning_of_what_went()
            assert len(self.read) >= self.due
            result = self.doctor.note()
            assert status == 0  # the driver's own
            assert result["bytes_passed"] >= len(self.read)
            assert result["stopped_by"] == (signal.SIGTERM if self.terminated else None) or not result["stopped_by"]
            if self.killed:
                assert result["status"] == (2 if result["analyser_died"] else self.verdict)
            else:
                assert (result["status"], result["analyser_died"]) == (self.verdict, False)
                if not self.terminated and not self.reader_gone:
                    assert self.doctor.note(".read")["sha"] == sha(self.written)
            with pytest.raises(ProcessLookupError):  # nobody is left of its session
                os.killpg(process.pid, 0)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self.closing.set()
            process.stderr.close()
            shutil.rmtree(self.folder)


TestPipe = Pipe.TestCase
TestPipe.settings = settings(
    max_examples=20, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck), database=None,
    phases=(Phase.generate,),  # the clock has a part in what happens, so there is nothing to shrink
)
