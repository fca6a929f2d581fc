#!/usr/bin/env python3
"""Compare decoders of links and losses over an edge and its own pairs with PyTorch Geometric's.

    PYTHON scripts/compare-decoders.py speed [CASE ...]
    PYTHON scripts/compare-decoders.py relations [--data FOLDER] [--seeds N]

Run by a Python that has PyTorch Geometric and NumPy.

speed: an epoch on 20 000 nodes and 400 000 random edges, undirected; 64 features, SAGE of 128 and 128, two threads. PyTorch Geometric reads
the ends of all pairs by F.embedding, as its examples do. Prints processor time of an epoch and the process's peak. CASE: mlp (two layers of
the product, uniform pairs), ends (dot product, a pair for each end of an edge, BCE), among (cross-entropy of an edge among four pairs).

relations: R-GCN of two layers over learned vectors, 32 columns, inverse relations, DistMult, BCE, Adam of rate 0.01, 100 epochs. For each seed
500 triples are held out for validation and 500 for the test; every 20 epochs both programs rank them among all nodes, heads and tails, without
known triples. Prints the test MRR with the best validation MRR, of trainerd and of PyTorch Geometric. FOLDER: ../shared/datasets/aifb.
"""
from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from compare_jobs import ROOT, run_job
from torch_geometric.nn import RGCNConv, SAGEConv

Array = Any  # of NumPy
LINK: dict[str, Any] = {"task.kind": "link", "workers.device": "cpu", "workers.count": 1, "workers.threads": 2, "dataset.undirected": "yes"}
N_NODE, N_EDGE, FEATURES, WIDTH, N_EPOCH = 20_000, 400_000, 64, 128, 6
CASES: dict[str, dict[str, Any]] = {"mlp": {"task.decoder": "mlp"}, "ends": {"task.sampling": "ends"},
                                    "among": {"train.loss": "cross_entropy", "task.negatives": 4}}
CHANNELS, N_HELD, EPOCHS, EVERY = 32, 500, 100, 20


# --- speed -----------------------------------------------------------------------------------------------------------------------------

def graph() -> tuple[Array, Array]:
    """Each pair once [2, E], and features."""
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(0, N_NODE, (2, N_EDGE)), 0)
    return np.unique(ends[:, ends[0] != ends[1]], axis=1), rng.standard_normal((N_NODE, FEATURES)).astype(np.float32)


