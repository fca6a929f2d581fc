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
from torch_geometric.nn import (
    APPNP, GAT, GCN, GIN, MLP, PNA, AGNNConv, ARMAConv, BatchNorm, ChebConv, ClusterGCNConv, EdgeCNN, EdgeConv, FiLMConv, GATConv, GATv2Conv,
    GCN2Conv, GCNConv, GINConv, GraphConv, GraphSAGE, JumpingKnowledge, LayerNorm, LEConv, LGConv, MixHopConv, PNAConv, ResGatedGraphConv, SAGEConv, Sequential,
    SGConv, SSGConv, TAGConv, TransformerConv)

import trainerd
from daemon import PROGRAMS
from trainerd.module_program import ACTIVATIONS, LAYERS, WEIGHED
from trainerd.modules import job_of_module

DRAWS = int(os.environ.get("TEST_MODELS", "12"))
SEED = int(os.environ.get("TEST_SEED", "1"))
NEAR = 1e-5  # float32 beside float64, relative to the largest logit
F, C = 11, 5
ACTS = {"relu": nn.ReLU, "elu": nn.ELU, "leaky_relu": nn.LeakyReLU, "gelu": nn.GELU, None: None}


def random_graph(rng: np.random.Generator, weighted: bool) -> Data:
    """Directed, with nodes that have no edges, and no edge twice."""
    n = int(rng.integers(20, 70))
    ends = rng.integers(0, n - 5, (2, int(rng.integers(n, 6 * n))))
    ends = np.unique(ends, axis=1)
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


def act_of(draw: random.Random, width: int) -> nn.Module:
    made: list[nn.Module] = [nn.ELU(0.7), nn.GELU(), nn.LeakyReLU(0.3), nn.PReLU(draw.choice([1, width])), nn.ReLU(), nn.ReLU6(), nn.SiLU(),
                             nn.Sigmoid(), nn.Softplus(), nn.Tanh()]
    return draw.choice(made)


def norm_of(draw: random.Random, width: int) -> nn.Module:
    made: list[nn.Module] = [nn.BatchNorm1d(width, affine=draw.random() < 0.5, eps=1e-3), BatchNorm(width), LayerNorm(width, mode="node"),
                             nn.LayerNorm(width), nn.Identity()]
    return draw.choice(made)


def pna_of(draw: random.Random, f: int, out: int) -> PNAConv:
    aggregators = draw.sample(["mean", "min", "max", "std", "var", "sum"], draw.choice([1, 3, 4]))
    scalers = draw.sample(["identity", "amplification", "attenuation", "linear", "inverse_linear"], draw.choice([1, 3]))
    divides = f % 2 == 0 and out % 2 == 0 and draw.random() < 0.5
    return PNAConv(f, out, aggregators, scalers, torch.tensor([3, 5, 9, 4, 1]), towers=2 if out % 2 == 0 else 1, pre_layers=draw.choice([1, 2]),
                   post_layers=draw.choice([1, 2]), divide_input=divides)


