"""A page on this machine to paste or drop a log into and get the HTML report.

The server listens on loopback only and answers nobody without the random token in the address: other users and other
web pages of this machine do not know it. The Host header is checked, so that a page whose name was rebound to
127.0.0.1 is turned away; no header allows another origin to read anything. Nothing is kept: the log lives as long as
its request. Size, time and the number of connections are bounded.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vllm_doctor.errors import DoctorError, InputError
from vllm_doctor.language import language
from vllm_doctor.messages import message, say
from vllm_doctor.options import Options
from vllm_doctor.reports import to_html
from vllm_doctor.reports.escape import one_line
from vllm_doctor.version import __version__
from vllm_doctor.web.analysis import report_page
from vllm_doctor.web.multipart import boundary_of, parts

__all__ = ["ADDRESS", "MOST_BYTES", "Server"]

ADDRESS = "127.0.0.1"
MOST_BYTES = 32 << 20
_FORM_BYTES = 4096  # what a form adds around the log
_CONNECTIONS = 16
_AT_ONCE = 2  # logs read at the same time
_BYTES_AT_ONCE = 48 << 20  # of all forms together that are being taken; each stands in memory twice
_HEAD_SECONDS = 10.0  # for the head of a request, however it comes
_READ_SECONDS = 60.0  # for a whole request
_IDLE_SECONDS = 10.0  # between two pieces of one
_CHUNK = 1 << 16
_HOSTS = {"127.0.0.1", "localhost"}
_FOLDER = Path(__file__).resolve().parent.parent / "reports" / "templates"
_SAME_SITE = {"same-origin", "none"}

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class _Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """A request that is refused, and the message for the client."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class _ByteBudget:
    """A budget of bytes that all connections share."""

    def __init__(self, size: int) -> None:
        self._left = size
        self._lock = threading.Lock()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Reserve part of the room. Raises _Refusal when too little is left."""
        with self._lock:
            if size > self._left:
                raise _Refusal(HTTPStatus.SERVICE_UNAVAILABLE,
                               message("Other logs are being taken. Try again in a moment."))
            self._left -= size
        try:
            yield
        finally:
            with self._lock:
                self._left += size


class Server(ThreadingHTTPServer):
    """Serves until `shutdown`. `url` is the only address that answers. Port 0 takes a free one."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 16

    def __init__(self, options: Options | None = None, port: int = 0, most_bytes: int = MOST_BYTES) -> None:
        self.options = (options or Options())._replace(run=None)
        self.most_bytes = most_bytes
        self.token = secrets.token_urlsafe(32)
        self.reading = threading.BoundedSemaphore(_AT_ONCE)
        self.room = _ByteBudget(max(_BYTES_AT_ONCE, most_bytes + _FORM_BYTES))
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Bind without resolving this machine's name, which HTTPServer would do."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        """Return the page's address, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for the request; close the connection if there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle the request in its thread, then free its place."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: a client that disconnects is no error, and the address of a request holds the token."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _IDLE_SECONDS
    server: Server

    def setup(self) -> None:
        """Start the timer for the request head: a client that sends a byte now and then would never be idle."""
        super().setup()
        self._head_ends = threading.Timer(_HEAD_SECONDS, self._cut)
        self._head_ends.daemon = True
        self._head_ends.start()

    def finish(self) -> None:
        """End the connection."""
        self._head_ends.cancel()
        super().finish()

    def _cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        """Send the page."""
        self._answer(self._page)

    def do_POST(self) -> None:
        """Send the report on the uploaded log."""
        self._answer(self._report)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a request line holds the token."""

    def version_string(self) -> str:
        """Return the value of the Server header, without any version."""
        return "vllm-doctor"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send the base class's errors (such as an unsupported method) with our headers, without its message."""
        del message, explain
        self.close_connection = True
        self._send(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n", plain=True)

    def _answer(self, answer: Any) -> None:
        self._head_ends.cancel()
        try:
            self._check_host()
            text, policy = answer()
        except _Refusal as refusal:
            self._send(refusal.status, f"{self._said(refusal.words)}\n", plain=True)
            self._drain()
        except DoctorError as error:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, *page(
                self.server.most_bytes, one_line(self._said(*error.args[:1])), self.server.options.language))
        except (TimeoutError, ConnectionError):
            self.close_connection = True
        else:
            self._send(HTTPStatus.OK, text, policy)

    def _said(self, words: str = "") -> str:
        return say(words, language(self.server.options.language).gettext)

    def _check_host(self) -> None:
        """Refuse any host name but this machine's. The port may differ, as through an SSH tunnel."""
        names = self.headers.get_all("Host") or []
        if len(names) != 1 or names[0].lower().partition(":")[0] not in _HOSTS:
            raise _Refusal(HTTPStatus.MISDIRECTED_REQUEST,
                           message("This server answers to 127.0.0.1 and localhost only."))

    def _path(self) -> str:
        """Return the path after the token. Raises _Refusal if the token is missing or wrong."""
        path = self.path.partition("?")[0]
        token, slash, rest = path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise _Refusal(HTTPStatus.NOT_FOUND,
                           message("Nothing is here. Use the address that vllm-doctor web printed."))
        return rest

    def _page(self) -> tuple[str, str]:
        if self._path() != "":
            raise _Refusal(HTTPStatus.NOT_FOUND, message("Nothing is here."))
        return page(self.server.most_bytes, code=self.server.options.language)

    def _report(self) -> tuple[str, str]:
        if self._path() != "report":
            raise _Refusal(HTTPStatus.NOT_FOUND, message("Nothing is here."))
        if self.headers.get("Sec-Fetch-Site", "none") not in _SAME_SITE:  # the browser's word on who sends the form
            raise _Refusal(HTTPStatus.FORBIDDEN, message("The form of another site is not taken."))
        boundary = boundary_of(self.headers.get("Content-Type", ""))
        if boundary is None:
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, message("A form is expected: multipart/form-data."))
        length = self._length()
        with self.server.room.taken(length):
            try:
                name, data = _log(self._body(length), boundary)
            except ValueError as error:
                raise _Refusal(HTTPStatus.BAD_REQUEST, message("{sentence}.", sentence=error.args[0])) from error
            with self.server.reading:
                return report_page(name, data, self.server.options, self.server.most_bytes)

    def _length(self) -> int:
        """Return the length of the body in bytes. Raises _Refusal if it is missing, invalid or above the limit."""
        if self.headers.get("Transfer-Encoding"):
            raise _Refusal(HTTPStatus.NOT_IMPLEMENTED, message("Send the form in one piece, with a Content-Length."))
        lengths = self.headers.get_all("Content-Length") or []
        if not lengths:
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, message("The length is missing."))
        if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > 18:
            raise _Refusal(HTTPStatus.BAD_REQUEST, message("The length is no number."))
        left = int(lengths[0])
        if left > self.server.most_bytes + _FORM_BYTES:
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                           message("The log is larger than {size}. The command takes logs of any size: "
                                   "vllm-doctor diagnose FILE", size=_words(self.server.most_bytes)))
        return left

    def _body(self, left: int) -> bytearray:
        """Return the entire body, read within the time limit, with the line end that its first part needs before it."""
        deadline = time.monotonic() + _READ_SECONDS
        body = bytearray(b"\r\n")
        while left:
            piece = self.rfile.read1(min(left, _CHUNK))
            if not piece:
                raise _Refusal(HTTPStatus.BAD_REQUEST, message("The log was cut on its way."))
            if time.monotonic() > deadline:
                raise _Refusal(HTTPStatus.REQUEST_TIMEOUT, message("That took too long."))
            body += piece
            left -= len(piece)
        return body

    def _send(self, status: HTTPStatus, text: str, policy: str = "default-src 'none'", *, plain: bool = False) -> None:
        data = text.encode("utf-8", "replace")
        headers = {**_HEADERS, "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
                   "Content-Length": str(len(data)), "Connection": "close"}
        if plain:
            headers["Content-Type"] = "text/plain; charset=utf-8"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.close_connection = True

    def _drain(self) -> None:
        """Read a little of what a refused client still sends: closing at once would discard the response."""
        self.close_connection = True
        deadline, left = time.monotonic() + 2.0, self.server.most_bytes
        self.connection.settimeout(0.5)
        try:
            while left > 0 and time.monotonic() < deadline and (piece := self.rfile.read1(_CHUNK)):
                left -= len(piece)
        except OSError:
            return


