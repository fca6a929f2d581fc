"""TensorBoard's files of a run, from its metrics.jsonl: `python3 -m trainerd tensorboard`, which output.tensorboard starts beside a training."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import sys
import time
import tomllib
from array import array
from typing import Any

from .errors import DataError, IOFailed, MissingInput
from .results import newest_run

TAGS = {"loss": "loss/train", "valid_loss": "loss/valid", "train_metric": "metric/train", "valid_metric": "metric/valid", "lr": "lr",
        "test_metric": "metric/test", "epoch_s": "seconds/epoch", "compute_s": "seconds/compute", "pack_s": "seconds/pack",
        "wait_s": "seconds/wait", "evaluate_s": "seconds/evaluate", "bytes_received": "bytes/received"}
NO_SETTINGS = ("workers", "memory", "output")  # sections that change no result
KINDS = {bool: "bool_value", int: "number_value", float: "number_value", str: "string_value"}
FLOAT_MOST = 3.4e38  # of float32, which the files have
WAIT_S = 1.0


def library() -> tuple[Any, Any, Any, Any]:
    """Of tensorboardX its messages, and what writes them. It would import PyTorch where that is installed: seconds and 200 MB, for nothing."""
    sys.modules.setdefault("torch", None)  # type: ignore[arg-type]
    try:
        from tensorboardX.proto import event_pb2, plugin_hparams_pb2, summary_pb2
        from tensorboardX.record_writer import RecordWriter
    except ImportError as error:
        raise MissingInput(f"TensorBoard's files need tensorboardX ({error}): pip install tensorboardX") from error
    return event_pb2, plugin_hparams_pb2, summary_pb2, RecordWriter


def scalars_of(epoch: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line by TensorBoard's tags: {"loss/train": 0.1, "roc_auc/valid": 0.9}."""
    tags = {}
    for key, value in epoch.items():
        split, _, name = key.partition("_")
        tag = TAGS.get(key) or (f"{name}/{split}" if split in ("train", "valid", "test") else None)
        if tag is not None and isinstance(value, (int, float)) and abs(value) <= FLOAT_MOST:
            tags[tag] = value
    return tags


class Events:
    """A new file in tb/ of an open folder, where no link is followed and no file replaced. Readers forget what older files there have."""

    def __init__(self, folder: int) -> None:
        self._event, self._hparams, self._summary, writer = library()
        with contextlib.suppress(FileExistsError):
            os.mkdir("tb", dir_fd=folder)
        inner = os.open("tb", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        seconds, ns = divmod(time.time_ns(), 10**9)
        name = f"events.out.tfevents.{seconds:010}.{socket.gethostname()}.{ns:09}"  # TensorBoard reads them in the order of their names
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=inner)
        self._writer = writer(f"/proc/self/fd/{file}")
        os.close(inner)
        os.close(file)
        self._lines = array("q")  # of the epochs that are written, their hashes
        self._start = self._last = 0.0
        self._put(time.time(), 0, file_version="brain.Event:2")
        self._forget(0)

    def _put(self, when: float, step: int, **what: Any) -> None:
        self._writer.write(self._event.Event(wall_time=when, step=step, **what).SerializeToString())

    def _forget(self, epoch: int) -> None:
        """Epochs from this one on are written again."""
        del self._lines[epoch:]
        self._put(time.time(), epoch, session_log=self._event.SessionLog(status=self._event.SessionLog.START))

    def update(self, metrics: int) -> None:
        """Write the epochs that were not there before. A job that goes back to a checkpoint shortens its metrics.jsonl."""
        n = os.lseek(metrics, 0, os.SEEK_SET)
        for line in open(metrics, "rb", closefd=False):  # nothing is kept of what it was before
            if not line.endswith(b"\n"):
                break
            if n == len(self._lines) or self._lines[n] != hash(line):
                epoch = json.loads(line)
                if n < len(self._lines):
                    self._forget(n)
                self._lines.append(hash(line))
                self._last = epoch["time"]
                self._start = self._start or self._last
                values = [self._summary.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars_of(epoch).items()]
                self._put(epoch["time"], epoch["epoch"], summary=self._summary.Summary(value=values))
            n += 1
        if n < len(self._lines):
            self._forget(n)
        self._writer.flush()

    def _plugin(self, what: str, when: float, info: Any) -> None:
        summary, content = self._summary, self._hparams.HParamsPluginData(**{what: info}).SerializeToString()
        data = summary.SummaryMetadata(plugin_data=summary.SummaryMetadata.PluginData(plugin_name="hparams", content=content))
        self._put(when, 0, summary=summary.Summary(value=[summary.Summary.Value(tag=f"_hparams_/{what}", metadata=data)]))
        self._writer.flush()

    def begin(self, job_text: str) -> None:
        """The settings that may change results, for the table of hyperparameters."""
        self._start = self._start or time.time()
        info = self._hparams.SessionStartInfo(start_time_secs=self._start)
        for section, keys in tomllib.loads(job_text).items():
            for key, value in keys.items() if isinstance(keys, dict) and section not in NO_SETTINGS else ():
                if type(value) in KINDS:
                    setattr(info.hparams[f"{section}.{key}"], KINDS[type(value)], value)
        self._plugin("session_start_info", self._start, info)

    def end(self) -> None:
        """All epochs are done."""
        when = max(self._start, self._last)
        self._plugin("session_end_info", when, self._hparams.SessionEndInfo(status="STATUS_SUCCESS", end_time_secs=when))


def _is_locked(folder: int) -> bool:
    """As each job has its folder while it runs."""
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(folder, fcntl.LOCK_UN)
    return False


def _beside(events: Events, metrics: int) -> bool:
    """Standard input has the job's text, b"\\0", and at its end b"\\n" if all epochs are done: are they?"""
    events.begin(b"".join(iter(lambda: os.read(0, 1).strip(b"\0"), b"")).decode())
    while not select.select([0], [], [], WAIT_S)[0]:
        with contextlib.suppress(ValueError):  # a line that was cut off while it was read
            events.update(metrics)
    is_whole = os.read(0, 1) != b""
    events.update(metrics)
    return is_whole


def _follow(events: Events, metrics: int, run: str, folder: int, goes_on: bool) -> bool:
    while goes_on and _is_locked(folder):
        with contextlib.suppress(ValueError):
            events.update(metrics)
        time.sleep(WAIT_S)
    events.update(metrics)
    is_published = os.fstat(folder).st_nlink == 0  # its files are those of the output folder now
    try:
        with open(os.open(os.path.abspath(run) + "/result.json" if is_published else "result.json", os.O_RDONLY, dir_fd=folder)) as file:
            events.begin(json.load(file)["job_text"])
    except FileNotFoundError:
        return False
    return True


def write(run: str, follow: bool = False, beside: bool = False) -> None:
    """Write a run's epochs and, once it has succeeded, its settings; `follow`: until it has ended; `beside`: as trainer-coordinator's child."""
    library()
    place = run if beside else str(newest_run(run).parent)
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        metrics = os.open("metrics.jsonl", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
        events = Events(folder)
        if _beside(events, metrics) if beside else _follow(events, metrics, run, folder, follow):
            events.end()
    except FileNotFoundError as error:
        raise MissingInput(f"'{place}' has no metrics.jsonl, expected the folder of a run") from error
    except OSError as error:
        raise IOFailed(f"'{place}/tb' cannot be written: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"'{place}/metrics.jsonl': {error}, expected the epochs of a job") from error
