"""A run's folder without NumPy and pandas, and the exceptions."""
import importlib.util
import json
import pathlib
import pickle
import tempfile
import unittest

import trainerd
from trainerd.errors import error_of


class FolderCase(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")


class AResult(FolderCase):
    def test_is_read_from_a_folder(self) -> None:
        self.write("result.json", json.dumps({"state": "SUCCEEDED", "best": {"epoch": 1, "test_metric": 0.5}, "job_text": "name"}))
        self.write("metrics.jsonl", '{"epoch": 0, "loss": 1.5}\n{"epoch": 1, "loss": null}\n')
        result = trainerd.Result(self.folder)
        self.assertEqual((result.test_metric, result.best["epoch"], result.last, result.job_text), (0.5, 1, {}, "name"))
        self.assertEqual(result.epochs(), [{"epoch": 0, "loss": 1.5}, {"epoch": 1, "loss": None}])

    def test_that_is_missing_or_broken_is_named(self) -> None:
        def refused(kind: type[trainerd.TrainerdError], words: str) -> None:
            with self.assertRaises(kind) as caught:
                trainerd.Result(self.folder).epochs()
            self.assertIn(words, str(caught.exception))
        refused(trainerd.MissingInput, "result.json': No such file or directory, expected the folder of a job's results")
        self.write("result.json", "{")
        refused(trainerd.DataError, "expected JSON")
        self.write("result.json", "[]")
        refused(trainerd.DataError, "is not a JSON object")
        self.write("result.json", "{}")
        refused(trainerd.MissingInput, "metrics.jsonl' is not there")
        self.write("metrics.jsonl", "{}\n{\n")
        refused(trainerd.DataError, "metrics.jsonl', line 2")

    def test_of_another_machine_says_where_its_files_are(self) -> None:
        with self.assertRaises(trainerd.MissingInput) as caught:
            trainerd.Result("/far/away", {"state": "SUCCEEDED"}).epochs()
        self.assertIn("the folder is not on this machine", str(caught.exception))


@unittest.skipIf(importlib.util.find_spec("numpy"), "NumPy is there")
class WithoutNumPyAndPandas(FolderCase):
    def test_metrics_are_dicts(self) -> None:
        self.write("metrics.jsonl", '{"epoch": 0}\n')
        self.assertEqual(trainerd.Result(self.folder, {}).metrics(), [{"epoch": 0}])

    def test_arrays_say_what_they_need(self) -> None:
        self.write("logits.npy", "")
        with self.assertRaises(trainerd.MissingInput) as caught:
            trainerd.Result(self.folder, {}).logits()
        self.assertIn("arrays need NumPy: pip install numpy", str(caught.exception))


class AnException(unittest.TestCase):
    def test_has_the_exit_code_and_the_reason(self) -> None:
        for code, kind in ((1, trainerd.TrainingFailed), (2, trainerd.UsageError), (65, trainerd.DataError), (66, trainerd.MissingInput),
                           (69, trainerd.Unavailable), (70, trainerd.InternalError), (71, trainerd.OutOfMemory),
                           (73, trainerd.CannotCreate), (74, trainerd.IOFailed), (75, trainerd.Interrupted), (78, trainerd.JobFileError)):
            error = error_of(code, "why")
            self.assertEqual((type(error), error.exit_code, error.reason, str(error)), (kind, code, "why", "why"))
        self.assertEqual((type(error_of(3, "why")), error_of(3, "why").exit_code), (trainerd.TrainerdError, 3))

    def test_survives_a_trip_to_another_process(self) -> None:
        error = pickle.loads(pickle.dumps(error_of(74, "why")))
        self.assertEqual((type(error), error.exit_code, str(error)), (trainerd.IOFailed, 74, "why"))
