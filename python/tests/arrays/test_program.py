"""Vertex programs: the same text in trainerd and in PyTorch, which share no code."""
import math
import os
import pathlib
import random
from typing import Any

import numpy as np
import torch
from torch_geometric import nn
from torch_geometric.utils import add_remaining_self_loops, coalesce

import trainerd
from daemon import PROGRAMS, ROOT
from folders import C, F, N, FolderCase, random_data
from program_texts import edges_at_random, weightless_at_random
from trainerd import Program

LIBRARY = ROOT / "configs/programs"
N_RANDOM = int(os.environ.get("TEST_PROGRAMS", "12"))


@trainerd.program
def layer(v, out, slope=0.1):
    v.z = leaky_relu(linear("lin", v.x, out), 0.01)
    return slope * sum(e.norm * e.src.z for e in v.in_edges) + max(e.src.z for e in v.in_edges) * 2.0


def text_at_random(rng: random.Random) -> str:
    """A layer of patterns that are compiled: rows made of rows, sums over edges, linear maps on either side."""
    lines, rows, n_name = [], ["v.x"], 0

    def row(depth: int) -> str:
        nonlocal n_name
        kind = rng.randrange(8 if depth > 0 else 2)
        n_name = n = n_name + 1
        if kind == 0:
            chosen, shares = rng.choice(rows), rng.random() < 0.4
            name = ("shared.x" if chosen == "v.x" else "shared") if shares else f"w{n}"  # of columns of v.x, or as many as the output
            return f'linear("{name}", {chosen}, out, bias={rng.random() < 0.5})'
        if kind == 1 and rng.random() < 0.2:
            return rng.choice([f'(v.x @ param("w{n}", v.x.width, out))', f'(v.x @ param("w{n}", 2, v.x.width, out)[1])'])
        if kind == 1:
            return rng.choice(["relu", "elu", "gelu"]) + f"({row(0)})"
        if kind in (2, 3):
            lines.append(f"    v.a{n} = {row(depth - 1)}")
            if rng.random() < 0.3:
                rows.append(f"v.a{n}")
            mean = rng.random() < 0.5
            if rng.random() < 0.3:
                return f"sum(e.src.a{n} * e.norm for e in v.in_edges)"
            if rng.random() < 0.3:  # a message of the source's row, made for each edge
                message = f'{rng.choice(["relu", "elu"])}(linear("m{n}", e.src.a{n}, out))'
                others = [f" * 0.5 + e.src.a{n}", f" - e.src.a{n} / 4", "", "" if mean else f" * 2 - e.weight * e.src.a{n}"]
                other = rng.choice(others)  # multiples alone are not compiled
                return f"{'mean' if mean else 'sum'}({message}{other} for e in v.in_edges)"
            how, factor = rng.choice([("mean" if mean else "sum", "e.weight * "), ("mean" if mean else "sum", ""), ("max", "")])
            return f"{how}({factor}e.src.a{n} for e in v.in_edges)"
        if kind == 4:
            return f"({row(depth - 1)} + {row(depth - 1)})"
        if kind == 5:
            factor = rng.choice(["0.5", "2", "0.25", "graph.mean_log_degree", "graph.nodes / graph.edges"])
            return f"({factor} * {row(depth - 1)} - {row(depth - 1)} * {rng.choice([0.75, 3])})"
        if kind == 6:
            return f'{rng.choice(["batch", "layer"])}_norm("n{n}", linear("w{n}", {row(depth - 1)}, out))'
        if rng.random() < 0.2:
            return f'(linear("w{n}", {row(depth - 1)}, out) @ param("p{n}", 3, out, out)[2])'
        return f'linear("w{n}", {row(depth - 1)}, out)'

    terms = [row(2) for _ in range(rng.randint(1, 3))] + [f'linear("root", {rng.choice(rows)}, out)']
    rng.shuffle(terms)
    if rng.random() < 0.5:
        terms.append(f'param("{rng.choice(["bias", "shared.bias", "shared.x.bias"])}", out, init=uniform(0.5))')
    loops = "self_loops = True\n" if rng.random() < 0.5 else ""
    return f"{loops}def layer(v, out):\n" + "\n".join([*lines, f"    return {' + '.join(terms)}"]) + "\n"


