"""The prediction of links: training with graphs in memory, results, scores of pairs and partners of nodes."""
import os
import pathlib
import warnings
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import numpy as np
import torch
from torch_geometric.nn import GCN
from torch_geometric.transforms import RandomLinkSplit

import trainerd
from daemon import Daemon
from folders import F, N, FolderCase, arrays_in, random_data
from trainerd.arrays import save_safetensors
from trainerd.pyg import logits_difference

KEYS: dict[str, Any] = {"task": "link", "channels": 6, "hidden": 8, "epochs": 4, "parts": 2, "progress": False}


class Links(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        self.data = random_data()
        self.data.y = None
        self.arrays: dict[str, Any] = {"edges": self.data.edge_index.numpy(), "features": self.data.x.numpy()}

    def held(self, result: trainerd.Result) -> tuple[int, int, str]:
        dataset = result.json["dataset"]
        return dataset["valid_edges"], dataset["test_edges"], dataset["held_out"]

    def test_are_trained_without_labels(self) -> None:
        result = trainerd.train(self.data, **KEYS)
        graph = dgl.graph(tuple(self.data.edge_index), num_nodes=N)
        graph.ndata["feat"] = self.data.x
        for other in (trainerd.train(self.arrays, **KEYS), trainerd.train(graph, **KEYS),
                      trainerd.train(self.arrays, **{**KEYS, "task": {"kind": "link", "channels": 6}, "channels": None})):
            np.testing.assert_array_equal(other.logits(), result.logits())
            self.assertEqual(other.test_metric, result.test_metric)
        self.assertEqual(result.logits().shape, (N, 6))
        assert result.test_metric is not None
        self.assertTrue(0 < result.test_metric < 1)
        self.refused(trainerd.DataError, "the graph has no labels", trainerd.train, self.data, **{**KEYS, "task": None, "channels": None})

    def test_may_hold_out_edges_that_are_given(self) -> None:
        rng = np.random.default_rng(1)
        held: dict[str, Any] = {"valid_edges": rng.choice(N, (2, 9)), "test_edges": rng.permutation(N)[:24].reshape(12, 2), "test_edges_negative": rng.choice(N, (2, 30)),
                "valid_tails_negative": rng.choice(N, (9, 4))}
        held["valid_edges"][1] = (held["valid_edges"][0] + 1) % N
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("default", trainerd.JobWarning)
            result = trainerd.train({**self.arrays, **held}, metrics=["mrr", "hits@10"], **KEYS)
        self.assertEqual(self.held(result), (9, 12, "validation: valid_edges.npy; test: test_edges.npy"))
        folder = trainerd.from_arrays("data", **self.arrays, **held)
        np.testing.assert_array_equal(arrays_in(folder)["test_edges"], held["test_edges"].T)
        np.testing.assert_array_equal(trainerd.train(folder, metrics=["mrr", "hits@10"], **KEYS).logits(), result.logits())
        trainerd.from_arrays("data", **self.arrays, **held, overwrite=True)
        for words, wrong in (("valid_tails_negative have shape [8, 4], expected [9, any]", {"valid_tails_negative": held["valid_tails_negative"][:8]}),
                             ("test_edges name nodes", {"test_edges": held["test_edges"] + N}),
                             ("test_edges_negative are given without test_edges", {"test_edges": None})):
            self.refused(trainerd.DataError, words, trainerd.train, {**self.arrays, **held, **wrong}, **KEYS)
        self.refused(trainerd.UsageError, "'valid_edge' is not an array of a graph", trainerd.train, {**self.arrays, "valid_edge": [[0], [1]]}, **KEYS)

    def test_of_nodes_with_names_are_held_out_by_names(self) -> None:
        ids = np.array([f"n{i}" for i in range(N)])
        edges: dict[str, Any] = {"valid_edges": np.array([[0, 1], [2, 3]]), "valid_tails_negative": np.array([[5, 6], [7, 8]])}
        numbered = trainerd.from_arrays("numbered", **self.arrays, **edges)
        named = trainerd.from_arrays("named", **{**self.arrays, "edges": ids[self.arrays["edges"]]}, ids=ids.tolist(),
                                     **{name: ids[of] for name, of in edges.items()})
        for name in edges:
            np.testing.assert_array_equal(arrays_in(named)[name], arrays_in(numbered)[name])

    def test_are_those_of_random_link_split(self) -> None:
        for directed in (True, False):
            edge_index = self.data.edge_index if directed else torch.cat([self.data.edge_index, self.data.edge_index.flip(0)], 1)
            data = self.data.clone()
            data.edge_index = edge_index[:, edge_index[0] != edge_index[1]]
            data = data.coalesce()
            split = RandomLinkSplit(num_val=0.1, num_test=0.2, is_undirected=not directed, add_negative_train_samples=directed)(data)
            valid, test = split[1], split[2]
            result = trainerd.train(split, metric="hits@10", **KEYS)
            self.assertEqual(self.held(result)[:2], (int(valid.edge_label.sum()), int(test.edge_label.sum())))
            arrays = arrays_in(trainerd.from_pyg(split, f"split{directed}"))
            np.testing.assert_array_equal(arrays["edges"], split[0].edge_index)
            np.testing.assert_array_equal(arrays["test_edges"], test.edge_label_index[:, test.edge_label == 1])
            np.testing.assert_array_equal(arrays["test_edges_negative"], test.edge_label_index[:, test.edge_label == 0])
        self.refused(trainerd.UsageError, "one of the three graphs of RandomLinkSplit", trainerd.train, split[0], **KEYS)
        self.refused(trainerd.DataError, "data is a tuple of 2, expected one graph", trainerd.train, split[:2], **KEYS)
        self.refused(trainerd.DataError, "expected edge_label_index and edge_label in each", trainerd.train, (data, *split[1:]), **KEYS)
        apart = RandomLinkSplit(num_val=0.1, num_test=0.2, disjoint_train_ratio=0.3)(data)
        self.refused(trainerd.DataError, "disjoint_train_ratio=0", trainerd.train, apart, **KEYS)
        none = trainerd.train(RandomLinkSplit(num_val=0, num_test=0.2)(data), **KEYS)
        self.assertEqual(self.held(none)[::2], (0, "validation: valid_edges.npy; test: test_edges.npy"))
        with self.assertWarnsRegex(trainerd.JobWarning, "no edge is held out \\(validation: valid_edges.npy; test: test_edges.npy\\)"):
            trainerd.train(RandomLinkSplit(num_val=0, num_test=0)(data), **KEYS)
        signed = [part.clone() for part in RandomLinkSplit(num_val=0.1, num_test=0.2, add_negative_train_samples=False)(data)]
        signed[0].edge_label[:3] = 0
        self.refused(trainerd.DataError, "is 0 for pairs that edge_index joins", trainerd.train, tuple(signed), **KEYS)
        valid.edge_label = valid.edge_label * 2
        self.refused(trainerd.DataError, "classes of edges are not predicted", trainerd.train, split, **KEYS)

    def test_are_shown_without_a_train_metric(self) -> None:
        result = trainerd.train(self.data, metrics=["hits@10", "roc_auc"], **KEYS)
        self.assertIsNone(result.best["train_metric"])
        self.assertIn("valid_hits@10", result.epochs()[0])
        self.assertIn("hits@10", result._repr_html_())
        self.assertIn("<svg", result._repr_html_())
        self.assertIn("valid_hits@10", result.metrics())
        self.assertEqual(list(result.columns()), ["id", *(f"value_{k}" for k in range(6))])
        self.refused(trainerd.DataError, "of links", result.probabilities)

    def test_are_those_of_pyg_s_modules_where_no_edge_is_held_out(self) -> None:
        folder = trainerd.from_arrays("data", **self.arrays, predict_only=True)
        result = trainerd.train(folder, valid_share=0, test_share=0, **KEYS)
        self.assertLess(logits_difference(result, folder)[1], 1e-5)
        self.assertIsNone(result.test_metric)
        self.refused(trainerd.DataError, "edges out of the graph", logits_difference, trainerd.train(folder, **KEYS), folder)

    def expect_answers(self, result: trainerd.Result, data: Any, **options: Any) -> None:
        """Scores and partners against all scores of the prediction's rows."""
        rows = trainerd.predict(result, data, output="rows", set={"partition.parts": 2}).logits()
        sums = np.zeros((N, N))
        for column in rows.astype(np.float64).T:  # in the order of the columns, as the program adds them
            sums += column[:, None] * column
        exact = sums.astype(np.float32)
        pairs = np.random.default_rng(2).integers(0, N, (2, 50))
        scores = trainerd.predict(result, data, pairs=pairs, set={"partition.parts": 2}, **options)
        np.testing.assert_array_equal(scores, exact[pairs[0], pairs[1]])
        np.testing.assert_allclose(scores, (rows[pairs[0]].astype(np.float64) * rows[pairs[1]]).sum(1), rtol=1e-6, atol=1e-9)
        joined = np.eye(N, dtype=bool)
        joined[self.arrays["edges"][0], self.arrays["edges"][1]] = True
        for known in (False, True):
            left_out = np.eye(N, dtype=bool) if known else joined | joined.T
            for best in (3, N):
                partners, scores = trainerd.predict(result, data, nodes=[5, 0, 5, 39], best=best, known=known, set={"partition.parts": 2}, **options)
                for node, found, of in zip([5, 0, 5, 39], partners, scores, strict=True):
                    others = np.flatnonzero(~left_out[node])
                    expected = others[np.lexsort((others, -exact[node, others]))][:best]
                    np.testing.assert_array_equal(found, [*expected, *[-1] * (best - len(expected))])
                    np.testing.assert_array_equal(of, [*exact[node, expected], *[np.nan] * (best - len(expected))])

    def test_answer_pairs_and_nodes(self) -> None:
        twins = self.data.x.clone()
        twins[1::2] = twins[::2]  # of nodes without edges rows and scores are equal
        self.data.x = twins
        self.data.edge_index = self.data.edge_index[:, (self.data.edge_index < 20).all(0)]
        self.arrays = {"edges": self.data.edge_index.numpy(), "features": self.data.x.numpy()}
        result = trainerd.train(self.data, **KEYS)
        before = sorted(os.listdir("runs"))
        self.expect_answers(result, self.arrays)
        self.assertEqual(sorted(os.listdir("runs")), before)
        self.assertEqual(trainerd.predict(result, self.data, pairs=np.zeros((2, 0), int)).shape, (0,))
        kept = trainerd.predict(result, self.data, pairs=torch.tensor([[0], [1]]), output="kept")
        np.testing.assert_array_equal(np.load("kept/scores.npy"), kept)
        self.refused(trainerd.DataError, "predict.pairs: ", trainerd.predict, result, self.data, pairs=[[0], [N]])
        self.refused(trainerd.DataError, "expected integers", trainerd.predict, result, self.data, nodes=[0.5])
        self.refused(trainerd.UsageError, "both given", trainerd.predict, result, self.data, nodes=[0], pairs=[[0], [1]])

    def test_answer_by_a_daemon(self) -> None:
        daemon = Daemon(self.folder)
        self.addCleanup(daemon.end)
        client = trainerd.Client(daemon.address)
        result = trainerd.train(self.data, daemon=client, **KEYS)
        np.testing.assert_array_equal(result.logits(), trainerd.train(self.data, **KEYS).logits())
        self.expect_answers(result, self.data, client=client)

    def test_of_an_encoder_of_pyg_need_its_weights_alone(self) -> None:
        torch.manual_seed(1)
        encoder = GCN(F, 16, 2, 5).eval()
        save_safetensors("encoder.safetensors", {name: of.detach().numpy() for name, of in encoder.state_dict().items()})
        folder = trainerd.from_arrays("data", **self.arrays, predict_only=True)
        pairs = np.random.default_rng(3).integers(0, N, (2, 60))
        np.save("pairs.npy", pairs)
        job = {"name": "foreign", "dataset": {"path": folder, "undirected": "no"}, "task": {"kind": "link"}, "partition": {"parts": 2, "cache": "off"},
               "model": {"kind": "gcn", "hidden": 16}, "predict": {"pairs": "pairs.npy"}, "output": {"dir": "out"}}
        pathlib.Path("job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--predict", "encoder.safetensors", "--config", "job.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        with torch.no_grad():
            rows = encoder(self.data.x, self.data.edge_index)
            expected = (rows[pairs[0]] * rows[pairs[1]]).sum(1)
        np.testing.assert_allclose(np.load("out/logits.npy"), rows, rtol=0, atol=1e-5 * float(rows.abs().max()))
        np.testing.assert_allclose(np.load("out/scores.npy"), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
        self.assertFalse(os.path.exists("out/predictions.npy"))
