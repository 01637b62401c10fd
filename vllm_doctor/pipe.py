"""The transparent pipe: every byte passes on at once and unchanged, while a second process reads a copy.

    vllm serve ... 2>&1 | vllm-doctor watch       pump(analyse)
    vllm-doctor run -- vllm serve ...             run_command(argv, analyse)

The process is forked before anything heavy is imported. The parent only copies bytes. The child, at the
lowest priority, calls `analyse(reader)`, and its return value is the verdict. Between them runs a pipe with
frames (`_FRAME`) and, before it, a bounded backlog in the parent: a slow analyser never slows the server, it
misses the oldest bytes instead and is told so (`Gap`). A crash is at the end of a log: the newest stay.

Main thread of a POSIX system only: signal handlers and fork are used.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, final

READ_SIZE = 256 * 1024  # bytes a read; larger gains nothing
PIPE_SIZE = 1024 * 1024  # bytes; what Linux allows without privileges
BACKLOG = 64 * 1024 * 1024  # bytes kept for an analyser that is behind
STOP_GRACE = 1.0  # seconds after SIGTERM for what is already in the pipe
STUCK_LIMIT = 5  # seconds after SIGTERM until a pump that nobody reads from is ended the hard way
STRAGGLER_GRACE = 1.0  # seconds of silence after the command's end before its open pipes are given up
STRAGGLER_LIMIT = 5.0  # seconds after the command's end, however much still comes
PATIENCE = 60.0  # seconds without progress after which a silent analyser is given up
CRASHED = 70  # the child's exit status when `analyse` raised (EX_SOFTWARE of sysexits.h)
UNREADABLE = 2  # status when there is no verdict

# kind, number of bytes, number of newlines. Kind: bit 0 = stream (0 stdout, 1 stderr); _GAP: no payload
# follows, the numbers say what was dropped here; _CUT: the gap ends inside a line, whose rest is useless.
_FRAME = struct.Struct("<BQQ")
_GAP, _CUT = 2, 4
_FRAME_COST = 100  # bytes a queued frame takes besides its payload, so that tiny reads stay within the bound


class Gap(NamedTuple):
    """A hole in what the analyser got. Add `lines` to the line number to keep it right."""

    size: int  # bytes
    lines: int


class PumpResult(NamedTuple):
    """What `pump` did.

    `status` is what `analyse` returned; at least 1 when the log could not be passed on in full (a reader of
    stdout that goes is no such fault); 2 when the log could not be read or the analyser died.
    """

    status: int
    bytes_passed: int
    bytes_not_analysed: int  # never handed to the analyser; what it held unread when it died is not known
    analyser_died: bool
    stopped_by: int | None = None  # the signal that ended the pump before the end of the input


class Reader:
    """The analyser's end of the pipe.

    Iterating gives `bytes` as they come and a `Gap` where some are missing. Text before and after a gap is
    never glued: the line the gap cuts is ended by a newline, and reading resumes at the start of a line. With
    `whole_lines` (two streams in one pipe) an unfinished line waits for its end, so that lines do not mix.
    """

    _MAX_HELD = 64 * 1024

    def __init__(self, fd: int, *, whole_lines: bool = False) -> None:
        self._fd = fd
        self._whole_lines = whole_lines
        self._held = [b"", b""]  # a stream's unfinished line (whole_lines only)
        self._mid_line = [False, False]  # the stream's last byte given out was no line end
        self._gap: list[Gap | None] = [None, None]  # met, but its end not yet
        self._cut = [False, False]  # that gap ends inside a line
        self._spare = b""  # what read(size) has not given out yet
        self._source = self._pieces()
        self.missed = 0  # bytes in all gaps so far

    def fileno(self) -> int:
        """For select; frames arrive here, so read through this object only."""
        return self._fd

    def __iter__(self) -> Iterator[bytes | Gap]:
        return self._source

    def read(self, size: int = -1) -> bytes:
        """The next 1 to `size` bytes (all that is left when negative), gaps left out; b"" at the end."""
        if size < 0:
            rest = b"".join(piece for piece in self._source if isinstance(piece, bytes))
            rest, self._spare = self._spare + rest, b""
            return rest
        while not self._spare:
            piece = next(self._source, None)
            if piece is None:
                return b""
            if isinstance(piece, bytes):
                self._spare = piece
        taken, self._spare = self._spare[:size], self._spare[size:]
        return taken

    def wait(self, seconds: float) -> bool:
        """Whether something arrives within `seconds`; between pieces, to speak while the log is silent."""
        return bool(self._spare) or bool(select.select([self._fd], [], [], seconds)[0])

    def _pieces(self) -> Iterator[bytes | Gap]:
        buffer = b""
        kind, missing = 0, 0  # the frame being read and the bytes still to come of it
        while chunk := os.read(self._fd, READ_SIZE):
            buffer = buffer + chunk if buffer else chunk
            at = 0
            parts: list[bytes] = []
            while at < len(buffer):
                if missing:
                    data = buffer[at : at + missing]
                    at += len(data)
                    missing -= len(data)
                    resumed, data = self._resync(kind, data)
                    if resumed:
                        if joined := b"".join(parts):
                            yield joined
                        parts = []
                        yield resumed
                    parts.append(self._complete_lines(kind, data))
                elif len(buffer) - at < _FRAME.size:
                    break
                else:
                    kind, size, lines = _FRAME.unpack_from(buffer, at)
                    at += _FRAME.size
                    if kind & _GAP:
                        parts.append(self._open_gap(kind, size, lines))
                    else:
                        missing = size
            buffer = buffer[at:]
            if joined := b"".join(parts):
                yield joined
        yield from self._rest()

    def _open_gap(self, kind: int, size: int, lines: int) -> bytes:
        """Note a gap; returns what ends the line before it."""
        stream = kind & 1
        self.missed += size
        before, self._held[stream] = self._held[stream], b""
        earlier = self._gap[stream]
        if earlier:  # no data came between
            size, lines = size + earlier.size, lines + earlier.lines
        elif before or self._mid_line[stream]:
            before += b"\n"
            lines -= 1
        self._gap[stream], self._cut[stream] = Gap(size, lines), bool(kind & _CUT)
        self._mid_line[stream] = False
        return before

    def _resync(self, kind: int, data: bytes) -> tuple[Gap | None, bytes]:
        """(the gap that ends in this data, what follows it)."""
        stream = kind & 1
        gap = self._gap[stream]
        if gap is None:
            return None, data
        if self._cut[stream]:
            end = data.find(b"\n") + 1
            dropped = end or len(data)
            self.missed += dropped
            gap = Gap(gap.size + dropped, gap.lines + bool(end))
            if not end:
                self._gap[stream] = gap
                return None, b""
            data = data[end:]
        self._gap[stream] = None
        return gap, data

    def _complete_lines(self, kind: int, data: bytes) -> bytes:
        stream = kind & 1
        if not data:
            return b""
        if not self._whole_lines:
            self._mid_line[stream] = not data.endswith(b"\n")
            return data
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end and len(self._held[stream]) + len(data) <= self._MAX_HELD:
            self._held[stream] += data
            return b""
        end = end or len(data)
        whole = self._held[stream] + data[:end]
        self._held[stream] = data[end:]
        self._mid_line[stream] = not whole.endswith((b"\n", b"\r"))
        return whole

    def _rest(self) -> Iterator[bytes | Gap]:
        for stream in (0, 1):
            if gap := self._gap[stream]:
                yield gap
            if held := self._held[stream]:
                yield held + b"\n" if stream == 0 and self._held[1] else held


Analyse = Callable[[Reader], int]


class _Analyser:
    """The forked child and the hand-over to it. Nothing here ever blocks the copying, except `finish`."""

    def __init__(self, analyse: Analyse, close: Sequence[int], backlog: int, *, whole_lines: bool) -> None:
        self._partial = memoryview(b"")  # the pipe took the rest of this frame: it can't be dropped any more
        self._partial_size = 0  # bytes of its payload
        self._gaps: dict[int, list[int]] = {}  # stream -> bytes, newlines, _CUT or 0; before all frames
        self._frames: deque[bytes] = deque()  # header and data each
        self._queued = 0
        self._bound = backlog
        self.not_analysed = 0
        self.exit_code: int | None = None  # negative: the signal that killed it
        self._pid = 0
        read_end, self.fd = os.pipe()
        try:
            self._pid = _fork()
        except OSError as error:
            os.close(read_end)
            self._hang_up()
            self.exit_code = CRASHED
            say(f"cannot start the analyser ({error.strerror}); the log is passed on unread")
            return
        if self._pid == 0:
            _be_the_analyser(analyse, Reader(read_end, whole_lines=whole_lines), (*close, self.fd))
        os.close(read_end)
        _enlarge(self.fd)
        os.set_blocking(self.fd, False)

    @property
    def behind(self) -> bool:
        return self.fd >= 0 and bool(self._partial or self._gaps or self._frames)

    @property
    def died(self) -> bool:
        """It ended without a verdict."""
        return self.exit_code is not None and (self.exit_code < 0 or self.exit_code == CRASHED)

    def hand_over(self, stream: int, data: memoryview) -> None:
        if self.fd < 0:
            self.not_analysed += len(data)
            return
        frame = b"".join((_FRAME.pack(stream, len(data), 0), data))
        self._frames.append(frame)
        self._queued += len(frame) + _FRAME_COST
        self.flush()
        while self._queued > self._bound and self._frames:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        frame = self._frames.popleft()
        self._queued -= len(frame) + _FRAME_COST
        stream, size, _ = _FRAME.unpack_from(frame)
        self.not_analysed += size
        gap = self._gaps.setdefault(stream, [0, 0, 0])
        gap[0] += size
        gap[1] += frame.count(b"\n", _FRAME.size)
        gap[2] = 0 if frame.endswith(b"\n") else _CUT

    def flush(self) -> bool:
        """Hand over what the pipe takes now; whether it took anything."""
        progress = False
        while self.behind:
            if not self._partial:
                self._partial = self._next_frame()
            try:
                written = os.write(self.fd, self._partial)
            except BlockingIOError:
                break
            except OSError:  # EPIPE: the analyser has gone or has seen enough
                self._hang_up()
                break
            progress = True
            self._partial = self._partial[written:]
        return progress

    def _next_frame(self) -> memoryview:
        for stream, (size, lines, cut) in self._gaps.items():
            del self._gaps[stream]
            self._partial_size = 0
            return memoryview(_FRAME.pack(stream | _GAP | cut, size, lines))
        frame = self._frames.popleft()
        self._queued -= len(frame) + _FRAME_COST
        self._partial_size = len(frame) - _FRAME.size
        return memoryview(frame)

    def _hang_up(self) -> None:
        os.close(self.fd)
        self.fd = -1
        self.not_analysed += min(len(self._partial), self._partial_size)
        self.not_analysed += sum(len(frame) - _FRAME.size for frame in self._frames)
        self._partial = memoryview(b"")
        self._frames.clear()
        self._gaps.clear()
        self._queued = 0

    def reap(self) -> bool:
        """Whether the child has ended; says so when it died."""
        if self.exit_code is None:
            try:
                pid, wait_status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:  # somebody else waited for it
                pid, wait_status = self._pid, CRASHED << 8
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(wait_status)
                if self.fd >= 0:
                    self._hang_up()
                if self.died:
                    how = f"was killed by signal {-self.exit_code}" if self.exit_code < 0 else "failed"
                    say(f"the analyser {how}: no report (the log itself is passed on in full)")
        return self.exit_code is not None

    def finish(self, wake: int) -> None:
        """Hand over the backlog and wait for the verdict, at most PATIENCE seconds without progress."""
        patient_until = time.monotonic() + PATIENCE
        while not self.reap():
            if self.flush():
                patient_until = time.monotonic() + PATIENCE
            if self.fd >= 0 and not self.behind:
                self._hang_up()
            if time.monotonic() > patient_until:
                say(f"the analyser made no progress for {PATIENCE:.0f} s and is stopped")
                os.kill(self._pid, signal.SIGKILL)
                patient_until += PATIENCE
            _wait((), self, wake, 1.0)


def _be_the_analyser(analyse: Analyse, reader: Reader, close: Sequence[int]) -> None:
    """The child's whole life; never returns."""
    code = CRASHED
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)  # the end of the input ends it; its report must still come
        for number in (signal.SIGCHLD, signal.SIGALRM, signal.SIGWINCH):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # a copy of stdin or stdout held here would hide the end from both neighbours
            os.dup2(nothing, fd)
        for fd in close:
            if fd > 2:
                os.close(fd)
        os.nice(19)
        code = int(analyse(reader))
    except Exception as error:  # noqa: BLE001 - whatever it is, the log must go on passing
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        place = f"{os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno}" if at else "?"
        # Not the error's text: it may quote the log, secrets included.
        say(f"internal error in the analyser: {type(error).__name__} at {place}")
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(code)


