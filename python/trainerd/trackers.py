"""A training in an experiment tracker, while it runs: train(data, tracker=trainerd.trackers.Wandb(project="gnn")) (docs/python.md)."""
from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import MissingInput, warn
from .fields import Epoch

if TYPE_CHECKING:
    from .results import Result

PARAMETER_MOST = 500  # characters, of MLflow's servers
NO_METRICS = ("epoch", "time", "rollbacks")  # numbers of an epoch


class Tracker:
    """What a training tells, in this order. A tracker of your own has the methods that it needs. An exception of `begin` is raised before
    the job begins; one of `log` or `end` is a warning, and the training goes on."""

    def begin(self, name: str, keys: dict[str, Any]) -> None:
        """The job begins. keys: those that it was given, {"train.lr": 0.01}."""

    def log(self, epoch: Epoch) -> None:
        """An epoch is done."""

    def end(self, result: Result | None) -> None:
        """The job has ended. None: it has failed, or was stopped."""


def going_on(call: Callable[[Any], None]) -> Callable[[Any], None]:
    """The call of a tracker, whose first exception is a warning, and the others nothing."""
    warned = False

    def called(told: Any) -> None:
        nonlocal warned
        try:
            call(told)
        except Exception as error:
            if not warned:
                warn(f"the tracker's {getattr(call, '__name__', 'call')} failed ({type(error).__name__}: {error}); the training goes on")
            warned = True
    return called


def tracked(tracker: Tracker | None, job: dict[str, Any], run: Callable[[], Result]) -> Result:
    """Run a job, whose begin and end the tracker is told."""
    if tracker is None:
        return run()
    tracker.begin(job["name"], {f"{section}.{key}": value if isinstance(value, (bool, int, float)) else str(value)
                                for section, values in job.items() if isinstance(values, dict) and section != "output"
                                for key, value in values.items()})
    result = None
    try:
        result = run()
    finally:
        going_on(tracker.end)(result)
    return result


@contextmanager
def _ended_unless_begun(tracker: Tracker) -> Iterator[None]:
    """A run that its tracker has opened is ended where what follows fails."""
    try:
        yield
    except BaseException:
        tracker.end(None)
        raise


def _numbers(epoch: Epoch) -> dict[str, float]:
    return {name: value for name, value in epoch.items() if isinstance(value, (int, float)) and name not in NO_METRICS}


def _best(result: Result) -> dict[str, float]:
    """Of the weights in best.safetensors."""
    best = {f"best_{split}": result.best.get(f"{split}_metric") for split in ("valid", "test")}
    return {name: value for name, value in best.items() if isinstance(value, float)}


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingInput(f"this tracker needs {name}: pip install {name}") from error


class Wandb(Tracker):
    """A run of Weights & Biases. init: arguments of wandb.init."""

    def __init__(self, **init: Any) -> None:
        self._wandb, self._init = _package("wandb"), init

    def begin(self, name: str, keys: dict[str, Any]) -> None:
        self._run = self._wandb.init(**{"name": name, **self._init})
        with _ended_unless_begun(self):
            self._run.config.update(keys)
            self._run.define_metric("*", step_metric="epoch")

    def log(self, epoch: Epoch) -> None:
        self._run.log({"epoch": epoch["epoch"], **_numbers(epoch)})

    def end(self, result: Result | None) -> None:
        if result is not None:
            self._run.summary.update({**_best(result), "folder": str(result.folder)})
        self._run.finish(exit_code=int(result is None))


class Mlflow(Tracker):
    """A run of MLflow, in the experiment and on the server that are set there; within another run it is a child of it. start:
    arguments of mlflow.start_run."""

    def __init__(self, **start: Any) -> None:
        self._mlflow, self._start = _package("mlflow"), start

    def begin(self, name: str, keys: dict[str, Any]) -> None:
        self._mlflow.start_run(**{"run_name": name, "nested": True, **self._start})
        with _ended_unless_begun(self):
            self._mlflow.log_params({key: str(value)[:PARAMETER_MOST] for key, value in keys.items()})

    def log(self, epoch: Epoch) -> None:
        # MLflow's names have no "@".
        self._mlflow.log_metrics({name.replace("@", "_at_"): value for name, value in _numbers(epoch).items()}, step=epoch["epoch"])

    def end(self, result: Result | None) -> None:
        if result is not None:
            self._mlflow.log_metrics(_best(result), step=result.best["epoch"])
            self._mlflow.set_tag("trainerd.folder", str(result.folder))  # by which scripts/to_mlflow.py knows it
        self._mlflow.end_run("FAILED" if result is None else "FINISHED")