def layer_of(draw: random.Random, kind: str, f: int, out: int) -> tuple[nn.Module, int]:
    """A layer of any kind with random options, and its columns."""
    bias, k, a = draw.random() < 0.7, draw.choice([1, 2, 4]), draw.choice([0.0, 0.1, 0.4])
    loops = {} if draw.random() < 0.7 else {"add_self_loops": False}
    heads, joins = draw.choice([1, 3]), draw.random() < 0.5
    mlps: list[Any] = [lambda w: nn.Linear(w, out, bias=bias),
                       lambda w: nn.Sequential(nn.Linear(w, 7), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, out)),
                       lambda w: MLP([w, 6, out], act=draw.choice(["elu", None]), norm=draw.choice(["batch_norm", None]), act_first=bias),
                       lambda w: MLP([w, 6, out], plain_last=False)]
    mlp = draw.choice(mlps)
    made: dict[str, Any] = {
        "AGNNConv": lambda: AGNNConv(bias, **loops), "APPNP": lambda: APPNP(k, a, **loops),
        "ARMAConv": lambda: ARMAConv(f, out, draw.choice([1, 2]), k, bias, act=draw.choice([nn.ReLU(), nn.Tanh(), None]), bias=joins),
        "ClusterGCNConv": lambda: ClusterGCNConv(f, out, a, bias=bias),
        "EdgeConv": lambda: EdgeConv(mlp(2 * f), draw.choice(["max", "mean", "add", "min"])),
        "FiLMConv": lambda: FiLMConv(f, out, act=draw.choice([nn.ReLU(), nn.Tanh(), None])),
        "GATConv": lambda: GATConv(f, out, heads, joins, negative_slope=0.3, bias=bias, **loops),
        "GATv2Conv": lambda: GATv2Conv(f, out, heads, joins, negative_slope=0.3, bias=bias, share_weights=k == 1, **loops),
        "GCN2Conv": lambda: GCN2Conv(f, a, 0.5, k, shared_weights=bias, **loops),
        "GCNConv": lambda: GCNConv(f, out, bias=bias, **({"normalize": False} if k == 1 else loops)),
        "GINConv": lambda: GINConv(mlp(f), 0.3, bias), "GraphConv": lambda: GraphConv(f, out, draw.choice(["add", "mean", "max"]), bias),
        "LEConv": lambda: LEConv(f, out, bias), "LGConv": lambda: LGConv(bias),
        "MixHopConv": lambda: MixHopConv(f, out, draw.choice([[0, 1, 2], [1, 3], [2]]), bias=bias, **loops), "PNAConv": lambda: pna_of(draw, f, out),
        "ResGatedGraphConv": lambda: ResGatedGraphConv(f, out, draw.choice([nn.Sigmoid(), nn.Tanh()]), root_weight=joins, bias=bias),
        "SAGEConv": lambda: SAGEConv(f, out, draw.choice(["mean", "max", "add", "min"]), bias, joins, k == 1),
        "SGConv": lambda: SGConv(f, out, k, bias=bias, **loops), "SSGConv": lambda: SSGConv(f, out, a, k, bias=bias, **loops),
        "TAGConv": lambda: TAGConv(f, out, k, bias, draw.random() < 0.7),
        "TransformerConv": lambda: TransformerConv(f, out, heads, joins, bias=bias, root_weight=k > 1)}
    conv = made[kind]()
    if kind == "MixHopConv":
        return conv, out * len(conv.powers)
    return conv, f if kind in ("AGNNConv", "APPNP", "GCN2Conv", "LGConv") else out * heads if "concat" in vars(conv) and joins else out


def random_layers(draw: random.Random, kind: str) -> nn.Module:
    """Two layers of a kind, with anything of rows around them."""
    call = "x, edge_index, edge_weight -> x" if kind in WEIGHED else "x, edge_index -> x"
    width, parts = F, list[Any]()
    if draw.random() < 0.5 or kind == "GCN2Conv":
        width = draw.choice([5, 6])
        parts += [(nn.Linear(F, width), "x -> x"), (act_of(draw, width), "x -> x0"), (nn.Identity(), "x0 -> x")]
    options = draw.getstate()
    for _ in range(2):
        draw.setstate(options)  # self loops as in the first one
        conv, out = layer_of(draw, kind, width, draw.choice([3, 8]))
        parts.append((conv, "x, x0, edge_index, edge_weight -> x" if kind == "GCN2Conv" else call))
        width = out
        parts += [(norm_of(draw, width), "x -> x"), (nn.Sequential(act_of(draw, width), nn.Dropout(0.5)), "x -> x")]
    return Sequential("x, edge_index, edge_weight", [*parts, (nn.Linear(width, C), "x -> x")][:None if draw.random() < 0.7 else -1])


