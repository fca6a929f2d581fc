"""Label propagation and Correct & Smooth beside PyTorch Geometric's modules, and on Cora."""
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.nn import CorrectAndSmooth, LabelPropagation
from torch_geometric.nn.conv.gcn_conv import gcn_norm

import trainerd
from daemon import PROGRAMS, ROOT, Daemon
from folders import FolderCase, arrays_in, json_in, random_data

N, C = 300, 4
CORA = pathlib.Path(os.environ.get("TRAINERD_SHARED", ROOT.parent / "shared")) / "datasets" / "cora"
MLP = trainerd.Program("def layer(v, out):\n    return linear('lin', v.x, out)\n")
KEYS: dict[str, Any] = {"threads": 1, "cache": "off"}


def graph(kind: str, seed: int = 1) -> Data:
    """Edges without repeats; the last nodes have none."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, N - 10, (2, 600))
    if kind == "path":  # a training node's error reaches far nodes as a very small number, and others not at all
        edges = np.stack([np.arange(N - 11), np.arange(1, N - 10)])
    if kind == "loops":
        edges = np.concatenate([edges, np.tile(np.arange(0, N, 3), (2, 1))], 1)
    edges = np.unique(np.concatenate([edges, edges[::-1]], 1) if kind in ("undirected", "path") else edges, axis=1)
    data = Data(edge_index=torch.tensor(edges), y=torch.tensor(rng.integers(0, C, N)), num_nodes=N)
    data.train_mask = torch.arange(N) == 0 if kind == "path" else torch.tensor(rng.random(N) < 0.2)
    data.edge_weight = torch.tensor(rng.random(edges.shape[1]), dtype=torch.float32) if kind == "weighted" else None
    return data


KINDS = ("directed", "undirected", "weighted", "loops", "path")


def weights_of(data: Data, kind: Any, normalize: bool) -> torch.Tensor:
    """A's entries, as gcn_norm makes them of these numbers."""
    weights = torch.ones(data.num_edges) if data.edge_weight is None else data.edge_weight
    given: torch.Tensor = weights.to(kind)
    return gcn_norm(data.edge_index, given, N, add_self_loops=False)[1] if normalize else given


def soft(seed: int = 1) -> Any:
    return torch.softmax(3 * torch.randn(N, C, generator=torch.Generator().manual_seed(seed)), 1)