def _log(body: bytes | bytearray, boundary: bytes) -> tuple[str, bytes]:
    """Return (name, bytes) of the log in a form: the file if there is one, else the pasted text.

    Raises ValueError for a form that is not ours, InputError for an empty one.
    """
    fields = {part.name: part for part in parts(body, boundary)}
    file, text = fields.get("file"), fields.get("log")
    if file is not None and file.data:
        return one_line(file.filename.replace("\\", "/").rpartition("/")[2])[:200] or "dropped log", file.data
    if text is not None and text.data.strip():
        return "pasted log", text.data
    if file is None and text is None:
        raise ValueError(message("There is no log in the form"))
    raise InputError(message("nothing was pasted, and no file was chosen"))


def page(most_bytes: int, problem: str = "", code: str = "en") -> tuple[str, str]:
    """Return (page, policy) of the form, or of a problem."""
    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                              undefined=StrictUndefined)
    spoken = language(code)
    text = environment.get_template("paste.html").render(
        _=to_html.markup_in(spoken), language=spoken,
        style=Markup(_file("paste.css")), script=Markup(_file("paste.js")), version=__version__,  # noqa: S704 - our own files
        most=most_bytes, most_words=_words(most_bytes), problem=problem)
    policy = (f"default-src 'none'; style-src {_hash(_file('paste.css'))}; "
              f"script-src {_hash(_file('paste.js'))}; form-action 'self'; base-uri 'none'")
    return text, policy


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii") + "'"


@lru_cache(maxsize=4)
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _words(size: int) -> str:
    return f"{size / 2**20:g} MiB" if size >= 2**20 else f"{size:,} bytes"
