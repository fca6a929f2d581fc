"""The web page without a browser: who is let in, what is refused, what the pages ask for and change."""
import http.client
import json
import os
import pathlib
import pwd
import secrets
import shutil
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.parse
from collections.abc import Callable, Iterator
from typing import Any

import trainerd
from daemon import LONG, PATIENCE_S, PROGRAMS, ROOT, SECRET, SHORT, Daemon, DaemonCase, secret_write
from trainerd.programs import described_keys
from trainerd.web import templates
from trainerd.web.api import submission_of
from trainerd.web.programs import Programs
from trainerd.web.server import Server
from trainerd.web.site import Site

SCRIPT = "<img src=x onerror=alert(1)>"


class Page:
    """A server of the pages for a client of a daemon, and a browser that was let in."""

    def __init__(self, client: trainerd.Client, site: Site | None = None) -> None:
        self.server = Server(client, programs=Programs(str(PROGRAMS)), site=site)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.host = f"127.0.0.1:{self.server.port}"
        status, headers, _ = self.send("GET", f"?page-token={self.server.token}", {})
        assert status == 303, status
        self.cookie = headers["Set-Cookie"].partition(";")[0]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def open(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE_S)
        connection.putrequest(method, path if path.startswith("/") else self.server.base + path, skip_host=True)
        given = {"Host": self.host, **headers} | ({"Content-Length": str(len(body))} if body is not None else {})
        for name, value in given.items():
            connection.putheader(name, value)
        connection.endheaders((body or "").encode())
        return connection.getresponse()

    def send(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, Any, bytes]:
        response = self.open(method, path, headers, body)
        return response.status, response.headers, response.read()

    def get(self, path: str, **headers: str) -> tuple[int, Any, bytes]:
        return self.send("GET", path, {"Cookie": self.cookie, **headers})

    def read(self, path: str) -> Any:
        return json.loads(self.get(f"api/{path}")[2])

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        given = {"Cookie": self.cookie, "Origin": f"http://{self.host}", "Content-Type": "application/json"} | headers
        status, _, answer = self.send("POST", f"api/{path}", given, json.dumps(body))
        return status, json.loads(answer)

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        response = self.open("GET", f"api/{path}", {"Cookie": self.cookie})
        assert response.headers["Content-Type"] == "text/event-stream"
        for line in response:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


class PageCase(DaemonCase):
    page: Page

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.page = Page(trainerd.Client(cls.daemon.address))
        cls.addClassCleanup(cls.page.close)


