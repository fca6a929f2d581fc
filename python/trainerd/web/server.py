"""The web server: who may ask, which file or answer a path has, and streams of events.

Only requests from users of this machine's own choice, with this server's names as Host and Origin (site.py), and the
cookie that its printed address sets. Until a connection has shown the cookie or the token it has little time, sends no
body, and gives way to newer ones. What the answers hold is in api.py.
"""
from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ..client import Client
from ..errors import CannotCreate, TrainerdError, UsageError
from .api import Api, Download
from .files import pieces
from .programs import Programs
from .site import Refused, Site, peer_user, users_admitted

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
TOKEN = "page-token"  # of an address; a hub of notebooks takes "token" for its own
HEAD_BYTES_MOST = 64 << 10
CONNECTIONS_MOST = 200
FOREIGN_MOST = 8  # of them of other users, which are told why they are refused
UNADMITTED_S = 10.0  # until a connection is admitted
IDLE_S = 60.0  # of a connection without a request
BEAT_S = 15.0  # between lines of a stream without events
STATUS_OF = {2: 400, 66: 404, 69: 503, 78: 400}  # of exit codes; others: 500


@dataclass
class Connection:
    """An open connection; user: at its other end, None if that is not known or does not matter."""

    socket: socket.socket
    is_foreign: bool
    is_admitted: bool = False
    opened_at: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        """Its thread then finds that it has ended."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """All connections, oldest first. If they are too many, the oldest that is not admitted ends; if all are admitted, the new one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[socket.socket, Connection] = {}

    def add(self, one: Connection) -> bool:
        with self._lock:
            others = list(self._all.values())
            if one.is_foreign and sum(other.is_foreign for other in others) >= FOREIGN_MOST:
                return False
            if len(others) >= CONNECTIONS_MOST:
                oldest = next((other for other in others if not other.is_admitted), None)
                if oldest is None:
                    return False
                oldest.end()
                del self._all[oldest.socket]
            self._all[one.socket] = one
        return True

    def remove(self, of: socket.socket) -> None:
        with self._lock:
            self._all.pop(of, None)

    def admit(self, of: socket.socket) -> None:
        with self._lock:
            if of in self._all:
                self._all[of].is_admitted = True

    def is_foreign(self, of: socket.socket) -> bool:
        with self._lock:
            return of in self._all and self._all[of].is_foreign

    def end_late(self) -> None:
        """End those that were not admitted in time."""
        with self._lock:
            for one in self._all.values():
                if not one.is_admitted and time.monotonic() - one.opened_at > UNADMITTED_S:
                    one.end()


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1. `address` has the token that lets a browser in; the path before each page is random, too, so that a browser
    sends the cookie to no other program's port."""

    daemon_threads = True

    request_queue_size = 128

    def __init__(self, client: Client, port: int = 0, programs: Programs | None = None, site: Site | None = None) -> None:
        self.site = site or Site()
        self.connections = Connections()
        self.users = users_admitted()
        try:
            super().__init__(("127.0.0.1", port), Handler)
        except OSError as error:
            raise CannotCreate(f"cannot listen on 127.0.0.1:{port}: {error.strerror}") from error
        self.port: int = self.server_address[1]
        self.base = f"/{secrets.token_urlsafe(9)}/"
        self.token = secrets.token_urlsafe(32)
        self.cookie = secrets.token_urlsafe(32)
        self.api = Api(client, programs or Programs())

    @property
    def address(self) -> str:
        """In a browser of this machine."""
        return self._address(f"http://127.0.0.1:{self.port}")

    @property
    def addresses(self) -> list[str]:
        """By all names, this machine's the last."""
        return [*(self._address(f"https://{host}") for host in self.site.hosts), self.address]

    def _address(self, place: str) -> str:
        return f"{place}{self.site.prefix}{self.base}?{TOKEN}={self.token}"

    def _is_foreign(self, request: socket.socket) -> bool:
        """Of another user, where no proxy is before the pages: that has a user of its own."""
        return not self.site.has_proxy and peer_user(request) not in (None, *self.users)

    def process_request(self, request: Any, client_address: Any) -> None:
        try:
            taken = self.connections.add(Connection(request, self._is_foreign(request)))
        except OSError:  # it has left
            taken = False
        if taken:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.remove(request)

    def service_actions(self) -> None:
        self.connections.end_late()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is no error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Head:
    """A connection's bytes. Lines of a request's head have a limit together; what is read otherwise has its own."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.left = HEAD_BYTES_MOST

    def readline(self, most: int = -1) -> bytes:
        line: bytes = self._file.readline(min(most, self.left) if most >= 0 else self.left)
        self.left -= len(line)
        if self.left <= 0:
            raise Refused(431, f"a request's head has more than {HEAD_BYTES_MOST} bytes")
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


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

    def setup(self) -> None:
        super().setup()
        self.rfile: Any = Head(self.rfile)

    def handle_one_request(self) -> None:
        self.rfile.left = HEAD_BYTES_MOST
        try:
            super().handle_one_request()
        except Refused as refused:  # its head
            self.request_version, self.requestline = "HTTP/1.1", ""
            self._refuse(refused)

    def _answer(self, method: str) -> None:
        try:
            path, query = self._admitted(method)
            self._route(method, path, query, self._body() if method == "POST" else {})
        except Refused as refused:
            self._refuse(refused)
        except TrainerdError as error:
            self._json({"error": error.reason, "exit_code": error.exit_code}, STATUS_OF.get(error.exit_code, 500))

    def _refuse(self, refused: Refused) -> None:
        """What may still come of the request is not read."""
        self.close_connection = True
        self._json({"error": str(refused)}, refused.status, {"Connection": "close"})

    def _asked(self, call: Callable[[], Any]) -> Any:
        """An answer of the interface. What it did not foresee is an answer, too."""
        try:
            return call()
        except TrainerdError:
            raise
        except Exception as error:
            traceback.print_exc()
            raise Refused(500, f"a mistake of this server: {type(error).__name__}: {error}") from error

    def _body(self) -> dict[str, Any]:
        """The JSON object of a POST."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 9 and int(length) <= BODY_BYTES_MOST):
            raise Refused(413, f"a request's body has at most {BODY_BYTES_MOST} bytes, and says how many")
        text = self.rfile.read(int(length))
        if self.headers.get("Content-Type", "").partition(";")[0].strip() != "application/json":
            raise Refused(415, "expected Content-Type: application/json")
        try:
            body = json.loads(text)
        except RecursionError as error:
            raise Refused(400, "the body has too many brackets in brackets") from error
        except ValueError as error:
            raise Refused(400, f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise Refused(400, "the body is not a JSON object")
        return body

    def _admitted(self, method: str) -> tuple[str, dict[str, str]]:
        """The path below the server's own, and the query, of a request that may be answered."""
        if self.server.connections.is_foreign(self.connection):
            raise Refused(403, f"this page is that of user {os.geteuid()} of this machine, and the connection comes from another user")
        self.server.site.admit(method, self.headers)
        if len(self.headers.get_all("Content-Length", [])) > 1 or "Transfer-Encoding" in self.headers or (method == "GET" and self.headers.get("Content-Length", "0") != "0"):
            raise Refused(400, "expected no body, or in a POST one with Content-Length")
        try:
            url = urlsplit(self.path)
        except ValueError as error:
            raise Refused(400, "the address is none") from error
        full = url.path.removeprefix(self.server.site.prefix)  # some proxies remove it, others do not
        if not full.startswith(self.server.base):
            raise Refused(404, "there is no such page; open the address that trainctl web has printed")
        path = full.removeprefix(self.server.base)
        query = {name: values[-1] for name, values in parse_qs(url.query, errors="surrogateescape").items()}
        if not (path == "" and method == "GET" and TOKEN in query):
            if not self._has(self._cookie(), self.server.cookie):
                raise Refused(401, "open the address that trainctl web has printed")
            self.server.connections.admit(self.connection)
        return path, query

    @staticmethod
    def _has(given: str, expected: str) -> bool:
        return secrets.compare_digest(given.encode(errors="replace"), expected.encode())

    def _cookie(self) -> str:
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        return next((value for name, _, value in pairs if name == "trainerd"), "")

    def _route(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> None:
        if method == "POST":
            self._json(self._asked(lambda: self.server.api.change(path.removeprefix("api/"), body)) if path.startswith("api/") else self._missing())
        elif path == "" and TOKEN in query:
            self._let_in(query[TOKEN])
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
        self.server.connections.admit(self.connection)
        path = self.server.site.prefix + self.server.base
        secure = "; Secure" if self.server.site.is_encrypted(self.headers) else ""
        self._head(303, {"Location": "./", "Content-Length": "0",  # a proxy would put its prefix before a path
                         "Set-Cookie": f"trainerd={self.server.cookie}; Path={path}; HttpOnly; SameSite=Strict{secure}"})

    def _read(self, path: str, query: dict[str, str]) -> None:
        answer = self._asked(lambda: self.server.api.read(path, query))
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
        self._head(200, {"Content-Type": "text/event-stream", "Connection": "close", "X-Accel-Buffering": "no"})
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

    def _json(self, value: Any, status: int = 200, more: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self._head(status, {"Content-Type": "application/json", "Content-Length": str(len(content)), **(more or {})})
        self.wfile.write(content)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def serve(client: Client, port: int = 0, programs: Programs | None = None, site: Site | None = None) -> None:
    """Print the address, and answer until the user interrupts."""
    if not 0 <= port < 65536:
        raise UsageError(f"port is {port}, expected 0 to 65535")
    client.version()  # a daemon that is not there is an error now
    with Server(client, port, programs, site) as server:
        which = "one of these addresses in a browser, the last one on" if server.site.hosts else "this address in a browser of"
        print(f"open {which} this machine; Ctrl-C ends the server", *server.addresses, sep="\n", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
