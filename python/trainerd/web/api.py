"""What the pages ask for: the daemon's answers, files of a job's output folder, and changes, each by one name.

Jobs are named by their numbers. What another user's job shows is the daemon's decision.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import re
import secrets
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from ..client import Client
from ..connection import address_of
from ..errors import MissingInput, UsageError
from ..fields import Shown
from . import templates
from .files import RunFolder
from .live import JobList, job_events
from .programs import Programs
from .sweep import Sweep

TEMPLATES_MOST = 15  # jobs of this user
POINTS_MOST = 2000  # of a curve beside others
RESULT_BYTES_MOST, METRICS_BYTES_MOST = 16 << 20, 256 << 20  # of files; the daemon has the same in a stream
NOT_EVALUATED = b'"valid_metric":null'
SETTINGS_BYTES_MOST = 64 << 10  # they are arguments of a program
SUBMIT_OPTIONS = {"name": str, "group": str, "tags": list, "priority": int, "time_limit": float, "max_restarts": int}


@dataclass
class Download:
    """An open file, and the name that it is saved by."""

    file: BinaryIO
    name: str
    size: int


class Api:
    """The daemon's jobs, for the pages. `local`: is the daemon on this machine, whose files and figures are then its own?"""

    def __init__(self, client: Client, programs: Programs) -> None:
        self.client, self.programs = client, programs
        self.local = client.address is None or address_of(client.address).path is not None
        self.jobs = JobList(client, self.local)

    # --- reads: of a path and its query ---

    def read(self, path: str, query: dict[str, str]) -> Any:
        reads: dict[str, Callable[[dict[str, str]], Any]] = {
            "about": lambda _: {"version": self.client.version(), "folder": os.getcwd(), "user": self.client.ask("hello").get("role")},
            "jobs": lambda _: self.jobs.events(),
            "job": lambda asked: self._job(_number(asked.get("job"))),
            "events": lambda asked: self._events(_number(asked.get("job")), _number(asked.get("rank"), least=-1, otherwise=-1)),
            "epochs": lambda asked: self._epochs(_number(asked.get("job"))),
            "file": lambda asked: self._file(_number(asked.get("job")), asked.get("name", "")),
            "templates": lambda _: self._templates(),
            "template": lambda asked: templates.text_of(self.programs.path("trainerd"), asked.get("name", "")),
            "keys": lambda _: [key._asdict() for key in self.programs.keys()],
            "groups": lambda _: self.jobs.groups(),
            "compare": lambda asked: self.programs.compare(asked.get("group", ""), self._login()),
        }
        _check_texts(query)
        return self._found(reads, path)(query)

    @staticmethod
    def _found(known: dict[str, Any], path: str) -> Any:
        if path not in known:
            raise MissingInput(f"there is no {_short(path)}, expected one of {', '.join(known)}")
        return known[path]

    def _login(self) -> list[str]:
        """The daemon's address and login as options of trainctl; a secret's file by its path."""
        given = {"to": self.client.address, "secret-file": self.client.secret_file, "user": self.client.user,
                 "fingerprint": self.client.fingerprint}
        return [f"--{name}={value}" for name, value in given.items() if value]

    def _job(self, job: int) -> dict[str, Any]:
        """`show`, with the files of the output folder."""
        shown = self.client.show(job)
        files: list[dict[str, Any]] = []
        with contextlib.suppress(MissingInput):
            if self.local:
                with RunFolder(shown) as folder:
                    files = folder.listed()
        return {**shown, "files": files}

    def _file(self, job: int, name: str) -> Download:
        if not self.local:
            raise MissingInput(f"the files of job {job} are not on this machine")
        with RunFolder(self.client.show(job)) as folder:
            file, size = folder.open(name)
        return Download(file, re.sub(r"[^\w.-]", "_", name, flags=re.ASCII), size)

    def _events(self, job: int, rank: int) -> Iterator[Any]:
        return job_events(self.client, job, rank, self._metrics_of_file(self.client.show(job)))

    def _epochs(self, job: int) -> dict[str, list[Any]]:
        """The epochs so far as columns, for curves of several jobs: of each stride one, if possible one that was evaluated. Strides are powers
        of two, so that runs of several lengths have epochs in common. Only lines that are kept are parsed."""
        shown = self.client.show(job)
        stride, n_epoch = 1, shown["job"].get("epoch", 0)
        while n_epoch > stride * POINTS_MOST:
            stride *= 2
        kept: dict[int, bytes] = {}
        for number, line in enumerate(self._metrics_of_file(shown) or self._metrics_of_daemon(job)):
            if kept.get(number // stride) is None or (NOT_EVALUATED in kept[number // stride] and NOT_EVALUATED not in line):
                kept[number // stride] = line
        names = ("epoch", "loss", "train_metric", "valid_metric", "test_metric")
        rows = [[epoch.get(name) for name in names] for epoch in map(json.loads, kept.values())]
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}

    def _metrics_of_file(self, shown: Shown) -> list[bytes] | None:
        """The lines of metrics.jsonl, where the file is this job's and not a later one's in the same folder: quicker than from the daemon."""
        with contextlib.suppress(MissingInput, ValueError, RecursionError):
            if self.local and shown["result"] is not None:
                with RunFolder(shown) as folder:
                    result = folder.read("result.json", RESULT_BYTES_MOST)
                    if result is not None and json.loads(result) == shown["result"]:
                        lines = (folder.read("metrics.jsonl", METRICS_BYTES_MOST) or b"").splitlines()
                        is_good = folder.is_own or all(isinstance(json.loads(line), dict) for line in lines)
                        return lines if lines and is_good else None
        return None

    def _metrics_of_daemon(self, job: int) -> Iterator[bytes]:
        with self.client.connect() as connection:
            connection.send("metrics", job=job)
            while (line := connection.event_line()) is not None:
                yield line

    # --- changes: of a path and its body ---

    def change(self, path: str, body: dict[str, Any]) -> Any:
        changes: dict[str, Callable[[dict[str, Any]], Any]] = {
            "cancel": lambda asked: self._control("cancel", asked),
            "resume": lambda asked: self._control("resume", asked),
            "checkpoint": lambda asked: self._control("checkpoint", asked),
            "scale": lambda asked: self._control("scale", asked, workers=_number(asked.get("workers"))),
            "check": self._check,
            "plan": lambda asked: self.programs.plan(*_job_of(asked)),
            "submit": self._submit,
        }
        _check_texts(body)
        return self._found(changes, path)(body)

    def _control(self, command: str, asked: dict[str, Any], **fields: int) -> dict[str, Any]:
        job = _number(asked.get("job"))
        answer = self.client.ask(command, job=job, **fields)
        self.jobs.look(job)
        return answer

    def _templates(self) -> dict[str, Any]:
        """Job files, and the newest jobs of this user, one of each name."""
        here = str(os.geteuid())
        with contextlib.suppress(KeyError):
            here = pwd.getpwuid(os.geteuid()).pw_name
        return {"files": list(templates.listed(self.programs.path("trainerd"))), "jobs": self.jobs.newest(here if self.local else None, TEMPLATES_MOST)}

    def _check(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The number of jobs; mistakes are an error."""
        text, settings, folder = _job_of({**asked, "sweep": []})
        sweep = Sweep(_lines_of(asked, "sweep"))
        for own in sweep.checked():
            self.programs.check(text, settings + own, folder)
        return {"jobs": sweep.n_job}

    def _submit(self, asked: dict[str, Any]) -> dict[str, Any]:
        text, settings, folder = _job_of({**asked, "sweep": []})
        sweep = Sweep(_lines_of(asked, "sweep"))
        options = {name: _of(kind, asked[name], name) for name, kind in SUBMIT_OPTIONS.items() if asked.get(name) not in (None, "", [])}
        options["submission_id"] = str(asked.get("submission_id") or secrets.token_hex(16))
        if not sweep.keys:
            job = self.client.submit(text, set=settings, folder=folder, **options)
            return {"job": job.id, "name": job.name, "jobs": 1}
        if "group" not in options:
            name = "sweep"
            with contextlib.suppress(ValueError, RecursionError):  # whose words are the daemon's
                name = str(options.get("name") or tomllib.loads(text).get("name", name))
            options["group"] = f"{name.encode()[:54].decode(errors='ignore')}-{hashlib.sha256(options['submission_id'].encode()).hexdigest()[:8]}"
        jobs = self.client.submit_group(text, sweep.jobs(), set=settings, folder=folder, **options)
        return {"job": jobs[0].id, "name": jobs[0].name, "jobs": len(jobs), "group": options["group"]}


def _check_texts(asked: dict[str, Any]) -> None:
    """Texts become arguments of programs and names of files: no NUL, and valid UTF-8."""
    for name, value in asked.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and ("\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text)):
                raise UsageError(f"{_short(name)} has a NUL, or is not UTF-8")


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) < 100 else text[:100] + "…"


def _of(kind: type, value: Any, name: str) -> Any:
    if kind is float and isinstance(value, int):
        value = float(value)
    if type(value) is not kind:
        raise UsageError(f"{name} is {_short(value)}, expected {kind.__name__}")
    return value


def _number(value: Any, least: int = 1, otherwise: int | None = None) -> int:
    if value is None and otherwise is not None:
        return otherwise
    try:
        number = int(str(value))
    except ValueError:
        number = least - 1
    if not least <= number < 1 << 53:
        raise UsageError(f"{_short(value)} is not a number, expected a whole one from {least}")
    return number


def _lines_of(asked: dict[str, Any], name: str) -> list[str]:
    lines = asked.get(name, [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise UsageError(f"{name} is {_short(lines)}, expected a list of texts")
    if (size := sum(len(line.encode()) + 1 for line in lines)) > SETTINGS_BYTES_MOST:
        raise UsageError(f"the settings have {size} bytes, expected at most {SETTINGS_BYTES_MOST}")
    return lines


def _job_of(asked: dict[str, Any]) -> tuple[str, list[str], str]:
    """A job file's text, ended by a newline, the settings of it or of a sweep's first job, and its folder."""
    text, folder = asked.get("text"), asked.get("folder") or os.getcwd()
    settings = _lines_of(asked, "set") + Sweep(_lines_of(asked, "sweep")).first
    if not isinstance(text, str) or not isinstance(folder, str):
        raise UsageError("expected text, and folder as a text")
    return text.rstrip("\n") + "\n", settings, os.path.abspath(os.path.expanduser(folder))
