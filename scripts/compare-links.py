#!/usr/bin/env python3
"""Compare the prediction of links with PyTorch Geometric's: metrics on the same held-out edges, and the time and memory of an epoch.

    PYTHON scripts/compare-links.py metrics [--data DIR] [--seeds N] [NAME ...]
    PYTHON scripts/compare-links.py speed [--rounds N] [--epochs N] [FORM.DECODER ...]

Run by a Python that has PyTorch Geometric and NumPy.

metrics: GCN of 32 and 16 columns, Adam of rate 0.01, 200 epochs, and a dot product. For each seed 5 % of the edges are held out for
validation and 10 % for the test, with as many pairs without an edge, as files that both programs read. PyTorch Geometric trains as its
examples do: GAE.recon_loss, negative_sampling anew in each epoch. Test metrics are of the epoch with the best ROC AUC of validation edges.
DIR has a folder for each data set, ../shared/datasets by default. Of hgb_acm neither types nor features are used (the words of a paper are
its edges to terms): all relations are one undirected graph, and the first layer's weights have a row for each node.

speed: an epoch on 10^5 nodes and 6 * 10^6 drawn edges, four fifths within 16 classes; 64 features, SAGE of 128 and 128, a pair without an
edge for each edge, nothing held out, two threads. PyTorch Geometric reads the graph as FORM edges (edge_index), csr (a transposed
torch.sparse_csr tensor) or cached (torch_geometric.EdgeIndex, sorted, which keeps its CSR form), and reads the ends of pairs by DECODER
index (z[ends], as its InnerProductDecoder), select (index_select), embedding (F.embedding) or chunks: F.embedding of 2^18 pairs at a time,
with a backward for each, which its examples lack and which takes less memory. Each runs in a process of its own, in turn.
Prints the least time of an epoch behind the first, the processor time of an epoch (on busy cores the time says little), the process's peak,
and the loss of the first epoch, from the same weights.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from compare_jobs import ROOT, link_data, run_job, trainerd
from torch_geometric import EdgeIndex, seed_everything
from torch_geometric.nn import GAE, GCNConv, SAGEConv
from torch_geometric.utils import negative_sampling, to_torch_csr_tensor

Array = Any  # of NumPy
GRAPH = ROOT / "build/compare-links"
NAMES = ("cora", "citeseer", "hgb_acm")
METRICS = ("roc_auc", "average_precision")
SHARES = {"valid": 0.05, "test": 0.1}
FORMS, DECODERS = ("edges", "csr", "cached"), ("index", "select", "embedding", "chunks")
LINK = {"task.kind": "link", "workers.device": "cpu"}
GCN = {**LINK, "task.channels": 16, "model.kind": "gcn", "model.hidden": 32, "train.epochs": 200, "train.lr": 0.01, "train.metrics": METRICS}
SAGE = {**LINK, "task.channels": 128, "task.valid_share": 0.0, "task.test_share": 0.0, "model.kind": "sage", "model.hidden": 128,
        "train.eval_every": 0}
THREADS, WIDTH, FEATURES, CHUNK = 2, 128, 64, 1 << 18


# --- metrics ---------------------------------------------------------------------------------------------------------------------------

class Split:
    """Pairs with an edge and without, [2, n] each, and the codes of all edges: lesser end times nodes plus greater end."""

    def __init__(self, edges: Array, n_node: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        edges = np.sort(edges[:, edges[0] != edges[1]].astype(np.int64), 0)
        self.n_node, self.codes = n_node, np.unique(edges[0] * n_node + edges[1])
        order, at = rng.permutation(self.codes), 0
        self.positive, self.negative = {}, {}
        for split, share in SHARES.items():
            n = int(share * len(order))
            self.positive[split] = self.pairs(order[at:at + n])
            self.negative[split] = self.draw(n, rng)
            at += n
        self.train = self.pairs(order[at:])

    def pairs(self, codes: Array) -> Array:
        """The ends of pairs."""
        return np.stack([codes // self.n_node, codes % self.n_node])

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """n pairs of different nodes without an edge."""
        ends = np.sort(rng.integers(0, self.n_node, (2, 2 * n + 100)), 0)
        ends = ends[:, (ends[0] != ends[1]) & ~np.isin(ends[0] * self.n_node + ends[1], self.codes)][:, :n]
        assert ends.shape[1] == n
        return ends


def roc_auc(positive: Array, negative: Array) -> float:
    """The share of positives and negatives in the right order; equal scores count half."""
    values, at = np.unique(np.concatenate([positive, negative]), return_inverse=True)
    n_negative = np.bincount(at[len(positive):], minlength=len(values))
    below = np.cumsum(n_negative) - n_negative / 2
    return float(below[at[:len(positive)]].mean() / len(negative))


def average_precision(positive: Array, negative: Array) -> float:
    """The sum over thresholds of precision times what recall gains; equal scores are one threshold."""
    values, at = np.unique(-np.concatenate([positive, negative]), return_inverse=True)
    n_positive = np.bincount(at[:len(positive)], minlength=len(values))
    found, taken = np.cumsum(n_positive), np.cumsum(np.bincount(at, minlength=len(values)))
    return float((n_positive / len(positive) * found / taken).sum())


def measure(rows: Array, split: Split, of: str) -> list[float]:
    """Each of METRICS, of scores that are dot products in double precision."""
    rows = rows.astype(np.float64)
    positive, negative = ((rows[ends[0]] * rows[ends[1]]).sum(1).astype(np.float32) for ends in (split.positive[of], split.negative[of]))
    return [roc_auc(positive, negative), average_precision(positive, negative)]


class GCN2(torch.nn.Module):
    """Two layers; x None: the first one has a row of weights for each node."""

    def __init__(self, n_feature: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(n_feature, 32, cached=True), GCNConv(32, 16, cached=True)])

    def forward(self, x: Any, edge_index: Any) -> Any:
        """The rows of all nodes."""
        return self.convs[1](self.convs[0](x, edge_index).relu(), edge_index)


def train_pyg(x: Any, split: Split, seed: int) -> list[float]:
    """The usual script; the test metrics of the best epoch."""
    seed_everything(seed)
    ends = torch.from_numpy(split.train)
    edge_index = torch.cat([ends, ends.flip(0)], 1)
    model = GAE(GCN2(x.shape[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=GCN["train.lr"])
    best, test = -math.inf, [math.nan] * 2
    for _ in range(GCN["train.epochs"]):
        model.train()
        optimizer.zero_grad()
        z = model.encode(x, edge_index)
        model.recon_loss(z, ends, negative_sampling(edge_index, split.n_node, ends.shape[1])).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            rows = model.encode(x, edge_index).numpy()
        valid = measure(rows, split, "valid")[0]
        if valid > best:
            best, test = valid, measure(rows, split, "test")
    return test


def train_trainerd(keys: dict[str, Any], split: Split, work: Path) -> list[float]:
    """The test metrics of the best epoch, which are checked by the script's own."""
    run = run_job({**keys, **GCN}, work)
    test = [float(run.json["best"][f"test_{metric}"]) for metric in METRICS]
    assert np.allclose(test, measure(run.logits(), split, "test"), rtol=0, atol=1e-6), "the metrics of both programs differ"
    return test


