"""One stream on its way: read, passed on, copied to the analyser.

Passing on comes first. A reader of the output that goes ends the stream, as with `cat`; an output that fails otherwise
(a full disk) ends only the passing on.
"""

from __future__ import annotations

import errno
import os

from vllm_doctor.errors import reason
from vllm_doctor.pipe.analyser import Analyser
from vllm_doctor.pipe.analyser_channel import READ_SIZE
from vllm_doctor.pipe.descriptors import enlarge, wait_writable, write_error
from vllm_doctor.pipe.status_line import StatusLine, may_be_shown

UNREADABLE = 2  # status when the log could not be read, or not passed on


class Route:
    """One stream: read at `source`, passed on to `sink`, copied to the analyser as number `stream`."""

    def __init__(self, source: int, sink: int, stream: int, status: StatusLine) -> None:
        self.source, self.sink, self.stream = source, sink, stream
        self._status = status if status.fds and may_be_shown(sink) else None
        self.passed = 0  # bytes
        self.reader_gone = False  # EPIPE at the sink: stop reading, so that the producer gets SIGPIPE too
        self._buffer = bytearray(READ_SIZE)  # reused: a new one each time costs more than the copying
        self.fault = 0  # the least exit status: 2 once the source or the sink failed
        enlarge(source)
        enlarge(sink)  # else each read is passed on in several pieces, with a change of process between them

    def step(self, analyser: Analyser) -> bool:
        """Read once and pass it on; return False at the end of the stream."""
        try:
            size = os.readv(self.source, [self._buffer])
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno != errno.EIO:  # that is how a terminal ends
                self.fault = UNREADABLE
                write_error(f"cannot read the log: {reason(error)}")
            return False
        if not size:
            return False
        data = memoryview(self._buffer)[:size]
        if self._status:
            self._status.clear()
        if self.sink >= 0:
            self._write(data)
        if self._status:
            self._status.passed(self.stream, data[-1])
        analyser.queue(self.stream, data)
        return not self.reader_gone

    def _write(self, left: memoryview) -> None:
        while left:
            try:
                written = os.write(self.sink, left)
            except BlockingIOError:  # noqa: PERF203 - a terminal that another process made non-blocking
                wait_writable(self.sink)
            except BrokenPipeError:
                self.reader_gone = True
                return
            except OSError as error:  # a full disk must not stop the server: go on without this output, as tee
                self.fault = UNREADABLE
                self.sink = -1
                write_error(f"cannot write the log on: {reason(error)}; it is still read, but passed on no further")
                return
            else:
                self.passed += written
                left = left[written:]
