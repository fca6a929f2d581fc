"""Addresses, secrets and lines, against a real daemon on a TCP port and against peers that are none."""
import contextlib
import json
import os
import pathlib
import pwd
import socket
import tempfile
import threading
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import trainerd
from daemon import PATIENCE_S, SECRET, SHORT, Daemon, DaemonCase, secret_write
from trainerd.connection import address_of


class AnAddress(unittest.TestCase):
    def test_is_a_socket_or_a_port(self) -> None:
        self.assertEqual(address_of("unix:/run/a.sock").path, "/run/a.sock")
        self.assertEqual(address_of("tcp:host:80")[1:], (None, "host", 80))
        self.assertEqual(address_of("tcp:[::1]:65535")[1:], (None, "::1", 65535))

    def test_that_is_none_is_refused_with_what_was_expected(self) -> None:
        for text, words in (("here", "is not an address, expected unix:PATH or tcp:HOST:PORT"), ("unix:", "is not an address"),
                            ("tcp:host", "is not an address"), ("tcp::80", "is not an address"), ("tcp:::1:80", "is not an address"),
                            ("tcp:host:", "has no port"), ("tcp:host:65536", "with a port from 0 to 65535"), ("tcp:host:-1", "has no port"),
                            ("unix:" + "x" * 108, "a socket's name has at most 107")):
            with self.subTest(text), self.assertRaises(trainerd.JobFileError) as caught:
                address_of(text)
            self.assertIn(words, str(caught.exception))


class ASocket(unittest.TestCase):
    def test_that_a_child_of_a_killed_daemon_still_holds_is_waited_for(self) -> None:
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as held:
            held.bind(f"{folder}/socket")
            held.listen()
            threading.Timer(0.2, held.close).start()
            daemon = Daemon(pathlib.Path(folder))
            self.assertEqual(trainerd.Client(daemon.address).jobs(), [])
            daemon.end()


