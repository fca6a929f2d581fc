"""Dicts as job files: what is written is what TOML and trainerd --check read."""
import math
import pathlib
import subprocess
import tempfile
import tomllib
import unittest
from typing import Any

import trainerd
from daemon import PROGRAMS
from trainerd.toml_text import settings_of


class AJobOfDicts(unittest.TestCase):
    def test_is_read_back_as_it_was(self) -> None:
        job = {"name": 'quotes " and \\ and \n\t\x01\x7f é', "model": {"kind": "gcn", "residual": True, "layers": 3},
               "train": {"lr": 0.1, "weight_decay": 5e-324, "beta2": 1e300, "seed": -2**63, "epochs": 2**63 - 1}, "empty": {}}
        self.assertEqual(tomllib.loads(trainerd.job_text(job)), job)
        program = {"model": {"kind": "program", "program": "a\n'\"b", "args": {"heads": 4, "slope": 0.5, "last": True, "how": "max"}, "layers": 2}}
        self.assertEqual(tomllib.loads(trainerd.job_text(program)), program)
        named = {"model": {"kind": "gcn", "names": {"convs.0": "conv1", "convs.*.lin": "layers.*"}}, "workers": {"count": 2}}
        self.assertEqual(tomllib.loads(trainerd.job_text(named)), named)
        self.assertEqual(tomllib.loads(trainerd.job_text({"dataset": {"path": pathlib.Path("a/b")}})), {"dataset": {"path": "a/b"}})

    def test_keeps_keys_at_the_top_before_sections(self) -> None:
        job = {"model": {"layers": 3}, "name": "late"}
        self.assertEqual(tomllib.loads(trainerd.job_text(job)), job)

    def test_is_accepted_by_trainerd_check(self) -> None:
        job = {"name": "checked", "dataset": {"generator": "karate", "homophily": 1e-3}, "train": {"lr": 1e-05, "epochs": 3, "metrics": ["macro_f1", "accuracy"]},
               "model": {"kind": "gat", "heads": 2, "learn_eps": False}, "memory": {"limit": "1GiB"}}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "job.toml")
            path.write_text(trainerd.job_text(job), encoding="utf-8")
            checked = subprocess.run([PROGRAMS / "trainerd", "--check", path], capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, checked.stderr))

    def test_that_toml_cannot_say_is_refused_with_its_key(self) -> None:
        wrong: list[tuple[dict[Any, Any], str]] = [
            ({"train": {"epochs": None}}, "train.epochs is None, expected a text, a number or a boolean"),
            ({"train": {"lr": math.nan}}, "train.lr: nan is not a finite number"),
            ({"train": {"epochs": 2**63}}, "train.epochs: 9223372036854775808 does not fit 64 bits"),
            ({"train.epochs": 3}, "a section is a dict of its own: {'train': {'epochs': ...}}"),
            ({"train": {"a b": 3}}, "train: 'a b' is not a key"),
            ({1: 2}, "job: 1 is not a key"),
            ({"train": {"deep": {"er": 1}}}, "train.deep is {'er': 1}, expected"),
            ({"model": {"args": 3}}, "model.args is 3, expected a dict"),
            ({"model": {"args": {"deep": {}}}}, "model.args.deep is {}, expected"),
            ({"name": "\udcff"}, "is not UTF-8"),
            ({"name": b"bytes"}, "name is b'bytes', expected"),
            ({"train": {"metrics": ["accuracy", 3]}}, "train.metrics is ['accuracy', 3], expected a text, a number or a boolean; a list has texts alone, and not 3"),
        ]
        for job, words in wrong:
            with self.subTest(words), self.assertRaises(trainerd.JobFileError) as caught:
                trainerd.job_text(job)
            self.assertIn(words, str(caught.exception))


class Settings(unittest.TestCase):
    def test_are_written_as_set_takes_them(self) -> None:
        self.assertEqual(settings_of({"train.epochs": 3, "name": "x", "model.residual": True, "train.metrics": ("r2", "mae")}),
                         ["train.epochs=3", 'name="x"', "model.residual=true", 'train.metrics=["r2", "mae"]'])
        self.assertEqual(settings_of(["train.epochs=3"]), ["train.epochs=3"])
        self.assertEqual(settings_of(None), [])

    def test_that_are_none_are_refused(self) -> None:
        for wrong, words in (("train.epochs=3", "is a text, expected a dict or a list"), (["train.epochs"], "is not 'section.key=value'"),
                             ({"train.epochs": None}, "set: train.epochs is None")):
            with self.subTest(words), self.assertRaises(trainerd.TrainerdError) as caught:
                settings_of(wrong)
            self.assertIn(words, str(caught.exception))
