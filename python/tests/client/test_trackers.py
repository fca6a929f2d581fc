"""Trackers of experiments: what a training tells them, and Weights & Biases by a stand-in."""
import os
import sys
import types
import unittest.mock
import warnings
from typing import Any

import trainerd
from daemon import PROGRAMS, DaemonCase
from test_training import ENDLESS, KARATE, FolderCase
from trainerd.fields import Epoch


class Recorder(trainerd.trackers.Tracker):
    def __init__(self) -> None:
        self.told: list[Any] = []

    def begin(self, name: str, keys: dict[str, Any]) -> None:
        self.told.append((name, keys))

    def log(self, epoch: Epoch) -> None:
        self.told.append(epoch["epoch"])

    def end(self, result: trainerd.Result | None) -> None:
        self.told.append(result and result.folder)


class FakeRun:
    """A run of Weights & Biases."""

    def __init__(self, **init: Any) -> None:
        self.init, self.config, self.summary, self.lines = init, dict[str, Any](), dict[str, Any](), list[dict[str, Any]]()
        self.steps: tuple[str, str] | None = None
        self.exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str) -> None:
        self.steps = (name, step_metric)

    def log(self, numbers: dict[str, Any]) -> None:
        self.lines.append(numbers)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


def fail(_: Epoch) -> None:
    raise OverflowError("mine")


class ATracker(FolderCase):
    def test_is_told_the_keys_each_epoch_and_the_result(self) -> None:
        tracker = Recorder()
        result = trainerd.train(KARATE, hidden=4, epochs=3, set={"train.lr": 0.02, "dataset.seed": 5}, tracker=tracker, progress=False)
        self.assertEqual(tracker.told, [("train", {"model.hidden": 4, "train.epochs": 3, "train.lr": 0.02, "dataset.generator": "karate",
                                                   "dataset.seed": 5}), 0, 1, 2, result.folder])

    def test_is_told_of_a_failure_and_all_epochs_of_a_resumed_training(self) -> None:
        tracker = Recorder()
        with self.assertRaises(OverflowError):
            trainerd.train(ENDLESS, epochs=100_000_000, output="out", tracker=tracker, progress=fail)
        self.assertEqual(tracker.told[1:], [0, None])
        n_done = len(next(self.folder.glob("out/.run-*/metrics.jsonl")).read_text(encoding="utf-8").splitlines())
        tracker = Recorder()
        result = trainerd.resume("out", epochs=n_done + 2, tracker=tracker, progress=False)
        self.assertEqual(tracker.told[1:], [*range(n_done + 2), result.folder])
        tracker = Recorder()
        with self.assertRaises(trainerd.JobFileError):
            trainerd.train(KARATE, epochs=-1, tracker=tracker)
        self.assertEqual(tracker.told, [])


    def test_that_fails_is_a_warning_and_the_training_goes_on(self) -> None:
        class Failing(Recorder):
            def log(self, epoch: Epoch) -> None:
                super().log(epoch)
                raise ConnectionError("no server")

            def end(self, result: trainerd.Result | None) -> None:
                super().end(result)
                raise ConnectionError("no server")
        tracker = Failing()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = trainerd.train(KARATE, epochs=3, tracker=tracker, progress=False)
        self.assertEqual(tracker.told[1:], [0, 1, 2, result.folder])
        self.assertEqual([str(of.message) for of in caught if "tracker" in str(of.message)],
                         [f"the tracker's {name} failed (ConnectionError: no server); the training goes on" for name in ("log", "end")])


class Wandb(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.runs: list[FakeRun] = []
        wandb = types.ModuleType("wandb")
        wandb.__dict__["init"] = self.init
        patched = unittest.mock.patch.dict(sys.modules, {"wandb": wandb})
        patched.start()
        self.addCleanup(patched.stop)

    def init(self, **arguments: Any) -> FakeRun:
        self.runs.append(FakeRun(**arguments))
        return self.runs[-1]

    def test_has_a_run_with_config_epochs_and_summary(self) -> None:
        result = trainerd.train(KARATE, model="gcn", epochs=3, tracker=trainerd.trackers.Wandb(project="gnn"), progress=False)
        run, epochs = self.runs[0], result.epochs()
        self.assertEqual((run.init, run.steps, run.exit_code), ({"name": "gcn", "project": "gnn"}, ("*", "epoch"), 0))
        self.assertEqual(run.config, {"model.kind": "gcn", "train.epochs": 3, "dataset.generator": "karate"})
        for line, epoch in zip(run.lines, epochs, strict=True):
            self.assertEqual([line[name] for name in ("epoch", "loss", "valid_metric")], [epoch["epoch"], epoch["loss"], epoch["valid_metric"]])
            self.assertTrue(all(isinstance(value, (int, float)) for value in line.values()))
        self.assertEqual(run.summary, {"best_valid": result.best["valid_metric"], "best_test": result.test_metric, "folder": str(result.folder)})

    def test_has_the_failure_of_one_that_fails(self) -> None:
        with self.assertRaises(OverflowError):
            trainerd.train(ENDLESS, epochs=100_000_000, tracker=trainerd.trackers.Wandb(name="mine"), progress=fail)
        self.assertEqual((self.runs[0].init, self.runs[0].exit_code, self.runs[0].summary), ({"name": "mine"}, 1, {}))

    def test_is_ended_where_its_begin_fails(self) -> None:
        with unittest.mock.patch.object(FakeRun, "define_metric", side_effect=OverflowError), self.assertRaises(OverflowError):
            trainerd.train(KARATE, epochs=3, tracker=trainerd.trackers.Wandb(), progress=False)
        self.assertEqual(self.runs[0].exit_code, 1)

    def test_that_is_not_installed_is_named(self) -> None:
        with unittest.mock.patch.dict(sys.modules, {"wandb": None, "mlflow": None}):
            for name in ("Wandb", "Mlflow"):
                with self.assertRaises(trainerd.MissingInput) as caught:
                    getattr(trainerd.trackers, name)()
                self.assertEqual(str(caught.exception), f"this tracker needs {name.lower()}: pip install {name.lower()}")


class ATrainingByADaemon(DaemonCase):
    def setUp(self) -> None:
        super().setUp()
        patched = unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": str(PROGRAMS)})
        patched.start()
        self.addCleanup(patched.stop)

    def test_is_told_to_a_tracker_and_is_cancelled_where_progress_fails(self) -> None:
        tracker = Recorder()
        self.expect(OverflowError, "mine", trainerd.train, ENDLESS, epochs=100_000_000, daemon=self.client, tracker=tracker, progress=fail)
        self.assertEqual(tracker.told[1:], [0, None])
        self.assertEqual(self.client.jobs()[0]["state"], "CANCELLED")
