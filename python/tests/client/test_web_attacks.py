"""The web page against other users of the machine, against what they and a browser may send, and behind proxies."""
import contextlib
import http.client
import http.cookies
import json
import os
import pathlib
import random
import socket
import ssl
import subprocess
import sys
import time
import unittest
import unittest.mock
from typing import Any

import trainerd
from daemon import PATIENCE_S, SHORT, SECRET, Daemon, secret_write
from proxy import Proxy
from test_web import Page, PageCase
from trainerd.errors import UsageError
from trainerd.web import server as web_server
from trainerd.web.site import Site

SOON_S = 20  # on a loaded machine
PREFIX = "/user/ada/proxy/8000"
HUB = "hub.example"


class AnAttack(PageCase):
    def setUp(self) -> None:
        super().setUp()
        errors = unittest.mock.patch("traceback.print_exc", side_effect=lambda: self.unforeseen.append(sys.exc_info()[1]))
        lost = unittest.mock.patch.object(self.page.server, "handle_error", lambda *_: self.unforeseen.append(sys.exc_info()[1])
                                          if not isinstance(sys.exc_info()[1], OSError) else None)
        self.unforeseen: list[Any] = []
        for patch in (errors, lost):
            patch.start()
            self.addCleanup(patch.stop)

    def tearDown(self) -> None:
        self.assertEqual(self.unforeseen, [])

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.page.server.port), timeout=PATIENCE_S)
        self.addCleanup(made.close)
        return made

    def ended(self, of: socket.socket) -> bool:
        of.settimeout(SOON_S)
        try:
            return of.recv(1 << 16) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def answer(self, sent: bytes) -> tuple[int, Any]:
        """Of a request in its own bytes; the other end closes."""
        made = self.connect()
        made.sendall(sent)
        got = b""
        while piece := made.recv(1 << 16):
            got += piece
        head, _, body = got.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def test_slow_connections_give_way_to_the_owner_s(self) -> None:
        streams = [self.page.open("GET", "api/jobs", {"Cookie": self.page.cookie}) for _ in range(5)]
        slow = [self.connect() for _ in range(2 * web_server.CONNECTIONS_MOST)]
        for one in slow:
            with contextlib.suppress(ConnectionError):  # it has given way already
                one.send(b"GET /")
        began = time.monotonic()
        self.assertEqual(self.page.get("")[0], 200)
        self.assertLess(time.monotonic() - began, SOON_S)
        self.assertTrue(self.ended(slow[0]))
        for stream in streams:  # those that were admitted go on
            self.assertTrue(stream.readline().startswith(b"data: "))
            stream.close()

    def test_a_connection_that_is_not_admitted_ends_whatever_it_sends(self) -> None:
        with unittest.mock.patch.object(web_server, "UNADMITTED_S", 1.0):
            slow = self.connect()
            kept = http.client.HTTPConnection("127.0.0.1", self.page.server.port, timeout=PATIENCE_S)
            self.addCleanup(kept.close)
            for _ in range(3):
                kept.request("GET", self.page.server.base, headers={"Cookie": self.page.cookie})
                self.assertEqual(kept.getresponse().read()[:9], b"<!doctype")
                began = time.monotonic()
                while time.monotonic() - began < 1:
                    try:
                        slow.send(b"X")  # of a line that has no end
                    except ConnectionError:
                        break
                    time.sleep(0.05)
            self.assertTrue(self.ended(slow))

    def test_no_body_is_read_of_who_is_not_admitted(self) -> None:
        head = f"POST {self.page.server.base}api/submit HTTP/1.1\r\nHost: {self.page.host}\r\nOrigin: http://{self.page.host}\r\n"
        for more, status in (("Content-Length: 2000000\r\n", 401), ("", 401), (f"Cookie: {self.page.cookie}\r\n", 413),
                             (f"Cookie: {self.page.cookie}\r\nContent-Length: 2000000000\r\n", 413),
                             (f"Cookie: {self.page.cookie}\r\nContent-Length: {'9' * 5000}\r\n", 413),
                             (f"Cookie: {self.page.cookie}\r\nContent-Length: -1\r\n", 413),
                             (f"Cookie: {self.page.cookie}\r\nContent-Length: 2\r\nContent-Length: 40\r\n", 400),
                             (f"Cookie: {self.page.cookie}\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n", 400)):
            self.assertEqual(self.answer(f"{head}{more}Content-Type: application/json\r\n\r\n".encode())[0], status, more)
        request = f"GET {self.page.server.base}api/keys HTTP/1.1\r\nHost: {self.page.host}\r\nCookie: {self.page.cookie}\r\nContent-Length: 40\r\n\r\n"
        self.assertEqual(self.answer(request.encode())[0], 400)  # its body would be the next request
        self.assertEqual(self.answer(request.replace(": 40", ": 0").encode())[0], 200)  # a proxy's word for none

    def test_a_head_has_a_limit(self) -> None:
        begin = f"GET {self.page.server.base} HTTP/1.1\r\nHost: {self.page.host}\r\n"
        for request in (begin + "".join(f"X-{n}: {'x' * 5000}\r\n" for n in range(50)), begin + "X: " + "x" * 200000, "GET /" + "x" * 200000):
            with contextlib.suppress(ConnectionError):  # ended while more came
                self.assertEqual(self.answer(request.encode())[0], 431)
        self.assertEqual(self.page.get("")[0], 200)

    def test_bodies_that_a_program_cannot_take_are_refused_with_a_reason(self) -> None:
        text = trainerd.job_text(SHORT)
        for body, words in (({"text": text, "set": ["name=a\0b"]}, "NUL"), ({"text": text, "set": ["train.lr=" + "1" * 300_000]}, "the settings have 300010 bytes"),
                            ({"text": text, "folder": "/tmp\0"}, "NUL"), ({"text": text, "folder": "/" + "x" * 5000}, "is not a folder"),
                            ({"text": text, "set": ["name=\ud800"]}, "UTF-8"), ({"text": "\ud800"}, "UTF-8"), ({"text": text, "set": ["a=1"] * 100_000}, "bytes"),
                            ({"text": 7}, "expected text"), ({"text": text, "set": "train.lr=1"}, "a list of texts"), ({"text": text + "\0"}, "NUL")):
            for path in ("check", "plan", "submit"):
                if path != "submit" or "is not a folder" not in words:
                    status, answer = self.page.post(path, body)
                    self.assertEqual(status, 400, answer)
                    self.assertIn(words, answer["error"])
        given = {"Cookie": self.page.cookie, "Origin": f"http://{self.page.host}", "Content-Type": "application/json"}
        for deep in ("[" * 200_000, '{"a":' * 200_000, '{"text":' + "[" * 5000 + "]" * 5000 + "}"):
            status, _, answered = self.page.send("POST", "api/check", given, deep)
            self.assertEqual(status, 400, answered)
            self.assertIn("error", json.loads(answered))
        for query in ("compare?group=%00", "compare?group=%ff%fe", "file?job=1&name=%00", "compare?group=" + "x" * 30000, "job?job=" + "9" * 5000):
            status, _, answered = self.page.get(f"api/{query}")
            self.assertIn(status, (400, 404), answered)
        self.assertEqual(self.answer(f"GET http://[ HTTP/1.1\r\nHost: {self.page.host}\r\n\r\n".encode())[0], 400)

    def test_what_is_drawn_at_random_has_an_answer(self) -> None:
        """Bodies and queries of strange values: each is answered by a JSON object, and none by a mistake of the server."""
        draw = random.Random(1)
        values: list[Any] = [None, True, -1, 0, 1, 1e308, 1 << 70, "", "x", "\0", "\ud800", "\u202e", "-1", "../..", "é" * 300, [], ["a=1"], [1], {}, {"a": []}, [[]],
                             trainerd.job_text(SHORT), "[" * 3000]
        paths = ("cancel", "resume", "checkpoint", "scale", "check", "plan", "submit", "nowhere", "")
        names = ("job", "workers", "text", "set", "folder", "name", "group", "tags", "priority", "time_limit", "max_restarts", "submission_id", "")
        for _ in range(150):
            body = {name: draw.choice(values) for name in draw.sample(names, draw.randrange(6))}
            path = draw.choice(paths)
            status, answer = self.page.post(path, body)
            self.assertIn(status, (200, 400, 404, 503), (path, body, answer))
            if status != 200:
                self.assertTrue(answer["error"])
        for _ in range(200):
            query = "&".join(f"{draw.choice(('job', 'name', 'group', 'rank', ''))}={''.join(draw.choice('%0afx1-/.&=?#') for _ in range(6))}" for _ in range(2))
            path = draw.choice(("job", "epochs", "file", "compare", "keys", "about", "nowhere"))
            status, _, answered = self.page.get(f"api/{path}?{query}")
            self.assertIn(status, (200, 400, 404), (path, query, answered))
            json.loads(answered)
        for fields in self.client.jobs(active=True):
            self.client.cancel(fields["id"])

    def test_another_user_of_the_machine_is_refused(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("connections of several users need root")
        program = (f"import socket, time\nmade = [socket.create_connection(('127.0.0.1', {self.page.server.port})) for _ in range(40)]\n"
                   f"made[0].sendall(b'GET {self.page.server.base}?page-token={self.page.server.token} HTTP/1.1\\r\\nHost: {self.page.host}\\r\\n\\r\\n')\n"
                   "print(made[0].makefile('r', newline='').read().partition('\\r\\n\\r\\n')[2], flush=True)\ntime.sleep(99)")
        other = subprocess.Popen(["/usr/bin/python3", "-c", program], user="nobody", cwd="/", stdout=subprocess.PIPE, text=True)
        assert other.stdout is not None
        try:
            self.assertIn("comes from another user", json.loads(other.stdout.readline())["error"])
            with self.page.server.connections._lock:
                foreign = [one for one in self.page.server.connections._all.values() if one.is_foreign]
            self.assertLessEqual(len(foreign), web_server.FOREIGN_MOST)
            self.assertEqual(self.page.get("")[0], 200)
        finally:
            other.kill()
            other.communicate()


class AProxy(PageCase):
    """The page behind TLS and a prefix, with each thing that proxies do to requests."""

    certificate: pathlib.Path

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = cls.folder / "tcp"
        folder.mkdir()
        secret_write(folder / "secret", SECRET)
        served = Daemon(folder, "tcp:127.0.0.1:0", f"secret_file={folder / 'secret'}")  # it makes a certificate
        cls.certificate = folder / "state/tls.pem"
        served.end()

    def serve(self, *hosts: str, **does: bool) -> tuple[Page, Proxy]:
        page = Page(trainerd.Client(self.daemon.address), Site.of(PREFIX, hosts))
        self.addCleanup(page.close)
        proxy = Proxy(page.server.port, PREFIX, self.certificate, **does)
        self.addCleanup(proxy.close)
        return page, proxy

    def ask(self, proxy: Proxy, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, Any, bytes]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", proxy.port, timeout=PATIENCE_S, context=context)
        connection.request(method, path, body, {"Host": HUB, **{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = connection.getresponse()
        try:
            return answer.status, answer.headers, answer.readline() if answer.headers["Content-Type"] == "text/event-stream" else answer.read()
        finally:
            connection.close()

    def test_is_passed_by_the_page(self) -> None:
        for does in ({}, {"keeps_prefix": False}, {"keeps_host": False}, {"keeps_prefix": False, "keeps_host": False}, {"tells": False}):
            with self.subTest(does=does):
                page, proxy = self.serve(HUB, **does)
                address = page.server.addresses[0]
                self.assertTrue(address.startswith(f"https://{HUB}{PREFIX}/"), address)
                status, headers, _ = self.ask(proxy, "GET", address.removeprefix(f"https://{HUB}"))
                self.assertEqual((status, headers["Location"]), (303, "./"))
                base = PREFIX + page.server.base
                cookie = http.cookies.SimpleCookie(headers["Set-Cookie"])["trainerd"]
                self.assertEqual((cookie["path"], bool(cookie["secure"]), bool(cookie["httponly"]), cookie["samesite"]),
                                 (PREFIX + page.server.base, does.get("tells", True), True, "Strict"))
                known = {"Cookie": f"trainerd={cookie.value}"}
                self.assertIn(b"jobs.js", self.ask(proxy, "GET", base, **known)[2])
                self.assertTrue(self.ask(proxy, "GET", f"{base}api/jobs", **known)[2].startswith(b"data: "))

                def post(origin: str) -> int:
                    return self.ask(proxy, "POST", f"{base}api/check", json.dumps({"text": trainerd.job_text(SHORT)}), Origin=origin,
                                    Content_Type="application/json", **known)[0]
                self.assertEqual(post(f"https://{HUB}"), 200)
                for origin in ("https://evil.example", f"https://{HUB}:444", f"https://{HUB}.evil.example", "null"):
                    self.assertEqual(post(origin), 403, origin)
                if does.get("tells", True):
                    self.assertEqual(post(f"http://{HUB}"), 403)
                if does.get("keeps_host", True):
                    self.assertEqual(self.ask(proxy, "GET", base, Host="evil.example", **known)[0], 403)
                self.assertEqual(self.ask(proxy, "GET", f"{PREFIX}{page.server.base}", Cookie="trainerd=x")[0], 401)

    def test_may_have_another_name_for_the_server(self) -> None:
        page, proxy = self.serve(HUB, "node7:4000")
        known = {"Cookie": f"trainerd={page.server.cookie}", "Content-Type": "application/json"}
        for host, origin, status in (("node7:4000", f"https://{HUB}", 200), ("node7", f"https://{HUB}", 403), ("node7:4000", "https://node8:4000", 403)):
            answer = self.ask(proxy, "POST", f"{PREFIX}{page.server.base}api/check", json.dumps({"text": trainerd.job_text(SHORT)}), Host=host, Origin=origin, **known)
            self.assertEqual(answer[0], status, answer)

    def test_that_is_not_said_is_refused_with_the_option_that_says_it(self) -> None:
        page, proxy = self.serve()
        status, _, body = self.ask(proxy, "GET", PREFIX + page.server.base)
        self.assertEqual(status, 403)
        self.assertIn(f"--allow-host {HUB}", json.loads(body)["error"])

    def test_s_words_count_for_nothing_where_there_is_no_proxy(self) -> None:
        _, headers, _ = self.page.send("GET", f"?page-token={self.page.server.token}", {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"})
        self.assertNotIn("Secure", headers["Set-Cookie"])
        self.assertEqual(self.page.get("", **{"X-Forwarded-Proto": "https"}, Origin=f"https://{self.page.host}")[0], 403)

    def test_has_a_prefix_and_hosts_of_a_form(self) -> None:
        self.assertEqual(Site.of("/a/b/", ["Hub.Example:8443"]), Site("/a/b", ("hub.example:8443",)))
        for url in ("a", "http://x/", "/a//b", "/../x", "/a;b", "/a b", "/a\r\nSet-Cookie: x", '/"', "/?x"):
            self.expect(UsageError, "--base-url is", Site.of, url)
        for host in ("*", "*.example", "", "http://x", "x/y", "x y", "x:", "x:y", "-x", "a..b", "x\n"):
            self.expect(UsageError, "--allow-host is", Site.of, "", [host])


if __name__ == "__main__":
    unittest.main()