class _Route:
    """One stream: read at `source`, passed on to `sink`, copied to the analyser as number `stream`."""

    def __init__(self, source: int, sink: int, stream: int) -> None:
        self.source, self.sink, self.stream = source, sink, stream
        self.passed = 0  # bytes
        self.reader_gone = False  # EPIPE at the sink: stop reading, so that the producer gets SIGPIPE too
        self._buffer = bytearray(READ_SIZE)  # reused: a new one each time costs more than the copying
        self.fault = 0  # the least exit status: 1 the sink failed otherwise, 2 the source did
        _enlarge(source)

    def step(self, analyser: _Analyser) -> bool:
        """Read once and pass it on; False at the end of the stream."""
        try:
            size = os.readv(self.source, [self._buffer])
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:  # that is how a terminal ends
                self.fault = UNREADABLE
                say(f"cannot read the log: {error.strerror}")
            return False
        if not size:
            return False
        data = memoryview(self._buffer)[:size]
        if self.sink >= 0:
            self._write(data)
        analyser.hand_over(self.stream, data)
        return not self.reader_gone

    def _write(self, left: memoryview) -> None:
        while left:
            try:
                written = os.write(self.sink, left)
            except BlockingIOError:  # noqa: PERF203 - a terminal that another process made non-blocking
                _wait_writable(self.sink)
            except BrokenPipeError:
                self.reader_gone = True
                return
            except OSError as error:  # a full disk must not stop the server: go on without this output, as tee
                self.fault = 1
                self.sink = -1
                say(f"cannot write the log on: {error.strerror}; it is still read, but passed on no further")
                return
            else:
                self.passed += written
                left = left[written:]