class AProgram(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.data = random_data()
        self.path = trainerd.from_pyg(self.data, self.folder / "data")
        featured = self.data.clone()
        featured.edge_attr = torch.from_numpy(np.random.default_rng(3).random((self.data.num_edges, 2), dtype=np.float32))
        rng = np.random.default_rng(3)
        dense = self.data.clone()  # no two rows are equal, so that one alone is the greatest
        dense.x = torch.from_numpy(rng.standard_normal((N, F), dtype=np.float32))
        self.dense = trainerd.from_pyg(dense, self.folder / "dense")
        weighted, featured = dense.clone(), dense.clone()
        weighted.edge_weight = torch.from_numpy(rng.random(self.data.num_edges, dtype=np.float32) + 0.5)
        self.weighted = trainerd.from_pyg(weighted, self.folder / "weighted")
        featured.edge_attr = torch.from_numpy(rng.random((self.data.num_edges, 2), dtype=np.float32))
        self.featured = trainerd.from_pyg(featured, self.folder / "featured")

    def compare(self, program: Program, args: dict[str, Any] | None = None, n_layer: int = 2, norm: str = "none", **options: Any) -> None:
        """The logits of a job, and those of the text in PyTorch with the job's weights."""
        model = {"program": program, "args": args or {}}
        if "def model(" not in program.text:
            model |= {"layers": n_layer, "norm": norm, "residual": norm == "layer", "activation": "elu", **options}  # rows stay different
        run = self.train(self.path, "program", model=model, train={"epochs": 2, "lr": 0.02})
        with torch.no_grad():
            expected = trainerd.pyg_model(run).double()(*self.inputs(run)).numpy()
        np.testing.assert_allclose(run.logits(), expected, rtol=0, atol=2e-5 * max(1e-3, float(np.abs(expected).max())), err_msg=program.text)
        self.compare_gradients(model, program.text)  # whose runs take the folder of this one

    def inputs(self, run: trainerd.Result, precision: torch.dtype = torch.float64) -> list[Any]:
        return [part.to(precision) if part is not None and part.is_floating_point() else part for part in trainerd.pyg_inputs(run, self.path)]

    def compare_gradients(self, model: dict[str, Any], text: str) -> None:
        """One step of SGD, against the gradient of the text's loss in PyTorch. It changes no weight by more than 1, since behind it the loss
        of a text with high powers may be no float32."""
        def step(lr: float) -> trainerd.Result:
            train = {"epochs": 1, "lr": lr, "optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.0}
            return self.train(self.path, "program", model=model, train=train)

        run = step(0.0)
        begin = run.weights("model.safetensors")
        gradients, rounded = (self.gradients(run, begin, precision) for precision in (torch.float64, torch.float32))
        most = max((float(np.abs(gradient).max()) for gradient in gradients.values()), default=0.0)
        lr = 2.0 ** -math.ceil(math.log2(max(1.0, most)))
        end = step(lr).weights("model.safetensors")
        for name, gradient in gradients.items():
            found = (begin[name].astype(float) - end[name].astype(float)) / lr
            lost = float(np.abs(rounded[name] - gradient).max(initial=0.0))  # by float32 in PyTorch: norms of rows that are nearly constant magnify it
            np.testing.assert_allclose(found, gradient, rtol=0, atol=max(5e-5 * max(1e-3, most), 2 * lost), err_msg=f"{name}\n{text}")

    def gradients(self, run: trainerd.Result, begin: dict[str, Any], precision: torch.dtype) -> dict[str, Any]:
        module = trainerd.load_into_pyg(trainerd.pyg_model(run), run).to(precision).train()
        module.load_state_dict({name: torch.from_numpy(begin[name]) for name in module.state_dict() if name in begin}, strict=False)
        mask = self.data.train_mask
        logits = module(*self.inputs(run, precision))
        if logits.requires_grad:  # else no weight is behind them
            torch.nn.functional.cross_entropy(logits[mask], self.data.y[mask]).backward()
        return {name: np.zeros(p.shape) if p.grad is None else p.grad.numpy() for name, p in module.named_parameters() if p.requires_grad}

    def test_of_the_library_gives_the_logits_of_its_text(self) -> None:
        cases: list[tuple[str, dict[str, Any], int]] = [
            ("gcn", {}, 2), ("sage", {}, 2), ("sage", {"aggregator": "max"}, 3), ("sage", {"aggregator": "sum"}, 2), ("gin", {"hidden": 8}, 2),
            ("gat", {"heads": 2}, 2), ("gatv2", {"heads": 2, "out_heads": 3}, 2), ("transformer", {"heads": 3}, 2), ("sgc", {"steps": 2}, 1),
            ("appnp", {"hidden": 8, "steps": 3}, 2), ("agnn", {"hidden": 8, "steps": 2}, 2), ("gcnii", {"hidden": 8, "layers": 3}, 2)]
        for name, args, n_layer in cases:
            with self.subTest(name, **args):
                self.compare(Program.from_file(LIBRARY / f"{name}.gnn"), args, n_layer)

    def test_of_the_library_that_is_computed_edge_by_edge(self) -> None:
        cases: list[tuple[str, dict[str, Any]]] = [
            ("resgated", {}), ("edgeconv", {}), ("edgeconv", {"aggregator": "mean"}), ("edgeconv", {"hidden": 5}), ("film", {}), ("gen", {}),
            ("gen", {"learn_t": True, "t": 0.5}), ("gmm", {}), ("gine", {"hidden": 6}), ("cg", {}), ("nn", {}), ("pna", {})]
        for name, args in cases:
            with self.subTest(name, **args):
                program = Program.from_file(LIBRARY / f"{name}.gnn")
                self.path = self.featured if "e.feature" in program.text else self.dense
                self.compare(program, args)

    def test_of_the_library_is_the_module_of_its_name(self) -> None:
        """With that module's weights, in float64."""
        two, graph = torch.nn.Sequential(torch.nn.Linear(F, 6), torch.nn.ReLU(), torch.nn.Linear(6, C)), self.data
        edges = add_remaining_self_loops(coalesce(graph.edge_index), num_nodes=N)[0]  # PNAConv takes the greatest and least of no edges as others do
        of_edges = torch.rand(edges.shape[1], 2)
        degrees = torch.bincount(edges[1], minlength=N)
        cases: list[tuple[str, Any, dict[str, Any], bool]] = [
            ("resgated", nn.ResGatedGraphConv(F, C), {}, False), ("film", nn.FiLMConv(F, C), {}, False),
            ("edgeconv", nn.EdgeConv(torch.nn.Linear(2 * F, C)), {}, False), ("edgeconv", nn.EdgeConv(torch.nn.Linear(2 * F, C), "mean"), {"aggregator": "mean"}, False),
            ("gmm", nn.GMMConv(F, C, 2, 3), {}, True), ("gine", nn.GINEConv(two, edge_dim=2), {"hidden": 6}, True), ("cg", nn.CGConv(F, 2), {}, True),
            ("nn", nn.NNConv(F, C, torch.nn.Linear(2, F * C)), {}, True), ("gen", nn.GENConv(F, C, num_layers=1), {}, False),
            ("pna", nn.PNAConv(F, C, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], torch.bincount(degrees)), {}, False)]
        for name, module, args, featured in cases:
            with self.subTest(name, **args):
                module = module.double()
                program = Program.from_file(LIBRARY / f"{name}.gnn").torch(
                    F, F if name == "cg" else C, args=args, edge_features=2, mean_log_degree=float((degrees + 1).log().mean())).double()
                state = {name: values for name, values in module.state_dict().items() if name != "eps" and not name.startswith("aggr_module.")}
                if name == "cg":  # CGConv has no map of its own before the sum
                    state |= {"lin.weight": torch.eye(F), "lin.bias": torch.zeros(F)}
                program.load_state_dict(state)
                x = torch.rand(N, F, dtype=torch.float64) - 0.5
                inputs = (x, edges, of_edges.double()) if featured else (x, edges)
                with torch.no_grad():
                    np.testing.assert_allclose(program(x, edges, edge_attr=of_edges.double()), module(*inputs), rtol=0, atol=1e-9)

    def test_reads_one_thing_of_each_edge_or_is_refused_with_both_lines(self) -> None:
        """With each pair of features, weights and types that the data has."""
        rng, words = np.random.default_rng(4), {"edge_attr": "e.feature", "edge_weight": "e.weight or e.norm", "edge_type": "e.relation"}
        data = self.data.clone()
        data.edge_attr = torch.from_numpy(rng.random((self.data.num_edges, 2), dtype=np.float32))
        data.edge_weight = torch.from_numpy(rng.random(self.data.num_edges, dtype=np.float32))
        data.edge_type = torch.from_numpy(rng.integers(0, 2, self.data.num_edges))
        lines = {"edge_attr": "    v.f = sum(e.src.z * sum_columns(e.feature) for e in v.in_edges)",
                 "edge_weight": "    v.f = sum(e.weight * e.src.z for e in v.in_edges)",
                 "edge_type": "    w = param('w', graph.relations, out, out)\n    v.f = v.z + mean(e.src.z for e in v.in_edges if e.relation == 0) @ w[0] "
                              "+ mean(e.src.z for e in v.in_edges if e.relation == 1) @ w[1]"}
        head = "def layer(v, out):\n    v.z = linear('z', v.x, out)\n"
        for one, other in (("edge_attr", "edge_weight"), ("edge_attr", "edge_type"), ("edge_weight", "edge_type")):
            path = trainerd.from_pyg(data, self.folder / f"{one}-{other}")
            text = head + lines[one] + "\n" + lines[other].replace("v.f", "v.g").replace("v.z +", "v.f +") + "\n    return v.g + v.f\n"
            job: dict[str, Any] = {"dataset": {"path": str(path)}, "model": {"kind": "program", "program": text}, "train": {"epochs": 1}}
            (self.folder / "both.toml").write_text(trainerd.job_text(job), encoding="utf-8")
            done = self.run_program("--plan", "both.toml")
            with self.subTest(one, other=other):
                self.assertEqual(done.returncode, 78, done.stderr)
                self.assertIn(f"line 3 reads {words[one]}", done.stderr)
                self.assertIn(f"{words[other]}, while the edges of", done.stderr)
        alone = trainerd.from_pyg(self.data, self.folder / "alone")  # no weights: e.norm is of degrees
        job["model"] |= {"program": head + lines["edge_weight"] + "\n    return v.f\n"}
        job["dataset"] = {"path": str(alone)}
        (self.folder / "both.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        self.assertEqual(self.run_program("--plan", "both.toml").returncode, 0)

    def test_goes_on_with_a_sum_over_relations(self) -> None:
        """R-GCN's sum as a part of what else is computed of a node: with three relations, and with one."""
        text = (LIBRARY / "rgcn.gnn").read_text(encoding="utf-8")
        ends = ["tanh({})", "({}) * 2", "({}) / -4 + v.x @ root", "({}) * sigmoid(linear('gate', v.x, out))", "relu({}) + ({})",
                "layer_norm('n', {}) - abs({})", "concat({}, v.x)[:, 0:out]",
                "v.x @ root + ({})", "v.x @ root - ({})", "2 * ({}) - v.x @ root - tanh({})"]
        for n_relation in (3, 1):
            rng, data = np.random.default_rng(n_relation), self.data.clone()
            data.x = torch.from_numpy(rng.standard_normal((N, F), dtype=np.float32))
            data.edge_type = torch.from_numpy(rng.integers(0, n_relation, self.data.num_edges))
            self.path = trainerd.from_pyg(data, self.folder / f"typed{n_relation}")
            for number, end in enumerate(ends):
                args: dict[str, Any] = [{}, {"bases": 2}, {"blocks": 3}][number % 3]
                whole = text.replace("def layer(v, out, bases=0, blocks=0):", "match = {}\ndef layer(v, out, bases=0, blocks=0):".format(number % 2 == 0))
                whole = whole.replace("return y + v.x @ root + bias", f"return {end.format('y', 'y')} + bias")
                self.assertIn(end.format("y", "y"), whole)
                with self.subTest(end, n_relation=n_relation, **args):
                    self.compare(Program(whole), args, n_layer=1 if "blocks" in args else 2)

    def test_gives_the_same_loss_without_passes_of_the_compiler(self) -> None:
        cases: list[tuple[str, dict[str, Any]]] = [
            ("gcn", {}), ("sage", {}), ("sage", {"aggregator": "max"}), ("sage", {"aggregator": "sum"}), ("gin", {"hidden": 8}), ("gat", {"heads": 2}),
            ("gatv2", {"heads": 2}), ("transformer", {"heads": 2}), ("agnn", {"hidden": 8}), ("gcnii", {"hidden": 8}), ("edgeconv", {}), ("cg", {}), ("gmm", {})]
        for name, args in cases:
            text = (LIBRARY / f"{name}.gnn").read_text(encoding="utf-8")
            self.path = self.featured if name in ("gat", "gatv2", "transformer", "cg", "gmm") else self.weighted
            model: dict[str, Any] = {"args": args} if "def model(" in text else {"args": args, "layers": 2}
            train = {"epochs": 3, "optimizer": "sgd", "lr": 0.2}  # Adam divides by what rounding leaves
            whole = self.train(self.path, "program", model={"program": Program(text), **model}, train=dict(train)).metrics()
            for off in ("match = False", "move = False", "match = False\nmove = False"):
                with self.subTest(name, off=off, **args):
                    run = self.train(self.path, "program", model={"program": Program(f"{off}\n{text}"), **model}, train=dict(train))
                    np.testing.assert_allclose(run.metrics()["loss"], whole["loss"], rtol=1e-6)

    def test_at_random_gives_the_logits_of_its_text(self) -> None:
        seed = int(os.environ.get("TEST_SEED", "1"))
        for number in range(seed * 1000, seed * 1000 + N_RANDOM):
            with self.subTest(number=number):
                self.compare(Program(text_at_random(random.Random(number))), norm=["none", "layer", "batch"][number % 3])

    def test_of_edges_at_random_gives_the_logits_and_gradients_of_its_text(self) -> None:
        seed = int(os.environ.get("TEST_SEED", "1"))
        for number in range(seed * 1000, seed * 1000 + N_RANDOM):
            with self.subTest(number=number):
                self.path = self.featured if number % 3 == 0 else self.weighted if number % 3 == 1 else self.dense
                self.compare(Program(edges_at_random(random.Random(number), number % 3 == 0)))

    def test_without_weights_at_random_gives_the_logits_and_gradients_of_its_text(self) -> None:
        """Sparse features and dense ones, of as many columns as classes, too; before norms, and beside residuals of either kind."""
        seed = int(os.environ.get("TEST_SEED", "1"))
        narrow, few = self.data.clone(), self.data.clone()
        narrow.x = torch.from_numpy(np.random.default_rng(5).standard_normal((N, C), dtype=np.float32))
        few.x = self.data.x[:, :C] + 0.5 * self.data.x[:, C:2 * C]
        folders = [self.path, self.dense, trainerd.from_pyg(narrow, self.folder / "narrow"), trainerd.from_pyg(few, self.folder / "few")]
        for number in range(seed * 1000, seed * 1000 + N_RANDOM):
            rng, self.path = random.Random(number), folders[number % 4]
            text = weightless_at_random(rng, rng.random() < 0.7, F if number % 4 < 2 else C)
            options: dict[str, Any] = {"residual": rng.random() < 0.5, "residual_linear": rng.random() < 0.3, "norm": rng.choice(["none", "layer", "batch"])}
            with self.subTest(number=number):
                self.compare(Program(text), n_layer=rng.choice([1, 2, 3]), **options)

    def test_adds_loops_as_pytorch_geometric_does(self) -> None:
        """fill_value="mean", where a loop that is stored keeps its features; and no loop is of a relation."""
        text = """self_loops = True
def layer(v, out):
    return linear("lin", sum(concat(e.feature, e.src.x) for e in v.in_edges), out)
"""
        rows = torch.from_numpy(np.load(self.featured / "edge_attr.npy"))
        edges, x = torch.from_numpy(np.load(self.featured / "edges.npy")).long(), torch.from_numpy(np.load(self.featured / "features.npy"))
        self.assertTrue(bool((edges[0] == edges[1]).any()))
        run = self.train(self.featured, "program", model={"program": Program(text), "layers": 1}, train={"epochs": 1})
        edges, rows = add_remaining_self_loops(edges, rows, fill_value="mean", num_nodes=N)
        sums = torch.zeros(N, 2 + F).index_add(0, edges[1], torch.cat([rows, x[edges[0]]], 1))
        weights = run.weights("best.safetensors")
        expected = sums.numpy() @ weights["convs.0.lin.weight"].T + weights["convs.0.lin.bias"]
        np.testing.assert_allclose(run.logits(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())

        typed = self.data.clone()
        typed.x, typed.edge_type = x, torch.from_numpy(np.random.default_rng(4).integers(0, 3, self.data.num_edges))
        text = """self_loops = True
def layer(v, out):
    w = param("w", graph.relations, v.x.width, out)
    y = 0
    for r in range(graph.relations):
        y = y + mean(e.src.x for e in v.in_edges if e.relation == r) @ w[r]
    return y + linear("all", mean(e.src.x for e in v.in_edges), out)
"""
        run = self.train(trainerd.from_pyg(typed, self.folder / "typed"), "program", model={"program": Program(text), "layers": 1}, train={"epochs": 1})
        weights, others = run.weights("best.safetensors"), typed.edge_index[0] != typed.edge_index[1]
        edges = add_remaining_self_loops(typed.edge_index, num_nodes=N)[0]
        means = nn.MeanAggregation()
        expected = means(x[edges[0]], edges[1], dim_size=N).numpy() @ weights["convs.0.all.weight"].T + weights["convs.0.all.bias"]
        for r in range(3):
            of = typed.edge_index[:, others & (typed.edge_type == r)]
            expected += means(x[of[0]], of[1], dim_size=N).numpy() @ weights["convs.0.w"][r]
        np.testing.assert_allclose(run.logits(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())

    def test_that_returns_its_input_gives_the_features(self) -> None:
        few, narrow = self.data.clone(), self.data.clone()
        few.x = self.data.x[:, :C] + 0.5 * self.data.x[:, C:2 * C]
        narrow.x = torch.from_numpy(np.random.default_rng(5).standard_normal((N, C), dtype=np.float32))
        models: list[tuple[str, dict[str, Any]]] = [
            ("def layer(v, out):", {"layers": 1}), ("def model(v, classes):", {}),
            ("def layer(v, out):", {"layers": 2, "hidden": C, "activation": "none", "dropout": 0.0})]
        for name, data in (("few", few), ("narrow", narrow)):
            path = trainerd.from_pyg(data, self.folder / name)
            for rows in ("v.x", "dropout(v.x, 0.5)"):
                for begin, model in models:
                    with self.subTest(name, rows=rows, **model):
                        run = self.train(path, "program", model={"program": Program(f"{begin}\n    return {rows}\n"), **model},
                                         workers={"count": 2, "threads": 1})
                        np.testing.assert_array_equal(run.logits(), data.x.numpy())

    def test_is_a_function_of_one_s_own(self) -> None:
        self.assertTrue(layer.text.startswith("def layer(v, out, slope=0.1):"))
        run = self.train(self.path, "program", model={"program": layer, "args": {"slope": 0.5}})
        self.assertEqual(run.json["job"]["model"]["program"], layer.text)
        self.assertEqual(run.json["job"]["model"]["args"], {"slope": 0.5})
        module = trainerd.load_into_pyg(torch.nn.ModuleDict({"convs": torch.nn.ModuleList([layer.torch(F, 8), layer.torch(8, C)])}), run)
        self.assertEqual(list(module["convs"][0].state_dict()), ["lin.weight", "lin.bias"])

    def test_predicts_with_the_numbers_of_the_graph_it_was_trained_on(self) -> None:
        text = """self_loops = True
def layer(v, out):
    v.z = linear("lin", v.x, out)
    return sum(e.src.z for e in v.in_edges) * graph.mean_log_degree / graph.mean_degree + v.z * (graph.edges / graph.nodes)
"""
        run = self.train(self.path, "program", model={"program": Program(text)})
        edges = add_remaining_self_loops(self.data.edge_index, num_nodes=N)[0]
        degrees = np.bincount(edges[1].numpy(), minlength=N)
        counts = run.json["dataset"]["counts"]
        self.assertEqual([counts["nodes"], counts["edges"], counts["mean_degree"]], [N, degrees.sum(), degrees.mean()])
        self.assertAlmostEqual(counts["mean_log_degree"], np.log1p(degrees).mean(), 14)
        other = random_data(2)
        other.edge_index = other.edge_index[:, :70]
        trainerd.from_pyg(other, self.folder / "other")
        result = trainerd.predict(run.folder, self.folder / "other", program=PROGRAMS / "trainerd", set={"partition.parts": 2})
        with torch.no_grad():
            expected = trainerd.pyg_model(run)(*trainerd.pyg_inputs(run, self.folder / "other")).numpy()
        np.testing.assert_allclose(result.logits(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())

    def test_that_cannot_be_read_is_refused(self) -> None:
        self.refused(trainerd.MissingInput, "cannot open the program", Program.from_file, self.folder / "none.gnn")
        self.refused(trainerd.JobFileError, "expected at most 65536", Program, "#" * 65537)
        self.refused(trainerd.JobFileError, "has no source that can be read", trainerd.program, len)
        pathlib.Path(self.folder / "bytes.gnn").write_bytes(b"\xff\xfe")
        self.refused(trainerd.JobFileError, "is not UTF-8", Program.from_file, self.folder / "bytes.gnn")
        self.refused(trainerd.DataError, "reads graph.mean_degree, which is not given",
                     Program("def layer(v, out):\n    return graph.mean_degree * v.x\n").torch, F, C)
