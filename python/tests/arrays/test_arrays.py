"""Arrays, weights and tables of a job's results, with NumPy and pandas."""
import json
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np
import pandas

import trainerd
from daemon import PROGRAMS, SHORT
from trainerd.arrays import load_array, load_safetensors


class AResult(unittest.TestCase):
    folder: pathlib.Path
    result: trainerd.Result

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        (cls.folder / "job.toml").write_text(trainerd.job_text(SHORT), encoding="utf-8")
        subprocess.run([PROGRAMS / "trainerd", "--config", "job.toml"], cwd=cls.folder, check=True, capture_output=True)
        cls.result = trainerd.Result(cls.folder / "runs/short")

    def test_has_logits_and_weights_as_arrays(self) -> None:
        logits, weights = self.result.logits(), self.result.weights()
        self.assertEqual((logits.shape, logits.dtype), ((34, 2), np.float32))
        self.assertEqual({name: w.shape for name, w in weights.items()},
                         {"convs.0.lin.weight": (64, 34), "convs.0.bias": (64,), "convs.1.lin.weight": (2, 64), "convs.1.bias": (2,)})
        self.assertTrue(all(np.isfinite(w).all() and w.flags.writeable for w in weights.values()))
        self.assertEqual(set(self.result.weights("model.safetensors")), set(weights))

    def test_has_metrics_as_a_table(self) -> None:
        table = self.result.metrics()
        self.assertIsInstance(table, pandas.DataFrame)
        self.assertEqual(list(table["epoch"]), [0, 1, 2])
        self.assertEqual(list(table["loss"]), [epoch["loss"] for epoch in self.result.epochs()])

    def test_names_arrays_that_are_not_there(self) -> None:
        for call in (self.result.embeddings, lambda: self.result.weights("none.safetensors")):
            with self.assertRaisesRegex(trainerd.MissingInput, "is not there"):
                call()


class AFileOfArrays(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.path = pathlib.Path(temporary.name, "file")

    def write(self, header: object, values: bytes = b"", length: int | None = None) -> None:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        self.path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + values)

    def test_of_weights_has_tensors_of_every_element_type(self) -> None:
        a, b = np.arange(6, dtype="<f4").reshape(2, 3), np.array([True, False])
        self.write({"__metadata__": {"x": "y"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                    "b": {"dtype": "BOOL", "shape": [2], "data_offsets": [24, 26]},
                    "one": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}}, a.tobytes() + b.tobytes())
        read = load_safetensors(self.path)
        np.testing.assert_array_equal(read["a"], a)
        np.testing.assert_array_equal(read["b"], b)
        self.assertEqual((set(read), read["one"].shape), ({"a", "b", "one"}, ()))

    def test_of_weights_that_is_broken_is_named(self) -> None:
        def tensor(**changed: object) -> dict[str, object]:
            return {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changed}}
        for header, length, words in ((b"", 10**12, "its header would have 1000000000000 bytes"), (b"{", None, "the header is not JSON"),
                                      (b"[]", None, "is not a JSON object"), (tensor(dtype="Q4"), None, "KeyError"),
                                      (tensor(data_offsets=[0, 8]), None, "has bytes 0 to 8 of 4"),
                                      (tensor(data_offsets=[-4, 0]), None, "has bytes -4 to 0 of 4"),
                                      (tensor(shape=[2]), None, "of shape [2] has bytes 0 to 4"),
                                      (tensor(shape=[-1]), None, "of shape [-1]"), ({"a": 3}, None, "TypeError")):
            self.write(header, b"\0" * 4, length)
            with self.subTest(words), self.assertRaises(trainerd.DataError) as caught:
                load_safetensors(self.path)
            self.assertIn(words, str(caught.exception))

    def test_of_one_array_that_is_broken_is_named(self) -> None:
        for data in (b"", b"\x93NUMPY\x01\x00", b"no array"):
            self.path.write_bytes(data)
            with self.assertRaisesRegex(trainerd.DataError, "file'"):
                load_array(self.path)
        np.save(self.path.with_suffix(".npy"), np.array([{}], object), allow_pickle=True)
        with self.assertRaises(trainerd.DataError):
            load_array(self.path.with_suffix(".npy"))
