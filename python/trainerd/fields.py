"""The daemon's answers as types: unchanged dicts with the fields of docs/protocol.md. Daemons may add more fields."""
from __future__ import annotations

from typing import Any, TypedDict

ENDED = frozenset(("SUCCEEDED", "FAILED", "CANCELLED"))


class JobFields(TypedDict, total=False):
    """A job in `status` and `show`; jobs of other users have only id, name, uid, owner and state."""

    id: int
    name: str
    uid: int
    owner: str
    state: str
    reason: str
    reason_text: str
    position: int | None
    epoch: int
    epochs: int
    percent: float | None
    seconds_left: float | None
    epoch_s: float | None
    compute_s: float | None
    wait_s: float | None
    evaluate_s: float | None
    bytes_sent: float | None
    bytes_received: float | None
    memory: int | None
    memory_measured: int | None
    loss: float | None
    train_metric: float | None
    valid_metric: float | None
    test_metric: float | None
    best_valid_metric: float | None
    best_test_metric: float | None
    metric: str | None
    group: str | None
    tags: list[str]
    priority: int
    workers: int
    parts: int | None
    slots: int
    gpus: int
    gpus_held: list[int]
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None
    changed_at: float | None
    time_limit_s: float
    ran_s: float
    attempt: int
    restarts: int
    max_restarts: int
    pid: int
    slurm: int | None
    exit_code: int | None


class Epoch(TypedDict, total=False):
    """A line of metrics.jsonl. Values that were not evaluated are None. With train.metrics also train_NAME,
    valid_NAME and test_NAME of each."""

    epoch: int
    metric: str
    loss: float | None
    valid_loss: float | None
    train_metric: float | None
    valid_metric: float | None
    test_metric: float | None
    lr: float
    grad_norm: float
    epoch_s: float
    compute_s: float
    pack_s: float
    wait_s: float
    evaluate_s: float
    bytes_sent: float
    bytes_received: float
    bytes_forward: float
    bytes_backward: float
    bytes_evaluate: float
    bytes_reduce: float
    bytes_layers: list[list[float]]
    seconds_workers: list[list[float]]
    rollbacks: int
    time: float
    back_offs: int
    guard_epoch: int
    guard_loss: float | None
    guard_error: float | None
    guard_cosine: float | None


class Worker(TypedDict, total=False):
    rank: int
    pid: int
    host: str
    gpu: int | None


class Gpu(TypedDict, total=False):
    gpu: int
    name: str
    uuid: str
    memory: int | None
    job: int | None
    job_name: str | None
    owner: str | None


class User(TypedDict, total=False):
    """A user; other users have only uid, user, queued and running. A limit of None means unlimited."""

    uid: int
    user: str
    queued: int
    running: int
    slots: int
    gpus: int
    memory: int
    used_s: float
    share: float
    limits: dict[str, int | None]


class Workers(TypedDict, total=False):
    """The processes of a running job. `coordinator`: its pid, 0 where none runs."""

    coordinator: int
    host: str | None
    attempt: int
    workers: list[Worker]
    gpus: list[Gpu]


class Shown(TypedDict, total=False):
    """A job in full. `result` is result.json, `last` the last line of metrics.jsonl; None where they are missing."""

    job: JobFields
    config: str
    set: list[str]
    folder: str
    output: str
    history: list[dict[str, Any]]
    last: Epoch | None
    result: dict[str, Any] | None


# A request that changed something or was refused, or a failed login (`what`: "login"). `exit_code` 0: done; else `text` says why not.
AuditRow = TypedDict("AuditRow", {"id": int, "at": float, "uid": int | None, "user": str | None, "from": str, "what": str,
                                  "job": int | None, "exit_code": int, "text": str}, total=False)


class Version(TypedDict, total=False):
    version: str
    v: int
    pid: int
    uptime_s: float
    jobs: int
    draining: bool


Event = dict[str, Any]
