"""The daemon's client: submit, status, control, streams. Only the standard library.

Each request has its own connection. So a Client holds nothing open, and may be shared by threads and kept over
restarts of the daemon. If the daemon goes away before it answers, requests that may be sent twice are repeated:
reads, and submissions, which find the first one's job by their submission_id.
"""
from __future__ import annotations

import os
import re
import secrets
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypedDict, Unpack, cast

from .connection import Connection, Login, Lost
from .errors import JobFileError, MissingInput, TrainerdError, Unavailable, UsageError
from .fields import ENDED, AuditRow, Event, Gpu, JobFields, Shown, User, Version, Workers
from .job import Job
from .program import Program, names_file
from .toml_text import job_text, settings_of

JOB_BYTES_MOST = 1 << 20
RETRY_S = 0.3
IN_PROGRAM = re.compile(r"(?:job\.toml:\S+ |--set \S+ )?(?:model\.(?:program:\d|args\.)|task\.decoder:\d)")
LIMIT_MOST = 1000


Settings = Mapping[str, Any] | Sequence[str] | None


class SubmitOptions(TypedDict, total=False):
    """name: of the job. group, tags: its experiment. priority: the higher runs first. time_limit: seconds of
    running, over all attempts. max_restarts: most restarts after failures that another attempt may survive.
    submission_id: a text of your choice; a second submission with the same text finds the first one's job and adds no
    other."""

    name: str | None
    group: str | None
    tags: Sequence[str] | None
    priority: int | None
    time_limit: float | None
    max_restarts: int | None
    submission_id: str | None


