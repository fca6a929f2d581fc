"""Graphs of other libraries as folders: what is written is what they have, and trainerd trains on it."""
import os
import pathlib
import types
import unittest.mock
import warnings
from typing import Any

os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl
import networkx
import numpy as np
import scipy.sparse
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.transforms import ToSparseTensor

import trainerd
from daemon import PROGRAMS
from folders import N, FolderCase, arrays_in, json_in, meta_in, random_data


class DataOfPyG(FolderCase):
    def test_is_written_as_it_is(self) -> None:
        data = random_data()
        folder = trainerd.from_pyg(data, self.folder / "deep/er/data", name="mine")
        found = arrays_in(folder)
        self.assertEqual(set(found), {"edges", "features", "labels", "train_idx", "valid_idx", "test_idx"})
        np.testing.assert_array_equal(found["edges"], data.edge_index.numpy())
        np.testing.assert_array_equal(found["features"], data.x.numpy())
        np.testing.assert_array_equal(found["labels"], data.y.numpy())
        np.testing.assert_array_equal(found["train_idx"], np.flatnonzero(data.train_mask.numpy()))
        self.assertEqual(meta_in(folder), {"name": "mine", "nodes": N, "features": 12})
        self.assertEqual(self.train(folder).json["dataset"]["name"], "mine")

    def test_may_have_its_validation_split_as_valid_mask(self) -> None:
        for name, make in (("pyg", self.pyg_with), ("dgl", self.dgl_with)):
            with warnings.catch_warnings():
                warnings.filterwarnings("error", "not read")
                found = arrays_in(make(self.folder / name, "train_mask", "valid_mask", "test_mask"))
            np.testing.assert_array_equal(found["valid_idx"], np.flatnonzero(random_data().val_mask.numpy()))
            with self.assertWarnsRegex(UserWarning, "not read: valid_mask; splits are read from train_mask, val_mask, valid_mask, test_mask"):
                make(self.folder / f"{name}-both", "train_mask", "val_mask", "valid_mask")
            with self.assertWarnsRegex(UserWarning, "not read: dev_mask, val_idx; splits"):
                self.assertNotIn("valid_idx", arrays_in(make(self.folder / f"{name}-others", "train_mask", "dev_mask", "val_idx")))

    def pyg_with(self, folder: Any, *masks: str) -> Any:
        data = random_data()
        kept = Data(x=data.x, edge_index=data.edge_index, y=data.y)
        for name in masks:
            kept[name] = getattr(data, name, data.val_mask)
        return trainerd.from_pyg(kept, folder)

    def dgl_with(self, folder: Any, *masks: str) -> Any:
        data = random_data()
        graph = dgl.graph(tuple(data.edge_index), num_nodes=N)
        graph.ndata.update(feat=data.x, label=data.y, **{name: getattr(data, name, data.val_mask) for name in masks})
        return trainerd.from_dgl(graph, folder)

    def test_with_sparse_features_and_a_sparse_adjacency_trains_to_the_same_bits(self) -> None:
        data = random_data()
        dense = self.train(trainerd.from_pyg(data, self.folder / "dense")).logits()
        sparse = ToSparseTensor(layout=torch.sparse_csr)(random_data())
        self.assertFalse(hasattr(sparse, "edge_index") and sparse.edge_index is not None)
        for layout in ("coo", "csr", "csc"):
            sparse.x = getattr(data.x, f"to_sparse_{layout}")()
            folder = trainerd.from_pyg(sparse, self.folder / layout)
            self.assertTrue({"feat_indptr", "feat_indices", "feat_data"} <= set(arrays_in(folder)))
            np.testing.assert_array_equal(self.train(folder).logits(), dense)

    def test_with_an_adjacency_of_torch_sparse_has_its_edges_and_weights(self) -> None:
        class SparseTensor:  # as torch_sparse has it
            def coo(self) -> tuple[Any, Any, Any]:
                return torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), torch.tensor([0.5, 2.0, 1.0])

            def sparse_sizes(self) -> tuple[int, int]:
                return 3, 3

        data = types.SimpleNamespace(adj_t=SparseTensor(), x=torch.eye(3), y=torch.tensor([0, 1, 0]), train_mask=torch.tensor([1, 0, 0]))
        found = arrays_in(trainerd.from_pyg(data, self.folder / "adj"))
        np.testing.assert_array_equal(found["edges"], [[1, 2, 0], [0, 1, 2]])
        np.testing.assert_array_equal(found["edge_weight"], np.array([0.5, 2.0, 1.0], np.float32))

    def test_keeps_weights_types_and_every_split(self) -> None:
        data = random_data()
        data.edge_weight = torch.rand(200)
        data.edge_type = torch.arange(200) % 3
        data.train_mask = torch.stack([data.train_mask, data.val_mask], 1)
        data.val_mask = data.val_mask[:, None]
        folder = trainerd.from_pyg(data, self.folder / "all")
        found = arrays_in(folder)
        np.testing.assert_array_equal(found["edge_weight"], data.edge_weight.numpy())
        np.testing.assert_array_equal(found["edge_type"], data.edge_type.numpy())
        np.testing.assert_array_equal(found["train_mask"], data.train_mask.numpy())
        self.assertEqual((found["valid_idx"].ndim, "train_idx" in found), (1, False))
        (folder / "valid_idx.npy").unlink()  # its nodes train in the second split
        for kind in ("gcn", "rgcn"):
            self.assertEqual(self.train(folder, kind, dataset={"split": 1}).json["dataset"]["split"]["index"], 1)

    def test_with_numbers_or_several_labels_keeps_them(self) -> None:
        data = random_data()
        data.y = torch.rand(N, 1)
        self.refused(trainerd.DataError, "the labels are no whole numbers", trainerd.from_pyg, data, self.folder / "x")
        found = arrays_in(trainerd.from_pyg(data, self.folder / "numbers", numbers=True))
        np.testing.assert_array_equal(found["labels"], data.y[:, 0].numpy())
        data.y = torch.tensor(np.arange(2 * N).reshape(N, 2) % 2)
        self.assertEqual(arrays_in(trainerd.from_pyg(data, self.folder / "several"))["labels"].shape, (N, 2))
        data.x = data.x.to(torch.bfloat16)
        np.testing.assert_array_equal(arrays_in(trainerd.from_pyg(data, self.folder / "half"))["features"], data.x.float().numpy())

    def test_without_labels_is_for_predictions(self) -> None:
        data = random_data()
        data.y = None
        self.refused(trainerd.DataError, "the graph has no labels; predict_only", trainerd.from_pyg, data, self.folder / "x")
        folder = trainerd.from_pyg(data, self.folder / "new", predict_only=True)
        self.assertEqual(set(arrays_in(folder)), {"edges", "features"})
        trained = self.train(trainerd.from_pyg(random_data(), self.folder / "old"))
        (self.folder / "new.toml").write_text(trainerd.job_text({"dataset": {"path": str(folder)}}), encoding="utf-8")
        done = self.run_program("--predict", trained.folder, "--config", "new.toml")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_with_features_of_edges_keeps_them_beside_weights(self) -> None:
        data = random_data()
        data.edge_attr, data.edge_weight = torch.rand(200, 2, dtype=torch.float64), torch.rand(200)
        folder = trainerd.from_pyg(data, self.folder / "attr")
        found = arrays_in(folder)
        np.testing.assert_array_equal(found["edge_attr"], data.edge_attr.float().numpy())
        np.testing.assert_array_equal(found["edge_weight"], data.edge_weight.numpy())
        trained = self.train(folder, "transformer")
        self.assertEqual((trained.json["dataset"]["edge_features"], trained.weights()["convs.0.lin_edge.weight"].shape[1]), (2, 2))
        data.edge_attr = torch.arange(200)
        self.assertEqual(arrays_in(trainerd.from_pyg(data, self.folder / "one"))["edge_attr"].shape, (200,))
        for rows in (torch.rand(199, 2), torch.rand(200, 0), torch.rand(200, 2, 2)):
            data.edge_attr = rows
            self.refused(trainerd.DataError, "expected [200, any] or [200]: a row for each edge", trainerd.from_pyg, data, self.folder / "x")
        data.edge_attr = torch.full((200, 1), float("nan"))
        self.refused(trainerd.DataError, "features of edges are not all finite", trainerd.from_pyg, data, self.folder / "x")

    def test_of_entities_has_the_splits_that_it_names(self) -> None:
        data = types.SimpleNamespace(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_type=torch.tensor([0, 1]), num_nodes=3,
                                     train_idx=torch.tensor([2]), train_y=torch.tensor([1]), test_idx=torch.tensor([0]),
                                     test_y=torch.tensor([0]))
        found = arrays_in(trainerd.from_pyg(data, self.folder / "entities"))
        np.testing.assert_array_equal(found["labels"], [0, -1, 1])
        np.testing.assert_array_equal(found["train_idx"], [2])


