"""What changes while a page is open: the list of jobs, and the events of one job.

The list is asked of the daemon once for all pages, and not at all without a page. An iterator of events gives None now
and then, so that its reader finds out whether the page is still there.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ..client import Client
from ..connection import Connection
from ..errors import MissingInput
from ..fields import ENDED

PERIOD_S = 1.0  # between looks at the jobs that run or wait next
NEAR = 100  # how many of them
WHOLE_SHARE = 50  # all jobs are asked for at most once in this many times of what it takes
GATHER_S = 0.1  # events of a job are sent together
LINES_MOST = 2000  # of a stream, in one go
LINES_BEHIND = 20  # with more there is no pause
DRAIN_S = 0.001
EPOCH = re.compile(rb'"epoch": ?(\d+)')
# Of a job, in this order, as a list: with thousands of jobs names would be most of the answer.
FIELDS = ("id", "name", "owner", "state", "reason", "reason_text", "position", "group", "tags", "epoch", "epochs", "seconds_left", "loss", "metric",
          "best_valid_metric", "best_test_metric", "memory", "memory_measured", "submitted_at", "ran_s")
ID, NAME, OWNER, STATE, GROUP = map(FIELDS.index, ("id", "name", "owner", "state", "group"))


class JobList:
    """All jobs as the daemon last gave them, with the number of the change that each came with."""

    def __init__(self, client: Client, local: bool) -> None:
        self._client, self._local = client, local
        self._lock = threading.Lock()
        self._rows: dict[int, tuple[int, list[Any]]] = {}
        self._change = 0
        self._counts: dict[str, int] = {}
        self._asked_at = 0.0
        self._whole_at = 0.0  # not before this

    def events(self) -> Iterator[Any]:
        """First all jobs, then those that have changed, with counts of states and figures of the machine."""
        seen, begun, figures = 0, False, None
        while True:
            with self._lock:
                self._refresh()
                rows = [row for change, row in self._rows.values() if change > seen]
                seen, counts = self._change, self._counts
            now = machine() if self._local else {}
            if rows or not begun or (counts, now) != figures:
                yield {"fields": FIELDS, "jobs": rows, "counts": counts, "machine": now}
                begun, figures = True, (counts, now)
            else:
                yield None
            time.sleep(PERIOD_S)

    def groups(self) -> list[str]:
        """The names of all groups, those with the newest jobs first."""
        with self._lock:
            self._refresh()
            rows = sorted((row for _, row in self._rows.values()), key=lambda row: -int(row[0]))
        return list(dict.fromkeys(row[GROUP] for row in rows if row[GROUP]))

    def newest(self, owner: str | None, most: int) -> list[dict[str, Any]]:
        """Number and name of an owner's newest jobs, the newest one of each name; None: of all."""
        with self._lock:
            self._refresh()
            rows = [row for _, row in self._rows.values() if owner is None or row[OWNER] == owner]
        by_name = {row[NAME]: row[ID] for row in sorted(rows, key=lambda row: int(row[ID]))}
        return [{"job": job, "name": name} for name, job in sorted(by_name.items(), key=lambda one: -int(one[1]))[:most]]

    def _refresh(self) -> None:
        """Ask for the jobs that run and wait next, and for those that ran until now. Where the counts of states differ, ask for the newest
        jobs, and then for all, but rarely."""
        now = time.monotonic()
        if now - self._asked_at < 0.9 * PERIOD_S:
            return
        self._asked_at = now
        near = self._client.ask("status", by_turn=True, active=True, limit=NEAR)
        self._counts = near["counts"]
        seen = {job["id"] for job in near["jobs"]}
        ran = [id for id, (_, row) in self._rows.items() if row[STATE] not in ENDED and row[STATE] != "QUEUED" and id not in seen]
        self._take(near["jobs"])
        for id in ran[:NEAR]:
            with contextlib.suppress(MissingInput):  # its record has been removed
                self._take([self._client.status(id)])
        if self._differs():
            self._take(self._client.ask("status", limit=NEAR)["jobs"])
        if self._differs() and now >= self._whole_at:
            began = time.monotonic()
            jobs = self._client.jobs()
            self._rows = {job["id"]: self._rows[job["id"]] for job in jobs if job["id"] in self._rows}
            self._take(jobs)
            self._whole_at = now + WHOLE_SHARE * (time.monotonic() - began)

    def _differs(self) -> bool:
        known = Counter({state: 0 for state in self._counts})
        known.update(row[STATE] for _, row in self._rows.values())
        return known != self._counts

    def look(self, job: int) -> None:
        """Ask for one job, which a page has changed."""
        with self._lock:
            self._take([self._client.status(job)])

    def _take(self, jobs: Sequence[Any]) -> None:
        self._change += 1
        for job in jobs:
            row = [job.get(name) for name in FIELDS]
            if self._rows.get(job["id"], (0, None))[1] != row:
                self._rows[job["id"]] = self._change, row


