"""Links with decoders and relations: metrics, losses and answers recomputed from logits.npy and the weights."""
import pathlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data
from torch_geometric.nn import GAE, RGCNConv
from torch_geometric.transforms import RandomLinkSplit

import trainerd
from folders import F, N, FolderCase, arrays_in, random_data
from trainerd.arrays import save_safetensors

R, HELD = 3, {"valid": 15, "test": 20}
KEYS: dict[str, Any] = {"model": "rgcn", "task": "link", "channels": 6, "hidden": 8, "epochs": 3, "parts": 2, "progress": False,
                        "metrics": ["mrr", "hits@3", "hits@10"]}
Numbers = NDArray[Any]


# A text of one's own, whose heads and tails differ.
OWN = """def score(e):
    w = param("gate", graph.relations, 4, init=uniform(1))[e.relation]
    return dot(tanh(linear("a", e.src.x, 4)) * w, e.dst.x[:, 1:5]) + linear("b", e.dst.x, 1)
"""
DECODERS = ("dot", "distmult", "complex", "transe", "rotate", "mlp", OWN)
UNTYPED = ("dot", "mlp")


def scores_of(rows: Numbers, weights: dict[str, Numbers], relation: int, decoder: str) -> Numbers:
    """float32 [N, N]: of each head with each tail, in a relation where the decoder has such."""
    x, y = rows[:, None].astype(np.float64), rows[None].astype(np.float64)
    of = {name[len("decoder."):]: value.astype(np.float64) for name, value in weights.items() if name.startswith("decoder.")}
    r: Numbers = of["rel_emb"][relation] if "rel_emb" in of else np.ones(rows.shape[1])
    half = rows.shape[1] // 2
    turned = [z[..., :half] + 1j * z[..., half:] for z in (x, y, r)]
    if decoder == OWN:
        scores = (np.tanh(x @ of["a.weight"].T + of["a.bias"]) * of["gate"][relation] * y[..., 1:5]).sum(-1) + (y @ of["b.weight"].T)[..., 0] + of["b.bias"]
    elif decoder == "mlp":
        scores = (np.maximum(x * y @ of["lins.0.weight"].T + of["lins.0.bias"], 0) @ of["lins.1.weight"].T + of["lins.1.bias"])[..., 0]
    elif decoder == "complex":
        scores = (turned[2] * turned[0] * turned[1].conj()).real.sum(-1)
    elif decoder == "rotate":
        scores = -np.abs(turned[0] * turned[2] / np.abs(turned[2]) - turned[1]).sum(-1)
    elif decoder == "transe":
        scores = -np.linalg.norm(x + r - y, axis=-1)
    else:
        scores = (x * r * y).sum(-1)
    rounded: Numbers = scores.astype(np.float32)
    return rounded


def best_of(result: trainerd.Result) -> dict[str, float]:
    best: dict[str, float] = result.json["best"]
    return best