class OverTcp(DaemonCase):
    secret: pathlib.Path
    shared: pathlib.Path
    users: pathlib.Path
    served: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.secret = secret_write(cls.folder / "secret")
        cls.folder.chmod(0o755)
        state, cls.shared = cls.folder / "tcp", cls.folder / "shared"
        state.mkdir()
        cls.shared.mkdir()
        cls.shared.chmod(0o777)
        user = "tcp_user=nobody" if os.geteuid() == 0 else "tcp_user="
        cls.users = cls.folder / "users.toml"
        system = pwd.getpwuid(os.geteuid()).pw_name
        cls.users.write_text("".join(f'[{name}]\nsecret = "{SECRET}"\nuser = "{system}"\nrole = "{role}"\n'
                                     for name, role in (("ada", "admin"), ("eve", "watch"))), encoding="ascii")
        cls.users.chmod(0o600)
        cls.served = Daemon(state, "tcp:127.0.0.1:0", f"secret_file={cls.secret}", user, f"users_file={cls.users}")
        cls.addClassCleanup(cls.served.end)

    def test_a_client_that_knows_the_secret_is_let_in(self) -> None:
        client = trainerd.Client(self.served.address, self.secret, fingerprint=self.served.fingerprint)
        self.assertEqual(client.version()["version"], trainerd.__version__)
        job = client.submit(SHORT, folder=self.shared)
        self.assertEqual(job.wait(PATIENCE_S).json["epochs"], 3)
        self.assertEqual(job.status()["uid"], 65534 if os.geteuid() == 0 else os.geteuid())
        with unittest.mock.patch.dict(os.environ, {"TRAINERD_SECRET_FILE": str(self.secret)}):
            self.assertEqual(trainerd.Client(self.served.address, fingerprint=self.served.fingerprint).version()["version"], trainerd.__version__)

    def test_a_client_with_another_secret_is_not(self) -> None:
        other = secret_write(self.folder / "other", "1" + SECRET[1:])
        self.expect(trainerd.Unavailable, "the secret is not proved", trainerd.Client(self.served.address, other, fingerprint=self.served.fingerprint).version)

    def test_users_log_in_by_name_and_have_their_roles(self) -> None:
        def hello(user: str) -> dict[str, Any]:
            return trainerd.Client(self.served.address, self.secret, user=user, fingerprint=self.served.fingerprint).ask("hello")
        self.assertEqual((hello("ada")["user"], hello("ada")["role"], hello("ada")["admin"]), ("ada", "admin", True))
        self.assertEqual((hello("eve")["role"], hello("eve")["admin"]), ("watch", False))
        self.expect(trainerd.Unavailable, "the secret is not proved", hello, "bob")

    def test_another_certificate_than_the_known_one_is_refused(self) -> None:
        other = ("1" if self.served.fingerprint[0] == "0" else "0") + self.served.fingerprint[1:]
        error = self.expect(trainerd.Unavailable, f"fingerprint is {self.served.fingerprint}, expected {other}",
                            trainerd.Client(self.served.address, self.secret, fingerprint=other).version)
        self.assertIn(f"trainctl login {self.served.address} --fingerprint {self.served.fingerprint}", str(error))
        self.expect(trainerd.JobFileError, "'12' is none, expected 64 hexadecimal digits",
                    trainerd.Client(self.served.address, self.secret, fingerprint="12").version)

    def test_both_sides_say_where_one_speaks_tls_and_the_other_does_not(self) -> None:
        self.expect(trainerd.Unavailable, "this port speaks TLS", trainerd.Client(self.served.address, self.secret, fingerprint="none").version)
        folder = self.folder / "plain"
        folder.mkdir()
        plain = Daemon(folder, "tcp:127.0.0.1:0", f"secret_file={self.secret}", "tls=off")
        try:
            self.assertEqual(plain.fingerprint, "none")
            self.expect(trainerd.Unavailable, "speaks no TLS", trainerd.Client(plain.address, self.secret, fingerprint="0" * 64).version)
            self.assertEqual(trainerd.Client(plain.address, self.secret, fingerprint="none").version()["version"], trainerd.__version__)
        finally:
            plain.end()

    def test_what_trainctl_login_has_written_is_enough(self) -> None:
        config = self.folder / "config" / "trainerd"
        config.mkdir(parents=True)
        with unittest.mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": str(config.parent)}):
            self.expect(trainerd.JobFileError, f"run trainctl login {self.served.address}", trainerd.Client(self.served.address, self.secret).version)
            hosts = config / "hosts.toml"
            hosts.write_text(f'["{self.served.address}"]\nfingerprint = "{self.served.fingerprint}"\nuser = "eve"\n'
                             f'secret_file = "{self.secret}"\n', encoding="ascii")
            hosts.chmod(0o644)
            self.expect(trainerd.JobFileError, "has mode 0644, expected 0600", trainerd.Client(self.served.address).version)
            hosts.chmod(0o600)
            self.assertEqual(trainerd.Client(self.served.address).ask("hello")["user"], "eve")
            self.assertEqual(trainerd.Client(self.served.address, self.secret, user="ada").ask("hello")["user"], "ada")
            local = self.served.address.replace("127.0.0.1", "localhost")
            self.assertEqual(trainerd.Client(local).ask("hello")["user"], "eve")
            hosts.write_text(f'["{self.served.address}"]\nfingerprint = 7\n', encoding="ascii")
            self.expect(trainerd.JobFileError, "has other values than texts", trainerd.Client(self.served.address).version)
            hosts.write_text("[", encoding="ascii")
            self.expect(trainerd.JobFileError, "hosts.toml: ", trainerd.Client(self.served.address).version)

    def test_a_secret_is_needed_and_its_file_checked(self) -> None:
        def refused(kind: type[BaseException], words: str, path: pathlib.Path | None) -> None:
            with unittest.mock.patch.dict(os.environ):
                os.environ.pop("TRAINERD_SECRET_FILE", None)
                self.expect(kind, words, trainerd.Client(self.served.address, path, fingerprint=self.served.fingerprint).version)
        refused(trainerd.JobFileError, "expected secret_file or $TRAINERD_SECRET_FILE", None)
        refused(trainerd.MissingInput, "cannot open secret file", self.folder / "none")
        refused(trainerd.JobFileError, "has mode 0644, expected 0600", secret_write(self.folder / "open", mode=0o644))
        refused(trainerd.JobFileError, "does not hold 64 hexadecimal digits", secret_write(self.folder / "short", SECRET[1:]))
        refused(trainerd.JobFileError, "does not hold 64 hexadecimal digits", secret_write(self.folder / "odd", "x" + SECRET[1:]))

    def test_a_host_that_is_not_there_is_named(self) -> None:
        self.expect(trainerd.Unavailable, "no daemon answers on tcp:127.0.0.1:1: Connection refused",
                    trainerd.Client("tcp:127.0.0.1:1", self.secret, fingerprint="0" * 64).version)


Handler = Callable[[int, dict[str, Any]], bytes | None]


