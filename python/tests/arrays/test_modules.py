"""Predictions with models of PyTorch Geometric on whole graphs: random ones beside their own logits, and what is refused."""
import os
import random
import shutil
import tempfile
import unittest
from typing import Any

import numpy as np
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GAT, GCN, GIN, PNA, BatchNorm, GATConv, GATv2Conv, GCNConv, GINConv, GraphSAGE, LayerNorm, SAGEConv, Sequential, TransformerConv

import trainerd
from daemon import PROGRAMS
from trainerd.modules import job_of_module

DRAWS = int(os.environ.get("TEST_MODELS", "24"))
SEED = int(os.environ.get("TEST_SEED", "1"))
NEAR = 1e-5  # float32 beside float64, relative to the largest logit
F, C = 11, 5
ACTS = {"relu": nn.ReLU, "elu": nn.ELU, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, None: None}


def random_graph(rng: np.random.Generator, loops: bool, weighted: bool) -> Data:
    """Directed, with nodes that have no edges, and no edge twice."""
    n = int(rng.integers(20, 70))
    ends = rng.integers(0, n - 5, (2, int(rng.integers(n, 6 * n))))
    ends = np.unique(ends if loops else ends[:, ends[0] != ends[1]], axis=1)
    ends = ends[:, rng.permutation(ends.shape[1])]
    data = Data(x=torch.tensor(rng.standard_normal((n, F)), dtype=torch.float32), edge_index=torch.tensor(ends))
    if weighted:
        data.edge_weight = torch.tensor(rng.random(ends.shape[1]) + 0.1, dtype=torch.float32)
    return data


def shaken(model: nn.Module) -> nn.Module:
    """Weights and statistics that no initialisation has."""
    with torch.no_grad():
        for name, values in model.state_dict().items():
            if "running_var" in name:
                values.uniform_(0.5, 2.0)
            elif values.is_floating_point() and values.dim() < 2:
                values.normal_(std=0.3)
    return model.eval()


def random_basic(draw: random.Random) -> nn.Module:
    kind = draw.choice([GCN, GraphSAGE, GIN, GAT])
    act = "relu" if kind is GIN else draw.choice([*ACTS])
    norm: Any = draw.choice([None, "batch_norm"] + ([] if kind is GIN else [LayerNorm(8, mode="node")]))  # GIN has it in its MLPs, too
    options: dict[str, Any] = {"act": act, "norm": norm, "jk": draw.choice([None, "last", "cat", "max"])}
    if kind is GAT:
        options |= {"heads": draw.choice([1, 2, 4]), "v2": draw.random() < 0.5}
    if kind is GraphSAGE:
        options |= {"aggr": draw.choice(["mean", "max", "add"])}
    if kind in (GCN, GAT) and draw.random() < 0.3:
        options |= {"add_self_loops": False}
    return kind(F, 8, draw.choice([2, 3, 4]), C, dropout=0.5, act_first=norm is None and draw.random() < 0.5, **options)


def random_sequential(draw: random.Random) -> nn.Module:
    kind, n_layer, n_linear = draw.choice(["gcn", "sage", "gin", "gat", "gatv2", "transformer"]), draw.choice([1, 2, 3]), draw.choice([0, 0, 1])
    heads, bias, act = draw.choice([1, 3]), draw.random() < 0.7, draw.choice([name for name in ACTS if name])
    norm = draw.choice([None, BatchNorm, nn.BatchNorm1d, nn.LayerNorm])
    loops = {} if draw.random() < 0.7 else {"add_self_loops": False}
    parts: list[Any] = []
    width = F
    for i in range(n_layer):
        last = i == n_layer - 1 and n_linear == 0
        out = C if last else 6
        attention = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}.get(kind)
        if attention:
            conv = attention(width, out, heads=heads, concat=not last, bias=bias, **({} if kind == "transformer" else loops))
            out *= 1 if last else heads
        elif kind == "gin":
            inner = [nn.Linear(width, 5), nn.BatchNorm1d(5), nn.ReLU()] if draw.random() < 0.5 else [nn.Linear(width, 6, bias=bias), nn.ReLU()]
            conv = GINConv(nn.Sequential(*inner, nn.Linear(5 if len(inner) == 3 else 6, out, bias=bias)), eps=0.2, train_eps=draw.random() < 0.5)
        else:
            conv = GCNConv(width, out, bias=bias, **loops) if kind == "gcn" else SAGEConv(width, out, bias=bias, root_weight=bias)
        parts.append((conv, "x, edge_index, edge_weight -> x" if kind == "gcn" else "x, edge_index -> x"))
        width = out
        if not last:
            parts += [(norm(width), "x -> x")] if norm else []
            parts += [(ACTS[act](), "x -> x"), (nn.Dropout(0.4), "x -> x")]
    parts += [(nn.Linear(width, C, bias=bias), "x -> x")] * n_linear
    return Sequential("x, edge_index, edge_weight", parts)