class Encoder(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = RGCNConv(F, 16, 2 * R), RGCNConv(16, 5, 2 * R)

    def forward(self, x: Any, edge_index: Any, edge_type: Any) -> Any:
        return self.conv2(self.conv1(x, edge_index, edge_type).relu(), edge_index, edge_type)


class DistMultDecoder(torch.nn.Module):  # type: ignore[misc]
    """As in PyTorch Geometric's examples/rgcn_link_pred.py."""

    def __init__(self) -> None:
        super().__init__()
        self.rel_emb = torch.nn.Parameter(torch.rand(R, 5) - 0.5)

    def forward(self, z: Any, edge_index: Any, edge_type: Any) -> Any:
        return (z[edge_index[0]] * self.rel_emb[edge_type] * z[edge_index[1]]).sum(1)


class Decoders(FolderCase):
    def setUp(self) -> None:
        super().setUp()
        self.go_inside()
        rng = np.random.default_rng(7)
        edges = np.concatenate([random_data(seed).edge_index.numpy() for seed in (1, 2)], 1)
        edges = np.concatenate([edges, edges[::-1, ::3]], 1)  # some go both ways
        triples = np.unique(np.concatenate([edges, rng.integers(0, R, (1, edges.shape[1]))])[:, edges[0] != edges[1]], axis=1)
        self.triples = triples[:, rng.permutation(triples.shape[1])]
        cut = np.cumsum(list(HELD.values()))
        self.held = {"valid": self.triples[:, :cut[0]], "test": self.triples[:, cut[0]:cut[1]]}
        self.arrays: dict[str, Any] = {"edges": self.triples[:2], "edge_type": self.triples[2], "features": random_data().x.numpy()}
        for split, of in self.held.items():
            self.arrays |= {f"{split}_edges": of[:2], f"{split}_edge_type": of[2]}

    def known_of(self, typed: bool, both_ways: bool) -> Numbers:
        """bool [R, N, N]: edges from head to tail, of training or held out, whatever the graph lost with those that are held out."""
        every = np.zeros((R, N, N), bool)
        held = np.zeros((R, N, N), bool)
        every[self.triples[2], self.triples[0], self.triples[1]] = True
        for of in self.held.values():
            held[of[2], of[0], of[1]] = True
        if not typed:
            every[:], held[:] = every.any(0), held.any(0)
        known: Numbers = every | held
        if both_ways and not typed:
            known = known | known.transpose(0, 2, 1)
        return known

    def groups(self, result: trainerd.Result, split: str, decoder: str, both_ways: bool) -> list[tuple[float, Numbers]]:
        """The score of each edge and those of its candidates, of its tail and of its head."""
        weights, rows = result.weights(), result.logits()
        known = self.known_of(decoder not in UNTYPED, both_ways)
        found = []
        for head, tail, relation in self.held[split].T:
            scores = scores_of(rows, weights, relation, decoder)
            tails, heads = ~known[relation, head], ~known[relation, :, tail]
            tails[head] = heads[tail] = False
            found += [(float(scores[head, tail]), scores[head, tails]), (float(scores[head, tail]), scores[heads, tail])]
        return found

    def expect_ranks(self, result: trainerd.Result, decoder: str, both_ways: bool) -> None:
        for split in HELD:
            groups = self.groups(result, split, decoder, both_ways)
            ranks = np.array([1 + ((others > score).sum() + (others >= score).sum()) / 2 for score, others in groups])
            for name, expected in (("mrr", (1 / ranks).mean()), ("hits@3", (ranks <= 3).mean()), ("hits@10", (ranks <= 10).mean())):
                self.assertAlmostEqual(best_of(result)[f"{split}_{name}"], expected, 12, f"{split} {name}")

    def test_rank_among_all_nodes_without_known_edges(self) -> None:
        for decoder in DECODERS:
            for undirected in ("no", "yes"):
                with self.subTest(decoder=decoder, undirected=undirected):
                    result = trainerd.train(self.arrays, decoder=decoder, candidates="all", undirected=undirected, **KEYS)
                    names = [name for name in result.weights() if name.startswith("decoder.")]
                    self.assertEqual(len(names), {"dot": 0, "mlp": 4, OWN: 5}.get(decoder, 1))
                    self.expect_ranks(result, decoder, undirected == "yes")
                    self.assertEqual(result.json["dataset"]["held_out"], "validation: valid_edges.npy; test: test_edges.npy")

    def test_have_losses_over_an_edge_and_its_candidates(self) -> None:
        for loss in ("margin", "cross_entropy", "bce"):
            result = trainerd.train(self.arrays, decoder="distmult", candidates="all", loss=loss, undirected="yes",
                                    margin=0.5 if loss == "margin" else None, **KEYS)
            groups = self.groups(result, "valid", "distmult", True)
            if loss == "margin":
                expected = np.mean([np.maximum(0.5 - score + others.astype(np.float64), 0).mean() for score, others in groups])
            elif loss == "cross_entropy":
                expected = np.mean([np.log(np.exp(score) + np.exp(others.astype(np.float64)).sum()) - score for score, others in groups])
            else:
                expected = (np.mean([np.log1p(np.exp(-score)) for score, _ in groups])
                            + np.log1p(np.exp(np.concatenate([others.astype(np.float64) for _, others in groups]))).mean())
            self.assertAlmostEqual(best_of(result)["valid_loss"], float(expected), 6, loss)

    def test_rank_among_tails_in_the_relation_of_the_edge(self) -> None:
        tails = np.random.default_rng(5).integers(0, N, (HELD["test"], 7))
        for decoder in ("distmult", "rotate", "mlp"):
            result = trainerd.train({**self.arrays, "test_tails_negative": tails}, decoder=decoder, loss="cross_entropy", **KEYS)
            weights, rows = result.weights(), result.logits()
            ranks = []
            for (head, tail, relation), others in zip(self.held["test"].T, tails, strict=True):
                scores = scores_of(rows, weights, relation, decoder)[head]
                ranks.append(1 + ((scores[others] > scores[tail]).sum() + (scores[others] >= scores[tail]).sum()) / 2)
            self.assertAlmostEqual(best_of(result)["test_mrr"], (1 / np.array(ranks)).mean(), 12, decoder)

    def test_have_the_same_results_for_any_workers(self) -> None:
        runs = [trainerd.train(self.arrays, decoder="distmult", candidates="all", workers=workers, **KEYS) for workers in (1, 2)]
        self.assertEqual(runs[0].best, runs[1].best)

    def test_answer_pairs_and_nodes_by_relation(self) -> None:
        graph = {name: of for name, of in self.arrays.items() if name in ("edges", "edge_type", "features")}
        for decoder in ("distmult", "transe", OWN, "mlp"):
            typed = decoder != "mlp"
            result = trainerd.train(self.arrays, decoder=decoder, **KEYS)
            rows, weights = trainerd.predict(result, graph, output=f"rows-{decoder[:6].strip()}").logits(), result.weights()
            asked = np.random.default_rng(2).integers(0, (N, N, R), (50, 3)).T
            scores = trainerd.predict(result, graph, pairs=asked if typed else asked[:2])
            expected = [scores_of(rows, weights, relation, decoder)[head, tail] for head, tail, relation in asked.T]
            np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
            for relation in (0, 2) if typed else (0,):
                joined = np.eye(N, dtype=bool)
                of = self.triples[:, self.triples[2] == relation] if typed else self.triples
                joined[of[0], of[1]] = joined[of[1], of[0]] = True
                all_scores = scores_of(rows, weights, relation, decoder)
                partners, found = trainerd.predict(result, graph, nodes=[5, 0, 39], best=4, relation=relation if typed else None)
                for node, best, score in zip([5, 0, 39], partners, found, strict=True):
                    others = np.flatnonzero(~joined[node])
                    order = others[np.lexsort((others, -all_scores[node, others]))][:4]
                    np.testing.assert_array_equal(best, order)
                    np.testing.assert_allclose(score, all_scores[node, order], rtol=1e-5, atol=1e-6)
            if typed:
                self.refused(trainerd.DataError, "expected [3, any]: heads, tails and relations", trainerd.predict, result, graph, pairs=asked[:2])
                self.refused(trainerd.DataError, "predict.relation = -1: expected 0 to 2", trainerd.predict, result, graph, nodes=[0])
                self.refused(trainerd.DataError, "predict.relation = 3: expected 0 to 2", trainerd.predict, result, graph, nodes=[0], relation=3)
            else:
                self.refused(trainerd.JobFileError, "scores know no relations", trainerd.predict, result, graph, nodes=[0], relation=1)

    def test_take_relations_of_arrays_and_of_pyg(self) -> None:
        folder = trainerd.from_arrays("typed", **self.arrays)
        result = trainerd.train(folder, decoder="distmult", candidates="all", undirected="yes", **KEYS)
        np.testing.assert_array_equal(arrays_in(folder)["valid_edge_type"], self.held["valid"][2])
        rest = self.triples[:, sum(HELD.values()):]
        inverse = np.concatenate([rest, rest[[1, 0, 2]] + [[0], [0], [R]]], 1)
        split = {f"{name}_{what}": torch.tensor(of[:2] if what == "edge_index" else of[2])
                 for name, of in (("train", rest), *self.held.items()) for what in ("edge_index", "edge_type")}
        data = Data(x=torch.tensor(self.arrays["features"]), edge_index=torch.tensor(inverse[:2]), edge_type=torch.tensor(inverse[2]),
                    num_nodes=N, **split)
        again = trainerd.train(data, decoder="distmult", candidates="all", undirected="yes", **KEYS)  # as RelLinkPredDataset has it
        self.assertEqual(best_of(again)["test_mrr"], best_of(result)["test_mrr"])
        parts = [Data(x=data.x, edge_index=data.train_edge_index, edge_type=data.train_edge_type, edge_label_index=ends,
                      edge_label=torch.ones(ends.shape[1]), num_nodes=N)
                 for ends in (data.train_edge_index, data.valid_edge_index, data.test_edge_index)]
        for part, split_name in zip(parts[1:], HELD, strict=True):
            part.edge_type = torch.tensor(self.held[split_name][2])
        by_split = trainerd.train(tuple(parts), decoder="distmult", candidates="all", undirected="yes", **KEYS)
        self.assertEqual(best_of(by_split)["test_mrr"], best_of(result)["test_mrr"])
        for words, wrong in (("held-out edge types have shape [14], expected one for each of 15 held-out edges",
                              {"valid_edge_type": self.held["valid"][2][1:]}),
                             ("expected the relation of each edge of", {"valid_edge_type": None}),
                             ("pairs for all edges have no relation", {"valid_edges_negative": [[0], [1]]}),
                             ("relation 7 is out of range, expected 0 to 2", {"test_edge_type": np.full(HELD["test"], 7)})):
            with self.assertRaises(trainerd.TrainerdError) as caught:
                trainerd.train({**self.arrays, **wrong}, decoder="distmult", **KEYS)
            self.assertIn(words, str(caught.exception))
        untyped = RandomLinkSplit(num_val=0.1, num_test=0.2, neg_sampling_ratio=0.0)(
            Data(x=data.x, edge_index=data.train_edge_index, edge_type=data.train_edge_type))
        self.assertNotIn("valid_edge_type", arrays_in(trainerd.from_pyg(untyped, "untyped")))

    def test_of_a_gae_of_pyg_need_its_weights_alone(self) -> None:
        torch.manual_seed(1)
        model = GAE(Encoder(), DistMultDecoder()).eval()
        save_safetensors("gae.safetensors", {name: of.detach().numpy() for name, of in model.state_dict().items()})
        folder = trainerd.from_arrays("data", edges=self.triples[:2], edge_type=self.triples[2], features=self.arrays["features"], predict_only=True)
        asked = np.random.default_rng(3).integers(0, (N, N, R), (60, 3)).T
        np.save("asked.npy", asked)
        job = {"name": "gae", "dataset": {"path": folder, "undirected": "yes"}, "task": {"kind": "link", "decoder": "distmult"},
               "partition": {"parts": 2, "cache": "off"},
               "model": {"kind": "rgcn", "hidden": 16, "layers": 2, "names": {"convs.0": "encoder.conv1", "convs.1": "encoder.conv2"}},
               "predict": {"pairs": "asked.npy"}, "output": {"dir": "out"}}
        pathlib.Path("job.toml").write_text(trainerd.job_text(job), encoding="utf-8")
        done = self.run_program("--predict", "gae.safetensors", "--config", "job.toml")
        self.assertEqual(done.returncode, 0, done.stderr)
        both = torch.tensor(np.concatenate([self.triples, self.triples[[1, 0, 2]] + [[0], [0], [R]]], 1))
        with torch.no_grad():
            rows = model.encode(torch.tensor(self.arrays["features"]), both[:2], both[2])
            expected = model.decode(rows, asked[:2], asked[2])
        np.testing.assert_allclose(np.load("out/logits.npy"), rows, rtol=0, atol=1e-5 * float(rows.abs().max()))
        np.testing.assert_allclose(np.load("out/scores.npy"), expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
