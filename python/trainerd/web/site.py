"""Where the pages are, and who asks: names and prefix of a proxy before them, and the user at the other end of a connection.

A browser names in Host the machine that it believes to ask. A page of another site cannot change that, also if its name
leads to this machine (DNS rebinding): only names of this machine and of `--allow-host` are answered.
"""
from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message

from ..errors import UsageError

# With any port: ssh -L and the like give it another one. Only programs of this machine have these names.
LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
NAME = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*\.?|\[[0-9a-f:.]+\])(:\d{1,5})?")
PREFIX = re.compile(r"(/[A-Za-z0-9._~@%+=,:-]+)*")


class Refused(Exception):
    """A request that is not answered: its status, and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Site:
    """prefix: before the server's own path, or ""; hosts: other names than this machine's, as browsers write them."""

    prefix: str = ""
    hosts: tuple[str, ...] = ()

    @staticmethod
    def of(base_url: str = "", allow_host: Sequence[str] = ()) -> Site:
        prefix = base_url.rstrip("/")
        if not PREFIX.fullmatch(prefix) or {".", ".."} & set(prefix.split("/")):
            raise UsageError(f"--base-url is '{base_url}', expected a path as /user/ada/proxy/8000")
        hosts = tuple(host.lower() for host in allow_host)
        for host in hosts:
            if not NAME.fullmatch(host):
                raise UsageError(f"--allow-host is '{host}', expected the name that browsers show, as hub.example.org or hub.example.org:8443")
        return Site(prefix, hosts)

    @property
    def has_proxy(self) -> bool:
        return bool(self.prefix or self.hosts)

    def admit(self, method: str, headers: Message) -> None:
        """Refuse a request by another name than this site's, or from a page of another site."""
        given = headers.get_all("Host") or [""]
        host, origin = given[0].lower(), headers.get("Origin")
        is_here = LOOPBACK.fullmatch(host) is not None
        if len(given) != 1 or not (is_here or host in self.hosts):
            advice = f": if it is a proxy's, start trainctl web with --allow-host {host}" if NAME.fullmatch(host) else ""
            raise Refused(403, f"another Host than this server{advice}")
        # A proxy may put another name in place of Host.
        names = (host, *self.hosts)
        origins = {f"{scheme}://{name}" for scheme in self._schemes(headers) for name in names}
        if (origin is None and method == "POST") or (origin is not None and origin.lower() not in origins):
            raise Refused(403, "another Origin than this server")
        if headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise Refused(403, "a request from another site")

    def _schemes(self, headers: Message) -> tuple[str, ...]:
        """Of the browser's connection, as far as it is known."""
        if not self.has_proxy:
            return ("http",)
        told = headers.get("X-Forwarded-Proto", "").partition(",")[0].strip().lower()
        return (told,) if told else ("http", "https")

    def is_encrypted(self, headers: Message) -> bool:
        return self._schemes(headers) == ("https",)


def peer_user(connection: socket.socket) -> int | None:
    """The user whose socket is the other end of this TCP connection over 127.0.0.1, asked of the kernel (sock_diag(7)); None: not known, or that
    end is closed already."""
    (host, port), (peer, peer_port) = connection.getsockname(), connection.getpeername()
    ends = struct.pack("!HH4s12x4s12x", peer_port, port, socket.inet_aton(peer), socket.inet_aton(host))
    # nlmsghdr: SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST; inet_diag_req_v2 with any state, interface and cookie
    asked = struct.pack("=IHHII", 72, 20, 1, 1, 0) + struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ends
    with contextlib.suppress(OSError, struct.error):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 4) as kernel:
            kernel.settimeout(1)
            kernel.send(asked + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF))
            answer = kernel.recv(4096)
        _, kind = struct.unpack_from("=IH", answer)
        user, inode = struct.unpack_from("=II", answer, 16 + 64)
        if kind == 20 and inode != 0:
            return int(user)
    return None


def users_admitted() -> set[int]:
    """Whose connections are answered: this user's, root's, and for `sudo trainctl web` those of who called sudo."""
    users = {os.geteuid(), 0}
    if os.geteuid() == 0 and (user := os.environ.get("SUDO_UID", "")).isdigit():
        users.add(int(user))
    return users