def typed_pyg() -> HeteroData:
    data = HeteroData()
    data["author"].num_nodes = 3
    data["paper"].x = torch.arange(8.0).reshape(4, 2)
    data["paper"].y = torch.tensor([0, 1, 0, 1])
    data["paper"].train_mask = torch.tensor([True, True, False, False])
    data["paper"].test_mask = torch.tensor([False, False, True, True])
    data["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 3]])
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [2, 3]])
    return data


class AGraphOfSeveralTypes(FolderCase):
    def test_of_pyg_numbers_one_type_after_another(self) -> None:
        folder = trainerd.from_pyg(typed_pyg(), self.folder / "typed")
        found = arrays_in(folder)
        np.testing.assert_array_equal(found["node_type"], [0, 0, 0, 1, 1, 1, 1])
        np.testing.assert_array_equal(found["labels"], [-1, -1, -1, 0, 1, 0, 1])
        np.testing.assert_array_equal(found["edges"], [[0, 1, 2, 3, 4], [3, 4, 6, 5, 6]])
        np.testing.assert_array_equal(found["edge_type"], [0, 0, 0, 1, 1])
        np.testing.assert_array_equal(found["train_idx"], [3, 4])
        np.testing.assert_array_equal(found["feat_t1"], np.arange(8, dtype=np.float32).reshape(4, 2))
        self.assertEqual(meta_in(folder)["relations"], 2)
        self.assertEqual(json_in(folder, "type_names"), ["author", "paper"])
        self.assertEqual(json_in(folder, "relation_names"), ["author__writes__paper", "paper__cites__paper"])
        self.assertEqual(self.train(folder, "rgcn").json["dataset"]["embedded_nodes"], 3)

    def test_of_dgl_is_the_same_folder(self) -> None:
        pyg = typed_pyg()
        graph = dgl.heterograph({("author", "writes", "paper"): tuple(pyg["author", "writes", "paper"].edge_index),
                                 ("paper", "cites", "paper"): tuple(pyg["paper", "cites", "paper"].edge_index)})
        for name, key in (("x", "feat"), ("y", "label"), ("train_mask", "train_mask"), ("test_mask", "test_mask")):
            graph.nodes["paper"].data[key] = pyg["paper"][name]
        self.assert_same_arrays(arrays_in(trainerd.from_dgl(graph, self.folder / "dgl")), arrays_in(trainerd.from_pyg(pyg, self.folder / "pyg")))

    def test_keeps_sparse_features_and_masks_of_several_splits(self) -> None:
        data = typed_pyg()
        data["paper"].x = data["paper"].x.to_sparse()
        data["paper"].train_mask = torch.tensor([[1, 0], [0, 1], [0, 0], [0, 0]])
        folder = trainerd.from_pyg(data, self.folder / "sparse")
        found = arrays_in(folder)
        np.testing.assert_array_equal(found["feat_t1_indptr"], [0, 1, 3, 5, 7])
        self.assertEqual((meta_in(folder)["features"], found["train_mask"].shape), ({"1": {"features": 2}}, (7, 2)))
        self.assertEqual(self.train(folder, "rgcn").json["state"], "SUCCEEDED")

    def test_keeps_features_of_edges_that_all_relations_have(self) -> None:
        data = typed_pyg()
        for k, e in enumerate(data.edge_types):
            data[e].edge_attr = torch.full((data[e].edge_index.shape[1], 2), float(k))
        found = arrays_in(trainerd.from_pyg(data, self.folder / "all"))
        np.testing.assert_array_equal(found["edge_attr"], np.stack([found["edge_type"]] * 2, 1))
        last = data.edge_types[-1]
        data[last].edge_attr = torch.rand(data[last].edge_index.shape[1], 3)
        with self.assertWarnsRegex(UserWarning, "features of edges are not kept: .* and they have different columns"):
            self.assertNotIn("edge_attr", arrays_in(trainerd.from_pyg(data, self.folder / "widths")))
        del data[last].edge_attr
        with self.assertWarnsRegex(UserWarning, f"and the edges from {last[0]} to {last[2]} have none"):
            self.assertNotIn("edge_attr", arrays_in(trainerd.from_pyg(data, self.folder / "some")))

    def test_keeps_weights_of_edges_and_gives_1_to_relations_without(self) -> None:
        data = typed_pyg()
        data["author", "writes", "paper"].edge_weight = torch.tensor([0.5, 2.0, 3.0])
        weights = arrays_in(trainerd.from_pyg(data, self.folder / "pyg"))["edge_weight"]
        np.testing.assert_array_equal(weights, np.array([0.5, 2, 3, 1, 1], np.float32))
        graph = dgl.heterograph({e: tuple(data[e].edge_index) for e in data.edge_types})
        graph.nodes["paper"].data.update(label=data["paper"].y, train_mask=data["paper"].train_mask)
        graph.edges["writes"].data["weight"] = data["author", "writes", "paper"].edge_weight
        np.testing.assert_array_equal(arrays_in(trainerd.from_dgl(graph, self.folder / "dgl"))["edge_weight"], weights)

    def test_may_have_labels_of_one_type_only(self) -> None:
        data = typed_pyg()
        data["author"].y = torch.tensor([0, 1, 0])
        self.refused(trainerd.DataError, "2 node types have labels (author, paper), expected one", trainerd.from_pyg, data, self.folder / "x")


