"""A page on this machine to paste or drop a log into and get the HTML report.

The server listens on loopback only and answers nobody without the random token in the address: other users and other
web pages of this machine do not know it. The Host header is checked, so that a page whose name was rebound to
127.0.0.1 is turned away; no header allows another origin to read anything. Nothing is kept: the log lives as long as
its request. Size, time and the number of connections are bounded.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import hmac
import io
import lzma
import secrets
import socketserver
import threading
import time
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vllm_doctor.diagnosis.engine import Diagnosis
from vllm_doctor.errors import DoctorError, InputError
from vllm_doctor.logs.inputs import chunks
from vllm_doctor.options import Options
from vllm_doctor.reports import to_html
from vllm_doctor.reports.escape import one_line
from vllm_doctor.reports.output import finish
from vllm_doctor.version import __version__
from vllm_doctor.web.multipart import boundary_of, parts

__all__ = ["ADDRESS", "MOST_BYTES", "Server"]

ADDRESS = "127.0.0.1"
MOST_BYTES = 32 << 20
_TIMES_UNPACKED = 4  # a compressed log may hold that many times the limit
_FORM_BYTES = 4096  # what a form adds around the log
_CONNECTIONS = 16
_AT_ONCE = 2  # logs read at the same time
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
    """A request that is not served, and the words for it."""

    def __init__(self, status: HTTPStatus, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


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
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        super().__init__((ADDRESS, port), _Handler)

    def server_bind(self) -> None:
        """Bind without asking the resolver for this machine's name, as HTTPServer does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = ADDRESS, self.server_address[1]

    @property
    def url(self) -> str:
        """The page's address, with the token."""
        return f"http://{ADDRESS}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for the request, while there are few; one connection too many is closed."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """The request, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news; the address of a request is not printed, for it holds the token."""


class _Handler(BaseHTTPRequestHandler):
    timeout = _IDLE_SECONDS
    server: Server

    def do_GET(self) -> None:
        """The page."""
        self._answer(self._page)

    def do_POST(self) -> None:
        """The report on what was sent."""
        self._answer(self._report)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing: a request line holds the token."""

    def version_string(self) -> str:
        """What the Server header says: no releases."""
        return "vllm-doctor"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The base class's refusals (a broken request line, another method) in our headers, without its words."""
        del message, explain
        self.close_connection = True
        self._send(HTTPStatus(code), f"{HTTPStatus(code).phrase}\n", plain=True)

    def _answer(self, made: Any) -> None:
        try:
            self._check_host()
            text, policy = made()
        except _Refusal as refusal:
            self._send(refusal.status, f"{refusal.words}\n", plain=True)
            self._drain()
        except DoctorError as error:
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, *page(self.server.most_bytes, one_line(str(error))))
        except (TimeoutError, ConnectionError):
            self.close_connection = True
        else:
            self._send(HTTPStatus.OK, text, policy)

    def _check_host(self) -> None:
        """Only names of this machine. The port may be another one: an SSH tunnel's."""
        names = self.headers.get_all("Host") or []
        if len(names) != 1 or names[0].lower().partition(":")[0] not in _HOSTS:
            raise _Refusal(HTTPStatus.MISDIRECTED_REQUEST, "This server answers to 127.0.0.1 and localhost only.")

    def _path(self) -> str:
        """The path behind the token. Without it there is nothing here."""
        path = self.path.partition("?")[0]
        token, slash, rest = path.removeprefix("/").partition("/")
        if not slash or not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            raise _Refusal(HTTPStatus.NOT_FOUND, "Nothing is here. Use the whole address that vllm-doctor web printed.")
        return rest

    def _page(self) -> tuple[str, str]:
        if self._path() != "":
            raise _Refusal(HTTPStatus.NOT_FOUND, "Nothing is here.")
        return page(self.server.most_bytes)

    def _report(self) -> tuple[str, str]:
        if self._path() != "report":
            raise _Refusal(HTTPStatus.NOT_FOUND, "Nothing is here.")
        if self.headers.get("Sec-Fetch-Site", "none") not in _SAME_SITE:  # the browser's word on who sends the form
            raise _Refusal(HTTPStatus.FORBIDDEN, "The form of another site is not taken.")
        boundary = boundary_of(self.headers.get("Content-Type", ""))
        if boundary is None:
            raise _Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A form is expected: multipart/form-data.")
        body = self._body()
        try:
            name, data = _log(body, boundary)
        except ValueError as error:
            raise _Refusal(HTTPStatus.BAD_REQUEST, f"{error}.") from error
        del body
        with self.server.reading:
            return report_page(name, data, self.server.options, self.server.most_bytes)

    def _body(self) -> bytes:
        """The whole body, within the limits of size and time."""
        if self.headers.get("Transfer-Encoding"):
            raise _Refusal(HTTPStatus.NOT_IMPLEMENTED, "Send the form in one piece, with a Content-Length.")
        lengths = self.headers.get_all("Content-Length") or []
        if not lengths:
            raise _Refusal(HTTPStatus.LENGTH_REQUIRED, "The length is missing.")
        if len(lengths) > 1 or not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > 18:
            raise _Refusal(HTTPStatus.BAD_REQUEST, "The length is no number.")
        left = int(lengths[0])
        if left > self.server.most_bytes + _FORM_BYTES:
            raise _Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                           f"The log is larger than {_words(self.server.most_bytes)}. The command takes logs of any "
                           "size: vllm-doctor diagnose FILE")
        deadline = time.monotonic() + _READ_SECONDS
        pieces = []
        while left:
            piece = self.rfile.read1(min(left, _CHUNK))
            if not piece:
                raise _Refusal(HTTPStatus.BAD_REQUEST, "The log was cut on its way.")
            if time.monotonic() > deadline:
                raise _Refusal(HTTPStatus.REQUEST_TIMEOUT, "That took too long.")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

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
        """Take a little of what a refused sender still sends: closing at once would reset its connection unread."""
        self.close_connection = True
        deadline, left = time.monotonic() + 2.0, self.server.most_bytes
        self.connection.settimeout(0.5)
        try:
            while left > 0 and time.monotonic() < deadline and (piece := self.rfile.read1(_CHUNK)):
                left -= len(piece)
        except OSError:
            return


