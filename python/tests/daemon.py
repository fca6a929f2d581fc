"""A daemon of this build for tests, in a folder of its own, with the jobs and the secret that they use."""
from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from typing import Any

import trainerd

ROOT = pathlib.Path(__file__).resolve().parents[2]


def programs_find() -> pathlib.Path:
    """The programs of the build; copies of them where they are root's and other users, for whom jobs run, cannot enter their folder."""
    built = pathlib.Path(os.environ.get("TRAINERD_BIN", ROOT / "build/release/bin")).resolve()
    if os.geteuid() != 0 or all(folder.stat().st_mode & 0o001 for folder in (built / "trainerd", built, *built.parents)):
        return built
    copies = pathlib.Path(tempfile.mkdtemp(prefix="trainerd-programs-"))
    atexit.register(shutil.rmtree, copies)
    (copies / "lib").symlink_to(built.parent / "lib")
    (copies / "bin").mkdir()
    for program in built.glob("train*"):
        shutil.copy(program, copies / "bin")
    for path in (copies, copies / "bin", *(copies / "bin").iterdir()):
        path.chmod(0o755)
    return copies / "bin"


PROGRAMS = programs_find()
PATIENCE_S = 240
SECRET = "00112233445566778899aabbccddeeff" * 2

# Three epochs; epochs without end, of which each takes some milliseconds.
SHORT: dict[str, Any] = {"name": "short", "dataset": {"generator": "karate"}, "partition": {"cache": "off"}, "workers": {"threads": 1},
                         "train": {"epochs": 3}}
LONG: dict[str, Any] = {**SHORT, "name": "long", "dataset": {"generator": "sbm", "nodes": 4000}, "train": {"epochs": 100_000_000}}


class Daemon:
    """trainerd --listen, started by `start`; `kill` ends it as a crash would. Jobs outlive it."""

    def __init__(self, folder: pathlib.Path, listen: str = "", *settings: str) -> None:
        self.folder, self.listen, self.settings = folder, listen or f"unix:{folder}/socket", settings
        self.address = self.listen
        self.start()

    def start(self) -> None:
        arguments = [str(PROGRAMS / "trainerd"), "--listen", self.listen, "--state", str(self.folder / "state"), "--set", "slots=4"]
        for setting in self.settings:
            arguments += ["--set", setting]
        self.process = subprocess.Popen(arguments, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "listening on " in line:
                self.address = line.split("listening on ")[1].split(",")[0]
                self.fingerprint = line.split(", fingerprint ")[1].split(",")[0] if ", fingerprint " in line else "none"
                break
        else:
            self.process.wait()
            raise AssertionError("the daemon does not listen:\n" + "".join(lines))
        self.rest = threading.Thread(target=self.process.stderr.read)  # so that it can write on
        self.rest.start()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def end(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, sign: signal.Signals) -> None:
        self.process.send_signal(sign)
        self.process.wait()
        self.rest.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


class DaemonCase(unittest.TestCase):
    """A daemon for all tests of a class, a folder that is the current one, and no job left at the end."""

    folder: pathlib.Path
    daemon: Daemon

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainerd-python-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.folder)
        cls.daemon = Daemon(cls.folder)
        cls.addClassCleanup(cls._end)

    @classmethod
    def _end(cls) -> None:
        if cls.daemon.process.poll() is not None:
            cls.daemon.start()
        client = trainerd.Client(cls.daemon.address)
        for fields in client.jobs(active=True):
            client.cancel(fields["id"])
        for fields in client.jobs(active=True):
            client.job(fields["id"]).wait(PATIENCE_S, check=False)
        cls.daemon.end()

    def setUp(self) -> None:
        self.client = trainerd.Client(self.daemon.address)

    def expect(self, kind: type[BaseException], words: str, call: Any, *arguments: Any, **named: Any) -> Any:
        """The call raises this, with these words in its text."""
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        self.assertIn(words, str(caught.exception))
        return caught.exception


def secret_write(path: pathlib.Path, digits: str = SECRET, mode: int = 0o600) -> pathlib.Path:
    path.write_text(digits + "\n", encoding="ascii")
    path.chmod(mode)
    return path