class Client:
    """A daemon by its address; nothing is opened until a request is made.

    address      unix:PATH or tcp:HOST:PORT; default $TRAINERD_TO, else this user's daemon, else the system's
    secret_file  tcp: the file with the secret; default $TRAINERD_SECRET_FILE, else that of `trainctl login`
    user         tcp: the name to log in by; default $TRAINERD_USER, else that of `trainctl login`
    fingerprint  tcp: of the daemon's certificate, or "none": a connection without TLS; default $TRAINERD_FINGERPRINT, else that of
                 `trainctl login`
    timeout      seconds to wait for the daemon's answer to a request
    patience     seconds to wait for a daemon that has gone away, as in `trainctl submit --wait`; 0: do not wait
    """

    def __init__(self, address: str | None = None, secret_file: str | os.PathLike[str] | None = None, *, user: str | None = None,
                 fingerprint: str | None = None, timeout: float = 60.0, patience: float = 60.0) -> None:
        self.address = address or os.environ.get("TRAINERD_TO") or None
        self.secret_file = os.fspath(secret_file) if secret_file is not None else os.environ.get("TRAINERD_SECRET_FILE") or None
        self.user = user if user is not None else os.environ.get("TRAINERD_USER") or None
        self.fingerprint = fingerprint or os.environ.get("TRAINERD_FINGERPRINT") or None
        self.timeout = timeout
        self.patience = patience

    def __repr__(self) -> str:
        return f"Client({self.address!r})"

    # --- requests ---

    def connect(self) -> Connection:
        """A connection of its own, to be closed by the caller."""
        return Connection(self.address, Login(self.secret_file, self.user, self.fingerprint), self.timeout)

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        """Send any request of docs/protocol.md once, and return its one answer."""
        with self.connect() as connection:
            return connection.ask(command, **fields)

    def ask_again(self, command: str, *, began: bool = False, **fields: Any) -> dict[str, Any]:
        """A request that may be sent twice: it is repeated for `patience` seconds if the daemon goes away before it
        answers. A daemon that never answered is an error at once, unless `began` is set."""
        until = time.monotonic() + self.patience
        while True:
            try:
                with self.connect() as connection:
                    began = True
                    return connection.ask(command, **fields)
            except Lost:
                if not began or time.monotonic() >= until:
                    raise
                time.sleep(RETRY_S)

    def submit(self, job: str | os.PathLike[str] | Mapping[str, Any], *, set: Settings = None,
               predict: str | os.PathLike[str] | None = None, folder: str | os.PathLike[str] | None = None,
               **options: Unpack[SubmitOptions]) -> Job:
        """Add a job to the queue. It runs in its turn, also when this program has ended.

        job      the path of a job file, the text of one (with a newline in it), or a dict: {"model": {"kind": "gcn"}, ...}
        set      settings that override it: {"train.epochs": 3} or ["train.epochs=3"]
        predict  use a trained model instead of training one: the folder of a training's results, or a file of weights in it
        folder   where relative paths of the job start; default: the current folder
        options  those of SubmitOptions
        """
        settings = settings_of(set)
        if predict is not None:
            if not os.fspath(predict):
                raise UsageError("predict is empty, expected the folder of a training's results")
            settings += settings_of({"predict.model": predict})
        answer = self._submit(job, settings, None, folder, options)
        return Job(self, int(answer["job"]), str(answer["name"]))

    def submit_group(self, job: str | os.PathLike[str] | Mapping[str, Any], each: Sequence[Mapping[str, Any] | Sequence[str]], *,
                     set: Settings = None, folder: str | os.PathLike[str] | None = None, **options: Unpack[SubmitOptions]) -> list[Job]:
        """Add several jobs, all or none: one for each of `each`, whose settings override those of `set`.

            client.submit_group("cora.toml", [{"train.seed": seed} for seed in range(10)], group="seeds")
        """
        group = options.get("group")
        if not group:
            raise UsageError("submit_group needs group, the name of the experiment that the jobs are of")
        answer = self._submit(job, settings_of(set), [settings_of(one) for one in each], folder, options)
        names = {fields["id"]: fields["name"] for fields in self.jobs(group=group)}
        return [Job(self, id, names.get(id, str(answer["name"]))) for id in answer["jobs"]]

    def _submit(self, job: str | os.PathLike[str] | Mapping[str, Any], settings: list[str], each: list[list[str]] | None,
                folder: str | os.PathLike[str] | None, options: SubmitOptions) -> dict[str, Any]:
        unknown = sorted(options.keys() - SubmitOptions.__annotations__.keys())
        if unknown:
            raise UsageError(f"'{unknown[0]}' is not an option of submit, expected one of {', '.join(SubmitOptions.__annotations__)}")
        file, text = _job_of(job)
        home = os.path.abspath(os.path.expanduser(folder or os.getcwd()))
        settings = settings + _programs_of(text, settings, home)
        each = None if each is None else [own + _programs_of(text, settings + own, home) for own in each]
        for own in {tuple(one for one in own if one.startswith("model.")) for own in each or [[]]}:
            _check_program(file, text, [*settings, *own])
        given: dict[str, Any] = dict(options)
        given["time_limit_s"] = given.pop("time_limit", None)
        given["submission_id"] = given.get("submission_id") or secrets.token_hex(16)
        return self.ask_again("submit", config=text, file=file, folder=home, set=settings, jobs=each, **given)

    def job(self, job: int | str) -> Job:
        """A job by its number, or by its name, which means your newest job of that name."""
        fields = self.status(job)
        return Job(self, fields["id"], fields["name"])

    def jobs(self, *, active: bool = False, group: str | None = None, tag: str | None = None, limit: int | None = None) -> list[JobFields]:
        """Jobs, the newest first; `active`: only those that have not ended; of a group or with a tag: only your own. limit None: all."""
        if limit is not None and limit < 0:
            raise UsageError(f"limit is {limit}, expected 0 or more")
        found: list[JobFields] = []
        before: int | None = None
        while limit is None or len(found) < limit:
            most = LIMIT_MOST if limit is None else min(LIMIT_MOST, limit - len(found))
            answer = self.ask_again("status", active=active, group=group, tag=tag, before=before, limit=most)
            found += answer["jobs"]
            before = answer.get("before")
            if before is None:
                break
        return found

    def counts(self) -> dict[str, int]:
        """The number of jobs in each state."""
        return cast(dict[str, int], self.ask_again("status", limit=1)["counts"])

    def status(self, job: int | str) -> JobFields:
        """One job."""
        return cast(JobFields, self.ask_again("status", job=job)["jobs"][0])

    def show(self, job: int | str) -> Shown:
        """One job in full: its file, history, last epoch and result."""
        return cast(Shown, self.ask_again("show", job=job))

    def workers(self, job: int | str) -> Workers:
        """The processes of a running job."""
        return cast(Workers, self.ask_again("workers", job=job))

    def gpus(self) -> list[Gpu]:
        """The GPUs that jobs share, and which job holds each."""
        return cast(list[Gpu], self.ask_again("gpus")["gpus"])

    def users(self) -> list[User]:
        """Users with waiting or running jobs, and recent usage. Only administrators see more of other users than job
        numbers."""
        return cast(list[User], self.ask_again("users")["users"])

    def audit(self, limit: int = 100) -> list[AuditRow]:
        """Who changed what, the newest first: at most 1000 rows. For administrators."""
        return cast(list[AuditRow], self.ask_again("audit", limit=limit)["rows"])

    def version(self) -> Version:
        """The daemon itself."""
        return cast(Version, self.ask_again("version"))

    def cancel(self, job: int | str) -> None:
        """Stop a job: it saves a checkpoint and ends. The stop is under way when this returns. A job that has ended stays as it is."""
        try:
            self.ask("cancel", job=job)
        except UsageError:
            if self.status(job)["state"] not in ENDED:
                raise

    def resume(self, job: int | str) -> None:
        """Continue a job that failed or was cancelled, from its checkpoint if there is one."""
        self.ask("resume", job=job)

    def cancel_group(self, group: str) -> list[int]:
        """Stop all jobs of your group that have not ended; their numbers."""
        return cast(list[int], self.ask("cancel", group=group)["jobs"])

    def resume_group(self, group: str) -> list[int]:
        """Continue all jobs of your group that failed or were cancelled; their numbers."""
        return cast(list[int], self.ask("resume", group=group)["jobs"])

    def checkpoint(self, job: int | str) -> None:
        """Let a running job save a checkpoint after this epoch, and continue."""
        self.ask("checkpoint", job=job)

    def scale(self, job: int | str, workers: int) -> None:
        """Continue a job with another number of workers; its results stay the same, bit for bit."""
        self.ask("scale", job=job, workers=workers)

    # --- streams ---

    def stream(self, command: str, timeout: float | None = None, **fields: Any) -> Iterator[Event]:
        """Any stream of docs/protocol.md, event by event. `timeout`: seconds in all, after which TimeoutError is raised."""
        until = None if timeout is None else time.monotonic() + timeout
        with self.connect() as connection:
            connection.send(command, **fields)
            while True:
                event = connection.receive(None if until is None else max(0.0, until - time.monotonic()))
                if event.get("end"):
                    return
                yield event

    def logs(self, job: int | str, *, rank: int | None = None, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """The log of a job's coordinator, or of the worker `rank`, in pieces of whole lines where possible."""
        for event in self.stream("logs", job=job, rank=rank, tail=tail, follow=follow):
            yield str(event.get("text", ""))

    def watch(self, job: int | str, *, timeout: float | None = None) -> Iterator[Event]:
        """A job's events until it has ended, also over restarts of the daemon. After a restart the job comes first
        again, and events in between are lost."""
        return self.lasting("watch", timeout, job=job)

    def lasting(self, command: str, timeout: float | None = None, *, began: bool = False, **fields: Any) -> Iterator[Event]:
        """A stream that starts again if the daemon goes away and comes back within `patience`, since jobs outlive
        it. A daemon that never answered is an error at once, unless `began` is set."""
        until = None if timeout is None else time.monotonic() + timeout
        lost_at: float | None = None
        while True:
            try:
                for event in self.stream(command, None if until is None else until - time.monotonic(), **fields):
                    began, lost_at = True, None
                    yield event
                return
            except Unavailable as error:
                now = time.monotonic()
                lost_at = now if lost_at is None else lost_at
                if not began or self.patience <= 0:
                    raise
                if now - lost_at >= self.patience:
                    raise Unavailable(f"{error.reason}; the job runs on, but no daemon has come back within {self.patience:g} s") from error
                time.sleep(RETRY_S if until is None else max(0.0, min(RETRY_S, until - now)))


def _job_of(job: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, str]:
    """A job file's name for messages, and its text."""
    file = "job"
    if isinstance(job, Mapping):
        text = job_text(job)
    elif isinstance(job, str) and "\n" in job:
        text = job
    else:
        path = os.path.expanduser(job)
        file = path[-255:]
        try:
            with open(path, encoding="utf-8", newline="") as opened:
                text = opened.read(JOB_BYTES_MOST + 1)
        except UnicodeDecodeError as error:
            raise JobFileError(f"the job file '{path}' is not UTF-8") from error
        except OSError as error:
            raise MissingInput(f"cannot open job file '{path}': {error.strerror}") from error
    if len(text.encode(errors="surrogatepass")) > JOB_BYTES_MOST or "\0" in text:
        raise JobFileError(f"'{file}' is not a job file: it is longer than {JOB_BYTES_MOST} bytes, or contains a NUL")
    return file, text


def _check_program(file: str, text: str, settings: list[str]) -> None:
    """Mistakes of a program, as `trainctl submit` says them: the daemon traces none. Where trainerd is not on this machine, they are found when
    the job is planned; other mistakes are left to the daemon."""
    if not re.search(r"^\s*((model\.)?program|(task\.)?decoder)\s*=", "\n".join([text, *settings]), re.M):
        return
    from .web.programs import Programs
    try:
        Programs().check(text, settings, os.curdir)
    except JobFileError as error:
        if IN_PROGRAM.match(error.reason):
            raise JobFileError(error.reason.replace("job.toml:", f"{file}:")) from None
    except TrainerdError:
        pass


def _programs_of(text: str, settings: list[str], folder: str) -> list[str]:
    """The texts of the files that model.program and task.decoder name, from this folder, as settings: the daemon opens no file of its users.
    Mistakes of the job file are left to the daemon."""
    try:
        job = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return []
    named = {f"{section}.{key}": value for section, table in job.items() if isinstance(table, dict) for key, value in table.items()}
    for setting in settings:
        key, _, value = setting.partition("=")
        named[key.strip()] = value.strip().strip("'\"")
    files = {"model.program": named.get("model.kind") == "program", "task.decoder": named.get("task.kind") == "link"}
    return settings_of({key: Program.from_file(os.path.join(folder, os.path.expanduser(named[key])))
                        for key, counts in files.items() if counts and names_file(key, named.get(key))})
