"""One connection to a daemon: addresses, lines of JSON, and over TCP TLS and the proof of the secret (docs/protocol.md).

Independent of the meaning of requests. Only the standard library.
"""
from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import socket
import ssl
import stat
import struct
import time
import tomllib
from typing import Any, NamedTuple

from .errors import JobFileError, MissingInput, Unavailable, UsageError, error_of
from .version import PROTOCOL, VERSION

ANSWER_BYTES_MOST = 64 << 20
SYSTEM_PATH = "/run/trainerd/trainerd.sock"
SECRET_DIGITS = 64
HEX = frozenset("0123456789abcdefABCDEF")
HOSTS_BYTES_MOST = 1 << 20
USER_BYTES_MOST = 32
NO_TLS = "none"
LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Lost(Unavailable):
    """No daemon answers, or it went away before it answered. Unlike a refusal, this may change in a moment."""


class Address(NamedTuple):
    """unix: `path`; tcp: `host` and `port`."""

    text: str
    path: str | None
    host: str = ""
    port: int = 0


def address_of(text: str) -> Address:
    """Parse unix:PATH, tcp:HOST:PORT or tcp:[IPV6]:PORT."""
    kind, _, rest = text.partition(":")
    if kind == "unix" and rest:
        if len(os.fsencode(rest)) > 107:
            raise JobFileError(f"address: the path of '{text}' has {len(os.fsencode(rest))} bytes, a socket's name has at most 107")
        return Address(text, rest)
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if kind != "tcp" or not colon or not host.strip("[]") or (":" in host and not bracketed):
        raise JobFileError(f"address: '{text}' is not an address, expected unix:PATH or tcp:HOST:PORT")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise JobFileError(f"address: '{text}' has no port, expected tcp:HOST:PORT with a port from 0 to 65535")
    return Address(text, None, host[1:-1] if bracketed else host, int(port))


def default_address() -> str:
    """The address of this user's daemon, as for `trainctl`."""
    if os.geteuid() == 0:
        return f"unix:{SYSTEM_PATH}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return f"unix:{runtime}/trainerd.sock" if runtime.startswith("/") else f"unix:/tmp/trainerd-{os.geteuid()}/trainerd.sock"


def own_file(what: str, path: str, most: int) -> bytes:
    """At most `most` bytes of a file that only its owner may read."""
    try:
        with open(path, "rb") as file:
            info, text = os.fstat(file.fileno()), file.read(most)
    except OSError as error:
        raise MissingInput(f"cannot open {what} '{path}': {error.strerror}") from error
    if info.st_uid not in (os.geteuid(), 0):
        raise JobFileError(f"{what} '{path}' belongs to user {info.st_uid}, expected {os.geteuid()} or root")
    if info.st_mode & 0o077:
        raise JobFileError(f"{what} '{path}' has mode {stat.S_IMODE(info.st_mode):04o}, expected 0600: others could read or change it")
    return text


def secret_of(path: str) -> bytes:
    """The 32 bytes of a secret file, which only its owner may read."""
    text = own_file("secret file", path, SECRET_DIGITS + 2)
    digits = text.removesuffix(b"\n").decode("latin-1")
    if len(digits) != SECRET_DIGITS or not HEX.issuperset(digits):
        raise JobFileError(f"secret file '{path}' does not hold {SECRET_DIGITS} hexadecimal digits and nothing else, as "
                           "`openssl rand -hex 32` prints them")
    return bytes.fromhex(digits)


def fingerprint_of(text: str) -> str:
    """64 lower-case digits, of a fingerprint with colons between or without; or "none", a connection without TLS."""
    digits = text.replace(":", "").lower()
    if text != NO_TLS and (len(digits) != 64 or not HEX.issuperset(digits)):
        raise JobFileError(f"fingerprint '{text}' is none, expected 64 hexadecimal digits, as trainctl fingerprint prints them, or {NO_TLS}")
    return NO_TLS if text == NO_TLS else digits


class Login(NamedTuple):
    """The identity of a daemon on a TCP port, and the user who logs in; None: as stored by `trainctl login`."""

    secret_file: str | None = None
    user: str | None = None
    fingerprint: str | None = None

    def completed(self, at: Address) -> Login:
        known = known_host(at)
        user = self.user if self.user is not None else known.get("user", "")
        if len(user.encode()) > USER_BYTES_MOST:
            raise UsageError(f"user '{user}' has more than {USER_BYTES_MOST} bytes")
        kept = known.get("secret_file") if user == known.get("user", "") else None
        fingerprint = self.fingerprint or known.get("fingerprint")
        return Login(self.secret_file or kept, user, fingerprint_of(fingerprint) if fingerprint else None)