def random_mixed(draw: random.Random) -> nn.Module:
    """A layer with GCN's norm and one that takes means, in either order."""
    def conv(takes_means: bool, f: int, out: int) -> tuple[nn.Module, str, int]:
        weighed = "x, edge_index, edge_weight -> x"
        normed: list[Any] = [
            lambda: (ARMAConv(f, out), weighed, out), lambda: (TAGConv(f, out, 2), weighed, out), lambda: (SGConv(f, out, 2, add_self_loops=False), weighed, out),
            lambda: (MixHopConv(f, out, [0, 1], add_self_loops=False), weighed, 2 * out), lambda: (GCNConv(f, out, add_self_loops=False), weighed, out)]
        means: list[Any] = [
            lambda: (SAGEConv(f, out), "x, edge_index -> x", out), lambda: (GraphConv(f, out, "mean"), weighed, out),
            lambda: (EdgeConv(nn.Sequential(nn.Linear(2 * f, 7), nn.ELU(), nn.Linear(7, out)), "mean"), "x, edge_index -> x", out),
            lambda: (pna_of(draw, f, out), "x, edge_index -> x", out)]
        made: tuple[nn.Module, str, int] = draw.choice(means if takes_means else normed)()
        return made

    first = draw.random() < 0.5
    one, call, width = conv(first, F, draw.choice([4, 6]))
    two, then, out = conv(not first, width, draw.choice([4, 6]))
    return Sequential("x, edge_index, edge_weight", [(one, call), (nn.ELU(), "x -> x"), (two, then), (nn.Linear(out, C), "x -> x")])


