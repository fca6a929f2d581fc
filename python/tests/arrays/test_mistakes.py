"""What a newcomer gets wrong: each message names the argument, what was given, and what is expected, and dumps no array."""
import unittest
import warnings
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData

import trainerd
from folders import C, F, N, FolderCase, random_data

LONGEST = 420  # characters of a message


class AMistake(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        self.edges, self.x = random_data().edge_index, torch.rand(N, F)

    def data(self, **changed: Any) -> Data:
        data = random_data()
        for name, value in {"x": self.x, **changed}.items():
            if value is None:
                del data[name]
            else:
                setattr(data, name, value)
        return data

    def said(self, data: Any, **keys: Any) -> str:
        """The error's text."""
        with self.assertRaises((trainerd.DataError, trainerd.UsageError, trainerd.JobFileError, trainerd.MissingInput)) as caught:
            trainerd.train(data, **{"epochs": 1, "progress": False, **keys})
        text = str(caught.exception)
        self.assertLess(len(text), LONGEST)
        self.assertNotIn("job.toml", text)
        self.assertNotIn("tensor(", text)
        return text

    def test_in_an_array_is_named(self) -> None:
        nan = self.x.clone()
        nan[3, 2] = float("nan")
        for name, value, words in (
                ("y", torch.rand(N), 'data.y: the labels are no whole numbers, expected classes; numbers to be predicted need loss="mse"'),
                ("y", torch.arange(N) % 3 - 2, "data.y: labels are -2 to 0, expected classes from 0"),
                ("y", torch.arange(N - 1) % 3, f"the graph has {N} nodes, but data.y of {N - 1} and data.x of {N}"),
                ("y", np.array([["a"] * 2] * N), "data.y: "),
                ("y", None, "the graph has no labels (data.y)"),
                ("train_mask", torch.ones(N - 5, dtype=torch.bool), f"data.train_mask: the train mask has shape [{N - 5}], expected [{N}]"),
                ("train_mask", torch.arange(30), "data.train_mask has values from 0 to 29, expected True or False for each node"),
                ("train_mask", torch.rand(N), "data.train_mask has values from 0."),
                ("train_mask", torch.zeros(N, dtype=torch.bool), "the graph has no training nodes (data.train_mask)"),
                ("train_mask", None, "draw=(0.6, 0.2, 0.2)"),
                ("val_mask", torch.ones(N, dtype=torch.bool), "data.val_mask: "),
                ("edge_index", self.edges.t().contiguous(), "data.edge_index: edges have shape [200, 2], expected [2, any]: it is transposed"),
                ("edge_index", self.edges + 1, f"expected 0 to {N - 1}"),
                ("edge_index", self.edges - 1, f"data.edge_index: edges name nodes -1 to {N - 2}, expected 0 to {N - 1}"),
                ("edge_index", self.edges.float(), "data.edge_index: edges have type float32, expected whole numbers"),
                ("edge_index", self.edges[0], "data.edge_index: edges have shape [200], expected [2, any]"),
                ("x", nan, "data.x: features are not all finite in float32, the first at [3, 2]"),
                ("x", torch.rand(N), f"data.x: features have shape [{N}], expected [{N}, any]: a row for each node"),
                ("x", torch.rand(N, 2, 2), f"data.x: features have shape [{N}, 2, 2], expected"),
                ("x", torch.rand(N - 1, F), f"but data.y of {N} and data.x of {N - 1}"),
                ("x", self.x + 1j, "data.x: features have type complex64, expected numbers"),
                ("x", np.array([["a"] * F] * N), "data.x: features have type <U1, expected numbers"),
                ("edge_attr", torch.rand(10, 2), "data.edge_attr: features of edges have shape [10, 2], expected [200, any]"),
                ("edge_weight", torch.rand(10), "data.edge_weight: edge weights have shape [10], expected one for each of 200 edges"),
                ("edge_weight", -torch.ones(200), "data.edge_weight: edge weights go down to -1.0, expected 0 or more")):
            with self.subTest(f"{name}: {words}"):
                self.assertIn(words, self.said(self.data(**{name: value})))

    def test_in_the_data_as_a_whole_is_named(self) -> None:
        arrays: dict[str, Any] = {"edge_index": self.edges.numpy(), "x": self.x.numpy(), "y": [0, 1] * (N // 2)}
        typed = HeteroData({"paper": {"x": self.x}})
        for data, words in (
                (None, "data is None, expected a folder's path, a graph of PyTorch Geometric or DGL"),
                (self.x, f"data is a Tensor [{N}, {F}], expected a folder's path"),
                ((self.x, self.edges, self.x), "data is a tuple, expected a folder's path"),
                ([self.data()], "of 1, expected one graph (data[0])"),
                ({**arrays, "train_mask": np.ones(N - 1, bool)}, f"data['train_mask']: the train mask has shape [{N - 1}], expected [{N}]"),
                ({**arrays, "x": [[1, 2], [3]]}, "data['x']: [[1, 2], [3]] is no array: its rows have different lengths"),
                ({**arrays, "z": self.x}, "data: 'z' is not an array of a graph"),
                ({"x": self.x, "y": self.x}, "data has arrays (x, y), and no edges: expected data['edge_index'] or data['edges']"),
                (typed, "no edges: the graph has node types (paper) and no edge type"),
                ("nowhere", "dataset.path: ")):
            with self.subTest(words):
                self.assertIn(words, self.said(data))

    def test_in_an_argument_is_named(self) -> None:
        for keys, words in (
                ({"lr": "fast"}, 'train.lr is the text "fast"; expected a number'),
                ({"epochs": 2.5}, "train.epochs is a number; expected a whole number"),
                ({"hidden": [64, 64]}, "model.hidden is [64, 64], expected a text, a number or a boolean"),
                ({"hidden": torch.ones(3)}, "model.hidden is a Tensor [3], expected"),
                ({"optimizer": torch.optim.Adam}, "train.optimizer is the class Adam, expected a text"),
                ({"model": torch.nn.Linear}, "model is the class Linear, expected a kind"),
                ({"draw": (0.5, 0.5)}, "draw is (0.5, 0.5), expected shares"),
                ({"batch_size": 32}, "batch_size=32: there is no key 'batch_size': an epoch is one step over all nodes"),
                ({"num_layers": 3}, "num_layers=3: there is no key 'num_layers'; did you mean layers=?"),
                ({"learning_rate": 0.1}, "did you mean lr=?"),
                ({"verbose": True}, "did you mean progress=?")):
            with self.subTest(words):
                self.assertIn(words, self.said(self.data(), **keys))

    def test_that_is_none_trains(self) -> None:
        loops = torch.cat([self.edges, torch.arange(N).repeat(2, 1)], 1)
        for changed in ({"y": (torch.arange(N) % C).float()}, {"y": (torch.arange(N) % C)[:, None]}, {"y": ["a", "b"] * (N // 2)},
                        {"y": torch.arange(N) % 2 == 0}, {"train_mask": (torch.arange(N) % 3 == 0).float()}, {"edge_index": self.edges.int()},
                        {"edge_index": loops}, {"x": self.x.to_sparse()}, {"x": self.x.bfloat16()}, {"x": self.x.clone().requires_grad_()},
                        {"edge_index": self.edges % (N // 2)}, {"edge_weight": torch.ones(200, 1)}):
            with self.subTest(str(changed.keys())), warnings.catch_warnings():
                warnings.simplefilter("ignore", trainerd.JobWarning)
                self.assertEqual(trainerd.train(self.data(**changed), epochs=1, progress=False).logits().shape[0], N)

    def test_of_a_graph_without_edges_is_a_warning(self) -> None:
        with self.assertWarns(trainerd.JobWarning) as caught:
            trainerd.train(self.data(edge_index=torch.zeros(2, 0, dtype=torch.long)), epochs=1, progress=False)
        self.assertIn("the graph has no edges (data.edge_index)", str(caught.warnings[0].message))


if __name__ == "__main__":
    unittest.main()