def known_host(at: Address) -> dict[str, str]:
    """The entry of an address in hosts.toml; empty if it, or the file, is missing."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    path = os.path.join(base if base.startswith("/") else os.path.expanduser("~/.config"), "trainerd", "hosts.toml")
    if not os.path.exists(path):
        return {}
    try:
        hosts = tomllib.loads(own_file("file of hosts", path, HOSTS_BYTES_MOST).decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise JobFileError(f"{path}: {error}") from error
    names = [at.host, *LOOPBACK] if at.host in LOOPBACK else [at.host]
    addresses = [f"tcp:[{name}]:{at.port}" if ":" in name else f"tcp:{name}:{at.port}" for name in names]
    address = next((address for address in addresses if address in hosts), addresses[0])
    known = hosts.get(address, {})
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise JobFileError(f"{path}: {address} has other values than texts, expected fingerprint, user and secret_file")
    return known


class Connection:
    """Requests go out and lines come in; one request or stream at a time."""

    def __init__(self, address: str | None, login: Login, timeout: float) -> None:
        """Connect, and authenticate over TCP. `address` None: this user's daemon, else the system's."""
        self._timeout = timeout
        self._id = 0
        self._buffer = bytearray()
        self._secret = b""
        self._login = login
        at = None if address is None else address_of(address)
        if at is not None and at.path is None:
            self._login = login.completed(at)
            if not self._login.fingerprint:
                raise JobFileError(f"the daemon on {at.text} is not known: run trainctl login {at.text}, or give fingerprint, which `trainctl "
                                   "fingerprint` prints on its machine")
            if not self._login.secret_file:
                raise JobFileError("a daemon on a TCP port needs a secret: expected secret_file or $TRAINERD_SECRET_FILE, or a trainctl login before")
            self._secret = secret_of(self._login.secret_file)
        self._socket = self._open_default() if at is None else self._open(at)
        if self._secret:
            try:
                self._authenticate()
            except BaseException:
                self.close()
                raise

    def _open(self, at: Address) -> socket.socket:
        try:
            if at.path is None:
                opened = socket.create_connection((at.host, at.port), self._timeout)
                return opened if self._login.fingerprint == NO_TLS else self._encrypt(opened, at)
            return self._open_unix(at.path)
        except socket.gaierror as error:
            raise Lost(f"cannot find host '{at.host}': {error.strerror}") from error
        except OSError as error:
            raise Lost(f"no daemon answers on {at.text}: {error.strerror or error}") from error

    def _encrypt(self, opened: socket.socket, at: Address) -> socket.socket:
        """TLS with the daemon, identified by its certificate's fingerprint, without a certificate authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            encrypted = context.wrap_socket(opened)
        except ssl.SSLError as error:
            opened.close()
            raise Unavailable(f"the daemon on {at.text} speaks no TLS: {error.reason}. Has its file tls = \"off\"? Then fingerprint is "
                              f"\"{NO_TLS}\"") from error
        except BaseException:
            opened.close()
            raise
        seen = hashlib.sha256(encrypted.getpeercert(binary_form=True) or b"").hexdigest()
        if not hmac.compare_digest(seen, self._login.fingerprint or ""):
            encrypted.close()
            raise Unavailable(f"the daemon on {at.text} is not the one that is known: its certificate's fingerprint is {seen}, expected "
                              f"{self._login.fingerprint}. Another process may answer there, or between. If the daemon has a new certificate, "
                              f"as `trainctl fingerprint` on its machine tells, run trainctl login {at.text} --fingerprint {seen}")
        return encrypted

    @staticmethod
    def _open_unix(path: str) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        try:
            opened.connect(path)
        except BaseException:
            opened.close()
            raise
        return opened

    def _open_default(self) -> socket.socket:
        """This user's daemon, else the system's. Another user could have made a socket there: it must be this user's or root's."""
        address = default_address()
        path = address.removeprefix("unix:")
        try:
            try:
                opened = self._open_unix(path)
            except OSError:
                opened = self._open_unix(SYSTEM_PATH)
        except OSError as error:
            raise Lost(f"no daemon answers on {address}: {error.strerror}. Start one with trainerd --listen {address}, or give its "
                       "address: Client(address) or $TRAINERD_TO") from None
        credentials = opened.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", credentials)[1]
        if uid not in (0, os.geteuid()):
            opened.close()
            raise Unavailable(f"the daemon on {address} is neither this user's nor root's; give its address if it is to be trusted")
        return opened

    def _authenticate(self) -> None:
        """Both sides prove that they have the secret, for each other's nonce, and for the certificate and user."""
        mine = secrets.token_hex(32)
        hello = self.ask("hello")
        if hello.get("v") != PROTOCOL:
            raise Unavailable(f"the daemon, trainerd {hello.get('version')}, speaks version {hello.get('v')} of the protocol, this package, "
                              f"{VERSION}, version {PROTOCOL}: use the package of the daemon's version")
        theirs = str(hello.get("nonce", ""))
        if len(theirs) != 64 or not HEX.issuperset(theirs):
            raise Unavailable("the daemon's nonce is not 64 hexadecimal digits: expected a daemon of trainerd")

        user, fingerprint = self._login.user or "", self._login.fingerprint or NO_TLS
        certificate = bytes(32) if fingerprint == NO_TLS else bytes.fromhex(fingerprint)

        def proof(role: bytes) -> str:
            message = b"trainerd-2-" + role + bytes.fromhex(theirs) + bytes.fromhex(mine) + certificate + user.encode()
            return hmac.new(self._secret, message, "sha512").hexdigest()[:64]

        answer = self.ask("auth", user=user or None, nonce=mine, proof=proof(b"client"))
        if not hmac.compare_digest(str(answer.get("proof", "")).encode(), proof(b"server").encode()):
            raise Unavailable("the daemon does not know the secret")

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        """For select. A line that has come already is not seen by it: receive until TimeoutError first."""
        return self._socket.fileno()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, command: str, **fields: Any) -> None:
        """Send a request; fields that are None are left out."""
        self._id += 1
        given = {name: value for name, value in fields.items() if value is not None}
        try:
            line = json.dumps({"v": PROTOCOL, "id": self._id, "cmd": command, **given}, allow_nan=False, ensure_ascii=False).encode() + b"\n"
        except (TypeError, ValueError) as error:
            raise UsageError(f"the request cannot be written as JSON: {error}") from error
        self._socket.settimeout(self._timeout)
        try:
            self._socket.sendall(line)
        except OSError:
            pass  # the next line says why the daemon closed the connection

    def receive(self, timeout: float | None) -> dict[str, Any]:
        """The next line for the last request. `timeout` None: wait without limit; TimeoutError: none came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            answer = self._parse(self._line(until))
            if answer.get("id") == self._id:
                return answer

    def event_line(self, timeout: float | None = None) -> bytes | None:
        """The next event of the only stream of this connection, as JSON that is not parsed yet. None: the stream has ended; `timeout` as of
        `receive`."""
        line = self._line(None if timeout is None else time.monotonic() + timeout)
        if b'"event"' in line:  # a text's quotes have backslashes before them
            return line
        self._parse(line)
        return None

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send a request and return its one answer."""
        self.send(command, **fields)
        try:
            return self.receive(self._timeout)
        except TimeoutError as error:
            raise Unavailable(f"the daemon has not answered within {self._timeout:g} s") from error

    @staticmethod
    def _parse(line: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise Unavailable("the answer is not JSON: expected a daemon of trainerd") from error
        if not isinstance(answer, dict):
            raise Unavailable("the answer is not an object: expected a daemon of trainerd")
        if answer.get("ok") is False:
            raise error_of(_integer(answer.get("exit_code"), 69), str(answer.get("error", "the daemon gives no reason")))
        return answer

    def _line(self, until: float | None) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > ANSWER_BYTES_MOST:
                raise Unavailable(f"a line has more than {ANSWER_BYTES_MOST} bytes: expected a daemon of trainerd")
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("the daemon sent nothing in time")
            self._socket.settimeout(left)
            try:
                piece = self._socket.recv(1 << 18)
            except TimeoutError:
                continue  # the remaining time shows it
            except OSError as error:
                raise Lost(f"the daemon closed the connection: {error.strerror}") from error
            if not piece:
                raise Lost("the daemon closed the connection")
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[:end + 1]
        return line


def _integer(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