class AModel(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = self.temporary = tempfile.mkdtemp(prefix="trainerd-modules-")
        self.addCleanup(shutil.rmtree, self.temporary)
        self.addCleanup(lambda: self.assertEqual([name for name in os.listdir(self.temporary) if name.startswith("trainerd-")], []))

    def predict(self, model: Any, data: Data, parts: int = 1, **options: Any) -> torch.Tensor:
        logits = trainerd.predict_pyg(model, data, program=PROGRAMS / "trainerd",
                                      set={"partition.parts": parts, "partition.cache": "off", "workers.threads": 1}, **options)
        assert isinstance(logits, torch.Tensor)
        return logits

    def expect_near(self, found: torch.Tensor, model: nn.Module, inputs: tuple[Any, ...], what: str) -> None:
        with torch.no_grad():
            exact = model.double()(*(part.double() if part is not None and part.is_floating_point() else part for part in inputs))
        model.float()
        difference = float((found.double() - exact).norm() / exact.norm())
        self.assertLess(difference, NEAR, what)

    def check(self, model: nn.Module, seed: int, what: str) -> None:
        rng = np.random.default_rng(seed)
        without_loops = any(getattr(part, "add_self_loops", True) is False for part in model.modules())
        weighted = any(isinstance(part, GCNConv) for part in model.modules()) and seed % 2 == 0
        data = random_graph(rng, not without_loops, weighted)
        basic = hasattr(model, "convs")
        inputs = (data.x, data.edge_index) if basic and not weighted else (data.x, data.edge_index, data.edge_weight if weighted else None)
        alone, parted = self.predict(model, data), self.predict(model, data, 3)
        self.expect_near(alone, model, inputs, what)
        self.expect_near(parted, model, inputs, what)
        self.assertTrue(torch.equal(parted, self.predict(model, data, 3, workers=2)), what)

    def test_at_random_has_its_own_logits(self) -> None:
        for i in range(DRAWS):
            seed = SEED * 100000 + i
            torch.manual_seed(seed)
            draw = random.Random(seed)
            model = shaken(random_basic(draw) if i % 2 == 0 else random_sequential(draw))
            with self.subTest(draw=i, seed=SEED):
                self.check(model, seed, f"draw {i} of seed {SEED}: {model}")

    def test_as_a_list_of_modules_in_the_order_of_their_calls(self) -> None:
        data = random_graph(np.random.default_rng(3), True, False)
        torch.manual_seed(3)
        one, two = GCNConv(F, 8), GCNConv(8, C)
        with torch.no_grad():
            expected = two(one(data.x, data.edge_index).relu(), data.edge_index)
        found = self.predict([one, nn.ReLU(), nn.Dropout(0.5), two], data)
        self.assertLess(float((found - expected).norm() / expected.norm()), NEAR)

    def test_of_labels_in_the_data_takes_no_number_of_classes(self) -> None:
        data = random_graph(np.random.default_rng(4), True, False)
        data.y = torch.zeros(data.num_nodes, dtype=torch.int64)
        model = shaken(GCN(F, 8, 2, C))
        self.expect_near(self.predict(model, data), model, (data.x, data.edge_index), "labels of one class")

    def refused(self, model: Any, *words: str) -> None:
        with self.assertRaises(trainerd.UsageError) as caught:
            job_of_module(model)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_is_refused_by_the_name_of_what_has_no_counterpart(self) -> None:
        mine = type("Mine", (nn.Module,), {})
        step = "x, edge_index -> x"
        self.refused(mine(), "Mine", "whose calls are not known")
        self.refused(PNA(F, 8, 2, C, aggregators=["mean"], scalers=["identity"], deg=torch.ones(3, dtype=torch.int64)), "'convs.0' (PNAConv)")
        self.refused(GCN(F, 8, 2, C, improved=True), "'convs.0' (GCNConv): improved is True, expected False")
        self.refused(GCN(F, 8, 2, C, act="tanh"), "'act' (Tanh)")
        self.refused(GCN(F, 8, 2, C, norm="layer_norm"), "'norms.0' (LayerNorm): mode is 'graph'")
        self.refused(GCN(F, 8, 2, C, norm="batch_norm", act_first=True), "'norms.0' (BatchNorm)", "a norm and then an activation")
        self.refused(GCN(F, 8, 3, C, jk="lstm"), "jk is 'lstm', expected 'cat', 'max' or 'last'")
        self.refused(GCN(F, 8, 3, C, act=nn.LeakyReLU(0.3)), "'act' (LeakyReLU): negative_slope is 0.3, expected 0.01")
        self.refused(GAT(F, 8, 2, C, negative_slope=0.1), "'convs.0' (GATConv): negative_slope is 0.1, expected 0.2")
        self.refused(GraphSAGE(F, 8, 2, C, aggr="median"), "'convs.0' (SAGEConv): aggr is 'median'")
        self.refused([GATConv(F, 4, heads=2, concat=False), GATConv(4, C)], "'0' averages its heads")
        self.refused([GATConv(F, 4, heads=2)], "'0' concatenates its heads")
        self.refused([GCNConv(F, 8), SAGEConv(8, C)], "the kind is 'sage' at '1' and 'gcn' at '0'")
        self.refused([GCNConv(F, 8), GCNConv(8, 9), GCNConv(9, C)], "the width is 9 at '1' and 8 at '0'")
        self.refused([GCNConv(F, 8), nn.ReLU(), GCNConv(8, 8), GCNConv(8, C)], "the activation is 'none' at '2' and 'relu' at '0'")
        self.refused([GCNConv(F, C), nn.ReLU()], "an activation or norm follows '0'")
        self.refused([nn.Linear(F, 8), GCNConv(8, C)], "then linear ones")
        self.refused([GCNConv(F, 8), nn.Softmax(), GCNConv(8, C)], "'1' (Softmax)")
        self.refused([nn.ReLU(), GCNConv(8, C)], "'0' (ReLU): expected one of GCNConv")
        self.refused([GINConv(nn.Linear(F, C))], "'0.nn' (Linear): expected Linear, ReLU, Linear")
        self.refused([GCNConv(-1, C)], "'0' (GCNConv): lin.weight has no shape yet")
        self.refused(Sequential("x, edge_index", [(GCNConv(F, F), step), (GCNConv(F, F), "x, edge_index -> y"), (lambda x, y: x + y, "x, y -> x")]),
                     "'module_2'", "expected the output of the module before it")

    def test_edges_that_a_folder_cannot_have_are_refused(self) -> None:
        data = Data(x=torch.ones(3, F), edge_index=torch.tensor([[0, 0, 1], [1, 1, 1]]))
        with self.assertRaisesRegex(trainerd.UsageError, "1 edges are there twice"):
            self.predict(GCN(F, 8, 2, C), data)
        data.edge_index = data.edge_index[:, 1:]
        with self.assertRaisesRegex(trainerd.UsageError, "self loops and the model's layers have add_self_loops=False"):
            self.predict(GCN(F, 8, 2, C, add_self_loops=False), data)
        data.edge_index = data.edge_index[:, :1]
        with self.assertRaisesRegex(trainerd.DataError, r"has shape \[8, 11\], expected \[8, 3\]"):
            self.predict(GCN(F, 8, 2, C), Data(x=torch.ones(3, 3), edge_index=data.edge_index))


if __name__ == "__main__":
    unittest.main()