def pump(
    analyse: Analyse, *, stdin: int = 0, stdout: int = 1, backlog: int = BACKLOG, once: bool = False
) -> PumpResult:
    """Copy `stdin` to `stdout` until it ends; `analyse(reader)` runs in a child and reads along.

    `stdout` is closed before the verdict is waited for. When its reader goes, reading stops, as with `cat`.
    When it fails otherwise (a full disk), one line says so, reading goes on and the status is at least 1.
    SIGINT is ignored: Ctrl-C reaches the server, whose last lines must still pass. On SIGTERM what is already
    in the pipe passes, then the pump ends. With `once` it also ends when `analyse` returns early.
    """
    _open_standard_fds()
    stopping: list[tuple[int, float]] = []

    def stop(number: int, _frame: object) -> None:
        stopping.append((number, time.monotonic() + STOP_GRACE))
        signal.signal(number, signal.SIG_DFL)
        signal.alarm(STUCK_LIMIT)

    with _Signals() as signals:
        signals.handle(signal.SIGINT, signal.SIG_IGN)
        signals.handle(signal.SIGALRM, signal.SIG_DFL)
        route = _Route(stdin, stdout, 0)
        analyser = _Analyser(analyse, (stdin, stdout, *signals.fds), backlog, whole_lines=False)
        signals.handle(signal.SIGTERM, stop)
        while True:
            ready = _wait((stdin,), analyser, signals.wake, 0.0 if stopping else None)
            if stdin in ready and not route.step(analyser):
                break
            analyser.flush()
            if analyser.reap() and once and not analyser.died:
                break
            if stopping and (stdin not in ready or time.monotonic() > stopping[0][1]):
                break
        signal.alarm(0)
        signals.handle(signal.SIGTERM, signal.SIG_DFL)
        fault = max(route.fault, _close(stdout))
        _close(stdin)
        analyser.finish(signals.wake)
    status = UNREADABLE if analyser.died or analyser.exit_code is None else analyser.exit_code
    return PumpResult(
        max(status, fault),
        route.passed,
        analyser.not_analysed,
        analyser.died,
        stopping[0][0] if stopping else None,
    )