class SmoothingCase(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        patched = unittest.mock.patch.dict(os.environ, {"TRAINERD_BIN": str(PROGRAMS)})
        patched.start()
        self.addCleanup(patched.stop)

    def expect_near(self, found: Any, expected: Any, tolerance: float = 1e-5) -> None:
        self.assertEqual((found.dtype, found.shape), (np.dtype(np.float32), tuple(expected.shape)))
        self.assertGreater(float(expected.norm()), 0)
        self.assertLess(float((torch.tensor(found) - expected).norm() / expected.norm()), tolerance)


class Labels(SmoothingCase):
    def test_are_propagated_as_by_pyg_on_any_graph(self) -> None:
        for kind in KINDS:
            for layers, alpha, normalize in ((50, 0.9, True), (3, 0.5, True), (1, 1.0, True), (4, 0.3, False)):
                with self.subTest(kind, layers=layers, alpha=alpha, normalize=normalize):
                    data = graph(kind)
                    found = trainerd.label_propagation(data, layers=layers, alpha=alpha, normalize=normalize, **KEYS)
                    for number in (torch.float32, torch.float64):
                        rows = torch.nn.functional.one_hot(data.y, C).to(number)
                        self.expect_near(found, LabelPropagation(layers, alpha)(rows, data.edge_index, data.train_mask, weights_of(data, number, normalize)))

    def test_are_propagated_with_the_same_bits_by_any_number_of_workers(self) -> None:
        data = graph("weighted")
        for parts in (4, 9):
            one, two, four = (trainerd.label_propagation(data, workers=workers, parts=parts, **KEYS) for workers in (1, 2, 4))
            self.assertEqual((one.tobytes(), one.tobytes()), (two.tobytes(), four.tobytes()))
        halo = trainerd.label_propagation(data, workers=2, parts=9, schedule="halo", **KEYS)
        self.assertEqual(halo.tobytes(), one.tobytes())

    def test_are_read_from_every_kind_of_data(self) -> None:
        data = graph("weighted")
        expected = trainerd.label_propagation(data, parts=2, **KEYS)
        path = trainerd.from_pyg(Data(x=torch.ones(N, 1), **data.to_dict()), self.folder / "data")
        (source, target), weights = arrays_in(path)["edges"], arrays_in(path)["edge_weight"]
        arrays = {"edges": data.edge_index, "labels": data.y.tolist(), "train": np.flatnonzero(data.train_mask), "edge_weight": data.edge_weight}
        named = {**arrays, "labels": [f"class {y}" for y in data.y.tolist()]}
        rows = self.folder / "rows"
        rows.mkdir()
        order = np.lexsort((source, target))
        for name, values in {"indptr": np.searchsorted(target[order], np.arange(N + 1)), "indices": source[order], "edge_weight": weights[order],
                             "labels": data.y.numpy()[:, None]}.items():
            np.save(rows / f"{name}.npy", values)
        np.save(rows / "train_mask.npy", np.stack([~data.train_mask, data.train_mask], 1).astype(np.uint8))
        for given in (path, str(path), {"path": path}, arrays, named, {"path": rows, "split": 1}):
            with self.subTest(type(given)):
                np.testing.assert_array_equal(trainerd.label_propagation(given, parts=2, **KEYS), expected)
        others = trainerd.label_propagation(data, labels=1 - data.y.clamp(max=1), train=np.arange(10), **KEYS)
        self.assertEqual(others.shape, (N, 2))
        both = Data(x=data.x, edge_index=data.edge_index, y=data.y, train_mask=data.train_mask, num_nodes=N)
        np.testing.assert_array_equal(trainerd.label_propagation({"path": path, "undirected": "yes", "edge_weights": "no"}, **KEYS),
                                      trainerd.label_propagation(both, undirected="yes", **KEYS))

    def test_of_a_class_without_nodes_have_a_column(self) -> None:
        edges = [[0, 1, 2], [1, 2, 0]]
        path = trainerd.from_arrays(self.folder / "data", edges=edges, labels=["b", "a", None], classes=["a", "b", "c"], features=np.eye(3), train=[0, 1])
        self.assertEqual(json_in(path, "class_names"), ["a", "b", "c"])
        np.testing.assert_array_equal(trainerd.label_propagation(path, layers=1, alpha=1.0, **KEYS), [[0, 0, 0], [0, 1, 0], [1, 0, 0]])

    def test_that_cannot_be_propagated_are_refused(self) -> None:
        data = graph("directed")
        edges, y = data.edge_index, data.y
        bare = trainerd.from_arrays(self.folder / "bare", edges=edges, features=np.ones((N, 1)), predict_only=True)
        for kind, words, given, options in (
                (trainerd.DataError, "labels are numbers (regression), expected classes", data, {"labels": np.linspace(0, 1, N)}),
                (trainerd.DataError, f"labels have shape [{N}, {C}], several for each node", data, {"labels": np.ones((N, C))}),
                (trainerd.DataError, "no training node has a label", data, {"labels": np.full(N, -1)}),
                (trainerd.DataError, "no training node has a label", data, {"train": []}),
                (trainerd.DataError, f"train nodes have shape [1] and are {N} to {N}", data, {"train": [N]}),
                (trainerd.DataError, "there are labels of 9 nodes, and the graph has 300", data, {"labels": np.zeros(9, int)}),
                (trainerd.DataError, "the graph has no labels", {"edges": edges, "nodes": N}, {}),
                (trainerd.DataError, "the graph has no training nodes", {"edges": edges, "labels": y}, {}),
                (trainerd.JobFileError, "post.layers is 513; expected a whole number from 1 to 512", data, {"layers": 513}),
                (trainerd.JobFileError, "post.alpha is 1.5; expected a number from 0.0 to 1.0", data, {"alpha": 1.5}),
                (trainerd.UsageError, "data is 3, expected a folder's path", 3, {}),
                (trainerd.UsageError, "the [dataset] section has no path", {"generator": "karate"}, {"train": [0]}),
                (trainerd.JobFileError, "neither dataset.path nor dataset.generator is given", {}, {}),
                (trainerd.MissingInput, "labels.npy", bare, {}),
                (trainerd.DataError, "no known format, expected a folder with edges.npy", self.folder, {}),
                (trainerd.MissingInput, "has neither edges.npy nor indptr.npy", self.folder, {"train": [0]}),
                (trainerd.JobFileError, "worker=2: there is no key 'worker'; did you mean workers=?", data, {"worker": 2})):
            with self.subTest(words):
                self.refused(kind, words, trainerd.label_propagation, given, **options)
        splits = {"edges": edges, "labels": y, "train": np.stack([data.train_mask] * 2, 1)}
        trainerd.label_propagation(splits, layers=512, **KEYS)
        path = trainerd.from_arrays(self.folder / "splits", features=np.ones((N, 1)), **splits)
        self.refused(trainerd.JobFileError, "train_mask.npy has 2 splits, expected 0 to 1", trainerd.label_propagation,
                     {"path": path, "split": 2})


def write_npz(path: pathlib.Path, data: Data, x: Any) -> pathlib.Path:
    """A graph of gnn-benchmark, which has no splits."""
    order = torch.argsort(data.edge_index[0] * N + data.edge_index[1])
    source, target = data.edge_index[:, order].numpy()
    np.savez(path, adj_data=np.ones(len(source), np.float32), adj_indices=target, adj_indptr=np.searchsorted(source, np.arange(N + 1)),
             adj_shape=(N, N), attr_matrix=x, labels=data.y.numpy())
    return path


def write_ogb(folder: pathlib.Path, data: Data, x: Any) -> pathlib.Path:
    """A download of OGB."""
    given = {"raw/edge": data.edge_index.T, "raw/node-feat": x, "raw/node-label": data.y[:, None], "raw/num-node-list": [[N]],
             "raw/num-edge-list": [[data.num_edges]]}
    for name, mask in {"train": data.train_mask, "valid": ~data.train_mask, "test": ~data.train_mask}.items():
        given[f"split/random/{name}"] = np.flatnonzero(mask)[:, None]
    for name, values in given.items():
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, np.asarray(values), "%g", ",")
    return folder