class AGraphOfDgl(FolderCase):
    def test_is_the_folder_of_the_same_graph_in_pyg(self) -> None:
        data = random_data()
        data.edge_weight = torch.rand(200)
        graph = dgl.graph(tuple(data.edge_index), num_nodes=N)
        graph.ndata.update(feat=data.x, label=data.y, train_mask=data.train_mask, val_mask=data.val_mask, test_mask=data.test_mask)
        graph.edata["w"] = data.edge_weight
        graph.edata["feat"] = data.edge_attr = torch.rand(200, 3)
        pyg = arrays_in(trainerd.from_pyg(data, self.folder / "pyg"))
        self.assert_same_arrays(arrays_in(trainerd.from_dgl(graph, self.folder / "dgl")), pyg)

    def test_made_of_several_types_keeps_the_types_of_edges(self) -> None:
        typed = dgl.heterograph({("a", "r", "a"): (torch.tensor([0, 1]), torch.tensor([1, 2])),
                                 ("a", "s", "a"): (torch.tensor([2]), torch.tensor([0]))})
        graph = dgl.to_homogeneous(typed)
        graph.ndata["label"] = torch.tensor([0, 1, 0])
        graph.ndata["train_mask"] = torch.tensor([True, True, False])
        folder = trainerd.from_dgl(graph, self.folder / "flat")
        np.testing.assert_array_equal(arrays_in(folder)["edge_type"], [0, 0, 1])
        self.assertEqual(self.train(folder, "rgcn").json["dataset"]["relations"], 2)


