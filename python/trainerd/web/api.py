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
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ..client import Client
from ..connection import address_of
from ..errors import MissingInput, UsageError
from ..fields import Shown
from . import templates
from .files import RunFolder
from .live import JobList, job_events
from .programs import Programs, login_of
from .sweep import Sweep

TEMPLATES_MOST = 15  # jobs of this user
POINTS_MOST = 2000  # of a curve beside others
JOBS_MOST = 1000  # of one request
VALUE_LETTERS_MOST = 60  # of a setting in a list
SUBMISSIONS_KEPT = 20000
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
        self._submissions: dict[int, dict[str, Any]] = {}
        self._submissions_lock = threading.Lock()

    # --- reads: of a path and its query ---

    def read(self, path: str, query: dict[str, str]) -> Any:
        reads: dict[str, Callable[[dict[str, str]], Any]] = {
            "about": lambda _: {"version": self.client.version(), "folder": os.getcwd(), "user": self.client.ask("hello").get("role")},
            "jobs": lambda _: self.jobs.events(),
            "job": lambda asked: self._job(_number(asked.get("job"))),
            "submissions": lambda asked: {job: self._submission(job) for job in _numbers(asked.get("jobs", "").split(","))},
            "events": lambda asked: self._events(_number(asked.get("job")), _number(asked.get("rank"), least=-1, otherwise=-1),
                                                 _number(asked.get("first"), least=0, otherwise=0)),
            "epochs": lambda asked: self._epochs(_number(asked.get("job"))),
            "file": lambda asked: self._file(_number(asked.get("job")), asked.get("name", "")),
            "templates": lambda _: self._templates(),
            "template": lambda asked: templates.text_of(self.programs.path("trainerd"), asked.get("name", "")),
            "keys": lambda _: [key._asdict() for key in self.programs.keys()],
            "groups": lambda _: self.jobs.groups(),
            "compare": lambda asked: self.programs.compare(_runs(asked), "all" in asked, login_of(self.client)),
        }
        _check_texts(query)
        return self._found(reads, path)(query)

    @staticmethod
    def _found(known: dict[str, Any], path: str) -> Any:
        if path not in known:
            raise MissingInput(f"there is no {_short(path)}, expected one of {', '.join(known)}")
        return known[path]

    def _job(self, job: int) -> dict[str, Any]:
        """`show`, with the files of the output folder."""
        shown = self.client.show(job)
        files: list[dict[str, Any]] = []
        with contextlib.suppress(MissingInput):
            if self.local:
                with RunFolder(shown) as folder:
                    files = folder.listed()
        return {**shown, "files": files}

    def _submission(self, job: int) -> dict[str, Any]:
        """The data, the model and the settings of a job; empty for a job that this user may not see. They never change."""
        with self._submissions_lock:
            if job in self._submissions:
                return self._submissions[job]
        try:
            shown = self.client.show(job)
        except (MissingInput, UsageError):
            return {}
        found = submission_of(shown["config"], shown["set"])
        with self._submissions_lock:
            if len(self._submissions) >= SUBMISSIONS_KEPT:
                self._submissions.clear()
            self._submissions[job] = found
        return found

    def _file(self, job: int, name: str) -> Download:
        if not self.local:
            raise MissingInput(f"the files of job {job} are not on this machine")
        with RunFolder(self.client.show(job)) as folder:
            file, size = folder.open(name)
        return Download(file, re.sub(r"[^\w.-]", "_", name, flags=re.ASCII), size)

    def _events(self, job: int, rank: int, first: int) -> Iterator[Any]:
        return job_events(self.client, job, rank, first, self._metrics_of_file(self.client.show(job)))

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
            "cancel": self._cancel,
            "resume": lambda asked: self._control("resume", asked),
            "checkpoint": lambda asked: self._control("checkpoint", asked),
            "scale": lambda asked: self._control("scale", asked, workers=_number(asked.get("workers"))),
            "check": self._check,
            "plan": lambda asked: self.programs.plan(*_job_of(asked)),
            "submit": self._submit,
        }
        _check_texts(body)
        return self._found(changes, path)(body)

    def _cancel(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One job, or several: of these the ones that are refused are given with the reasons."""
        if "jobs" not in asked:
            return self._control("cancel", asked)
        refused: dict[int, str] = {}
        for job in _numbers(asked["jobs"]):
            try:
                self._control("cancel", {"job": job})
            except (MissingInput, UsageError) as error:
                refused[job] = error.reason
        return {"refused": refused}

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


def submission_of(config: str, settings: list[str]) -> dict[str, Any]:
    """A job file's data and model in a word each, and its settings with those over it, as short texts by their keys."""
    values = dict(_flat("", _toml(config)))
    for setting in settings:
        key, _, text = setting.partition("=")
        values[key.strip()] = _toml(f"value = {text}").get("value", text.strip())
    kind = values.get("model.kind", "gcn")
    program = str(values.get("model.program", ""))
    path = str(values.get("dataset.path", ""))
    return {"data": Path(path).name if path else str(values.get("dataset.generator", "")),
            "model": Path(program).stem if kind == "program" and program and "\n" not in program else str(kind),
            "settings": {key: text if len(text) <= VALUE_LETTERS_MOST else text[:VALUE_LETTERS_MOST] + "…"
                         for key, value in values.items() if key != "name" and not key.startswith("output.")
                         for text in [value if isinstance(value, str) else json.dumps(value, default=str)]}}


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _flat(before: str, table: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{before}{name}.", value)
        else:
            yield before + name, value


def _numbers(jobs: Any) -> list[int]:
    if not isinstance(jobs, list) or not 1 <= len(jobs) <= JOBS_MOST:
        raise UsageError(f"expected 1 to {JOBS_MOST} jobs' numbers")
    return [_number(job) for job in jobs]


def _runs(asked: dict[str, str]) -> list[str]:
    """A group's name, or jobs' numbers."""
    return list(map(str, _numbers(asked["jobs"].split(",")))) if "jobs" in asked else [asked.get("group", "")]


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