class Jobs(SmoothingCase):
    """The section [post]."""

    def setUp(self) -> None:
        super().setUp()
        self.data = graph("undirected")
        self.data.x = torch.rand(N, 5)

    def trained(self, data: Any, name: str, **keys: Any) -> trainerd.Result:
        return trainerd.train(data, epochs=2, hidden=8, output=self.folder / name, progress=False, **KEYS, **keys)

    def test_smooth_what_they_have_trained_as_the_functions_do(self) -> None:
        post = {"correct_and_smooth": True, "label_propagation": True, "correct_layers": 3, "autoscale": False, "scale": 1.5, "alpha": 0.7}
        of: dict[str, Any] = {"correct_layers": 3, "autoscale": False, "scale": 1.5}
        path = trainerd.from_pyg(self.data, self.folder / "data")
        for name, data in (("memory", self.data), ("folder", path)):
            result = self.trained(data, name, workers=2, post=post)
            np.testing.assert_allclose(result.array("smoothed.npy"), trainerd.correct_and_smooth(result, **of, **KEYS), rtol=1e-6)
            np.testing.assert_array_equal(result.array("propagated.npy"), trainerd.label_propagation(data, alpha=0.7, **KEYS))
            rows, right = result.array("smoothed.npy"), result.json["post"]["correct_and_smooth"]["metrics"]["train"]
            self.assertAlmostEqual(right, float((rows.argmax(1) == self.data.y.numpy())[self.data.train_mask].mean()))
        again = trainerd.predict(result, path, output=self.folder / "again", set={f"post.{key}": value for key, value in post.items()})
        np.testing.assert_array_equal(again.array("smoothed.npy"), rows)

    def test_of_a_daemon_publish_the_rows(self) -> None:
        path = trainerd.from_pyg(self.data, self.folder / "data")
        here = self.trained(path, "here", post={"correct_and_smooth": True})
        daemon = Daemon(self.folder)
        self.addCleanup(daemon.end)
        there = self.trained(path, "there", post={"correct_and_smooth": True}, workers=2, daemon=trainerd.Client(daemon.address))
        np.testing.assert_array_equal(there.array("smoothed.npy"), here.array("smoothed.npy"))

    def test_read_every_format_and_generator(self) -> None:
        x = self.data.x.numpy()
        npz, ogb = write_npz(self.folder / "graph.npz", self.data, x), write_ogb(self.folder / "ogb", self.data, x)
        for name, given in (("npz", npz), ("ogb", ogb), ("rmat", {"generator": "rmat", "nodes": 256, "features": 5})):
            with self.subTest(name):
                result = self.trained(given, name)
                rows = trainerd.correct_and_smooth(result, **KEYS)
                self.assertEqual(rows.shape, result.logits().shape)
                np.testing.assert_array_equal(trainerd.correct_and_smooth(result.probabilities(), given, **KEYS), rows)
                if name != "rmat":
                    train = self.data.train_mask if name == "ogb" else result.array("drawn_train_idx.npy")
                    expected = trainerd.correct_and_smooth(result.probabilities(), self.data, train=train, **KEYS)
                    np.testing.assert_allclose(rows, expected, rtol=1e-5, atol=1e-6)

    def test_with_a_file_of_probabilities_that_does_not_fit_are_refused(self) -> None:
        rows = self.folder / "rows.npy"
        post = {"correct_and_smooth": True, "probabilities_file": rows}
        for words, values in (("has shape [299, 4], expected [300, any]", np.ones((N - 1, C))),
                              ("3 columns, expected one for each of the 4 classes", np.ones((N, 3))),
                              ("row 7 has nan, expected finite numbers", np.where(np.arange(N)[:, None] == 7, np.nan, np.ones((N, C))))):
            np.save(rows, values)
            self.refused(trainerd.DataError, words, self.trained, self.data, "run", post=post)
        rows.unlink()
        self.refused(trainerd.MissingInput, "post.probabilities_file: ", self.trained, self.data, "run", post=post)