def features_of(source: Path, n_node: int) -> Any:
    """Rows divided by their sums; without features a column for each node."""
    if not (source / "feat_data.npy").exists():
        return torch.eye(n_node).to_sparse()
    starts, columns, values = (np.load(source / f"feat_{name}.npy") for name in ("indptr", "indices", "data"))
    rows = torch.zeros(n_node, int(columns.max()) + 1)
    rows[np.repeat(np.arange(n_node), np.diff(starts)), columns.astype(np.int64)] = torch.from_numpy(values)
    return (rows / rows.sum(1, keepdim=True).clamp(min=1e-30)).to_sparse()


def compare_metrics(name: str, data: Path, n_seed: int) -> str:
    """A row of the table in docs/measured.md."""
    source, ours, theirs = data.resolve() / name, [], []
    edges, n_node = np.load(source / "edges.npy"), json.loads((source / "meta.json").read_text())["nodes"]
    keys: dict[str, Any] = {"dataset.undirected": "yes", "workers.count": 1, "workers.threads": 1}
    keys |= {"dataset.normalize_features": "row"} if (source / "feat_data.npy").exists() else {"dataset.features": "one_hot"}
    x = features_of(source, n_node)
    for seed in range(1, n_seed + 1):
        split = Split(edges, n_node, seed)
        with tempfile.TemporaryDirectory(prefix="compare-links-") as temporary:
            folder = Path(temporary) / "data"
            link_data(source, folder)
            for of in SHARES:
                np.save(folder / f"{of}_edges.npy", split.positive[of])
                np.save(folder / f"{of}_edges_negative.npy", split.negative[of])
            ours.append(train_trainerd({**keys, "dataset.path": str(folder), "train.seed": seed}, split, Path(temporary) / "run"))
        theirs.append(train_pyg(x, split, seed))
        print(name, seed, *(f"{value:.4f}" for value in ours[-1] + theirs[-1]), file=sys.stderr, flush=True)
    cells = []
    for at in range(len(METRICS)):
        for values in ([row[at] for row in ours], [row[at] for row in theirs], [a[at] - b[at] for a, b in zip(ours, theirs)]):
            cells.append(f"{100 * statistics.mean(values):.2f} ± {100 * statistics.stdev(values) if n_seed > 1 else 0:.2f}")
    return f"| {name} | {' | '.join(cells)} |"