@contextlib.contextmanager
def peer(answer: Handler) -> Iterator[str]:
    """A socket whose peer answers the n-th request by these bytes; None: it closes the connection."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/socket")
        listener.listen()
        ended = threading.Event()

        def serve() -> None:
            n = 0
            while not ended.is_set():
                connection = listener.accept()[0]
                with connection, connection.makefile("rb") as lines:
                    for line in lines:
                        sent = answer(n, json.loads(line))
                        n += 1
                        if sent is None:
                            break
                        connection.sendall(sent)

        server = threading.Thread(target=serve)
        server.start()
        try:
            yield f"unix:{folder}/socket"
        finally:
            ended.set()
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(f"{folder}/socket")
            server.join()


def line_of(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


class APeer(unittest.TestCase):
    def refused(self, answer: Handler, words: str, **settings: Any) -> None:
        """Asked once, as nothing was lost."""
        asked = []

        def count(n: int, request: dict[str, Any]) -> bytes | None:
            asked.append(request)
            return answer(n, request)

        with peer(count) as address, self.assertRaises(trainerd.Unavailable) as caught:
            trainerd.Client(address, **settings).version()
        self.assertIn(words, str(caught.exception))
        self.assertEqual(len(asked), 1)

    def test_that_sends_no_json_is_no_daemon(self) -> None:
        self.refused(lambda n, request: b"HTTP/1.1 400 Bad Request\r\n", "the answer is not JSON: expected a daemon of trainerd")
        self.refused(lambda n, request: b"[1]\n", "the answer is not an object")

    def test_that_sends_a_line_without_end_is_no_daemon(self) -> None:
        with unittest.mock.patch("trainerd.connection.ANSWER_BYTES_MOST", 1000):
            self.refused(lambda n, request: b"x" * 2000, "a line has more than 1000 bytes")

    def test_that_does_not_answer_is_not_waited_for_without_end(self) -> None:
        self.refused(lambda n, request: b"", "the daemon has not answered within 0.05 s", timeout=0.05)

    def test_that_refuses_is_quoted(self) -> None:
        def refuse(n: int, request: dict[str, Any]) -> bytes:
            return line_of(id=None, ok=False, exit_code=69, error="too many connections")
        self.refused(refuse, "too many connections")

    def test_lines_of_earlier_requests_are_skipped(self) -> None:
        with peer(lambda n, request: line_of(id=99, ok=True) + line_of(id=request["id"], ok=True, version="9")) as address:
            self.assertEqual(trainerd.Client(address).version()["version"], "9")

    def test_that_goes_away_is_asked_again_with_the_same_submission_id(self) -> None:
        asked = []

        def answer(n: int, request: dict[str, Any]) -> bytes | None:
            asked.append(request)
            return line_of(id=request["id"], ok=True, job=7, name="seven", state="QUEUED", existing=True) if n == 2 else None

        with peer(answer) as address:
            self.assertEqual(trainerd.Client(address).submit(SHORT).id, 7)
        self.assertEqual(len({request["submission_id"] for request in asked}), 1)
        self.assertEqual((len(asked), len(asked[0]["submission_id"])), (3, 32))

    def test_that_stays_away_is_asked_again_for_as_long_as_patience_lasts(self) -> None:
        asked = []
        with peer(lambda n, request: asked.append(request)) as address, self.assertRaises(trainerd.Unavailable):
            trainerd.Client(address, patience=0.5).version()
        self.assertGreaterEqual(len(asked), 2)

    def test_that_goes_away_is_asked_to_change_a_job_only_once(self) -> None:
        asked = []
        with peer(lambda n, request: asked.append(request)) as address, self.assertRaises(trainerd.Unavailable):
            trainerd.Client(address).cancel(1)
        self.assertEqual(len(asked), 1)

    def test_that_does_not_know_the_secret_or_the_protocol_is_refused(self) -> None:
        def pretend(n: int, request: dict[str, Any]) -> bytes:
            return line_of(id=request["id"], ok=True, v=1, nonce="ab" * 32, proof="cd" * 32)

        def odd(n: int, request: dict[str, Any]) -> bytes:
            return line_of(id=request["id"], ok=True, v=1, nonce="short")

        def newer(n: int, request: dict[str, Any]) -> bytes:
            return line_of(id=request["id"], ok=True, v=2, version="9.8.7", nonce="ab" * 32)

        with tempfile.TemporaryDirectory() as folder:
            secret = secret_write(pathlib.Path(folder, "secret"))
            for answer, words in ((pretend, "the daemon does not know the secret"), (odd, "nonce is not 64 hexadecimal digits"),
                                  (newer, "trainerd 9.8.7, speaks version 2 of the protocol, this package, "
                                          f"{trainerd.__version__}, version 1: use the package of the daemon's version")):
                with peer(answer) as address, self.assertRaises(trainerd.Unavailable) as caught:
                    open_unix = trainerd.connection.Connection._open_unix
                    with unittest.mock.patch("socket.create_connection", lambda *_: open_unix(address.removeprefix("unix:"))):
                        trainerd.Client("tcp:localhost:1", secret, fingerprint="none").version()
                self.assertIn(words, str(caught.exception))
