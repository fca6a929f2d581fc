"""The web server: who may ask, which file or answer a path has, and streams of events.

Only requests from this machine to this machine, with this server's names as Host and Origin, and the cookie that its
printed address sets. What the answers hold is in api.py.
"""
from __future__ import annotations

import contextlib
import json
import secrets
import select
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..client import Client
from ..errors import CannotCreate, TrainerdError, UsageError
from .api import Api, Download
from .files import pieces
from .programs import Programs

PAGES = {"": "jobs.html", "job": "job.html", "compare": "compare.html", "submit": "submit.html"}
STATIC = Path(__file__).resolve().parent / "static"
# A wheel may carry the charts beside the other files; Debian's package has them here.
CHARTS = (STATIC / "chart.min.js", Path("/usr/share/javascript/chart.js/chart.min.js"))
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
          "base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
HEADERS = {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
           "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"}
BODY_BYTES_MOST = 2 << 20
CONNECTIONS_MOST = 200
IDLE_S = 60.0  # of a connection without a request
BEAT_S = 15.0  # between lines of a stream without events
STATUS_OF = {2: 400, 66: 404, 69: 503, 78: 400}  # of exit codes; others: 500


class Refused(Exception):
    """A request that is not answered: its status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1. `address` has the token that lets a browser in; the path before each page is random, too, so that a browser
    sends the cookie to no other program's port."""

    daemon_threads = True

    def __init__(self, client: Client, port: int = 0, programs: Programs | None = None) -> None:
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise CannotCreate(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from error
        self.port: int = self.server_address[1]
        self.base = f"/{secrets.token_urlsafe(9)}/"
        self.token = secrets.token_urlsafe(32)
        self.cookie = secrets.token_urlsafe(32)
        self.api = Api(client, programs or Programs())
        self._free = threading.BoundedSemaphore(CONNECTIONS_MOST)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.base}?token={self.token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "trainerd", ""
    timeout = IDLE_S

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged: a path may have the token."""

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def _answer(self, method: str) -> None:
        try:
            body = self._body() if method == "POST" else {}
            path, query = self._admitted(method)
            self._route(method, path, query, body)
        except Refused as refused:
            self._json({"error": str(refused)}, refused.status)
        except TrainerdError as error:
            self._json({"error": error.reason, "exit_code": error.exit_code}, STATUS_OF.get(error.exit_code, 500))

    def _body(self) -> dict[str, Any]:
        """The JSON object of a POST. It is read before anything is refused, so that the connection may go on."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and int(length) <= BODY_BYTES_MOST):
            self.close_connection = True
            raise Refused(413, f"a request's body has at most {BODY_BYTES_MOST} bytes, and says how many")
        text = self.rfile.read(int(length))
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "expected Content-Type: application/json")
        try:
            body = json.loads(text)
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Refused(400, "the body is not a JSON object")
        return body

    def _admitted(self, method: str) -> tuple[str, dict[str, str]]:
        """The path below the server's own, and the query, of a request that may be answered."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in (f"127.0.0.1:{self.server.port}", f"localhost:{self.server.port}"):
            raise Refused(403, "another Host than this server")
        if (origin is None and method == "POST") or origin not in (None, f"http://{host}"):
            raise Refused(403, "another Origin than this server")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise Refused(403, "a request from another site")
        url = urlsplit(self.path)
        if not url.path.startswith(self.server.base):
            raise Refused(404, "there is no such page; open the address that trainctl web has printed")
        path = url.path.removeprefix(self.server.base)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        if not (path == "" and method == "GET" and "token" in query) and not self._has(self._cookie(), self.server.cookie):
            raise Refused(401, "open the address that trainctl web has printed")
        return path, query

    @staticmethod
    def _has(given: str, expected: str) -> bool:
        return secrets.compare_digest(given.encode(errors="replace"), expected.encode())

    def _cookie(self) -> str:
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == "trainerd"), "")

    def _route(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> None:
        if method == "POST":
            self._json(self.server.api.change(path.removeprefix("api/"), body) if path.startswith("api/") else self._missing())
        elif path == "" and "token" in query:
            self._let_in(query["token"])
        elif path in PAGES:
            self._file(STATIC / PAGES[path])
        elif path == "chart.js":
            found = next((file for file in CHARTS if file.is_file()), None)
            self._file(found) if found is not None else self._missing()
        elif path.startswith("static/"):
            name = path.removeprefix("static/")
            self._file(STATIC / name) if name in {file.name for file in STATIC.iterdir()} else self._missing()
        elif path.startswith("api/"):
            self._read(path.removeprefix("api/"), query)
        else:
            self._missing()

    @staticmethod
    def _missing() -> Any:
        raise Refused(404, "there is no such page")

    def _let_in(self, token: str) -> None:
        if not self._has(token, self.server.token):
            raise Refused(401, "the token is wrong; open the address that trainctl web has printed")
        self._head(303, {"Location": self.server.base, "Content-Length": "0",
                         "Set-Cookie": f"trainerd={self.server.cookie}; Path={self.server.base}; HttpOnly; SameSite=Strict"})

    def _read(self, path: str, query: dict[str, str]) -> None:
        answer = self.server.api.read(path, query)
        if isinstance(answer, Download):
            with answer.file:
                self._head(200, {"Content-Type": "application/octet-stream", "Content-Length": str(answer.size),
                                 "Content-Disposition": f'attachment; filename="{answer.name}"'})
                self.close_connection = True  # a file that is cut meanwhile is shorter than its head says
                for piece in pieces(answer.file, answer.size):
                    self.wfile.write(piece)
        elif isinstance(answer, Iterator):
            self._events(answer)
        else:
            self._json(answer)

    def _events(self, events: Iterator[Any]) -> None:
        """Server-sent events, until they end or the browser leaves: values, or JSON in bytes. An event of None is sent as a comment, which
        finds out."""
        self.close_connection = True
        self._head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
        sent_at = time.monotonic()
        with contextlib.closing(events):  # type: ignore[type-var]
            try:
                for event in events:
                    if select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1):
                        return
                    now = time.monotonic()
                    if event is not None or now - sent_at >= BEAT_S:
                        sent_at = now
                        text = event if isinstance(event, bytes) else json.dumps(event).encode()
                        self.wfile.write(b":\n\n" if event is None else b"data: " + text + b"\n\n")
            except TrainerdError as error:
                self.wfile.write(b"data: " + json.dumps({"error": error.reason}).encode() + b"\n\n")

    def _file(self, path: Path) -> None:
        content = path.read_bytes()
        self._head(200, {"Content-Type": TYPES[path.suffix], "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _json(self, value: Any, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(content))})
        self.wfile.write(content)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def serve(client: Client, port: int = 0, programs: Programs | None = None) -> None:
    """Print the address, and answer until the user interrupts."""
    if not 0 <= port < 65536:
        raise UsageError(f"port is {port}, expected 0 to 65535")
    client.version()  # a daemon that is not there is an error now
    with Server(client, port, programs) as server:
        print(f"open this address in a browser of this machine; Ctrl-C ends the server\n{server.address}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