def machine() -> dict[str, Any]:
    """Cores, load and memory of this machine."""
    figures: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}
    with contextlib.suppress(OSError, ValueError, KeyError), open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":") for line in file)
        total, free = (int(lines[name].split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
        figures |= {"memory": total, "memory_used": (total - free) >> 24 << 24}
    return figures


def job_events(client: Client, job: int, rank: int, first: int, metrics: list[bytes] | None) -> Iterator[Any]:
    """The job whenever it changes, its epochs as lines of metrics.jsonl, and its log: {"job"}, {"epochs"} in JSON, {"log"}, and {"end"} when it
    has ended. first: of the epochs that are sent. metrics: all lines, if they are known already."""
    streams: dict[str, dict[str, Any]] = {"watch": {}, "logs": {"follow": True, "rank": rank if rank >= 0 else None}}
    if metrics is None:
        streams["metrics"] = {"follow": True}
    else:
        yield _event_of("metrics", metrics, first)
    with contextlib.ExitStack() as opened, selectors.DefaultSelector() as selector:
        for command, fields in streams.items():
            connection = opened.enter_context(client.connect())
            connection.send(command, job=job, **fields)
            selector.register(connection, selectors.EVENT_READ, (command, connection))
        more: list[tuple[str, Connection]] = []
        while selector.get_map():
            # What _drain has left in a buffer, select does not see.
            ready = [key.data for key, _ in selector.select(0 if more else PERIOD_S)] + more
            more, is_behind = [], False
            for command, connection in dict.fromkeys(ready):
                lines, ended = _drain(connection)
                more += [(command, connection)] if len(lines) == LINES_MOST else []
                is_behind |= len(lines) >= LINES_BEHIND
                if ended:
                    selector.unregister(connection)
                yield _event_of(command, lines, first)
            if not ready:
                yield None
            if not is_behind and selector.get_map():
                time.sleep(GATHER_S)
        yield {"end": True}


def _drain(connection: Connection) -> tuple[list[bytes], bool]:
    """The events that are there, and whether the stream has ended."""
    lines: list[bytes] = []
    with contextlib.suppress(TimeoutError):
        while len(lines) < LINES_MOST:
            line = connection.event_line(DRAIN_S)
            if line is None:
                return lines, True
            lines.append(line)
    return lines, False


def _event_of(command: str, lines: list[bytes], first: int) -> dict[str, Any] | bytes | None:
    """Epochs are not parsed here: of a long run they are many."""
    if command == "metrics" and first > 0:
        lines = [line for line in lines if (found := EPOCH.search(line)) is None or int(found[1]) >= first]
    if not lines:
        return None
    if command == "metrics":
        return b'{"epochs": [' + b",".join(lines) + b"]}"
    events = list(map(json.loads, lines))
    if command == "logs":
        return {"log": "".join(str(event.get("text", "")) for event in events)}
    jobs = [event["job"] for event in events if event.get("event") == "job"]
    return {"job": jobs[-1]} if jobs else None
