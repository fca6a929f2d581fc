"""A submitted job: wait for it, follow its epochs, get its result."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from .errors import MissingInput, error_of
from .fields import ENDED, Epoch, Event, JobFields, Shown, Workers
from .results import Result, table_of

if TYPE_CHECKING:
    from .client import Client

INTERRUPTED = 75  # the exit code for a job that was cancelled


class Job:
    """A job of a daemon, by its number. It does not depend on the life of this object."""

    def __init__(self, client: Client, id: int, name: str) -> None:
        self.client = client
        self.id = id
        self.name = name

    def __repr__(self) -> str:
        return f"Job({self.id}, '{self.name}')"

    def status(self) -> JobFields:
        """Its state now: state, reason_text, epoch, loss, valid_metric, ..."""
        return self.client.status(self.id)

    @property
    def state(self) -> str:
        """QUEUED SUBMITTED PREPARING STARTING RUNNING SUCCEEDED FAILED CANCELLED"""
        return self.status()["state"]

    def show(self) -> Shown:
        """All that the daemon knows of it: its fields, its text, its history, its result."""
        return self.client.show(self.id)

    def workers(self) -> Workers:
        """Its processes and GPUs, while it runs."""
        return self.client.workers(self.id)

    def cancel(self) -> None:
        """Stop it: it saves a checkpoint and ends. The stop is under way when this returns; `wait(check=False)` awaits the end. A job that has
        ended stays as it is."""
        self.client.cancel(self.id)

    def resume(self) -> None:
        """Continue it after a failure or a stop, from its checkpoint if there is one."""
        self.client.resume(self.id)

    def checkpoint(self) -> None:
        """Let it save a checkpoint now."""
        self.client.checkpoint(self.id)

    def scale(self, workers: int) -> None:
        """Let it go on with so many workers, from a checkpoint; the results do not change."""
        self.client.scale(self.id, workers)

    def logs(self, *, rank: int | None = None, tail: int | None = None, follow: bool = False) -> Iterator[str]:
        """Its log, in pieces of whole lines where possible: of the coordinator, or of the worker `rank`; the last `tail` lines; with
        follow also those to come, until it has ended."""
        return self.client.logs(self.id, rank=rank, tail=tail, follow=follow)

    def watch(self, *, timeout: float | None = None) -> Iterator[Event]:
        """Its events until it has ended, also over restarts of the daemon."""
        return self.client.lasting("watch", timeout, began=True, job=self.id)

    @overload
    def wait(self, timeout: float | None = None, *, check: Literal[True] = True) -> Result: ...
    @overload
    def wait(self, timeout: float | None = None, *, check: bool) -> Result | None: ...

    def wait(self, timeout: float | None = None, *, check: bool = True) -> Result | None:
        """Wait for its end, also over restarts of the daemon, and return its result.

        timeout  seconds, after which TimeoutError is raised; the job runs on
        check    a failed job raises the exception of its exit code, a cancelled one Interrupted. With check=False
                 the result, or None if it has no result
        """
        fields: JobFields = {}
        try:
            for event in self.watch(timeout=timeout):
                if event.get("event") == "job":
                    fields = cast(JobFields, event["job"])
        except TimeoutError:
            raise TimeoutError(f"job {self.id} ({self.name}) is {fields.get('state', 'not yet known')} after {timeout:g} s") from None
        state = fields.get("state", "")
        if check and state in ENDED and state != "SUCCEEDED":
            exit_code = fields.get("exit_code")
            reason = f"job {self.id} ({self.name}): {state}, {fields.get('reason_text') or fields.get('reason')}"
            error = error_of(INTERRUPTED if state == "CANCELLED" or exit_code is None else exit_code, reason)
            error.job = self.id
            raise error
        return self.result() if check else self._result()

    def _result(self) -> Result | None:
        shown = self.client.ask_again("show", began=True, job=self.id)
        result = shown.get("result")
        return None if result is None else Result(shown["output"], result)

    def result(self) -> Result:
        """The result of a job that has succeeded."""
        result = self._result()
        if result is None:
            raise MissingInput(f"job {self.id} ({self.name}) is {self.state}: it has no result")
        return result

    def epochs(self, *, tail: int | None = None) -> list[Epoch]:
        """The epochs so far, a dict for each."""
        return [_epoch(event) for event in self.client.stream("metrics", job=self.id, tail=tail)]

    def metrics(self, *, tail: int | None = None) -> Any:
        """The epochs so far as a pandas.DataFrame with a row for each, or as a list of dicts where pandas is missing."""
        return table_of(self.epochs(tail=tail))

    def follow(self, *, timeout: float | None = None) -> Iterator[Epoch]:
        """Each epoch as it is done, from the first, until the job has ended; also over restarts of the daemon, without gaps or
        repeats. Epochs that a job repeats after it went back to a checkpoint (train.on_nan) come again."""
        known = (-1, -1)
        for event in self.client.lasting("metrics", timeout, began=True, job=self.id, follow=True):
            epoch = _epoch(event)
            place = (epoch.get("rollbacks", 0), epoch["epoch"])
            if place > known:
                known = place
                yield epoch


def _epoch(event: Event) -> Epoch:
    return cast(Epoch, {name: value for name, value in event.items() if name not in ("id", "event")})
