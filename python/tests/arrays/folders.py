"""Small graphs, and what is in the folders made of them."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

import trainerd
from daemon import PROGRAMS

N, F, C = 40, 12, 3

# The beginning of a program that measures itself: its peak in KiB. That of getrusage begins with the peak of the process that started it.
PEAK = """
def peak():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
"""


def random_data(seed: int = 1) -> Data:
    """A directed graph without repeats, with loops, features that are mostly 0, and three masks."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.choice(N * N, 200, replace=False))
    edge_index = np.stack([places // N, places % N])
    x = (rng.random((N, F)) * (rng.random((N, F)) < 0.15)).astype(np.float32)
    third = np.arange(N) % 3
    masks = {name: torch.tensor(third == k) for k, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    return Data(x=torch.tensor(x), edge_index=torch.tensor(edge_index), y=torch.tensor(rng.integers(0, C, N)), **masks)


def arrays_in(folder: pathlib.Path) -> dict[str, Any]:
    """Every array of a folder by its name."""
    return {path.stem: np.load(path) for path in sorted(folder.glob("*.npy"))}


def json_in(folder: pathlib.Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def meta_in(folder: pathlib.Path) -> dict[str, Any]:
    meta: dict[str, Any] = json_in(folder, "meta")
    return meta


class FolderCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainerd-python-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def drawn(self, rng: random.Random, n: int, values: list[Any], missing: float) -> list[Any]:
        return [None if rng.random() < missing else rng.choice(values) for _ in range(n)]

    def go_inside(self) -> None:
        """Jobs run in the folder, by the programs of this build, until the test ends."""
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        patched = unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": str(PROGRAMS)})
        patched.start()
        self.addCleanup(patched.stop)

    def run_program(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([PROGRAMS / "trainerd", *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, check=False)

    def train(self, folder: pathlib.Path, kind: str = "gcn", **sections: Any) -> trainerd.Result:
        """Train three epochs on an npy folder."""
        model = {"kind": kind, "hidden": 8, **sections.pop("model", {})}
        if "def model(" in str(model.get("program")):  # which is no stack
            model.pop("hidden")
        job = {"name": f"{folder.name}-{kind}", "dataset": {"path": str(folder), **sections.pop("dataset", {})},
               "partition": {"parts": 2, "cache": "off"}, "model": model,
               "train": {"epochs": 3, **sections.pop("train", {})}, "workers": {"threads": 1}, **sections}
        (self.folder / "job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--config", "job.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        return trainerd.Result(self.folder / f"runs/{job['name']}")

    def assert_same_arrays(self, one: dict[str, Any], other: dict[str, Any]) -> None:
        self.assertEqual(set(one), set(other))
        for name, values in one.items():
            with self.subTest(name):
                np.testing.assert_array_equal(values, other[name])
                self.assertEqual(values.dtype, other[name].dtype)

    def refused(self, kind: type[BaseException], words: str, call: Any, *arguments: Any, **named: Any) -> None:
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        self.assertIn(words, str(caught.exception))