def _log(body: bytes, boundary: bytes) -> tuple[str, bytes]:
    """(name, bytes) of the log in a form: the file when there is one, else the pasted text. Raises ValueError."""
    fields = {part.name: part for part in parts(body, boundary)}
    file, text = fields.get("file"), fields.get("log")
    if file is not None and file.data:
        return one_line(file.filename.replace("\\", "/").rpartition("/")[2])[:200] or "dropped log", file.data
    if text is not None and text.data.strip():
        return "pasted log", text.data
    raise ValueError("There is no log in the form")


def report_page(name: str, data: bytes, options: Options, most_bytes: int) -> tuple[str, str]:
    """(page, policy) of the report on a log. Raises InputError when it cannot be read."""
    size = 0
    for chunk in chunks(_opened(data), _CHUNK):  # unpacking alone is quick
        size += len(chunk)
        if size > max(most_bytes * _TIMES_UNPACKED, len(data)):
            raise InputError(f"unpacked, the log is larger than {_words(most_bytes * _TIMES_UNPACKED)}")
    diagnosis = Diagnosis(options, name)
    for chunk in chunks(_opened(data), _CHUNK):
        diagnosis.feed(chunk)
    report = diagnosis.finish()
    return finish(to_html.render(report), "html", [report]), to_html.policy()


def _opened(data: bytes) -> IO[bytes]:
    raw = io.BytesIO(data)
    if data.startswith(b"\x1f\x8b"):
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if data.startswith(b"\xfd7zXZ\x00"):
        return lzma.open(raw)
    if data.startswith(b"BZh"):
        return bz2.open(raw)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        raise InputError("unpack a .zst first, or: vllm-doctor diagnose FILE")
    return raw


def page(most_bytes: int, problem: str = "") -> tuple[str, str]:
    """(page, policy) of the form, or of a problem."""
    environment = Environment(loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True,
                              undefined=StrictUndefined)
    text = environment.get_template("paste.html").render(
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