class Probabilities(SmoothingCase):
    def test_are_corrected_and_smoothed_as_by_pyg_on_any_graph(self) -> None:
        for kind in KINDS:
            for options in ({}, {"autoscale": False}, {"autoscale": False, "scale": 1.7, "correct_layers": 3, "smooth_layers": 2, "correct_alpha": 0.6},
                            {"correct_layers": 4, "correct_alpha": 0.8, "smooth_alpha": 0.3}):
                with self.subTest(kind, **options):
                    data = graph(kind)
                    module = CorrectAndSmooth(options.get("correct_layers", 50), options.get("correct_alpha", 1.0), options.get("smooth_layers", 50),
                                              options.get("smooth_alpha", 0.8), options.get("autoscale", True), options.get("scale", 1.0))
                    found = trainerd.correct_and_smooth(soft(), data, **options, **KEYS)
                    for number in (torch.float32, torch.float64):
                        known = torch.nn.functional.one_hot(data.y[data.train_mask], C).to(number)
                        graph_of = (known, data.train_mask, data.edge_index, weights_of(data, number, True))
                        expected = module.smooth(module.correct(soft().to(number), *graph_of), *graph_of)
                        self.expect_near(found, expected)

    def test_of_far_nodes_are_not_scaled_by_more_than_1000(self) -> None:
        data = graph("path")
        found = trainerd.correct_and_smooth(soft(), data, smooth_layers=0, **KEYS)
        error = float((torch.nn.functional.one_hot(data.y[0], C) - soft()[0]).abs().sum())
        change = np.abs(found - soft().numpy()).sum(1)[1:]
        near = change > error / 2
        self.assertTrue(near[1])
        np.testing.assert_allclose(change[near], error, rtol=1e-4)
        self.assertTrue(0 < change[~near].max() < error / 1000)
        self.assertEqual(change[50:].max(), 0)

    def test_may_have_either_step_alone(self) -> None:
        data = graph("undirected")
        known = data.train_mask.numpy()
        corrected = trainerd.correct_and_smooth(soft(), data, smooth_layers=0, **KEYS)
        np.testing.assert_array_equal(corrected[known], np.eye(C)[data.y[data.train_mask]])
        found = trainerd.correct_and_smooth(corrected, data, correct_layers=0, **KEYS)
        np.testing.assert_array_equal(found, trainerd.correct_and_smooth(soft(), data, **KEYS))

    def test_have_the_same_bits_by_any_number_of_workers(self) -> None:
        data = graph("weighted")
        for autoscale in (True, False):
            one, two, four = (trainerd.correct_and_smooth(soft(), data, workers=workers, parts=8, autoscale=autoscale, **KEYS).tobytes()
                              for workers in (1, 2, 4))
            self.assertEqual((one, one), (two, four))

    def test_are_those_of_a_result_on_the_graph_as_it_was_read(self) -> None:
        data = graph("directed")
        data.x = torch.rand(N, 5)
        result = trainerd.train(data, epochs=2, hidden=8, output=self.folder / "run", undirected="yes", progress=False, **KEYS)
        both = Data(edge_index=torch.cat([data.edge_index, data.edge_index.flip(0)], 1).unique(dim=1), y=data.y, train_mask=data.train_mask, num_nodes=N)
        expected = trainerd.correct_and_smooth(result.probabilities(), both, **KEYS)
        np.testing.assert_array_equal(trainerd.correct_and_smooth(result, **KEYS), expected)
        np.testing.assert_array_equal(trainerd.correct_and_smooth(result.folder, data, **KEYS), expected)
        path = trainerd.from_pyg(data, self.folder / "data")
        there = trainerd.train(path, epochs=2, hidden=8, output=self.folder / "there", undirected="yes", progress=False, **KEYS)
        np.testing.assert_array_equal(trainerd.correct_and_smooth(there.folder, **KEYS), expected)
        self.refused(trainerd.MissingInput, "data: No such file or directory", trainerd.correct_and_smooth, result.folder, **KEYS)

    def test_are_those_of_a_result_with_its_split(self) -> None:
        data = graph("undirected")
        data.x, mask = torch.rand(N, 5), data.train_mask
        expected = trainerd.correct_and_smooth(soft(), data, **KEYS)
        data.train_mask = torch.stack([~mask, mask], 1)
        np.testing.assert_array_equal(trainerd.correct_and_smooth(soft(), data, split=1, **KEYS), expected)
        path = trainerd.from_pyg(data, self.folder / "data")
        for given in (data, path):
            result = trainerd.train(given, epochs=0, split=1, output=self.folder / type(given).__name__, progress=False, **KEYS)
            first, second = (trainerd.correct_and_smooth(result, of, **KEYS) for of in (None, path))
            np.testing.assert_array_equal(first, second)
            np.testing.assert_array_equal(trainerd.correct_and_smooth(result.probabilities(), path, split=1, **KEYS), first)
            self.assertFalse(np.array_equal(trainerd.correct_and_smooth(result.probabilities(), path, **KEYS), first))

    def test_that_cannot_be_smoothed_are_refused(self) -> None:
        data = graph("directed")
        arrays: dict[str, Any] = {"edges": data.edge_index, "features": np.ones((N, 2)), "train": data.train_mask}
        numbers = trainerd.train({**arrays, "labels": np.linspace(0, 1, N)}, loss="mse", epochs=0, output=self.folder / "numbers", progress=False)
        several = trainerd.train({**arrays, "labels": np.ones((N, C))}, epochs=0, output=self.folder / "several", progress=False)
        for kind, words, given, of, options in (
                (trainerd.DataError, "is of regression or of links: numbers have no probabilities", numbers, data, {}),
                (trainerd.DataError, "is of several labels per node, expected a training of classes", several, data, {}),
                (trainerd.DataError, "the probabilities have 299 rows, and the graph has 300 nodes", soft()[1:], data, {}),
                (trainerd.DataError, "has the class 3, and the probabilities have 3 columns", soft()[:, :3], data, {}),
                (trainerd.DataError, "expected finite numbers [nodes, classes]", soft() / 0, data, {}),
                (trainerd.DataError, "no training node has a label", soft(), data, {"train": np.zeros(N, bool)}),
                (trainerd.UsageError, "probabilities have no graph of their own", soft(), None, {}),
                (trainerd.JobFileError, "post.correct_alpha is -1.0; expected a number from 0.0 to 1.0", soft(), data, {"correct_alpha": -1}),
                (trainerd.JobFileError, "post.smooth_layers is -1; expected a whole number from 0 to 256", soft(), data, {"smooth_layers": -1}),
                (trainerd.JobFileError, "post.scale: nan is not a finite number", soft(), data, {"scale": float("nan"), "autoscale": False}),
                (trainerd.MissingInput, "expected the folder of a job's results", "none", data, {})):
            with self.subTest(words):
                self.refused(kind, words, trainerd.correct_and_smooth, given, of, **options)