class Model(torch.nn.Module):
    """Two layers, and a decoder of two."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = SAGEConv(FEATURES, WIDTH), SAGEConv(WIDTH, WIDTH)
        self.lin1, self.lin2 = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 1)

    def loss(self, case: str, x: Any, pairs: Any) -> Any:
        """Of the edges and pairs drawn for them."""
        z = self.conv2(self.conv1(x, torch.cat([pairs, pairs.flip(0)], 1)).relu(), torch.cat([pairs, pairs.flip(0)], 1))
        product = lambda a, b: F.embedding(a, z) * F.embedding(b, z)
        if case == "mlp":
            score = lambda a, b: self.lin2(self.lin1(product(a, b)).relu())[:, 0]
            drawn = torch.randint(N_NODE, tuple(pairs.shape))
            return F.softplus(-score(*pairs)).mean() + F.softplus(score(*drawn)).mean()
        n, losses = int(CASES[case].get("task.negatives", 1)), []
        for stays, other in (pairs, pairs.flip(0)):
            edge = product(stays, other).sum(1)
            rest = product(stays.repeat_interleave(n), torch.randint(N_NODE, (n * len(stays),))).sum(1).view(-1, n)
            among = torch.logsumexp(torch.cat([edge[:, None], rest], 1), 1) - edge
            losses.append(among.mean() if case == "among" else F.softplus(-edge).mean() + F.softplus(rest).mean())
        return (losses[0] + losses[1]) / 2


def alone(case: str) -> dict[str, float]:
    """PyTorch Geometric's epochs, in a process of its own."""
    torch.set_num_threads(2)
    pairs, x = (torch.from_numpy(array) for array in graph())
    model, spent = Model(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(N_EPOCH):
        begin = time.process_time()
        optimizer.zero_grad()
        model.loss(case, x, pairs).backward()
        optimizer.step()
        spent.append(time.process_time() - begin)
    return {"cpu": min(spent[1:]), "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}


def of_trainerd(case: str, folder: Path) -> dict[str, float]:
    """What runs take more than one without epochs; the worker's peak."""
    keys = {**LINK, **CASES[case], "dataset.path": str(folder), "task.channels": WIDTH, "task.valid_share": 0.0, "task.test_share": 0.0,
            "model.kind": "sage", "model.hidden": WIDTH, "train.eval_every": 0}
    spent = []
    for n in (0, N_EPOCH):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = run_job({**keys, "train.epochs": n}, folder / f"{case}{n}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"cpu": (spent[1] - spent[0]) / N_EPOCH, "mb": run.json["memory"][0]["resident_peak"] / 1e6}


def compare_speed(cases: list[str]) -> None:
    """Both programs, case by case."""
    with tempfile.TemporaryDirectory(prefix="compare-decoders-") as temporary:
        folder, (pairs, x) = Path(temporary), graph()
        np.save(folder / "edges.npy", pairs)
        np.save(folder / "features.npy", x)
        for case in cases:
            ours = of_trainerd(case, folder)
            theirs = json.loads(subprocess.run([sys.executable, __file__, "alone", case], check=True, capture_output=True, text=True).stdout)
            print(f"{case}: {ours['cpu']:.2f} and {theirs['cpu']:.2f} s of processors ({theirs['cpu'] / ours['cpu']:.1f} ×), "
                  f"{ours['mb']:.0f} and {theirs['mb']:.0f} MB ({theirs['mb'] / ours['mb']:.0f} ×)", flush=True)


# --- relations -------------------------------------------------------------------------------------------------------------------------

class Knowledge:
    """Triples head, tail, relation [3, E], each once, without loops; some are held out."""

    def __init__(self, folder: Path, seed: int) -> None:
        edges = np.concatenate([np.load(folder / "edges.npy"), np.load(folder / "edge_type.npy")[None]]).astype(np.int64)
        triples = np.unique(edges[:, edges[0] != edges[1]], axis=1)
        triples = triples[:, np.random.default_rng(seed).permutation(triples.shape[1])]
        self.n_node, self.n_relation = int(edges[:2].max()) + 1, int(edges[2].max()) + 1
        self.held = {"valid": triples[:, :N_HELD], "test": triples[:, N_HELD:2 * N_HELD]}
        self.train = triples[:, 2 * N_HELD:]
        self.known: dict[tuple[int, int, int], list[int]] = {}
        for head, tail, relation in triples.T.tolist():
            self.known.setdefault((0, head, relation), []).append(tail)
            self.known.setdefault((1, tail, relation), []).append(head)

    def mrr(self, z: Array, relations: Array, split: str) -> float:
        """Of both ends of each held-out triple; equal scores share the mean of their places."""
        found = []
        for head, tail, relation in self.held[split].T.tolist():
            for side, stays, other in ((0, head, tail), (1, tail, head)):
                score = z @ (z[stays] * relations[relation])
                counts = np.ones(self.n_node, bool)
                counts[self.known[side, stays, relation]] = counts[stays] = False
                rest = score[counts]
                found.append(2 / (2 + (rest > score[other]).sum() + (rest >= score[other]).sum()))
        return float(np.mean(found))


def relations_pyg(of: Knowledge, seed: int) -> float:
    """The usual script."""
    torch.manual_seed(seed)
    head, tail, relation = torch.from_numpy(of.train)
    edges, types = torch.stack([torch.cat([head, tail]), torch.cat([tail, head])]), torch.cat([relation, relation + of.n_relation])
    vectors, weights = (torch.nn.Parameter(torch.nn.init.xavier_uniform_(torch.empty(n, CHANNELS))) for n in (of.n_node, of.n_relation))
    convs = [RGCNConv(CHANNELS, CHANNELS, 2 * of.n_relation) for _ in range(2)]
    optimizer = torch.optim.Adam([vectors, weights, *convs[0].parameters(), *convs[1].parameters()], lr=0.01)
    best, test = -1.0, 0.0
    for epoch in range(1, EPOCHS + 1):
        optimizer.zero_grad()
        z = convs[1](convs[0](vectors, edges, types).relu(), edges, types)
        score = lambda a, b: (z[a] * weights[relation] * z[b]).sum(1)
        drawn = torch.randint(of.n_node, (2, len(head)))
        rest = (F.softplus(score(head, drawn[0])).mean() + F.softplus(score(drawn[1], tail)).mean()) / 2
        (F.softplus(-score(head, tail)).mean() + rest).backward()
        optimizer.step()
        if epoch % EVERY == 0:
            with torch.no_grad():
                rows = convs[1](convs[0](vectors, edges, types).relu(), edges, types).numpy()
            valid = of.mrr(rows, weights.detach().numpy(), "valid")
            if valid > best:
                best, test = valid, of.mrr(rows, weights.detach().numpy(), "test")
    return test


def relations_trainerd(of: Knowledge, seed: int) -> float:
    """Held-out triples as files."""
    with tempfile.TemporaryDirectory(prefix="compare-decoders-") as temporary:
        folder = Path(temporary)
        (folder / "meta.json").write_text(json.dumps({"nodes": of.n_node}))
        for prefix, triples in (("", of.train), *((f"{split}_", held) for split, held in of.held.items())):
            np.save(folder / f"{prefix}edges.npy", triples[:2])
            np.save(folder / f"{prefix}edge_type.npy", triples[2])
        run = run_job({**LINK, "dataset.path": str(folder), "dataset.features": "learned", "task.channels": CHANNELS,
                       "task.decoder": "distmult", "task.candidates": "all", "model.kind": "rgcn", "model.hidden": CHANNELS,
                       "model.dropout": 0.0, "train.epochs": EPOCHS, "train.lr": 0.01, "train.weight_decay": 0.0,
                       "train.eval_every": EVERY, "train.seed": seed, "train.metrics": ["mrr", "hits@10"]}, folder / "run")
        return float(run.json["best"]["test_mrr"])


def compare_relations(folder: Path, n_seed: int) -> None:
    """Each seed, then means and sample deviations."""
    found = []
    for seed in range(1, n_seed + 1):
        of = Knowledge(folder.resolve(), seed)
        found.append((relations_trainerd(of, seed), relations_pyg(of, seed)))
        print(f"{folder.name}, seed {seed}: MRR {found[-1][0]:.4f} and {found[-1][1]:.4f}", flush=True)
    both = 100 * np.array(found)
    spread = both.std(0, ddof=1) if n_seed > 1 else np.zeros(2)
    print(f"{folder.name}: MRR {both[:, 0].mean():.1f} ± {spread[0]:.1f} and {both[:, 1].mean():.1f} ± {spread[1]:.1f} %")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="Compare decoders of links with PyTorch Geometric's.")
    modes = parser.add_subparsers(dest="mode", required=True)
    modes.add_parser("speed").add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    modes.add_parser("alone").add_argument("case", choices=CASES)
    relations = modes.add_parser("relations")
    relations.add_argument("--data", type=Path, default=ROOT.parent / "shared/datasets/aifb")
    relations.add_argument("--seeds", type=int, default=3)
    asked = parser.parse_args()
    if asked.mode == "speed":
        compare_speed(asked.cases or list(CASES))
    elif asked.mode == "alone":
        print(json.dumps(alone(asked.case)))
    else:
        torch.set_num_threads(2)
        compare_relations(asked.data, asked.seeds)


if __name__ == "__main__":
    main()
