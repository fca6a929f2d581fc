"""Trained weights in PyTorch Geometric's modules: of a user's own, and of any job."""
import pathlib
import subprocess
import sys
import unittest.mock
from typing import Any

import numpy as np
import torch
from torch_geometric.nn import GAT, GCN, RGCNConv, GraphSAGE
from torch_geometric.transforms import ToUndirected

import trainerd
from folders import C, F, FolderCase, arrays_in, random_data


class AModule(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.data = ToUndirected()(random_data())
        self.path = trainerd.from_pyg(self.data, self.folder / "data")

    def test_of_one_s_own_gives_the_logits_of_the_job(self) -> None:
        for kind, model in (("gcn", GCN(F, 8, 2, C)), ("sage", GraphSAGE(F, 8, 2, C)), ("gcn", GCN(-1, 8, 2, C))):
            run = self.train(self.path, kind)
            with torch.no_grad():
                logits = trainerd.load_into_pyg(model, run.folder).eval()(self.data.x, self.data.edge_index)
            np.testing.assert_allclose(logits.numpy(), run.logits(), rtol=0, atol=1e-5 * float(np.abs(run.logits()).max()))

    def test_takes_the_last_weights_where_they_are_asked_for(self) -> None:
        run = self.train(self.path, "gcn", train={"epochs": 20, "lr": 0.1})
        model = trainerd.load_into_pyg(GCN(F, 8, 2, C), run, "model.safetensors")
        np.testing.assert_array_equal(model.convs[0].lin.weight.detach(), run.weights("model.safetensors")["convs.0.lin.weight"])

    def test_with_features_of_edges_gives_the_logits_of_the_job(self) -> None:
        data = random_data()
        data.edge_attr = torch.rand(200, 2)
        run = self.train(trainerd.from_pyg(data, self.folder / "attr"), "gat")
        with torch.no_grad():
            model = trainerd.load_into_pyg(GAT(F, 8, 2, C, edge_dim=2), run).eval()
            logits = model(data.x, data.edge_index, edge_attr=data.edge_attr)
        np.testing.assert_allclose(logits.numpy(), run.logits(), rtol=0, atol=1e-5 * float(np.abs(run.logits()).max()))
        self.refused(trainerd.DataError, "the module has no 'convs.0.att_edge'", trainerd.load_into_pyg, GAT(F, 8, 2, C), run)
        self.refused(trainerd.DataError, "'convs.0.lin_edge.weight' has shape [8, 2], expected [8, 3]", trainerd.load_into_pyg,
                     GAT(F, 8, 2, C, edge_dim=3), run)

    def test_that_does_not_fit_is_refused_with_the_names(self) -> None:
        run = self.train(self.path, "gcn")
        for model, words in ((GCN(F, 9, 2, C), "'convs.0.bias' has shape [8], expected [9]"),
                             (GCN(F, 8, 3, C), "it lacks 'convs.2.bias', 'convs.2.lin.weight'"),
                             (GraphSAGE(F, 8, 2, C), "it lacks 'convs.0.lin_l.bias' (nearest: 'convs.0.bias')"),
                             (torch.nn.Linear(2, 2), "the module has no 'convs.0.bias' (nearest: 'bias')")):
            with self.subTest(words):
                self.refused(trainerd.DataError, words, trainerd.load_into_pyg, model, run)
        self.refused(trainerd.MissingInput, "none.safetensors' is not there", trainerd.load_into_pyg, GCN(F, 8, 2, C), run, "none.safetensors")


class NodesWithoutFeatures(FolderCase):
    """Their embeddings, in PyTorch."""

    n = 3000

    def setUp(self) -> None:
        super().setUp()
        rng = np.random.default_rng(1)
        self.edges, self.relation = rng.integers(0, self.n, (2, 3 * self.n)), rng.integers(0, 2, 3 * self.n)
        self.path = trainerd.from_arrays(self.folder / "data", edges=self.edges, labels=rng.integers(0, C, self.n), edge_type=self.relation,
                                         train=np.arange(0, self.n, 3), nodes=self.n)
        self.assertNotIn("features", arrays_in(self.path))
        self.run_folder = self.train(self.path, "rgcn").folder

    def edges_once(self) -> tuple[Any, Any]:
        once = torch.tensor(np.unique(np.concatenate([self.edges, self.relation[None]]), axis=1))
        return once[:2], once[2]

    def expect(self, logits: Any) -> None:
        expected = trainerd.Result(self.run_folder).logits()
        np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=0, atol=1e-5 * float(np.abs(expected).max()))

    def test_are_an_embedding_of_a_module_of_one_s_own(self) -> None:
        class Mine(torch.nn.Module):
            def __init__(self, n: int) -> None:
                super().__init__()
                self.embedding = torch.nn.Embedding(n, 8)
                self.convs = torch.nn.ModuleList([RGCNConv(8, 8, 2), RGCNConv(8, C, 2)])

            def forward(self, edge_index: Any, edge_type: Any) -> Any:
                return self.convs[1](self.convs[0](self.embedding.weight, edge_index, edge_type).relu(), edge_index, edge_type)

        self.expect(trainerd.load_into_pyg(Mine(self.n), self.run_folder)(*self.edges_once()))
        self.refused(trainerd.DataError, f"'embedding.weight' has shape [{self.n}, 8], expected [7, 8]", trainerd.load_into_pyg, Mine(7),
                     self.run_folder)

    def test_take_no_memory_of_nodes_times_nodes_in_the_job_s_model(self) -> None:
        with unittest.mock.patch("torch.eye", side_effect=AssertionError("a dense matrix of nodes × nodes")):
            x, edge_index, edge_type = trainerd.pyg_inputs(self.run_folder, self.path)
        self.assertEqual((x.is_sparse, tuple(x.shape), x.values().numel()), (True, (self.n, self.n), self.n))
        self.expect(trainerd.pyg_model(self.run_folder)(x, edge_index, edge_type))

    def test_beside_typed_features_normalized_by_rows_give_the_same_logits(self) -> None:
        rng = np.random.default_rng(2)
        types = np.arange(self.n) % 2
        graph = trainerd.graph.Graph(self.edges, rng.integers(0, C, self.n), edge_type=self.relation, node_type=types,
                                     type_features={1: rng.random((self.n // 2, 5))}, splits={"train": np.arange(0, self.n, 3)})
        path = trainerd.graph.write_graph(graph, self.folder / "typed")
        self.run_folder = self.train(path, "rgcn", dataset={"normalize_features": "row"}).folder
        self.expect(trainerd.pyg_model(self.run_folder)(*trainerd.pyg_inputs(self.run_folder, path)))


class FeaturesMadeOfTheGraph(FolderCase):
    def test_give_the_logits_of_the_job_in_its_model(self) -> None:
        rng = np.random.default_rng(3)
        n = 60
        edges = np.concatenate([rng.integers(0, n, (2, 200)), [[7, 8, 8], [7, 9, 9]]], axis=1)  # one way, a loop, an edge twice
        path = trainerd.from_arrays(self.folder / "data", edges=edges, labels=rng.integers(0, C, n), train=np.arange(0, n, 3), nodes=n)
        for kind, word, model in (("gcnii", "learned", {}), ("gat", "learned", {"heads": 2}), ("sage", "one_hot", {"aggregator": "max"}),
                                  ("sage", "degree", {}), ("gcn", "degree", {})):
            with self.subTest(kind=kind, word=word):
                run = self.train(path, kind, dataset={"features": word, "normalize_features": "row"}, model=model)
                with torch.no_grad():
                    logits, expected = trainerd.pyg_model(run)(*trainerd.pyg_inputs(run, path)), run.logits()
                np.testing.assert_allclose(logits.numpy(), expected, rtol=0, atol=1e-5 * float(np.abs(expected).max()))


class TheCommand(FolderCase):
    def load(self, code: int, words: str, *arguments: object) -> None:
        done = subprocess.run([sys.executable, "-m", "trainerd", "load-into-pyg", *map(str, arguments)], cwd=self.folder, capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stdout + done.stderr)

    def test_compares_logits(self) -> None:
        data = random_data()
        run = self.train(trainerd.from_pyg(data, self.folder / "data"))
        self.load(0, "4 tensors loaded; logits differ by at most", run.folder, "data")
        data.x = data.x + 1
        trainerd.from_pyg(data, self.folder / "other")
        self.load(1, "is 'other' the data that the job had?", run.folder, "other")
        self.load(66, "nowhere/edges.npy' is not there, expected an npy folder", run.folder, "nowhere")
        self.load(66, "expected the folder of a job's results", pathlib.Path("none"), "data")