def run_command(argv: Sequence[str], analyse: Analyse, *, backlog: int = BACKLOG) -> int:
    """Run `argv`, pass its stdout and stderr on, each on its own stream, and let `analyse` read both along.

    Returns the command's exit status: 128+n when signal n killed it, 127 when there is no such command, 126
    when it cannot be run. SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGWINCH are forwarded; those that a terminal
    sends to its whole foreground group are not sent twice (vLLM takes a second SIGINT for "now, at once").
    """
    _open_standard_fds()
    pid = 0
    exit_code: int | None = None
    early: list[int] = []

    def forward(number: int, _frame: object) -> None:
        if number in (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH) and _in_foreground():
            return
        if not pid:
            early.append(number)
        elif exit_code is None:
            os.kill(pid, number)

    with _Signals() as signals:
        for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGWINCH):
            signals.handle(kind, forward)
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            pid = _spawn(argv, out_end, err_end)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            say(f"{argv[0]}: {'command not found' if missing else error.strerror}")
            _close(out, err)
            return 127 if missing else 126
        finally:
            _close(out_end, err_end)
        for number in early:
            os.kill(pid, number)
        routes = {out: _Route(out, 1, 0), err: _Route(err, 2, 1)}
        analyser = _Analyser(analyse, (out, err, *signals.fds), backlog, whole_lines=True)
        give_up = 0.0
        while routes or exit_code is None:
            ready = _wait(routes, analyser, signals.wake, None if exit_code is None else STRAGGLER_GRACE)
            for fd in ready & routes.keys():
                if not routes[fd].step(analyser):
                    _close(fd)
                    del routes[fd]
            analyser.flush()
            analyser.reap()
            if exit_code is None:
                ended, wait_status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    exit_code = os.waitstatus_to_exitcode(wait_status)
                    give_up = time.monotonic() + STRAGGLER_LIMIT
            elif not ready or time.monotonic() > give_up:
                break  # a process that the command left behind keeps the pipes open
        _close(*routes)
        analyser.finish(signals.wake)
    return exit_code if exit_code >= 0 else 128 - exit_code