class ADataSetOfOgb(FolderCase):
    """In both forms of the package's data sets, with splits beside the graph."""

    def test_is_the_same_folder_in_both_forms(self) -> None:
        data = random_data()
        splits = {"train": np.array([0, 1]), "valid": np.array([2]), "test": np.array([3])}
        plain = {"edge_index": data.edge_index.numpy(), "node_feat": data.x.numpy(), "edge_feat": np.ones((200, 4), np.float32), "num_nodes": N}
        data.edge_attr = torch.ones(200, 4)

        class OgbDataset:  # as ogb.nodeproppred has it
            def __init__(self, first: Any) -> None:
                self.first = first

            def __getitem__(self, i: int) -> Any:
                return self.first

            def get_idx_split(self) -> Any:
                return splits

        one = arrays_in(trainerd.from_ogb(OgbDataset((plain, data.y.numpy()[:, None])), self.folder / "one"))
        data.y, data.train_mask, data.val_mask, data.test_mask = data.y[:, None], None, None, None
        self.assert_same_arrays(arrays_in(trainerd.from_ogb(OgbDataset(data), self.folder / "other")), one)
        np.testing.assert_array_equal(one["train_idx"], splits["train"])


class AGraphOfNetworkX(FolderCase):
    def test_that_is_undirected_is_written_in_both_directions(self) -> None:
        graph = networkx.karate_club_graph()
        graph.add_edge(0, 0, weight=7.0)
        folder = trainerd.from_networkx(graph, self.folder / "karate", labels="club", features=np.eye(34), train=[0, 33], weight="weight")
        found = arrays_in(folder)
        self.assertEqual(found["edges"].shape, (2, 2 * 78 + 1))
        self.assertEqual(set(zip(*found["edges"].tolist())), {pair for u, v in graph.edges for pair in ((u, v), (v, u))})
        for (u, v), w in zip(found["edges"].T.tolist(), found["edge_weight"].tolist()):
            self.assertEqual(w, graph.edges[u, v]["weight"])
        self.assertEqual((json_in(folder, "class_names"), meta_in(folder)["classes"]), (["Mr. Hi", "Officer"], 2))
        self.assertNotIn("node_names", found)
        np.testing.assert_array_equal(found["labels"], [graph.nodes[v]["club"] == "Officer" for v in graph])
        self.assertEqual(self.train(folder).json["dataset"]["edge_weights"], True)

    def test_that_is_directed_is_written_as_it_is_with_names_as_nodes(self) -> None:
        graph = networkx.DiGraph([("a", "b"), ("c", "b")])
        for node in graph:
            graph.nodes[node]["size"] = float(ord(node))
        found = arrays_in(trainerd.from_networkx(graph, self.folder / "abc", labels={"a": 1, "c": 0}, features="size", train="a", test=["c"]))
        np.testing.assert_array_equal(found["edges"], [[0, 2], [1, 1]])
        np.testing.assert_array_equal(found["labels"], [1, -1, 0])
        np.testing.assert_array_equal(found["features"], [[97], [98], [99]])
        np.testing.assert_array_equal(found["node_names"], ["a", "b", "c"])

    def test_with_any_nodes_keeps_their_names(self) -> None:
        grid = networkx.grid_2d_graph(2, 2)
        found = arrays_in(trainerd.from_networkx(grid, self.folder / "grid", labels=dict.fromkeys(grid, 0), train=[(0, 0)]))
        np.testing.assert_array_equal(found["node_names"], ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"])
        graph = networkx.Graph([(1007, 2003)])
        found = arrays_in(trainerd.from_networkx(graph, self.folder / "numbers", labels={1007: 0}, train=[1007]))
        np.testing.assert_array_equal(found["node_names"], [1007, 2003])

    def test_that_does_not_fit_is_refused(self) -> None:
        graph = networkx.Graph([(0, 1)])
        self.refused(trainerd.DataError, "5 is not a node of the graph", trainerd.from_networkx, graph, self.folder / "x", train=[5])
        self.refused(trainerd.DataError, "node 0 has no attribute 'none'", trainerd.from_networkx, graph, self.folder / "x", features="none")
        self.refused(trainerd.DataError, "labels are texts ('a') and others (1)", trainerd.from_networkx, graph, self.folder / "x",
                     labels={0: "a", 1: 1})
        for ragged, words in (([1.0], "'x' of node 1 has shape [1], expected [2] as of node 0"), ("b", "'x' of node 1 is 'b', expected a number or a"),
                              (None, "'x' of node 1 is None"), ([[1.0], [2.0]], "'x' of node 1 has shape [2, 1]")):
            networkx.set_node_attributes(graph, {0: [1.0, 2.0], 1: ragged}, "x")
            self.refused(trainerd.DataError, words, trainerd.from_networkx, graph, self.folder / "x", features="x")
        self.refused(trainerd.DataError, "the label [1, 2] is a list, expected a number or a text", trainerd.from_networkx, graph, self.folder / "x",
                     labels={0: [1, 2], 1: [1]})
        networkx.set_edge_attributes(graph, "far", "w")
        self.refused(trainerd.DataError, "'w' of the edge from 0 to 1 is 'far', expected a number", trainerd.from_networkx, graph,
                     self.folder / "x", weight="w")


class Arrays(FolderCase):
    def make(self, folder: str | pathlib.Path = "made", **changed: Any) -> Any:
        given: dict[str, Any] = {"edges": [[0, 1, 2], [1, 2, 0]], "labels": [0, 1, 0], "features": np.eye(3), "train": [0], "valid": [1], "test": [2]}
        return trainerd.from_arrays(folder if isinstance(folder, pathlib.Path) else self.folder / folder, **{**given, **changed})

    def test_are_written_and_train(self) -> None:
        folder = self.make(edge_weight=[0.5, 1, 2], train=np.array([True, False, False]))
        np.testing.assert_array_equal(arrays_in(folder)["train_idx"], [0])
        np.testing.assert_array_equal(arrays_in(self.make("column", train=torch.tensor([[0], [2]])))["train_idx"], [0, 2])
        self.assertEqual(self.train(folder).json["dataset"]["nodes"], 3)
        sparse = self.make("sparse", features=scipy.sparse.csr_matrix(np.eye(3)), node_type=None)
        self.assertEqual(meta_in(sparse)["features"], 3)
        added = self.make("added", features=scipy.sparse.coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), (3, 2)))
        np.testing.assert_array_equal(arrays_in(added)["feat_data"], [3])

    def test_of_edges_may_be_rows_or_a_sparse_matrix(self) -> None:
        expected = arrays_in(self.make())
        self.assert_same_arrays(arrays_in(self.make("rows", edges=np.array([[0, 1], [1, 2], [2, 0]]))), expected)
        matrix = scipy.sparse.csr_array(([1.0, 1.0, 1.0], ([0, 1, 2], [1, 2, 0])))
        self.assert_same_arrays(arrays_in(self.make("matrix", edges=matrix)), expected)
        found = arrays_in(self.make("weights", edges=2 * matrix, features=scipy.sparse.csr_array(np.eye(3)), train=[[0]]))
        np.testing.assert_array_equal(found["edge_weight"], [2, 2, 2])
        np.testing.assert_array_equal(found["feat_indices"], [0, 1, 2])

    def test_with_names_are_numbered_and_the_names_kept(self) -> None:
        expected = arrays_in(self.make())
        for name, ids in (("texts", ["ada", "bo", "cy"]), ("numbers", [70, 9, 2**40])):
            a, b, c = ids
            folder = self.make(name, ids=ids, edges=[[a, b, c], [b, c, a]], labels=["x", "y", "x"], train=[a], valid=[b], test=[False, False, True])
            found = arrays_in(folder)
            np.testing.assert_array_equal(found.pop("node_names"), ids)
            self.assert_same_arrays(found, expected)
            self.assertEqual(json_in(folder, "class_names"), ["x", "y"])
        done = self.train(folder)
        self.assertEqual(done.json["dataset"]["classes"], 2)
        mixed = self.make("mixed", ids=["1", "b", "c"], edges=np.array([[1], [1]]), train=[1], valid=None, test=None, labels=["x", None, float("nan")])
        np.testing.assert_array_equal(arrays_in(mixed)["edges"], [[0], [0]])
        np.testing.assert_array_equal(arrays_in(mixed)["labels"], [0, -1, -1])
        self.assertEqual(json_in(mixed, "class_names"), ["x"])
        self.make("known", labels=["y", "y", "y"], classes=["z", "y"])
        np.testing.assert_array_equal(arrays_in(self.folder / "known")["labels"], [1, 1, 1])

    def test_without_splits_have_some_drawn_of_each_class(self) -> None:
        n, labels = 1000, np.repeat([0, 1, 2, -1], [900, 88, 2, 10])
        given: dict[str, Any] = {"edges": np.zeros((2, 0), int), "features": np.ones((n, 1)), "train": None, "valid": None, "test": None}
        found = arrays_in(self.make(labels=labels, draw=(0.6, 0.2, 0.2), **given))
        drawn = [found[f"{split}_idx"] for split in ("train", "valid", "test")]
        self.assertEqual([[int((labels[nodes] == k).sum()) for k in (0, 1, 2, -1)] for nodes in drawn],
                         [[540, 53, 1, 0], [180, 17, 1, 0], [180, 18, 0, 0]])
        self.assertEqual(len(set(np.concatenate(drawn))), 990)
        again = arrays_in(self.make("again", labels=labels, draw=(0.6, 0.2, 0.2), **given))
        self.assert_same_arrays(again, found)
        other = arrays_in(self.make("other", labels=labels, draw=(0.6, 0.2, 0.2), seed=2, **given))
        self.assertFalse(np.array_equal(other["train_idx"], found["train_idx"]))
        numbers = arrays_in(self.make("numbers", labels=np.where(labels < 0, np.nan, labels), numbers=True, draw=(0.5, 0, 0.25), **given))
        self.assertEqual([len(numbers[f"{split}_idx"]) for split in ("train", "valid", "test")], [495, 0, 248])

    def test_of_a_home_folder_are_written_there(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"HOME": str(self.folder)}):
            folder = self.make(pathlib.Path("~/home"))
            self.assertEqual(folder, self.folder / "home")
            trained = self.train(folder, dataset={"path": "~/home"})
            self.assertEqual(trained.json["dataset"]["path"], str(folder.resolve()))
            program = PROGRAMS / "trainerd"
            result = trainerd.predict(f"~/runs/{trained.folder.name}", "~/home", program=program, set={"partition.parts": 2}, output="~/out")
            self.assertEqual(result.folder.resolve(), (self.folder / "out").resolve())
            np.testing.assert_array_equal(trainerd.Result("~/out").logits(), trained.logits())

    def test_that_are_wrong_are_refused_and_leave_nothing(self) -> None:
        for changed, words in (
                ({"edges": [[0, 3], [1, 1]]}, "edges name nodes 0 to 3, expected 0 to 2"),
                ({"edges": [[0, -1], [1, 1]]}, "edges name nodes -1 to 1"),
                ({"edges": [[0.5], [1.0]]}, "edges have type float64, expected whole numbers"),
                ({"edges": [[0, 1, 2]]}, "edges have shape [1, 3], expected [2, any]"),
                ({"edges": [["a"], ["b"]]}, "edges have type <U1, expected numbers of nodes, or ids=[...]: the nodes' names"),
                ({"labels": [0, 0.5, 1]}, "the labels are no whole numbers"),
                ({"labels": [["a"], ["b"], ["c"]]}, "labels have shape [3, 1] and type <U1"),
                ({"labels": ["a", "b", "c"], "classes": ["a", "b"]}, "the label 'c' is none of the classes 'a', 'b'"),
                ({"classes": ["a"]}, "there are 1 names of classes, and labels of 2"),
                ({"labels": [-5, 7, 0]}, "expected classes from 0 to 2147483646, -1 for none; numbers to be predicted need loss="),
                ({"ids": ["a", "b", "a"], "edges": [["a"], ["b"]]}, "ids: 'a' is there twice, in row 0 and in row 2"),
                ({"ids": ["a", None, "c"], "edges": [["a"], ["c"]]}, "ids: row 1 has none, expected one in each row"),
                ({"ids": ["a", "b", "c"], "edges": [["a", "d"], ["b", "a"]]}, "edges: 'd' (row 1) is not the name of a node"),
                ({"ids": [7, 8, 9], "edges": [[7], [8]], "train": [0]}, "train: 0 (row 0) is not the name of a node"),
                ({"ids": [7, 8], "edges": [[7], [8]], "train": [7], "valid": None, "test": None}, "the graph has 2 nodes, but labels of 3 and"),
                ({"labels": [0, 1, 2**40]}, "labels are 0 to 1099511627776, expected classes from 0 to 2147483646, -1 for none"),
                ({"labels": [0, 1, -2]}, "labels are -2 to 1, expected classes from 0 to 2147483646, -1 for none; numbers to be predicted need"),
                ({"labels": [0.0, np.nan, 1e300]}, "labels are 0.0 to 1e+300"),
                ({"labels": None}, "the graph has no labels"),
                ({"features": np.eye(2)}, "the graph has 3 nodes, but labels of 3 and features of 2"),
                ({"features": np.array([1.0, 2.0, 3.0])}, "features have shape [3]"),
                ({"features": np.full((3, 2), np.nan)}, "features are not all finite in float32, the first at [0, 0]"),
                ({"features": np.full((3, 2), 1e300)}, "features are not all finite"),
                ({"features": np.array([["a"]] * 3)}, "features have type <U1, expected numbers"),
                ({"edge_weight": [1, 2]}, "edge weights have shape [2], expected one for each of 3 edges"),
                ({"edge_weight": [1, 2, -1]}, "edge weights go down to -1.0, expected 0 or more"),
                ({"edge_weight": [1, 2, np.inf]}, "edge weights are not all finite"),
                ({"edge_type": [0, 1, 65536]}, "edge types are 0 to 65536, expected 0 to 65535"),
                ({"edge_type": [0, 1]}, "edge types have shape [2], expected one for each of 3 edges"),
                ({"node_type": [0, 1]}, "node types have shape [2], expected one for each of 3 nodes"),
                ({"nodes": 4}, "the graph has 4 nodes, but labels of 3 and features of 3"),
                ({"train": [3]}, "train nodes have shape [1] and are 3 to 3, expected numbers from 0 to 2"),
                ({"train": [0.5]}, "train nodes have type float64"),
                ({"valid": np.zeros(2, bool)}, "the valid mask has shape [2], expected [3] or [3, splits]"),
                ({"train": None}, "the graph has no training nodes"),
                ({"train": np.zeros((3, 2), bool)}, "the graph has no training nodes")):
            with self.subTest(words):
                self.refused(trainerd.DataError, words, self.make, **changed)
        self.assertEqual(list(self.folder.iterdir()), [])
        self.refused(trainerd.UsageError, "draw is (0.6,), expected shares of training, validation and test", self.make, draw=(0.6,))
        self.refused(trainerd.UsageError, "'edge_types' is not an array or option of from_arrays, expected one of classes, draw, edge_attr, edge_type,", self.make,
                     edge_types=1)
        self.refused(trainerd.DataError, "neither labels nor features nor a number of nodes", self.make, labels=None, features=None)

    def test_of_a_graph_for_predictions_may_be_edges_alone(self) -> None:
        folder = self.make(labels=None, features=None, train=None, valid=None, test=None, nodes=5, predict_only=True)
        self.assertEqual((set(arrays_in(folder)), meta_in(folder)["nodes"]), ({"edges"}, 5))

    def test_are_complete_or_not_there(self) -> None:
        written, save = [], np.save

        def full(file: Any, values: Any) -> None:
            written.append(file.name)
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            save(file, values)

        with unittest.mock.patch("numpy.save", full):
            self.refused(trainerd.CannotCreate, "No space left on device", self.make)
        self.assertEqual((len(written), list(self.folder.iterdir())), (3, []))
        before = arrays_in(self.make())
        written.clear()
        with unittest.mock.patch("numpy.save", full):
            self.refused(trainerd.CannotCreate, "No space left on device", self.make, overwrite=True, labels=[1, 1, 1])
        self.assertEqual([path.name for path in self.folder.iterdir()], ["made"])
        self.assert_same_arrays(arrays_in(self.folder / "made"), before)

    def test_replace_nothing_but_an_older_conversion_and_only_where_asked(self) -> None:
        folder = self.make(edge_weight=[1, 1, 1])
        self.refused(trainerd.CannotCreate, "already exists, expected a new or an empty folder; overwrite=True (--overwrite) replaces it", self.make)
        self.make(overwrite=True)
        self.assertNotIn("edge_weight", arrays_in(folder))
        self.assertEqual([path.name for path in self.folder.iterdir()], ["made"])
        (folder / "thesis.txt").write_text("mine", encoding="ascii")
        self.refused(trainerd.CannotCreate, "has thesis.txt, which no conversion writes", self.make, overwrite=True)
        self.assertEqual((folder / "thesis.txt").read_text(encoding="ascii"), "mine")
        (self.folder / "file").write_text("", encoding="ascii")
        self.refused(trainerd.CannotCreate, "is not a folder", self.make, "file")
        self.refused(trainerd.CannotCreate, "file': File exists", self.make, "file/below")
        (self.folder / "link").symlink_to("made2")
        self.make("link")
        self.assertTrue((self.folder / "link").is_symlink() and (self.folder / "made2/edges.npy").exists())
        os.umask(mask := os.umask(0))
        self.assertEqual((self.folder / "made2").stat().st_mode & 0o777, 0o777 & ~mask)