class Command(SmoothingCase):
    def setUp(self) -> None:
        super().setUp()
        self.data = random_data()
        self.result = trainerd.train(trainerd.from_pyg(self.data, self.folder / "data"), hidden=8, epochs=3, undirected="yes", progress=False,
                                     output=self.folder / "run", **KEYS)

    def smooth(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([sys.executable, "-m", "trainerd", "smooth", "run", *map(str, arguments)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def line(self, when: str, rows: Any) -> str:
        right = rows.argmax(1) == self.data.y.numpy()
        return f"{when} valid accuracy {right[self.data.val_mask].mean():.4f}  test accuracy {right[self.data.test_mask].mean():.4f}"

    def test_writes_smoothed_probabilities_and_prints_accuracies(self) -> None:
        given: dict[str, Any] = {"scale": 0.5, "correct_layers": 3, "smooth_alpha": 0.4}
        words = ("--scale", 0.5, "--correct-layers", 3, "--smooth-alpha", 0.4, "--workers", 2)
        for options, arguments in (({}, ()), ({"autoscale": False, **given}, words)):
            done = self.smooth("--out", "rows.npy", *arguments)
            rows = trainerd.correct_and_smooth(self.result, **options, **KEYS)
            np.testing.assert_array_equal(np.load(self.folder / "rows.npy"), rows)
            self.assertEqual(done.stdout.splitlines(), [self.line("before ", self.result.probabilities()), self.line("after  ", rows)])

    def test_reads_data_that_have_moved(self) -> None:
        done = self.smooth("--out", "rows.npy")
        (self.folder / "data").rename(self.folder / "moved")
        self.assertIn("data: No such file or directory", self.smooth("--out", "x.npy", code=66).stderr)
        self.assertEqual(self.smooth("--out", "again.npy", "--data", "moved").stdout, done.stdout)
        self.assertEqual((self.folder / "again.npy").read_bytes(), (self.folder / "rows.npy").read_bytes())

    def test_writes_all_or_nothing(self) -> None:
        self.assertIn("cannot create 'none/rows.npy': No such file", self.smooth("--out", "none/rows.npy", code=73).stderr)
        self.assertIn("cannot create 'data': Is a directory", self.smooth("--out", "data", code=73).stderr)
        self.assertIn("post.smooth_alpha is 2.0; expected a number from 0.0 to 1.0", self.smooth("--out", "x.npy", "--smooth-alpha", 2, code=78).stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["data", "run"])


@unittest.skipUnless(CORA.is_dir(), f"{CORA} is not there ($TRAINERD_SHARED)")
class Cora(SmoothingCase):
    def accuracy(self, rows: Any) -> float:
        test = np.load(CORA / "test_idx.npy")
        return float((rows[test].argmax(1) == np.load(CORA / "labels.npy")[test]).mean())

    def test_s_labels_alone_tell_most_classes(self) -> None:
        self.assertGreater(self.accuracy(trainerd.label_propagation(CORA, **KEYS)), 0.7)

    def test_is_told_better_by_smoothed_probabilities(self) -> None:
        result = trainerd.train(CORA, model=MLP, hidden=64, epochs=100, dropout=0.5, weight_decay=5e-3, normalize_features="row", seed=1,
                                output=self.folder / "run", progress=False, **KEYS)
        before, after = self.accuracy(result.probabilities()), self.accuracy(trainerd.correct_and_smooth(result, autoscale=False, workers=2, **KEYS))
        self.assertEqual(before, result.test_metric)
        self.assertGreater(after, before + 0.1)
        self.assertGreater(after, 0.77)