class APage(PageCase):
    def refused(self, status: int, words: str, answer: tuple[int, Any, bytes]) -> None:
        self.assertEqual(answer[0], status, answer[2])
        self.assertIn(words, json.loads(answer[2])["error"])

    def test_is_served_to_the_browser_that_had_the_token(self) -> None:
        for path, words in (("", b"jobs.js"), ("job?job=1", b"job.js"), ("static/style.css", b"color-scheme"), ("static/jobs.js", b"listen(")):
            status, headers, body = self.page.get(path)
            self.assertEqual(status, 200, path)
            self.assertIn(words, body)
            self.assertIn("script-src 'self'; style-src 'self'", headers["Content-Security-Policy"])
            self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"]), ("nosniff", "no-referrer"))

    def test_has_no_script_in_its_markup_and_names_no_other_host(self) -> None:
        folder = pathlib.Path(trainerd.__file__).parent / "web/static"
        for file in folder.iterdir():
            text = file.read_text(encoding="utf-8").replace('"http://www.w3.org/2000/svg"', "")
            for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http://", "https://", "onclick=", "style=", "<style"):
                self.assertNotIn(word, text, file.name)

    def test_lets_in_by_a_cookie_that_scripts_and_other_sites_cannot_use(self) -> None:
        _, headers, _ = self.page.send("GET", f"?page-token={self.page.server.token}", {})
        self.assertEqual(headers["Location"], "./")
        self.assertIn(f"; Path={self.page.server.base}; HttpOnly; SameSite=Strict", headers["Set-Cookie"])
        self.assertNotIn(self.page.server.token, headers["Set-Cookie"])

    def test_is_not_served_without_the_token(self) -> None:
        self.refused(401, "the token is wrong", self.page.send("GET", "?page-token=0", {}))
        self.refused(401, "the token is wrong", self.page.send("GET", "?page-token=%F0%9F%92%A5", {}))
        for path in ("", "static/style.css", "chart.js", "api/about"):
            self.refused(401, "open the address", self.page.send("GET", path, {}))
            self.refused(401, "open the address", self.page.send("GET", path, {"Cookie": "trainerd=" + "x" * 43}))
        self.refused(401, "open the address", self.page.send("POST", "api/cancel", {"Origin": f"http://{self.page.host}",
                                                                                     "Content-Type": "application/json"}, '{"job": 1}'))
        self.refused(404, "open the address", self.page.get("/"))

    def test_refuses_another_host_and_another_origin(self) -> None:
        self.refused(403, "another Host", self.page.get("", Host="evil.example"))
        self.refused(403, "another Host", self.page.get("", Host=f"127.0.0.1.evil.example:{self.page.server.port}"))
        self.refused(403, "another Host", self.page.get("", Host="localhost.evil.example"))
        for host in ("127.0.0.1:1", "localhost:8000", "[::1]:8000", "LOCALHOST"):  # by ssh -L
            self.assertEqual(self.page.get("", Host=host)[0], 200, host)
            self.refused(403, "another Origin", self.page.get("", Host=host, Origin=f"http://{self.page.host}"))
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://{self.page.host}"):
            self.refused(403, "another Origin", self.page.get("api/about", Origin=origin))
            self.assertEqual(self.page.post("cancel", {"job": 1}, Origin=origin)[0], 403)
        self.refused(403, "another site", self.page.get("api/about", **{"Sec-Fetch-Site": "same-site"}))
        answer = self.page.send("POST", "api/cancel", {"Cookie": self.page.cookie, "Content-Type": "application/json"}, '{"job": 1}')
        self.refused(403, "another Origin", answer)

    def test_takes_json_in_bodies_of_a_size_only(self) -> None:
        for headers, body, status in (({"Content-Type": "text/plain"}, "{}", 415), ({}, "{", 400), ({}, "[]", 400), ({"Content-Length": "99999999"}, "", 413),
                                      ({"Content-Length": "x"}, "", 413)):
            given = {"Cookie": self.page.cookie, "Origin": f"http://{self.page.host}", "Content-Type": "application/json"}
            self.assertEqual(self.page.send("POST", "api/check", {**given, **headers}, None if "Content-Length" in headers else body)[0], status, body)

    def test_gives_no_file_but_its_own(self) -> None:
        for path in ("static/../server.py", "static/..%2fserver.py", "static/%2e%2e/server.py", "static//etc/passwd", "../../etc/passwd",
                     "/etc/passwd", "static/", "static", "nowhere", "api/nowhere"):
            self.assertEqual(self.page.get(path)[0], 404, path)

    def test_lists_jobs_and_what_changes(self) -> None:
        first = self.client.submit(SHORT, name=SCRIPT, group="g")
        first.wait(PATIENCE_S)
        events = self.page.events("jobs")

        def jobs(event: dict[str, Any]) -> dict[int, dict[str, Any]]:
            return {row[0]: dict(zip(event["fields"], row, strict=True)) for row in event["jobs"]}
        event = next(events)
        listed = jobs(event)[first.id]
        self.assertEqual((listed["name"], listed["state"], listed["group"], listed["epoch"]), (SCRIPT, "SUCCEEDED", "g", 3))
        self.assertEqual(event["counts"], self.client.counts())
        self.assertGreater(event["machine"]["cores"], 0)
        self.assertGreater(event["machine"]["memory"], event["machine"]["memory_used"])
        second = self.client.submit(LONG)
        while jobs(event).get(second.id, {}).get("state") != "RUNNING":
            event = next(events)
        self.assertNotIn(first.id, jobs(event))
        self.assertEqual(self.page.post("cancel", {"job": second.id})[0], 200)
        while jobs(event).get(second.id, {}).get("state") != "CANCELLED":
            event = next(events)
        self.assertEqual(self.page.read("job?job=" + str(second.id))["job"]["state"], "CANCELLED")

    def test_follows_a_job_to_its_end(self) -> None:
        job = self.client.submit(SHORT, set={"workers.count": 2, "partition.parts": 4})
        events = list(self.page.events(f"events?job={job.id}"))
        self.assertEqual([event["job"]["state"] for event in events if "job" in event][-1], "SUCCEEDED")
        epochs = [epoch for event in events if "epochs" in event for epoch in event["epochs"]]
        self.assertEqual([epoch["epoch"] for epoch in epochs], [0, 1, 2])
        self.assertIn("epoch 3/3", "".join(event.get("log", "") for event in events))
        self.assertEqual(events[-1], {"end": True})
        of_worker = "".join(event.get("log", "") for event in self.page.events(f"events?job={job.id}&rank=0"))
        self.assertNotIn("epoch 3/3", of_worker)
        columns = self.page.read(f"epochs?job={job.id}")
        self.assertEqual(columns["loss"], [epoch["loss"] for epoch in job.epochs()])

    def test_has_the_epochs_of_a_job_that_has_ended_from_its_file_or_from_the_daemon(self) -> None:
        job = self.client.submit(SHORT, set={"train.epochs": 5000})
        job.wait(PATIENCE_S)

        def epochs() -> list[dict[str, Any]]:
            return [epoch for event in self.page.events(f"events?job={job.id}") if "epochs" in event for epoch in event["epochs"]]
        expected = job.result().epochs()
        self.assertEqual(epochs(), expected)
        with unittest.mock.patch.object(self.page.server.api, "local", False):
            found = epochs()
        self.assertEqual(found, [{**epoch, "event": "epoch", "id": 1} for epoch in expected])

    def test_thins_the_epochs_of_long_runs_and_keeps_evaluated_ones(self) -> None:
        job = self.client.submit(SHORT, set={"train.epochs": 9000, "train.eval_every": 100})
        job.wait(PATIENCE_S)
        columns = self.page.read(f"epochs?job={job.id}")
        self.assertEqual(len(columns["epoch"]), 9000 // 8 + (9000 % 8 > 0))
        evaluated = {epoch["epoch"] for epoch in job.epochs() if epoch["valid_metric"] is not None}
        kept = {epoch for epoch, valid in zip(columns["epoch"], columns["valid_metric"], strict=True) if valid is not None}
        self.assertGreater(len(evaluated), 80)
        self.assertEqual(kept, evaluated)
        with unittest.mock.patch.object(self.page.server.api, "local", False):  # from the daemon, not from the file
            self.assertEqual(self.page.read(f"epochs?job={job.id}"), columns)
        self.assertEqual(self.page.get("api/epochs?job=999999")[0], 404)

    def test_has_the_files_of_a_job_and_no_others(self) -> None:
        result = self.client.submit(SHORT, set={"output.dir": str(self.folder / "files")}).wait(PATIENCE_S)
        (result.folder / "below").mkdir()
        (result.folder / "link").symlink_to("/etc/passwd")
        (result.folder / "a b\"\n.txt").write_text(SCRIPT, encoding="ascii")
        os.mkfifo(result.folder / "pipe")
        number = self.client.jobs(limit=1)[0]["id"]
        names = {file["name"]: file["bytes"] for file in self.page.read(f"job?job={number}")["files"]}
        self.assertEqual(names["best.safetensors"], (result.folder / "best.safetensors").stat().st_size)
        self.assertEqual({"below", "link", "pipe"} & names.keys(), set())

        def file(name: str) -> tuple[int, Any, bytes]:
            return self.page.get(f"api/file?{urllib.parse.urlencode({'job': number, 'name': name})}")
        status, headers, body = file("metrics.jsonl")
        self.assertEqual((status, body), (200, (result.folder / "metrics.jsonl").read_bytes()))
        self.assertEqual(headers["Content-Disposition"], 'attachment; filename="metrics.jsonl"')
        status, headers, body = file("a b\"\n.txt")
        self.assertEqual((headers["Content-Disposition"], headers["Content-Type"], body),
                         ('attachment; filename="a_b__.txt"', "application/octet-stream", SCRIPT.encode()))
        for name in ("link", "below", "pipe", "../job.toml", "/etc/passwd", "..", ".", "", "nowhere"):
            self.refused(404, "has no file", file(name))

    def shown_of(self, **changes: Any) -> Any:
        """What the page sees of a job that has ended, with its folder in a place of its own, and other values."""
        result = self.client.submit(SHORT, set={"output.dir": str(self.folder / f"of-{secrets.token_hex(4)}")}).wait(PATIENCE_S)
        number = self.client.jobs(limit=1)[0]["id"]
        shown = self.client.show(number)
        patched = unittest.mock.patch.object(trainerd.Client, "show", lambda _, job: {**shown, **changes} if job == number else None)
        patched.start()
        self.addCleanup(patched.stop)
        return number, result.folder

    def has_epochs(self, number: int) -> None:
        """From the file or the daemon, soon."""
        began = time.monotonic()
        self.assertEqual(len(self.page.read(f"epochs?job={number}")["loss"]), 3)
        epochs = [epoch for event in self.page.events(f"events?job={number}") for epoch in event.get("epochs", ())]
        self.assertEqual([epoch["epoch"] for epoch in epochs], [0, 1, 2])
        self.page.read(f"job?job={number}")
        self.assertLess(time.monotonic() - began, PATIENCE_S / 4)

    def test_reads_no_link_pipe_device_or_huge_file_in_a_run_folder(self) -> None:
        number, folder = self.shown_of()
        self.has_epochs(number)
        secret = self.folder / "secret"
        lines = (folder / "metrics.jsonl").read_bytes()
        secret.write_bytes(lines.replace(b'"epoch":', b'"epoch":7'))

        def huge(at: pathlib.Path) -> None:
            at.touch()
            os.truncate(at, 1 << 40)
        plants: dict[str, Callable[[pathlib.Path], Any]] = {
            "link": lambda at: at.symlink_to(secret), "endless": lambda at: at.symlink_to("/dev/zero"), "pipe": os.mkfifo,
            "huge": huge, "folder": pathlib.Path.mkdir}
        for name in ("metrics.jsonl", "result.json"):
            for kind, plant in plants.items():
                with self.subTest(name=name, kind=kind):
                    (folder / name).rename(folder / "aside")
                    plant(folder / name)
                    self.has_epochs(number)
                    if kind != "huge":
                        self.refused(404, "has no file", self.page.get(f"api/file?job={number}&name={name}"))
                    (folder / name).rmdir() if kind == "folder" else (folder / name).unlink()
                    (folder / "aside").rename(folder / name)
        for index in range(2000):
            (folder / f"file-{index}").touch()
        self.assertLessEqual(len(self.page.read(f"job?job={number}")["files"]), 1000)

    def test_of_another_user_s_job_has_only_that_user_s_files(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("files of several users need root")
        nobody = pwd.getpwnam("nobody").pw_uid
        number, folder = self.shown_of()
        shown = self.client.show(number)
        shown["job"]["owner"] = "nobody"
        self.assertEqual(self.page.read(f"job?job={number}")["files"], [])  # root's folder is not nobody's
        self.refused(404, "is not of the user", self.page.get(f"api/file?job={number}&name=result.json"))
        os.chown(folder, nobody, -1)
        self.assertEqual(self.page.read(f"job?job={number}")["files"], [])
        os.chown(folder / "metrics.jsonl", nobody, -1)
        self.assertEqual([file["name"] for file in self.page.read(f"job?job={number}")["files"]], ["metrics.jsonl"])
        os.chown(folder / "result.json", nobody, -1)
        self.has_epochs(number)
        for content in (b'{"epoch": 0}\n],"end":true,"x":[', b"7\n", b"\n", b"[" * 100000, b"\xff\n", b""):
            (folder / "metrics.jsonl").write_bytes(content)
            self.has_epochs(number)
        (self.folder / "moved").mkdir()
        folder.rename(self.folder / "moved/run")
        folder.symlink_to(self.folder / "moved/run")
        os.chown(folder, nobody, -1, follow_symlinks=False)
        self.assertEqual(self.page.read(f"job?job={number}")["files"], [])
        self.refused(404, "cannot open", self.page.get(f"api/file?job={number}&name=result.json"))
        shown["job"]["owner"], shown["output"] = "root", f"{folder}/"
        self.refused(404, "cannot open", self.page.get(f"api/file?job={number}&name=result.json"))
        os.chown(folder, 0, -1, follow_symlinks=False)  # a link of one's own
        self.assertEqual(self.page.get(f"api/file?job={number}&name=result.json")[0], 200)

    def test_what_is_exchanged_while_it_is_read_gives_nothing_away(self) -> None:
        number, folder = self.shown_of()
        secret = self.folder / "hidden"
        secret.mkdir()
        (secret / "metrics.jsonl").write_text("hidden text", encoding="ascii")
        os.symlink(secret / "metrics.jsonl", folder / "b")
        (folder / "c").mkdir()
        os.mkfifo(folder / "d")
        stopped = threading.Event()

        def exchange() -> None:
            while not stopped.is_set():
                for name in ("b", "c", "d"):
                    for source, target in (("metrics.jsonl", "aside"), (name, "metrics.jsonl"), ("metrics.jsonl", name), ("aside", "metrics.jsonl")):
                        os.rename(folder / source, folder / target)
        thread = threading.Thread(target=exchange)
        thread.start()
        found = set()
        try:
            until = time.monotonic() + 3
            while time.monotonic() < until:
                status, _, body = self.page.get(f"api/file?job={number}&name=metrics.jsonl")
                self.assertNotIn(b"hidden", body)
                found.add(status)
        finally:
            stopped.set()
            thread.join()
        self.assertLessEqual(found, {200, 404})
        self.has_epochs(number)

    def test_scales_checkpoints_and_resumes(self) -> None:
        job = self.client.submit(LONG, set={"workers.count": 1, "partition.parts": 4})
        for event in self.page.events(f"events?job={job.id}"):
            if "epochs" in event:
                break
        self.assertEqual(self.page.post("checkpoint", {"job": job.id}), (200, {"id": 1, "ok": True, "job": job.id}))
        self.assertEqual(self.page.post("scale", {"job": job.id, "workers": 2})[0], 200)
        for event in job.watch(timeout=PATIENCE_S):
            if event.get("event") == "job" and event["job"]["state"] == "RUNNING" and event["job"]["workers"] == 2:
                break
        self.assertEqual(self.page.post("cancel", {"job": job.id})[0], 200)
        job.wait(PATIENCE_S, check=False)
        self.assertEqual(self.page.post("resume", {"job": job.id})[0], 200)
        self.assertNotEqual(job.state, "CANCELLED")
        job.cancel()

    def test_has_the_daemon_s_words_for_what_it_refuses(self) -> None:
        self.assertEqual(self.page.post("cancel", {"job": 999999}), (404, {"error": "there is no job '999999'", "exit_code": 66}))
        for body in ({}, {"job": "name"}, {"job": -1}, {"job": [1]}, {"job": 1 << 70}):
            status, answer = self.page.post("cancel", body)
            self.assertEqual(status, 400, answer)
            self.assertIn("expected a whole one from 1", answer["error"])
        self.assertEqual(self.page.get("api/job?job=999999")[0], 404)

    def test_checks_plans_and_submits_a_job_file(self) -> None:
        text = trainerd.job_text(SHORT)
        self.assertEqual(self.page.post("check", {"text": text}), (200, {"jobs": 1}))
        status, answer = self.page.post("check", {"text": 'name = "x"\n[train]\nepoch = 3'})
        self.assertEqual((status, answer["exit_code"]), (400, 78))
        self.assertIn("job.toml:3:1: unknown key 'epoch' in [train]; did you mean 'train.epochs'?", answer["error"])
        self.assertIn("--set train.epoch: unknown key 'epoch' in [train]", self.page.post("check", {"text": text, "set": ["train.epoch=1"]})[1]["error"])
        self.assertIn("is not a folder", self.page.post("check", {"text": text, "folder": "/nowhere"})[1]["error"])
        status, plan = self.page.post("plan", {"text": text, "set": ["workers.count=2", "partition.parts=4"]})
        self.assertEqual((status, len(plan["workers"]), plan["dataset"]["nodes"]), (200, 2, 34))
        status, made = self.page.post("submit", {"text": text, "name": "own", "group": "page", "tags": ["a"], "set": ["train.epochs=2"],
                                                 "submission_id": "one click"})
        self.assertEqual((status, made["name"]), (200, "own"))
        self.assertEqual(self.page.post("submit", {"text": text, "name": "own", "group": "page", "tags": ["a"], "set": ["train.epochs=2"],
                                                   "submission_id": "one click"})[1]["job"], made["job"])
        self.assertEqual(self.client.job(made["job"]).wait(PATIENCE_S).json["epochs"], 2)
        self.assertEqual(self.page.post("submit", {"text": text, "priority": "high"})[0], 400)
        self.assertEqual(self.page.post("submit", {"text": 7})[0], 400)
        self.assertEqual(self.page.post("submit", {"text": "/etc/hostname"})[0], 400)

    def test_sweeps_as_trainctl_does(self) -> None:
        lines = ["train.lr=0.01,3e-3", 'train.metrics=["accuracy","macro_f1"],["accuracy"]']
        status, made = self.page.post("submit", {"text": trainerd.job_text(SHORT), "sweep": lines, "set": ["train.epochs=2"], "name": "é" * 30})
        self.assertEqual((status, made.get("jobs")), (200, 4), made)
        self.assertTrue(made["group"].startswith("é" * 27 + "-"), made)
        (self.folder / "swept.toml").write_text(trainerd.job_text(SHORT), encoding="utf-8")
        options = [part for line in lines for part in ("--sweep", line)]
        subprocess.run([PROGRAMS / "trainctl", "--to", self.daemon.address, "submit", "swept.toml", "-s", "train.epochs=2", "--group", "by-trainctl", "--name", "é" * 30, *options],
                       check=True, capture_output=True)
        groups = [[self.client.show(job["id"])["set"] for job in reversed(self.client.jobs(group=group))] for group in (made["group"], "by-trainctl")]
        self.maxDiff = None
        self.assertEqual(*groups)
        self.assertEqual(self.page.post("check", {"text": trainerd.job_text(SHORT), "sweep": lines}), (200, {"jobs": 4}))
        for wrong, words in ((["x"], "expected KEY=VALUE"), (["=1"], "expected KEY=VALUE"), (["a="], "expected KEY=VALUE"), (["a=1,,2"], "empty value"),
                             (["a=1,1"], "twice"), (["a=1", "a=2"], "swept already"), (["a=" + ",".join(map(str, range(1001)))], "1001 jobs"),
                             ("a=1", "a list of texts"), (["train.lr=0.1,x"], "train.lr"), (["train.epochs=1,2", "train.lr=0.1,-1"], "train.lr"),
                             ([f"k{n}=1,2" for n in range(4000)], "jobs, expected at most 1000")):
            status, answer = self.page.post("check", {"text": trainerd.job_text(SHORT), "sweep": wrong})
            self.assertEqual(status, 400, wrong)
            self.assertIn(words, answer["error"])
        self.assertEqual(self.page.post("plan", {"text": trainerd.job_text(SHORT), "sweep": ["workers.count=2,1", "partition.parts=4"]})[1]["partition"]["parts"], 4)

    def test_has_job_files_and_jobs_to_begin_with(self) -> None:
        self.client.submit(SHORT, name="to begin with").wait(PATIENCE_S)
        found = self.page.read("templates")
        self.assertIn("to begin with", [one["name"] for one in found["jobs"]])
        # As `make install` has them, in the wheel, in a checkout.
        for place, programs in (("usr/share/trainerd/configs", "usr/bin/trainerd"), ("python/trainerd/configs", "bin/trainerd"), ("configs", "bin/trainerd")):
            root = self.folder / "files" / place.partition("/")[0]
            (root.parent / place).mkdir(parents=True)
            shutil.copy(pathlib.Path(ROOT, "configs/quickstart.toml"), root.parent / place)
            (root.parent / place / "a b.toml").touch()
            with unittest.mock.patch.multiple(templates, PACKAGE=self.folder / "files/python/trainerd", SYSTEM=()):
                listed = templates.listed(str(self.folder / "files" / programs))
                self.assertEqual(listed, {"quickstart": root.parent / place / "quickstart.toml"}, place)
                with unittest.mock.patch.object(self.page.server.api.programs, "path", lambda _, at=programs: str(self.folder / "files" / at)):
                    self.assertEqual(self.page.read("templates")["files"], ["quickstart"])
                    self.assertIn('generator = "sbm"', self.page.read("template?name=quickstart"))
                    for name in ("../quickstart", "a b", "", "nowhere", "%2e%2e/x"):
                        self.assertEqual(self.page.get(f"api/template?name={urllib.parse.quote(name)}")[0], 404)
            shutil.rmtree(self.folder / "files")

    def test_knows_data_model_and_settings_of_jobs(self) -> None:
        job = self.client.submit({**SHORT, "dataset": {"generator": "karate"}, "model": {"kind": "sage"}}, set={"train.lr": 0.5, "train.epochs": 2})
        job.wait(PATIENCE_S)
        found = self.page.read(f"submissions?jobs={job.id},999999")
        self.assertEqual((found[str(job.id)]["model"], found[str(job.id)]["data"], found["999999"]), ("sage", "karate", {}))
        self.assertEqual([found[str(job.id)]["settings"][key] for key in ("train.lr", "train.epochs", "dataset.generator")], ["0.5", "2", "karate"])
        for jobs in ("", "x", ",".join(["1"] * 1001)):
            self.assertEqual(self.page.get(f"api/submissions?jobs={jobs}")[0], 400, jobs)
        path = submission_of('dataset.path = "data/cora"\n[model]\nkind = "program"\nprogram = "own.gnn"', ['model.program="def layer(v):\\n return v"', "a=[[["])
        self.assertEqual((path["data"], path["model"], path["settings"]["a"]), ("cora", "program", "[[["))
        events = [event for event in self.page.events(f"events?job={job.id}&first=1") if "epochs" in event]
        self.assertEqual([epoch["epoch"] for event in events for epoch in event["epochs"]], [1])

    def test_cancels_several_jobs_and_says_which_it_could_not(self) -> None:
        jobs = [self.client.submit(LONG) for _ in range(2)]
        status, answer = self.page.post("cancel", {"jobs": [*(job.id for job in jobs), 999999]})
        self.assertEqual((status, answer["refused"].keys()), (200, {"999999"}))
        for job in jobs:
            job.wait(PATIENCE_S, check=False)
            self.assertEqual(job.state, "CANCELLED")
        for wrong in ([], "1", [0], {"1": 1}):
            self.assertEqual(self.page.post("cancel", {"jobs": wrong})[0], 400)

    def test_compares_a_group(self) -> None:
        jobs = self.client.submit_group(SHORT, [{"train.lr": lr, "train.seed": seed} for lr in (0.01, 0.003) for seed in (1, 2)], group="compared")
        for job in jobs:
            job.wait(PATIENCE_S)
        compared = self.page.read("compare?group=compared")
        self.assertEqual({line["settings"]["train.lr"] for line in compared["settings"]}, {0.01, 0.003})
        self.assertEqual({run["job"] for line in compared["settings"] for run in line["runs"]}, {job.id for job in jobs})
        self.assertEqual(self.page.get("api/compare?group=--help")[0], 404)
        chosen = self.page.read(f"compare?jobs={jobs[0].id},{jobs[3].id}")
        self.assertEqual({run["job"] for line in chosen["settings"] for run in line["runs"]}, {jobs[0].id, jobs[3].id})
        other = self.client.submit({**SHORT, "dataset": {"generator": "sbm", "nodes": 100}})
        other.wait(PATIENCE_S)
        self.assertIn("--all", self.page.read(f"compare?jobs={jobs[0].id},{other.id}")["error"])
        self.assertEqual(len(self.page.read(f"compare?jobs={jobs[0].id},{other.id}&all=1")["settings"]), 2)

    def test_knows_every_key(self) -> None:
        keys = {key["name"]: key for key in self.page.read("keys")}
        self.assertIn("default 200", keys["train.epochs"]["values"])
        self.assertTrue({"name", "dataset.path", "workers.count"} <= keys.keys())
        self.assertEqual(described_keys("job  x\n\n  name   of it\n         a text\n\n[a]  y\n  b  its help\n     a number\n"),
                         [("name", "of it", "a text"), ("a.b", "its help", "a number")])


class ASharedFolder(DaemonCase):
    """`trainctl web` and `plot` in a folder that belongs to another user, who has put programs and modules there."""

    def setUp(self) -> None:
        super().setUp()
        self.mark = self.folder / "mark"
        self.mark.unlink(missing_ok=True)
        place = self.folder / "shared"
        for name in ("trainerd/__init__.py", "trainerd/__main__.py", "trainerd/web/__init__.py", "sitecustomize.py", "json.py", "below/json.py",
                     "below/trainerd/__init__.py", "matplotlib.py"):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(f"open({str(self.mark)!r}, 'a').write(__file__)\n", encoding="utf-8")
        for name in ("python3", "ssh", "ucx_info"):
            (place / name).write_text(f"#!/bin/sh\necho $0 >> {self.mark}\n", encoding="utf-8")
            (place / name).chmod(0o755)
        (place / "ucx.conf").write_text(f"UCX_LOG_LEVEL=debug\nUCX_LOG_FILE={self.mark}\n", encoding="utf-8")  # it may also name what is loaded
        self.place = place
        self.addCleanup(shutil.rmtree, place)

    def runs_nothing_of_it(self, *arguments: str, **environment: str) -> str:
        """The first line that the command prints."""
        given = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        given = {name: value.replace("PATH", given["PATH"]) for name, value in {**given, **environment}.items()}
        with subprocess.Popen(arguments, cwd=self.place, env=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            assert started.stdout is not None
            line = started.stdout.readline()
            started.terminate()
        self.assertFalse(self.mark.exists(), f"{environment}: {self.mark.read_text(encoding='utf-8') if self.mark.exists() else ''}")
        return line

    def test_runs_nothing_that_lies_there(self) -> None:
        for environment in ({}, {"PYTHONPATH": ""}, {"PYTHONPATH": ":/nowhere"}, {"PYTHONPATH": "/nowhere:"}, {"PYTHONPATH": ".:below"}, {"PATH": ":PATH"},
                            {"PATH": ".:PATH"}, {"PATH": "below/..:PATH"}):
            self.runs_nothing_of_it(str(PROGRAMS / "trainctl"), "plot", "--from", "nowhere", **environment)
            self.assertIn("open this address", self.runs_nothing_of_it(str(PROGRAMS / "trainctl"), "web", "--to", self.daemon.address, **environment))

    def test_runs_nothing_that_lies_there_where_programs_are_apart_from_the_package(self) -> None:
        """Then $PYTHONPATH and Python's own folders have the package. The folder above the programs is one like /tmp: what lies there is not run, either."""
        above = self.folder / "above"
        (above / "python").mkdir(parents=True)
        (above / "python/trainerd").symlink_to(self.place / "trainerd")
        (above / "trainerd").symlink_to(self.place / "trainerd")
        above.chmod(0o1777)
        programs = above / "one/two/bin"
        programs.mkdir(parents=True)
        for name in ("trainctl", "trainerd"):
            shutil.copy(PROGRAMS / name, programs)
        package = str(pathlib.Path(trainerd.__file__).parents[1])
        for path in ("", f":{package}", f"below:{package}:", f"{package}:."):
            self.assertIn("open this address", self.runs_nothing_of_it(str(programs / "trainctl"), "web", "--to", self.daemon.address,
                                                                       PYTHONPATH=path or package))
        shutil.rmtree(above)

    def test_other_programs_are_not_looked_for_there(self) -> None:
        reader = self.folder / "reader/ucx_info"  # as UCX's own does, where it is installed
        reader.parent.mkdir()
        reader.write_text(f"#!/bin/sh\n[ ! -e ucx.conf ] || echo $0 >> {self.mark}\n", encoding="utf-8")
        reader.chmod(0o755)
        for path in (".:PATH", f".:{reader.parent}:PATH"):
            self.runs_nothing_of_it(str(PROGRAMS / "trainctl"), "doctor", PATH=path)
        (self.place / "hosts").write_text("localhost\n", encoding="utf-8")
        (self.place / "job.toml").write_text(trainerd.job_text(SHORT | {"workers": {"launcher": "ssh", "hosts": "hosts", "threads": 1}}), encoding="utf-8")
        self.runs_nothing_of_it(str(PROGRAMS / "trainerd"), "--config", "job.toml", PATH=".:/nowhere")

    def test_no_library_reads_its_settings_there(self) -> None:
        (self.place / "job.toml").write_text(trainerd.job_text(SHORT | {"workers": {"count": 2, "threads": 1}}), encoding="utf-8")
        for arguments in (("trainerd", "--config", "job.toml"), ("trainerd", "--check", "job.toml"), ("trainer-worker", "--version"),
                          ("trainer-partition", "--version"), ("trainctl", "--version"), ("trainctl", "doctor")):
            self.runs_nothing_of_it(str(PROGRAMS / arguments[0]), *arguments[1:])
        self.assertTrue((self.place / "runs/short/result.json").exists())
        if os.geteuid() == 0:  # a folder that one is in, and may not enter
            closed = self.folder / "closed"
            closed.mkdir(mode=0o700)
            program = f"import os; os.chdir({str(closed)!r}); os.setuid(65534); os.execv({str(PROGRAMS / 'trainctl')!r}, ['trainctl', '--version'])"
            said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            if "PermissionError" not in said.stderr:  # where the programs are below a closed folder
                self.assertEqual(said.returncode, 0, said)


class AnotherUser(DaemonCase):
    """A daemon on a TCP port, where `eve` may only watch, and sees her own user's jobs alone."""

    def test_has_the_rights_that_the_daemon_gives(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("jobs of several users need root")
        secret = secret_write(self.folder / "secret")
        users = self.folder / "users.toml"
        system = pwd.getpwuid(0).pw_name
        users.write_text("".join(f'[{name}]\nsecret = "{SECRET}"\nuser = "{user}"\nrole = "{role}"\n' for name, user, role in
                                 (("ada", system, "submit"), ("eve", "nobody", "submit"), ("tim", system, "watch"))), encoding="ascii")
        users.chmod(0o600)
        (self.folder / "tcp").mkdir()
        served = Daemon(self.folder / "tcp", "tcp:127.0.0.1:0", f"users_file={users}")
        self.addCleanup(served.end)

        def page(user: str) -> Page:
            made = Page(trainerd.Client(served.address, secret, user=user, fingerprint=served.fingerprint))
            self.addCleanup(made.close)
            return made
        ada, eve, tim = page("ada"), page("eve"), page("tim")
        client = trainerd.Client(served.address, secret, user="ada", fingerprint=served.fingerprint)
        job = client.submit(SHORT, folder=self.folder)
        job.wait(PATIENCE_S)
        row = next(eve.events("jobs"))
        self.assertEqual([dict(zip(row["fields"], one, strict=True))["metric"] for one in row["jobs"]], [None])
        for path in (f"job?job={job.id}", f"epochs?job={job.id}", f"file?job={job.id}&name=result.json"):
            status, _, body = eve.get(f"api/{path}")
            self.assertIn(status, (400, 404, 503), path)
            self.assertNotIn(b"loss", body)
        self.assertNotEqual(eve.post("cancel", {"job": job.id})[0], 200)
        self.assertEqual(tim.get(f"api/job?job={job.id}")[0], 200)
        self.assertIn("watch", tim.post("submit", {"text": trainerd.job_text(SHORT)})[1]["error"])
        self.assertEqual(ada.read(f"job?job={job.id}")["files"], [])  # perhaps another machine's


if __name__ == "__main__":
    unittest.main()
