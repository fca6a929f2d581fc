"""Train here, as a child process, or by a daemon, and wait: train, resume (docs/python.md)."""
from __future__ import annotations

import json
import os
import re
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from .client import Client
from .errors import DataError, JobFileError, MissingInput, TrainerdError, UsageError, error_of, warn
from .fields import Epoch
from .keywords import Given, job_of
from .program import Program, names_file
from .programs import Child, Keys, find_program, keys_of, warning_of
from .progress import Progress
from .results import Result
from .sources import Source, columns_of, is_in_memory, is_module
from .toml_text import job_text
from .trackers import Tracker, tracked

Folder = str | os.PathLike[str]
Shown = bool | Callable[[Epoch], None]

POLL_S = 0.1
OF_NUMBERS = ("mse", "mae", "huber")  # losses of regression
MISTAKES = (UsageError, DataError, MissingInput, JobFileError)  # which a second run would have, too
JOB_FILE, DATA, LOG, INIT = "job.toml", "data", "log.txt", "init.safetensors"  # what a training leaves beside its results
OTHER_WIDTH = re.compile(r"model\.program:\S+ (\d+) columns are returned; expected the (\d+) ")
OTHER_TENSOR = re.compile(r".*init\.safetensors: (tensor '.*)")
OF_STACKS = re.compile(r"model\.(\w+) is not used: model.kind is \"program\"")


def train(data: Any, *, output: Folder | None = None, set: Mapping[str, Any] | None = None, draw: Sequence[float] | None = None,
          progress: Shown = True, tracker: Tracker | None = None, daemon: bool | Client = False, program: Folder | None = None,
          **keys: Any) -> Result:
    """Train a model, wait, and return the result: `.test_metric`, `.plot()`, `.embeddings("convs.0")`, `.to_pyg()`.

        result = trainerd.train(data, model="gcn", hidden=64, epochs=200, workers=2)

    data      a data folder's path, a graph of PyTorch Geometric or DGL, or the (train, valid, test) of RandomLinkSplit. Or a dict:
              arrays by the names of `from_arrays` (edges, features, labels, train) or of PyTorch Geometric (edge_index, x, y,
              train_mask), else the [dataset] section of a job file
    keys      of a job file: of [model] and [train] by their names, others too where a name is unique; sections as dicts,
              train={"lr": 0.01}; task is task.kind, workers is workers.count
    model     a kind ("gcn"), a text of configs/programs by its name ("pna"), a text's file ("own.gnn"), or a `Program`. Or a
              model of PyTorch Geometric that `predict_pyg` can read: the training begins with its weights, and
              `load_into_pyg(model, result)` puts the trained ones back
    args      the parameters of a text: {"share": 0.25}
    set       keys by whole names: {"train.lr": 0.01}
    output    the folder for the results; default: runs/<name>-<time>
    draw      shares of training, validation and test nodes, of a graph in memory: (0.6, 0.2, 0.2)
    progress  True: one line that is rewritten (a terminal's by tqdm, where it is installed); False: nothing; or a function that is
              called with each epoch, and stops the job where it raises an exception
    tracker   of experiments: trainerd.trackers.Wandb(project="gnn"), trainerd.trackers.Mlflow()
    daemon    True, or a Client: by a daemon, in its turn; an interrupt then ends the waiting, and the job goes on
    program   of the program trainerd; default: that in $TRAINERD_BIN, in this package, or on PATH

    An interrupt (Ctrl-C, or a notebook's stop) lets the job save a checkpoint and raises Interrupted; `resume` continues it.
    """
    if program is not None and os.fspath(program).endswith(".gnn"):
        raise UsageError(f"program={os.fspath(program)!r} is the path of trainerd, expected a text as model={os.fspath(program)!r}")
    found = find_program(given=program)
    known = keys_of(found)
    start = None
    if is_module(keys.get("model")):
        from .module_training import start_of
        start = start_of(keys["model"], columns_of(data))
        keys["model"] = Program.from_text(start.text)
    given = job_of(keys, known, set)
    job = given.job
    if start is not None:
        job["dataset"] = {**start.dataset, **job.get("dataset", {})}
        if ("model", "init") in given.by:
            raise UsageError(f"model is a module, and {given.by['model', 'init']} gives initial weights, too: expected one of them")
    model, loss = job.setdefault("model", {}), job.get("train", {}).get("loss")
    name = job.setdefault("name", model.get("kind") or "train")
    _put_programs(job)
    _check_dataset(given, data)
    _check(found, given)
    if ("output", "dir") in given.by:
        if output is not None:
            raise UsageError(f"output={os.fspath(output)!r} and {given.by['output', 'dir']} both give the folder, expected one of them")
        output = job["output"]["dir"]
    folder = _new_folder(output, name)
    job["output"] = {**job.get("output", {}), "dir": folder}
    if start is not None:
        from .arrays import save_safetensors
        folder.mkdir(parents=True, exist_ok=True)
        save_safetensors(folder / INIT, start.tensors)
        model["init"] = folder / INIT
    try:
        with Source(data, folder / DATA if daemon else None, name=name, draw=draw, numbers=loss in OF_NUMBERS,
                    predict_only=_of_links(job, data)) as source:
            asked = job.get("dataset", {})
            job["dataset"] = {**asked, **source.section}
            told = job if source.is_named else {**job, "dataset": asked}
            shown = Progress(progress, name, _epochs_of(job, known), tracker)
            result = tracked(tracker, told, lambda: _run_there(daemon, job, shown) if daemon else _Run(found, job, source, shown).run([]))
    except JobFileError as error:
        columns = OTHER_WIDTH.match(error.reason)
        if start is None or columns is None:
            raise
        raise UsageError(f"model: its output has {columns[1]} columns, expected {columns[2]}, one for each class") from None
    except DataError as error:
        tensor = OTHER_TENSOR.match(error.reason)
        if start is None or tensor is None:
            raise
        raise UsageError(f"model: {tensor[1]}, since the data have {columns_of(data)} columns of features") from None
    finally:
        _remove_empty(folder, output)
    return Result(result.folder, result.json, data)


