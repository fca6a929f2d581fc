"""trainerd.train with graphs in memory, and what its result has."""
import os
import pathlib
import subprocess
import sys
import unittest.mock
from contextlib import ExitStack
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import numpy as np
import torch

import trainerd
from daemon import Daemon
from folders import C, N, PEAK, FolderCase, arrays_in, random_data
from trainerd.data import pyg_graph
from trainerd.fields import Epoch
from trainerd.graph import hold_graph

KEYS: dict[str, Any] = {"hidden": 8, "epochs": 5, "parts": 2, "progress": False}
BIG = f"""{PEAK}
import numpy as np, trainerd
n, rng = 200_000, np.random.default_rng(1)
data = {{"edges": rng.integers(0, n, (2, 2_000_000)), "labels": np.arange(n) % 3, "features": np.ones((n, 128), np.float32), "train": np.arange(n)}}
before = peak()
trainerd.train(data, hidden=4, epochs=1, parts=2, progress=False)
print(peak() - before)
"""


class ATraining(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        self.data = random_data()

    def expect_same(self, one: trainerd.Result, other: trainerd.Result) -> None:
        np.testing.assert_array_equal(one.logits(), other.logits())
        self.assertEqual(one.test_metric, other.test_metric)

    def test_of_a_graph_in_memory_is_that_of_its_folder(self) -> None:
        expected = trainerd.train(trainerd.from_pyg(self.data, "data"), **KEYS)
        self.expect_same(trainerd.train(self.data, **KEYS), expected)
        graph = dgl.graph(tuple(self.data.edge_index), num_nodes=N)
        graph.ndata.update(feat=self.data.x, label=self.data.y, **{f"{s}_mask": self.data[f"{s}_mask"] for s in ("train", "val", "test")})
        self.expect_same(trainerd.train(graph, **KEYS), expected)
        arrays = {"edges": self.data.edge_index, "features": self.data.x.numpy(), "labels": self.data.y, "train": self.data.train_mask,
                  "valid": self.data.val_mask, "test": self.data.test_mask}
        self.expect_same(trainerd.train(arrays, **KEYS), expected)
        self.refused(trainerd.UsageError, "'feature' is not an array of a graph, expected one of edges, labels", trainerd.train,
                     {**arrays, "feature": 1}, **KEYS)
        self.refused(trainerd.UsageError, "data is 3, expected a folder's path", trainerd.train, 3, **KEYS)

    def test_of_a_dict_by_the_names_of_pytorch_geometric_is_the_same(self) -> None:
        arrays = {name: self.data[name] for name in ("edge_index", "x", "y", "train_mask", "val_mask", "test_mask")}
        self.expect_same(trainerd.train(arrays, **KEYS), trainerd.train(self.data, **KEYS))
        self.refused(trainerd.UsageError, "data['x'] and data['features'] are both given", trainerd.train, {**arrays, "features": arrays["x"]}, **KEYS)
        self.refused(trainerd.UsageError, "'feature' is not an array", trainerd.train, {**arrays, "feature": 1}, **KEYS)
        del arrays["edge_index"]
        self.refused(trainerd.UsageError, "data has arrays (x, y, train_mask, val_mask, test_mask), and no edges", trainerd.train, arrays, **KEYS)

    def test_passes_on_what_the_job_says_of_its_arrays(self) -> None:
        self.data.edge_attr = torch.rand(200, 3)
        self.data.y = torch.nn.functional.one_hot(self.data.y)
        with self.assertWarns(trainerd.JobWarning) as caught:
            trainerd.train(self.data, **KEYS)
        said = [str(warning.message) for warning in caught.warnings]
        self.assertTrue(any(one.startswith("data.edge_attr is not used: model.kind") for one in said), said)
        self.assertTrue(any(one.startswith("data.y: each row with labels has one 1") for one in said), said)

    def test_may_draw_splits_and_predict_numbers(self) -> None:
        arrays = {"edges": self.data.edge_index, "features": self.data.x, "labels": np.linspace(0, 1, N)}
        result = trainerd.train(arrays, loss="mse", draw=(0.5, 0.25, 0.25), **KEYS)
        self.assertEqual([result.json["dataset"][f"{split}_nodes"] for split in ("train", "valid", "test")], [20, 10, 10])
        self.assertEqual(result.json["metric"], "r2")

    def calibration_error(self, probabilities: Any, split: str) -> float:
        """By the definition: the gaps between mean confidence and accuracy of 15 bins, weighted by their nodes."""
        chosen = self.data[f"{split}_mask"].numpy()
        confidence, right = probabilities[chosen].max(1), probabilities[chosen].argmax(1) == self.data.y.numpy()[chosen]
        bins = np.digitize(confidence, np.arange(16) / 15, right=True)  # 1 is in the last bin
        return float(sum(abs(right[bins == b].mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)))

    def test_has_probabilities_and_their_calibration_error(self) -> None:
        result, other = (trainerd.train(self.data, probabilities=True, workers=n, **KEYS) for n in (1, 2))
        expected = torch.softmax(torch.tensor(result.logits(), dtype=torch.float64), 1).numpy()
        np.testing.assert_allclose(result.probabilities(), expected, rtol=1e-7)
        self.assertEqual(result.probabilities().dtype, np.float32)
        for split, name in (("val", "valid"), ("test", "test")):
            self.assertAlmostEqual(result.json["calibration_error"][name], self.calibration_error(result.probabilities(), split), places=6)
        self.assertEqual((result.folder / "probabilities.npy").read_bytes(), (other.folder / "probabilities.npy").read_bytes())
        (result.folder / "probabilities.npy").unlink()
        np.testing.assert_allclose(result.probabilities(), expected, rtol=1e-7)

    def test_has_probabilities_of_several_labels_and_none_of_numbers(self) -> None:
        arrays: dict[str, Any] = {"edges": self.data.edge_index, "features": self.data.x, "train": self.data.train_mask}
        result = trainerd.train({**arrays, "labels": np.random.default_rng(1).integers(0, 2, (N, C))}, probabilities=True, **KEYS)
        np.testing.assert_allclose(result.array("probabilities.npy"), torch.sigmoid(torch.tensor(result.logits(), dtype=torch.float64)), rtol=1e-7)
        self.assertNotIn("calibration_error", result.json)
        numbers = {**arrays, "labels": np.linspace(0, 1, N)}
        self.refused(trainerd.JobFileError, "output.probabilities does not go with train.loss", trainerd.train, numbers, loss="mse",
                     probabilities=True, **KEYS)
        self.refused(trainerd.DataError, "is of regression", trainerd.train(numbers, loss="mse", **KEYS).probabilities)

    def test_that_is_interrupted_keeps_a_graph_in_memory(self) -> None:
        def stop(epoch: Epoch) -> None:
            raise KeyboardInterrupt
        keys = {**KEYS, "epochs": 100_000_000, "progress": stop}
        with self.assertRaises(trainerd.Interrupted) as caught:
            trainerd.train(self.data, output="out", **keys)
        n_done = int(str(caught.exception).split()[2])
        os.rename("out", "moved")
        result = trainerd.resume("moved", epochs=n_done + 3, progress=False)
        self.expect_same(result, trainerd.train(self.data, **{**KEYS, "epochs": n_done + 3}))
        self.assertEqual(result.embeddings("convs.0").shape, (N, 8))

    def test_by_a_daemon_has_the_same_bits(self) -> None:
        daemon = Daemon(self.folder)
        self.addCleanup(daemon.end)
        there = trainerd.train(self.data, daemon=trainerd.Client(daemon.address), **KEYS)
        self.expect_same(there, trainerd.train(self.data, **KEYS))
        self.assertTrue((there.folder / "data" / "edges.npy").is_file())
        self.assertEqual(there.embeddings("convs.0").shape, (N, 8))

    def test_has_embeddings_predictions_and_a_module(self) -> None:
        result = trainerd.train(self.data, **KEYS)
        self.assertEqual(result.embeddings("convs.0").shape, (N, 8))
        self.assertEqual(result.embeddings("convs.0", random_data(2)).shape, (N, 8))
        np.testing.assert_allclose(trainerd.predict(result, self.data, set={"partition.parts": 2}).logits(), result.logits())
        module, active = result.to_pyg(), result.embeddings("acts.0")
        with torch.no_grad():
            logits = module(self.data.x, self.data.edge_index).numpy()
            from_active = module.convs[1](torch.tensor(active), self.data.edge_index).numpy()
        np.testing.assert_allclose(logits, result.logits(), atol=1e-5)
        np.testing.assert_allclose(from_active, result.logits(), atol=1e-5)
        np.testing.assert_array_equal(active, np.maximum(result.embeddings("convs.0"), 0))
        self.assertEqual(logits.shape, (N, C))

    def test_has_the_predictions_of_a_prediction(self) -> None:
        several, numbers = self.data.clone(), self.data.clone()
        several.y, numbers.y = torch.rand(N, C).round().long(), torch.rand(N)
        for data, loss in ((self.data, None), (several, None), (numbers, "mse")):
            result = trainerd.train(data, loss=loss, **KEYS)
            expected = trainerd.predict(result, data, set={"partition.parts": 2}).predictions()
            np.testing.assert_array_equal(result.predictions(), expected)
            self.assertEqual((result.predictions().dtype, result.predictions().shape), (expected.dtype, expected.shape))
        links = trainerd.train(self.data, task="link", channels=4, **KEYS)
        self.refused(trainerd.DataError, "is of links, which have no class", links.predictions)

    def test_is_drawn_by_matplotlib(self) -> None:
        result = trainerd.train(self.data, **KEYS)
        figure = result.plot()
        self.assertTrue(figure._repr_png_().startswith(b"\x89PNG"))
        self.assertEqual([len(axes.lines) for axes in figure.axes], [3, 4])
        figure.savefig("curves.png")
        self.assertIn("<svg", result._repr_html_())

    def test_takes_no_memory_for_a_second_copy(self) -> None:
        done = subprocess.run([sys.executable, "-c", BIG], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLess(int(done.stdout), 50_000)  # KiB; the features alone are 100 000


class AGraphInMemory(FolderCase):
    def hold(self, free: int) -> tuple[pathlib.Path, ExitStack]:
        folder, files = self.folder / "held", ExitStack()
        self.addCleanup(files.close)
        with unittest.mock.patch("trainerd.graph.memory_free", lambda: free):
            hold_graph(pyg_graph(random_data()), folder, files, name="mine")
        return folder, files

    def test_has_the_files_of_its_folder_until_it_is_closed(self) -> None:
        written = trainerd.from_pyg(random_data(), self.folder / "mine")
        folder, files = self.hold(1 << 30)
        self.assert_same_arrays(arrays_in(folder), arrays_in(written))
        self.assertEqual((folder / "meta.json").read_text(encoding="utf-8"), (written / "meta.json").read_text(encoding="utf-8"))
        self.assertTrue(all(path.is_symlink() for path in folder.iterdir()))
        files.close()
        self.assertFalse((folder / "edges.npy").exists())

    def test_that_does_not_fit_is_on_disk(self) -> None:
        folder, _ = self.hold(1000)
        self.assertFalse(any(path.is_symlink() for path in folder.iterdir()))