@final
class _Signals:
    """Handlers for the time of a `with`, and a pipe (`wake`) that is readable once a signal was handled."""

    def __enter__(self) -> _Signals:
        self._before: dict[int, Any] = {}
        self.fds = os.pipe()
        self.wake = self.fds[0]
        for fd in self.fds:
            os.set_blocking(fd, False)
        self._wakeup_before = signal.set_wakeup_fd(self.fds[1], warn_on_full_buffer=False)
        self.handle(signal.SIGCHLD, lambda *_: None)
        return self

    def handle(self, number: int, action: Any) -> None:
        """Set a handler; a signal that the caller's parent ignores (nohup) stays ignored."""
        inherited = self._before.setdefault(number, signal.getsignal(number))
        if inherited != signal.SIG_IGN or number == signal.SIGCHLD:
            signal.signal(number, action)

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup_before)
        for number, action in self._before.items():
            signal.signal(number, action if action is not None else signal.SIG_DFL)
        _close(*self.fds)


def _wait(sources: Iterable[int], analyser: _Analyser, wake: int, seconds: float | None) -> set[int]:
    """Sleep until a source is readable, the analyser takes more or a signal came; the readable sources."""
    poller = select.poll()
    poller.register(wake, select.POLLIN)
    for fd in sources:
        poller.register(fd, select.POLLIN)
    if analyser.behind:
        poller.register(analyser.fd, select.POLLOUT)
    ready = {fd for fd, _ in poller.poll(None if seconds is None else seconds * 1000)}
    if wake in ready:
        os.read(wake, 4096)
    return ready.intersection(sources)


def _spawn(argv: Sequence[str], stdout: int, stderr: int) -> int:
    """Start a command, found on PATH, in this process group, SIGPIPE set back to its default; its pid."""
    return os.posix_spawnp(
        argv[0],
        list(argv),
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1), (os.POSIX_SPAWN_DUP2, stderr, 2)],
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def _in_foreground() -> bool:
    """Whether this process group is the one the terminal's keys send signals to."""
    try:
        tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(tty) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(tty)


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # else what is buffered would come twice
    return os.fork()


def _wait_writable(fd: int) -> None:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    poller.poll()


def _open_standard_fds() -> None:
    """Fill closed fds 0-2, so that no pipe of ours gets such a number; writing to them fails as it did."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:  # noqa: PERF203
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one


def _close(*fds: int) -> bool:
    """Close each; a standard one becomes /dev/null. Whether closing failed (a late write error)."""
    failed = False
    for fd in fds:
        try:
            os.close(fd)
        except OSError as error:
            failed = failed or error.errno != errno.EBADF
        if fd <= 2:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != fd:
                os.dup2(nothing, fd)
                os.close(nothing)
    return failed


def _enlarge(fd: int) -> None:
    """Make a pipe as large as is allowed; other files and systems stay as they are."""
    with suppress(AttributeError, OSError):  # Linux only
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)


def say(text: str) -> None:
    """One line on stderr; never fails."""
    with suppress(OSError):
        os.write(2, f"vllm-doctor: {text}\n".encode(errors="backslashreplace"))
