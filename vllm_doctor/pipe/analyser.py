"""The process that analyses the log as it passes: forked, and never a delay for the copying.

The parent keeps a bounded backlog for it. When that is full the oldest frames are dropped, for a crash is at the end of
a log. A child that dies or hangs costs the report, never a byte of the log.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from vllm_doctor.logs.encoding import line_ends
from vllm_doctor.pipe.analyser_channel import CUT, FRAME, GAP, Reader
from vllm_doctor.pipe.descriptors import enlarge, write_error
from vllm_doctor.pipe.status_line import StatusLine

BACKLOG = 64 * 1024 * 1024  # bytes kept for an analyser that is behind
PATIENCE = 60.0  # seconds without progress after which a silent analyser is given up
CRASHED = 70  # the child's exit status when `analyse` raised (EX_SOFTWARE of sysexits.h)
_FLOOD = 8  # when this part of the backlog is filled, the analyser yields the processor to the copying
_FLOOD_NICE = 5  # a quarter of a busy processor is left to it: its verdict may not wait for an idle machine
LIMIT = 20.0  # seconds from a signal that ends us to the report: Kubernetes gives 30 from the first one
_HURRY = 8.0  # of them, after which what it has not read is left out
_LEAST = 3.0  # seconds for a report, however late the log ended
_LAST = 2 * 1024 * 1024  # bytes of the backlog that it still gets then
HURRY_SIGNAL = signal.SIGUSR1
_COST = 100  # bytes a queued frame takes besides its payload, so that tiny reads stay within the bound

Analyse = Callable[[Reader], int]


class Analyser:
    """The forked child and the hand-over to it. Nothing here ever blocks the copying, except `finish`."""

    def __init__(self, analyse: Analyse, close: Sequence[int], backlog: int, status: StatusLine, *,
                 whole_lines: bool) -> None:
        self._status = status
        self._partial = memoryview(b"")  # the pipe took the rest of this frame: it can't be dropped any more
        self._partial_size = 0  # bytes of its payload
        self._gaps: dict[int, list[int]] = {}  # stream -> bytes, newlines, CUT or 0; before all frames
        self._frames: deque[bytes] = deque()  # header and data each
        self._queued = 0
        self._bound = backlog
        self._yields = False
        self.not_analysed = 0
        self.exit_code: int | None = None  # negative: the signal that killed it
        self._pid = 0
        self._asked_at: float | None = None  # when we were told to end
        self._hurry_at = math.inf
        read_end, self.fd = os.pipe()
        try:
            self._pid = _fork()
        except OSError as error:
            os.close(read_end)
            status.close_sender()
            self._close()
            self.exit_code = CRASHED
            write_error(f"cannot start the analyser ({error.strerror}); the log is passed on unread")
            return
        if self._pid == 0:
            reader = Reader(read_end, whole_lines=whole_lines, status=status.words)
            _run_analyser(analyse, reader, (*close, *status.fds, self.fd))
        os.close(read_end)
        status.close_sender()
        enlarge(self.fd)
        os.set_blocking(self.fd, False)

    @property
    def behind(self) -> bool:
        """Return whether data waits to be sent to the analyser."""
        return self.fd >= 0 and bool(self._partial or self._gaps or self._frames)

    @property
    def died(self) -> bool:
        """Return whether the analyser ended without a verdict."""
        return self.exit_code is not None and (self.exit_code < 0 or self.exit_code == CRASHED)

    def queue(self, stream: int, data: memoryview) -> None:
        """Queue what was read for the analyser; drop the oldest frames when the backlog is full."""
        if self.fd < 0:
            self.not_analysed += len(data)
            return
        frame = b"".join((FRAME.pack(stream, len(data), 0), data))
        self._frames.append(frame)
        self._queued += len(frame) + _COST
        self.flush()
        if self._queued > self._bound // _FLOOD:
            self._lower_priority()
        while self._queued > self._bound and self._frames:
            self._drop_oldest()

    def _lower_priority(self) -> None:
        """Lower the priority of the analyser. Only in a flood, because it cannot be raised again without privileges."""
        if not self._yields:
            self._yields = True
            with suppress(OSError):  # the child may have ended
                os.setpriority(os.PRIO_PROCESS, self._pid, _FLOOD_NICE)

    def hurry(self, within: float = _HURRY) -> None:
        """Note that we were asked to end: in `within` seconds the report must be begun, even on less of the log."""
        now = time.monotonic()
        self._asked_at = self._asked_at or now
        self._hurry_at = min(self._hurry_at, now + within)

    def _drop_oldest(self) -> None:
        frame = self._frames.popleft()
        self._queued -= len(frame) + _COST
        stream, size, _ = FRAME.unpack_from(frame)
        self.not_analysed += size
        gap = self._gaps.setdefault(stream, [0, 0, 0])
        gap[0] += size
        gap[1] += line_ends(frame) - frame.count(b"\n", 0, FRAME.size)
        gap[2] = 0 if frame.endswith(b"\n") else CUT

    def flush(self) -> bool:
        """Send as much as the pipe accepts now; return whether it accepted anything."""
        progress = False
        while self.behind:
            if not self._partial:
                self._partial = self._next_frame()
            try:
                written = os.write(self.fd, self._partial)
            except BlockingIOError:
                break
            except OSError:  # EPIPE: the analyser has gone or has seen enough
                self._close()
                break
            progress = True
            self._partial = self._partial[written:]
        return progress

    def _next_frame(self) -> memoryview:
        for stream, (size, lines, cut) in self._gaps.items():
            del self._gaps[stream]
            self._partial_size = 0
            return memoryview(FRAME.pack(stream | GAP | cut, size, lines))
        frame = self._frames.popleft()
        self._queued -= len(frame) + _COST
        self._partial_size = len(frame) - FRAME.size
        return memoryview(frame)

    def _close(self) -> None:
        os.close(self.fd)
        self.fd = -1
        self.not_analysed += min(len(self._partial), self._partial_size)
        self.not_analysed += sum(len(frame) - FRAME.size for frame in self._frames)
        self._partial = memoryview(b"")
        self._frames.clear()
        self._gaps.clear()
        self._queued = 0

    def reap(self) -> bool:
        """Return whether the child has ended; report on stderr if it died."""
        if self.exit_code is None:
            try:
                pid, wait_status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it
                pid, wait_status = self._pid, CRASHED << 8
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(wait_status)
                if self.fd >= 0:
                    self._close()
                if self.died:
                    self._status.clear()
                    how = f"was killed by signal {-self.exit_code}" if self.exit_code < 0 else "failed"
                    write_error(f"the analyser {how}: no report (the log itself is passed on in full)")
        return self.exit_code is not None

    def wait(self, sources: Iterable[int], wake: int, seconds: float | None) -> set[int]:
        """Sleep until a source is readable, the analyser accepts more or a signal came; return the readable sources."""
        poller = select.poll()
        poller.register(wake, select.POLLIN)
        for fd in (*sources, *self._status.fds):
            poller.register(fd, select.POLLIN)
        if self.behind:
            poller.register(self.fd, select.POLLOUT)
        ready = {fd for fd, _ in poller.poll(None if seconds is None else seconds * 1000)}
        if wake in ready:
            os.read(wake, 4096)
        if not ready.isdisjoint(self._status.fds):
            self._status.receive()
        return ready.intersection(sources)

    def finish(self, wake: int) -> None:
        """Send the backlog and wait for the verdict.

        At most PATIENCE seconds without progress; LIMIT in all once we were asked to end.
        """
        begun = time.monotonic()
        patient_until, was_hurried = begun + PATIENCE, False
        self._status.close()
        while not self.reap():
            if self.flush():
                patient_until = time.monotonic() + PATIENCE
            if self.fd >= 0 and not self.behind:
                self._close()
            now = time.monotonic()
            if self._asked_at is not None:
                while self._queued > _LAST:
                    self._drop_oldest()
                if not was_hurried and now > self._hurry_at:
                    was_hurried = True
                    os.kill(self._pid, HURRY_SIGNAL)
                patient_until = min(patient_until, max(self._asked_at + LIMIT, begun + _LEAST))
            if now > patient_until:
                write_error("the analyser made no progress in time and is stopped")
                os.kill(self._pid, signal.SIGKILL)
                patient_until = now + PATIENCE
            self.wait((), wake, 0.2 if self._asked_at is not None else 1.0)


def _run_analyser(analyse: Analyse, reader: Reader, close: Sequence[int]) -> None:
    """Run the analyser in the child process; never return."""
    code = CRASHED
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # the end of the input ends it; its report must still come
        signal.signal(HURRY_SIGNAL, lambda *_: reader.hurry())
        for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGWINCH):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # a copy of stdin or stdout held here would hide the end from both neighbours
            os.dup2(nothing, fd)
        for fd in close:
            if fd > 2:
                os.close(fd)
        code = int(analyse(reader))
    except Exception as error:  # noqa: BLE001 - whatever it is, the log must go on passing
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        place = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "?"
        # Not the error's text: it may quote the log, secrets included.
        write_error(f"internal error in the analyser: {type(error).__name__} at {place}")
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # else what is buffered would come twice
    return os.fork()