def resume(folder: Folder, data: Any = None, *, set: Mapping[str, Any] | None = None, progress: Shown = True, tracker: Tracker | None = None,
           program: Folder | None = None, **keys: Any) -> Result:
    """Continue a training of `train` that was interrupted or has failed, from its checkpoint, and return the result.

    folder  the training's output folder, which the exception names
    data    the same data, if they have moved; a graph in memory was saved in the folder
    keys    as for `train`, if they may change: epochs=400, workers=4

    progress and tracker are told all epochs, from the first.
    """
    home = Path(os.path.abspath(os.path.expanduser(folder)))
    try:
        job = tomllib.loads((home / JOB_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise MissingInput(f"'{home / JOB_FILE}': {error.strerror}, expected the output folder of a training by trainerd.train") from error
    except ValueError as error:
        raise JobFileError(f"'{home / JOB_FILE}': {error}") from error
    found = find_program(given=program)
    known = keys_of(found)
    for section, value in job_of(keys, known, set).job.items():
        job[section] = {**job.get(section, {}), **value} if isinstance(value, dict) else value
    job["output"]["dir"] = home
    if (home / INIT).is_file():  # it may have moved
        job["model"]["init"] = home / INIT
    data = home / DATA if data is None and (home / DATA).is_dir() else data
    data = job["dataset"] if data is None else data
    with Source(data, name=job["name"], predict_only=_of_links(job, data)) as source:
        job["dataset"] = {**job["dataset"], **source.section}
        run = _Run(found, job, source, Progress(progress, job["name"], _epochs_of(job, known), tracker))
        result = tracked(tracker, job, lambda: run.run(["--resume"]))
    return Result(result.folder, result.json, data)


def _of_links(job: dict[str, Any], data: Any) -> bool:
    """Does it predict links, and need no labels?"""
    of_links: bool = job.get("task", {}).get("kind") == "link"
    if of_links and getattr(data, "edge_label_index", None) is not None:
        raise UsageError("data is one of the three graphs of RandomLinkSplit, expected all: (train, valid, test)")
    return of_links


def _put_programs(job: dict[str, Any]) -> None:
    """The texts of files that model.program and task.decoder name: `resume` may be called in another folder."""
    for section, key in (("model", "program"), ("task", "decoder")):
        path = job.get(section, {}).get(key)
        if names_file(f"{section}.{key}", path):
            job[section][key] = Program.from_file(path)


def _check_dataset(given: Given, data: Any) -> None:
    """A key of [dataset] that `data` gives, too, has one value."""
    section = {"path": data} if isinstance(data, (str, os.PathLike)) else data if not is_in_memory(data) else {}
    for key, value in section.items():
        by = given.by.get(("dataset", key))
        if by is not None and given.job["dataset"][key] != value:
            raise UsageError(f"data and {by} both give dataset.{key}, expected one of them")


def _check(program: str, given: Given) -> None:
    """Before a graph is converted: is this a job? A key that no text has is refused beside one."""
    with tempfile.TemporaryDirectory(prefix="trainerd-check-") as folder:
        file = Path(folder, JOB_FILE)
        file.write_text(job_text({**given.job, "dataset": {"path": "."}}), encoding="utf-8")
        child = Child(program, ["--check", str(file)])
        child.wait()
        lines = child.lines(folder)
        child.result(folder)
    for line in lines:
        unused = OF_STACKS.match(warning_of(line) or "")
        if unused is not None:
            key = unused[1]
            raise JobFileError(f"{given.by.get(('model', key), key)}: the model is a text, which has no key '{key}'; a parameter of the text itself "
                               f"is given by args={{{key!r}: ...}}")


def _epochs_of(job: dict[str, Any], known: Keys) -> int:
    epochs: int = job.get("train", {}).get("epochs", known.epochs)
    return epochs


def _new_folder(output: Folder | None, name: str) -> Path:
    """The given folder, or a new one below runs/."""
    if output is not None:
        return Path(os.path.abspath(os.path.expanduser(output)))
    Path("runs").mkdir(exist_ok=True)
    first = Path("runs", f"{name}-{time.strftime('%Y%m%d-%H%M%S')}").absolute()
    folder, n = first, 1
    while True:
        try:
            folder.mkdir()
            return folder
        except FileExistsError:
            n += 1
            folder = first.with_name(f"{first.name}-{n}")


def _remove_empty(folder: Path, output: Folder | None) -> None:
    """Of a training that failed before it left anything."""
    for made in (folder, folder.parent) if output is None else ():
        if made.is_dir() and [path.name for path in made.iterdir()] == [INIT]:
            (made / INIT).unlink()
        if made.is_dir() and not any(made.iterdir()):
            made.rmdir()


def _run_there(daemon: bool | Client, job: dict[str, Any], progress: Progress) -> Result:
    submitted = (daemon if isinstance(daemon, Client) else Client()).submit(job)
    with progress:
        for epoch in submitted.follow():
            try:
                progress.show([epoch])
            except Exception:
                submitted.cancel()
                submitted.wait(check=False)
                raise
    result = submitted.wait()
    log = "".join(submitted.logs())
    for line in log.splitlines():
        if (said := warning_of(line)) is not None:
            warn(said)
    if result.folder.is_dir():
        _write(result.folder / LOG, log)
    return result


class _Run:
    """A training in a child process."""

    def __init__(self, program: str, job: dict[str, Any], source: Source, progress: Progress) -> None:
        self.program, self.text, self.source, self.progress = program, job_text(job), source, progress
        self.folder = Path(job["output"]["dir"])
        self.read, self.known = (0, 0), (-1, -1)  # of metrics.jsonl: its inode, bytes; rollbacks and number of the last epoch

    def run(self, options: list[str]) -> Result:
        with tempfile.TemporaryDirectory(prefix="trainerd-train-") as temporary:
            file = Path(temporary, JOB_FILE)
            file.write_text(self.text, encoding="utf-8")
            child = Child(self.program, ["--config", str(file), *options])
            with self.progress:
                try:
                    while not child.wait(POLL_S):
                        self._pass_on(child, temporary)
                    self._pass_on(child, temporary)
                except BaseException as error:
                    child.stop()
                    if not isinstance(error, KeyboardInterrupt):
                        self._keep()
                        child.close()
                        raise
            log = child.log()
            try:
                child.result(temporary)
            except TrainerdError as error:
                if isinstance(error, MISTAKES) or not self._keep():
                    raise error_of(error.exit_code, self.source.named(error.reason)) from None
                _write(self.folder / LOG, log)
                reason = error.reason.removesuffix(", --resume continues from there")
                raise error_of(error.exit_code, f"{reason}; trainerd.resume({str(self.folder)!r}) continues from there") from None
        _write(self.folder / JOB_FILE, self.text)
        _write(self.folder / LOG, log)
        return Result(self.folder)

    def _pass_on(self, child: Child, temporary: str) -> None:
        """What the job has said since the last call: warnings and epochs."""
        for line in child.lines(temporary):
            if (said := warning_of(line)) is not None:
                warn(self.source.named(said))
        self.progress.show(list(self._new_epochs()))

    def _keep(self) -> bool:
        """Keep what `resume` needs, if there is a checkpoint."""
        if not any(self.folder.glob("*/checkpoint/epoch-*.ckpt")):
            return False
        self.source.keep(self.folder / DATA)
        _write(self.folder / JOB_FILE, self.text)
        return True

    def _new_epochs(self) -> Iterator[Epoch]:
        """Epochs since the last call: of the run's folder, or of the results, to which its file is moved."""
        files = [*self.folder.glob(".run-*/metrics.jsonl"), self.folder / "metrics.jsonl"]
        for path in files:
            try:
                with open(path, "rb") as file:
                    inode = os.fstat(file.fileno()).st_ino
                    begin = self.read[1] if inode == self.read[0] else 0
                    file.seek(begin)
                    lines = file.read().rpartition(b"\n")[0]
            except FileNotFoundError:
                continue
            self.read = (inode, begin + len(lines) + 1 if lines else begin)
            for line in lines.splitlines():
                epoch = cast(Epoch, json.loads(line))
                place = (epoch.get("rollbacks", 0), epoch["epoch"])
                if place > self.known:
                    self.known = place
                    yield epoch
            return


def _write(path: Path, text: str) -> None:
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