class OfArguments(nn.Module):  # type: ignore[misc]
    """Residuals, values that are joined, models inside, and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = GCNConv(F, 16), GCNConv(16, 16), nn.BatchNorm1d(16)
        self.mlp, self.inner, self.jump, self.last = MLP([16, 8, 16]), GCN(16, 16, 2), JumpingKnowledge("max"), nn.Linear(48, C)

    def forward(self, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
        h = nn.functional.dropout(nn.functional.elu(self.norm(self.first(x, edge_index, edge_weight))), p=0.5, training=self.training)
        y = self.second(h, edge_index, edge_weight=edge_weight).relu() + h
        z = self.inner(self.mlp(y), edge_index, edge_weight)
        return nn.functional.log_softmax(self.last(torch.cat([z, h, self.jump([y, z])], dim=-1)), dim=1)


class OfData(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList([SAGEConv(F, 16), GraphConv(16, 16), SAGEConv(16, C)])

    def forward(self, data: Any) -> Any:
        x, edge_index = data.x, data.edge_index
        for conv in self.convs[:-1]:
            x = nn.functional.leaky_relu(conv(x, edge_index), 0.2)
        return torch.sigmoid(self.convs[-1](x, edge_index))


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
        difference = float((found.double() - exact).norm() / exact.norm().clamp(min=1e-30))  # a relu may leave zeros alone
        self.assertLess(difference, NEAR, what)

    def check(self, model: nn.Module, seed: int, what: str) -> None:
        rng = np.random.default_rng(seed)
        weighted = any(type(part).__name__ in WEIGHED for part in model.modules()) and seed % 2 == 0
        data = random_graph(rng, weighted)
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

    def test_of_layers_of_any_kind_has_its_own_logits(self) -> None:
        for i, kind in enumerate(sorted(LAYERS)):
            for j in range(max(2, DRAWS // 12)):
                seed = SEED * 100000 + 1000 * j + i
                torch.manual_seed(seed)
                with self.subTest(kind, draw=j, seed=SEED):
                    model = shaken(random_layers(random.Random(seed), kind))
                    self.check(model, seed, f"{kind} {j} of seed {SEED}: {model}")

    def test_of_layers_with_norms_and_with_means_has_its_own_logits(self) -> None:
        for i in range(DRAWS // 2):
            seed = SEED * 100000 + 50000 + i
            torch.manual_seed(seed)
            with self.subTest(draw=i, seed=SEED):
                model = shaken(random_mixed(random.Random(seed)))
                self.check(model, seed, f"draw {i} of seed {SEED}: {model}")

    def test_of_pyg_s_other_models_has_its_own_logits(self) -> None:
        degrees = torch.tensor([3, 5, 9, 4, 1])
        for i, jump in enumerate([None, "last", "cat", "max"]):
            torch.manual_seed(i)
            options: dict[str, Any] = {"jk": jump, "norm": "batch_norm" if i % 2 else None, "act": "tanh" if i > 1 else "relu"}
            for model in (PNA(F, 8, 3, C, aggregators=["mean", "std"], scalers=["identity", "attenuation"], deg=degrees, **options),
                          EdgeCNN(F, 8, 2, C, **options), GIN(F, 8, 2, C, **options), GraphSAGE(F, 8, 3, C, normalize=True, **options)):
                with self.subTest(type(model).__name__, jk=jump):
                    self.check(shaken(model), i, f"{jump}: {model}")

    def test_of_several_kinds_and_values_has_its_own_logits(self) -> None:
        step = "x, edge_index -> x"
        torch.manual_seed(5)
        model = shaken(Sequential("x, edge_index, edge_weight", [
            (nn.LayerNorm(F), "x -> x"), (GraphConv(F, 8), "x, edge_index, edge_weight -> a"), (SAGEConv(F, 6, "max"), "x, edge_index -> b"),
            (EdgeConv(nn.Linear(16, 9)), "a, edge_index -> c"), (nn.Tanh(), "b -> b"), (GINConv(nn.Linear(6, 9)), "b, edge_index -> d"),
            (GCN2Conv(9, 0.3, 0.5, 2, add_self_loops=False), "c, d, edge_index, edge_weight -> x"), (nn.ReLU(), "x -> x"), (LGConv(False), step)]))
        self.assertRaises(trainerd.UsageError, job_of_module, model)  # LGConv takes no edge weights here
        model = shaken(Sequential("x, edge_index, edge_weight", list(zip(list(model.children())[:-1], [
            "x -> x", "x, edge_index, edge_weight -> a", "x, edge_index -> b", "a, edge_index -> c", "b -> b", "b, edge_index -> d",
            "c, d, edge_index, edge_weight -> x", "x -> x"]))))
        self.check(model, 4, str(model))

    def test_of_a_class_of_one_s_own_is_read_from_its_forward(self) -> None:
        models: list[Any] = [OfArguments(), OfData()]
        for seed, model in enumerate(models):
            torch.manual_seed(seed)
            data = random_graph(np.random.default_rng(seed), True)
            inputs = (data.x, data.edge_index, data.edge_weight) if isinstance(model, OfArguments) else (data.clone(),)
            found = self.predict(shaken(model), data, 3, workers=2)
            with torch.no_grad():
                expected = model(*inputs)
            self.assertLess(float((found - expected).norm() / expected.norm()), NEAR)

    def test_of_a_forward_that_cannot_be_read_is_refused(self) -> None:
        def model(call: Any) -> Any:
            made: Any = type("Own", (nn.Module,), {"forward": call})()
            made.conv = GCNConv(F, C)
            return made

        def depends(self: Any, x: Any, edge_index: Any) -> Any:
            return self.conv(x if x.sum() > 0 else -x, edge_index)
        for words, call in (("the calls of 'Own' cannot be read from its forward", depends),
                            ("'mul' (mul) in its forward: no layer, norm or activation is known", lambda self, x, edge_index: self.conv(x, edge_index) * x),
                            ("'batch' of the data, expected x, edge_index", lambda self, data: self.conv(data.x, data.batch)),
                            ("expected rows of nodes, and not (conv, conv)", lambda self, x, edge_index: (self.conv(x, edge_index),) * 2),
                            ("a sum of 11 and 5 columns", lambda self, x, edge_index: x + self.conv(x, edge_index)),
                            ("'conv_lin_weight' (conv.lin.weight) in its forward: expected rows of nodes", lambda self, x, edge_index: x + self.conv.lin.weight),
                            ("'conv' (conv) in its forward: expected rows of nodes, and not edge_index", lambda self, x, edge_index: self.conv(edge_index, x)),
                            ("'cat' (cat) in its forward", lambda self, x, edge_index: torch.cat([x, x], 0))):
            with self.subTest(words), self.assertRaises(trainerd.UsageError) as caught:
                job_of_module(model(call), F)
            self.assertIn(words, str(caught.exception))

    def test_as_a_list_of_modules_in_the_order_of_their_calls(self) -> None:
        data = random_graph(np.random.default_rng(3), False)
        torch.manual_seed(3)
        one, two = GCNConv(F, 8), GCNConv(8, C)
        with torch.no_grad():
            expected = two(one(data.x, data.edge_index).relu(), data.edge_index)
        found = self.predict([one, nn.ReLU(), nn.Dropout(0.5), two], data)
        self.assertLess(float((found - expected).norm() / expected.norm()), NEAR)

    def test_of_labels_in_the_data_takes_no_number_of_classes(self) -> None:
        data = random_graph(np.random.default_rng(4), False)
        data.y = torch.zeros(data.num_nodes, dtype=torch.int64)
        model = shaken(GCN(F, 8, 2, C))
        self.expect_near(self.predict(model, data), model, (data.x, data.edge_index), "labels of one class")

    def refused(self, model: Any, *words: str) -> None:
        with self.assertRaises(trainerd.UsageError) as caught:
            job_of_module(model)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_is_refused_by_the_name_of_what_has_no_counterpart(self) -> None:
        step = "x, edge_index -> x"
        self.refused(nn.Module(), "the calls of 'Module' cannot be read from its forward")
        self.refused([GCNConv(F, 8), nn.Softmax(0)], "'1' (Softmax)")
        self.refused([nn.Softmax(1)], "it has no modules before its softmax")
        self.refused([ChebConv(F, C, 2)], "'0' (ChebConv): expected one of AGNNConv, APPNP")
        self.refused(GCN(F, 8, 2, C, improved=True), "'convs.0' (GCNConv): improved is True, expected False")
        self.refused(GCN(F, 8, 2, C, act="hardtanh"), "'act' (Hardtanh)", *ACTIVATIONS)
        self.refused(GCN(F, 8, 2, C, norm="layer_norm"), "'norms.0' (LayerNorm): mode is 'graph', expected 'node'")
        self.refused(GCN(F, 8, 3, C, jk="lstm"), "jk is 'lstm', expected 'cat', 'max' or 'last'")
        self.refused(GCN(F, 8, 2, C, flow="target_to_source"), "'convs.0' (GCNConv): flow is 'target_to_source'")
        self.refused(GraphSAGE(F, 8, 2, C, aggr="median"), "'convs.0' (SAGEConv): aggr is 'median'")
        self.refused([GATConv(F, 4, edge_dim=3)], "'0' (GATConv): edge_dim is 3, expected None")
        self.refused([GATConv((F, F), 4)], "'0' (GATConv): in_channels is (11, 11), expected one number")
        self.refused([GCNConv(F, 8), SAGEConv(8, C)], "self loops are added at '0', and not at '1'")
        self.refused([GCNConv(F, 8), nn.Softmax(), GCNConv(8, C)], "'1' (Softmax)")
        self.refused([GINConv(nn.Sequential(nn.Linear(F, C), nn.Softmax()))], "'0.nn.1' (Softmax): expected a linear map")
        self.refused([GCNConv(-1, C)], "'0' (GCNConv): lin.weight has no shape yet")
        self.refused([nn.BatchNorm1d(F, track_running_stats=False)], "'0' (BatchNorm1d): it has no running statistics")
        self.refused([ClusterGCNConv(F, C, add_self_loops=False)], "'0' (ClusterGCNConv): add_self_loops is False, expected True")
        self.refused([], "it has no modules")
        self.refused([nn.Linear(F, F), GCN2Conv(F, 0.1)], "'1' (GCN2Conv): it takes 1 values of nodes, expected 2")
        self.refused(Sequential("x, edge_index", [(GCNConv(F, F), step), (GCNConv(F, F), "x, edge_index -> y"), (lambda x, y: x + y, "x, y -> x")]),
                     "'module_2' (function): expected one of")

    def test_edges_that_a_folder_cannot_have_are_refused(self) -> None:
        data = Data(x=torch.ones(3, F), edge_index=torch.tensor([[0, 0, 1], [1, 1, 1]]))
        with self.assertRaisesRegex(trainerd.UsageError, "1 edges are there twice"):
            self.predict(GCN(F, 8, 2, C), data)
        data.edge_index = data.edge_index[:, :1]
        with self.assertRaisesRegex(trainerd.DataError, r"has shape \[8, 11\], expected \[8, 3\]"):
            self.predict(GCN(F, 8, 2, C), Data(x=torch.ones(3, 3), edge_index=data.edge_index))


if __name__ == "__main__":
    unittest.main()