# --- speed -----------------------------------------------------------------------------------------------------------------------------

def make_graph() -> None:
    """Write an undirected graph without loops and repeats as a data folder, unless it is there."""
    if (GRAPH / "features.npy").exists():
        return
    GRAPH.mkdir(parents=True, exist_ok=True)
    rng, n, n_pair = np.random.default_rng(1), 100_000, 6_000_000
    a, classes = rng.integers(0, n, n_pair), n // 16
    b = np.where(rng.random(n_pair) < 0.8, a // classes * classes + rng.integers(0, classes, n_pair), rng.integers(0, n, n_pair))
    codes = np.unique(np.concatenate([a * n + b, b * n + a])[np.tile(a != b, 2)])
    np.save(GRAPH / "edges.npy", np.stack([codes // n, codes % n]).astype(np.int32))
    np.save(GRAPH / "features.npy", rng.standard_normal((n, FEATURES)).astype(np.float32))


class SAGE2(torch.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(FEATURES, WIDTH), SAGEConv(WIDTH, WIDTH)])

    def forward(self, x: Any, graph: Any) -> Any:
        """The rows of all nodes."""
        return self.convs[1](self.convs[0](x, graph).relu(), graph)


def graph_of(form: str, edges: Any, n: int) -> Any:
    """What the layers read."""
    if form == "csr":
        return to_torch_csr_tensor(edges.flip(0), size=(n, n))
    return EdgeIndex(edges, sparse_size=(n, n), is_undirected=True).sort_by("col").values if form == "cached" else edges


def loss_sum(decoder: str, z: Any, ends: Any, sign: int) -> Any:
    """The sum over pairs of log(1 + exp(sign * dot product))."""
    take = {"index": lambda at: z[at], "select": lambda at: z.index_select(0, at)}.get(decoder, lambda at: F.embedding(at, z))
    return F.softplus(sign * (take(ends[0]) * take(ends[1])).sum(-1)).sum()


def backward(decoder: str, z: Any, ends: Any, negative: Any) -> float:
    """The loss, and its gradients."""
    if decoder != "chunks":
        loss = loss_sum(decoder, z, ends, -1) / ends.shape[1] + loss_sum(decoder, z, negative, 1) / negative.shape[1]
        loss.backward()
        return float(loss)
    rows, total = z.detach().requires_grad_(), 0.0
    for pairs, sign in ((ends, -1), (negative, 1)):
        for chunk in pairs.split(CHUNK, 1):
            loss = loss_sum(decoder, rows, chunk, sign) / pairs.shape[1]
            loss.backward()
            total += float(loss)
    z.backward(rows.grad)
    return total


def alone(form: str, decoder: str, n_epoch: int) -> dict[str, Any]:
    """PyTorch Geometric's epochs, in a process of its own."""
    torch.set_num_threads(THREADS)
    seed_everything(1)
    x = torch.from_numpy(np.load(GRAPH / "features.npy"))
    edges = torch.from_numpy(np.load(GRAPH / "edges.npy").astype(np.int64))
    model, n, ends, graph = SAGE2(), len(x), edges[:, edges[0] < edges[1]], graph_of(form, edges, len(x))
    trainerd.load_into_pyg(model, GRAPH / "start")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses, spent, cpu = [], [], time.process_time()
    for _ in range(n_epoch):
        begin = time.perf_counter()
        optimizer.zero_grad()
        z = model(x, graph)
        losses.append(backward(decoder, z, ends, negative_sampling(edges, n, ends.shape[1])))
        optimizer.step()
        spent.append(time.perf_counter() - begin)
    return {"seconds": spent, "cpu": (time.process_time() - cpu) / n_epoch, "loss": losses[0],
            "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}


def cpu_of_children() -> float:
    """Seconds of all processors, of processes that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def of_trainerd(n_epoch: int) -> dict[str, Any]:
    """trainerd's epochs, whose processor time is what a run takes more than one without; the peak also with its coordinator's."""
    keys = {"dataset.path": str(GRAPH), "workers.count": 1, "workers.threads": THREADS, **SAGE}
    with tempfile.TemporaryDirectory(prefix="compare-links-") as temporary:
        spent = [cpu_of_children()]
        for n in (0, n_epoch):
            run = run_job({**keys, "train.epochs": n}, Path(temporary) / f"run{n}")
            spent.append(cpu_of_children())
        epochs = run.epochs()
        peak = run.json["memory"][0]["resident_peak"]
        return {"seconds": [epoch["epoch_s"] for epoch in epochs], "cpu": (spent[2] - 2 * spent[1] + spent[0]) / n_epoch,
                "loss": epochs[0]["loss"], "mb": peak / 1e6, "with": (peak + run.json["coordinator_resident_peak"]) / 1e6}


def compare_speed(variants: list[str], n_round: int, n_epoch: int) -> None:
    """All programs in turn."""
    make_graph()
    run_job({"dataset.path": str(GRAPH), "train.epochs": 0, "workers.threads": THREADS, **SAGE}, GRAPH / "start")
    for _ in range(n_round):
        for variant in ["trainerd", *variants]:
            if variant == "trainerd":
                found = of_trainerd(n_epoch)
            else:
                form, decoder = variant.split(".")
                done = subprocess.run([sys.executable, __file__, "alone", form, decoder, str(n_epoch)], capture_output=True, text=True)
                if done.returncode:
                    print(f"{variant}: exit code {done.returncode}: {done.stderr[-300:]}", flush=True)
                    continue
                found = json.loads(done.stdout.splitlines()[-1])
            print(f"{variant}: {min(found['seconds'][1:]):.2f} s, {found['cpu']:.2f} s of processors, {found['mb']:.0f} MB"
                  + (f" ({found['with']:.0f} with the coordinator)" if "with" in found else "")
                  + f", first loss {found['loss']:.4f}, load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description="Compare the prediction of links with PyTorch Geometric.")
    modes = parser.add_subparsers(dest="mode", required=True)
    metrics = modes.add_parser("metrics")
    metrics.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    metrics.add_argument("--data", type=Path, default=ROOT.parent / "shared/datasets", help="folder of the data sets")
    metrics.add_argument("--seeds", type=int, default=10)
    speed = modes.add_parser("speed")
    speed.add_argument("variants", nargs="*", metavar="FORM.DECODER", help="by default all")
    speed.add_argument("--rounds", type=int, default=1)
    speed.add_argument("--epochs", type=int, default=4)
    process = modes.add_parser("alone")
    process.add_argument("form", choices=FORMS)
    process.add_argument("decoder", choices=DECODERS)
    process.add_argument("epochs", type=int)
    asked = parser.parse_args()
    if asked.mode == "metrics":
        torch.set_num_threads(1)  # small graphs
        for name in asked.names or NAMES:
            print(compare_metrics(name, asked.data, asked.seeds), flush=True)
    elif asked.mode == "speed":
        compare_speed(asked.variants or [f"{form}.{decoder}" for form in FORMS for decoder in DECODERS], asked.rounds, asked.epochs)
    else:
        print(json.dumps(alone(asked.form, asked.decoder, asked.epochs)))


if __name__ == "__main__":
    main()
