"""What the programs of trainerd say of a job file, without the daemon: its mistakes, its plan, the keys' help, and runs compared.

They run as this user, as on a command line.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from ..client import Client
from ..errors import MissingInput, TrainerdError, UsageError, error_of
from ..programs import Key, described_keys, find_program

PLAN_S = 120.0
FILE = "job.toml"


class Programs:
    """trainerd and trainctl, in `folder`, or else where `find_program` finds them."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = None if folder is None else os.path.abspath(folder)
        self._keys: list[Key] | None = None
        self._plans = threading.Lock()
        self._plan: subprocess.Popen[str] | None = None

    def path(self, name: str) -> str:
        """Of a program."""
        if self._folder is None:
            return os.path.abspath(find_program(name))
        path = shutil.which(name, path=self._folder)
        if path is None:
            raise MissingInput(f"'{name}' is not in {self._folder}, expected trainerd's programs on this machine")
        return path

    def _start(self, program: str, *arguments: str, folder: str | None = None) -> subprocess.Popen[str]:
        if folder is not None and not os.path.isdir(folder):
            raise UsageError(f"'{folder}' is not a folder of this machine")
        try:
            return subprocess.Popen([self.path(program), *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, errors="replace")
        except OSError as error:
            raise UsageError(f"cannot start {program} in '{folder or os.curdir}': {error.strerror}") from error

    @staticmethod
    def _output(process: subprocess.Popen[str], file: str = FILE) -> str:
        """What it prints; a failure has its own words, in which the job file's name is FILE."""
        try:
            output, errors = process.communicate(timeout=PLAN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TrainerdError(f"no answer within {PLAN_S:g} s") from None
        if process.returncode != 0:
            lines = [re.sub(r"^(trainerd|trainctl): ", "", line) for line in errors.replace(file, FILE).splitlines()]
            raise error_of(process.returncode, "\n".join(lines) or f"it ended with {process.returncode}")
        return output

    def keys(self) -> list[Key]:
        if self._keys is None:
            self._keys = described_keys(self._output(self._start("trainerd", "--describe-config")))
        return self._keys

    def check(self, text: str, settings: list[str], folder: str) -> None:
        """The mistakes of a job file are a JobFileError, one in a line."""
        with _written(text) as file:
            self._output(self._start("trainerd", "--check", file, *_set(settings), folder=folder), file)

    def plan(self, text: str, settings: list[str], folder: str) -> dict[str, Any]:
        """Memory and traffic. A newer plan ends an older one."""
        with _written(text) as file:
            with self._plans:
                if self._plan is not None and self._plan.poll() is None:
                    self._plan.kill()
                self._plan = process = self._start("trainerd", "--plan", file, "--json", *_set(settings), folder=folder)
            try:
                plan: dict[str, Any] = json.loads(self._output(process, file))
            except TrainerdError:
                if self._plan is not process:
                    raise UsageError("a newer plan has replaced this one") from None
                raise
            return plan

    def compare(self, runs: list[str], of_any_data: bool, login: list[str]) -> dict[str, Any]:
        """`trainctl compare` of groups and jobs: lines of settings, and the runs of each."""
        options = ["--json", *(["--all"] if of_any_data else [])]
        compared: dict[str, Any] = json.loads(self._output(self._start("trainctl", "compare", *options, *login, "--", *runs)))
        return compared


def login_of(client: Client) -> list[str]:
    """The daemon's address and login as options of trainctl; a secret's file by its path."""
    given = {"to": client.address, "secret-file": client.secret_file, "user": client.user, "fingerprint": client.fingerprint}
    return [f"--{name}={value}" for name, value in given.items() if value]


def _set(settings: list[str]) -> list[str]:
    return [argument for setting in settings for argument in ("--set", setting)]


@contextlib.contextmanager
def _written(text: str) -> Iterator[str]:
    """A file with this text, which only this user may read."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        yield file.name
