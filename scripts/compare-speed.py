#!/usr/bin/env python3
"""Time an epoch of trainerd beside DGL, PyTorch Geometric and SAR, on the same graphs and from the same weights.

    python3 -m venv ENV; ENV/bin/pip install "torch==2.2.1" "dgl==2.1.0" "numpy<2" torch_geometric "torchdata==0.7.1" pandas pyyaml pydantic ifaddr
    ENV/bin/python scripts/compare-speed.py --work DIR [--sar DIR] [--graphs sbm,rmat] [--models gcn,sage,gat] [--rounds N] [--epochs N]
                                            [--programs "NAME;..."]

Full batch, float32, three layers of 256 (gat: 4 heads of 64, the last layer one head), no dropout, Adam, no evaluation. One process of two
threads; with "2" in its name two workers of one thread. Each round runs every program once, one after another, in a process of its own.
DIR of --work keeps graphs and results; DIR of --sar is a copy of SAR, which PyPI lacks. "tuned" keeps freed memory and takes huge pages.
Prints a table: the least time of an epoch over all rounds, first epochs left out, and the largest process's peak in MiB. Fails where the
losses of first epochs differ by more than 1e-3 of themselves.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

import numpy as np
import trainerd

WARM_UP = 2  # epochs that are not counted
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=68719476736:glibc.malloc.trim_threshold=68719476736"}
PROGRAMS: dict[str, dict[str, Any]] = {
    "trainerd": {"set": []},
    "trainerd, parts = 1": {"set": ["partition.parts=1"]},
    "trainerd, bf16": {"set": ["train.precision=bf16"]},
    "trainerd, bf16, its products, too": {"set": ["train.precision=bf16", "train.products=bf16"]},
    "DGL, tuned": {"child": "dgl", "env": TUNED},
    "DGL": {"child": "dgl"},
    "PyG": {"child": "pyg"},
    "trainerd, 2 workers": {"set": ["workers.count=2"]},
    "SAR, tuned, 2 workers": {"child": "sar", "env": TUNED},
}


# --- graphs ----------------------------------------------------------------------------------------------------------------------------

def sbm_edges(rng: np.random.Generator) -> tuple[int, np.ndarray, np.ndarray]:
    """10^5 nodes in 16 classes, 3 * 10^6 pairs, four fifths of them within a class."""
    n, n_pair = 100_000, 3_000_000
    labels = rng.integers(0, 16, n)
    order, sizes = np.argsort(labels, kind="stable"), np.bincount(labels)
    starts = np.cumsum(sizes) - sizes
    a = rng.integers(0, n, n_pair)
    inside = order[starts[labels[a]] + (rng.random(n_pair) * sizes[labels[a]]).astype(np.int64)]
    return n, np.stack([a, np.where(rng.random(n_pair) < 0.8, inside, rng.integers(0, n, n_pair))]), labels


def rmat_edges(rng: np.random.Generator) -> tuple[int, np.ndarray, np.ndarray]:
    """2^17 nodes, 3.8 * 10^6 pairs before repeats are dropped, quadrants of 0.57, 0.19, 0.19, 0.05; classes at random."""
    n_bit, n_pair = 17, 3_800_000
    pairs = np.zeros((2, n_pair), np.int64)
    for _ in range(n_bit):
        u = rng.random(n_pair)
        pairs = 2 * pairs + np.stack([u >= 0.76, (u >= 0.57) & (u < 0.76) | (u >= 0.95)])
    shuffled = rng.permutation(1 << n_bit)
    return 1 << n_bit, shuffled[pairs], rng.integers(0, 16, 1 << n_bit)


def make_graph(name: str, folder: Path) -> None:
    """Write an undirected graph without loops and repeats as a data folder, unless it is there."""
    if (folder / "labels.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    n, pairs, labels = {"sbm": sbm_edges, "rmat": rmat_edges}[name](rng)
    both = np.concatenate([pairs, pairs[::-1]], 1)[:, np.tile(pairs[0] != pairs[1], 2)]
    codes = np.unique(both[0] * n + both[1])
    means = rng.standard_normal((16, 256)).astype(np.float32)
    np.save(folder / "edges.npy", np.stack([codes // n, codes % n]))
    np.save(folder / "features.npy", means[labels] * np.float32(0.1) + rng.standard_normal((n, 256)).astype(np.float32))
    np.save(folder / "train_idx.npy", np.flatnonzero(rng.random(n) < 0.6))
    np.save(folder / "labels.npy", labels)


# --- the programs ----------------------------------------------------------------------------------------------------------------------

def run_trainerd(graph: Path, model: str, out: Path, n_epoch: int, options: list[str]) -> dict[str, Any]:
    """Train, and return the losses and the seconds of each epoch, and MiB."""
    keys = [f"dataset.path={graph}", f"model.kind={model}", "model.layers=3", f"model.hidden={64 if model == 'gat' else 256}",
            f"train.epochs={n_epoch}", "train.eval_every=0", "train.lr=0.01", "workers.count=1", f"output.dir={out}",
            *(["model.heads=4", "model.out_heads=1", "model.activation=relu"] if model == "gat" else []), *options]
    file = out.with_suffix(".toml")
    file.write_text('name = "speed"\n')
    peak = finish([ROOT / "build/bin/trainerd", "--config", file, *(word for key in keys for word in ("--set", key))], {})[1]
    epochs: list[Any] = trainerd.Result(out).epochs()
    return {"losses": [epoch["loss"] for epoch in epochs], "seconds": [epoch["epoch_s"] for epoch in epochs], "mib": peak}


def finish(command: list[Any], env: dict[str, str]) -> tuple[str, float]:
    """Run a command to its end: its output, and the peak of its largest process in MiB."""
    reader = ("import json, resource, subprocess, sys; done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True); "
              "print(json.dumps([done.returncode, done.stdout, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024]))")
    done = subprocess.run([sys.executable, "-c", reader, *map(str, command)], env={**os.environ, **env}, capture_output=True, text=True)
    code, output, peak = json.loads(done.stdout) if done.returncode == 0 else (done.returncode, "", 0.0)
    if code:
        sys.exit(f"compare-speed.py: {' '.join(map(str, command))}: exit code {code}\n{done.stderr[-2000:]}")
    return output, peak


def dgl_layers(model: str, n_class: int) -> tuple[list[Any], dict[str, str]]:
    """Layers of DGL, and its names of trainerd's weights."""
    from dgl.nn import GATConv, GraphConv, SAGEConv
    widths = [(256, 256), (256, 256), (256, n_class)]
    if model == "gcn":
        return [GraphConv(a, b, "both", allow_zero_in_degree=True) for a, b in widths], {"lin.weight": "weight", "bias": "bias"}
    if model == "sage":
        return [SAGEConv(a, b, "mean") for a, b in widths], {"lin_l.weight": "fc_neigh.weight", "lin_l.bias": "fc_self.bias",
                                                             "lin_r.weight": "fc_self.weight"}
    return [GATConv(256, 64, 4), GATConv(256, 64, 4), GATConv(256, n_class, 1)], {
        "lin.weight": "fc.weight", "bias": "bias", "att_src": "attn_l", "att_dst": "attn_r"}


def pyg_layers(model: str, n_class: int) -> tuple[list[Any], dict[str, str]]:
    """Layers of PyTorch Geometric over a CSR adjacency; gcn's is normalised beforehand."""
    from torch_geometric.nn import GCNConv, SAGEConv
    widths = [(256, 256), (256, 256), (256, n_class)]
    if model == "gcn":
        return [GCNConv(a, b, normalize=False) for a, b in widths], {"lin.weight": "lin.weight", "bias": "bias"}
    names = ["lin_l.weight", "lin_l.bias", "lin_r.weight"]
    return [SAGEConv(a, b) for a, b in widths], {name: name for name in names}


def csr_graph(torch: Any, edges: np.ndarray, n: int, model: str) -> Any:
    """The adjacency, row i the in-edges of node i."""
    if model == "gcn":
        edges = np.concatenate([edges, np.tile(np.arange(n), (2, 1))], 1)
    scale = np.bincount(edges[1], minlength=n) ** -0.5 if model == "gcn" else np.ones(n)
    values = torch.from_numpy((scale[edges[0]] * scale[edges[1]]).astype(np.float32))
    return torch.sparse_coo_tensor(torch.from_numpy(edges[::-1].copy()), values, (n, n)).coalesce().to_sparse_csr()


def train_child(program: str, graph: Path, model: str, start: Path, n_epoch: int, rank: int, n_worker: int, sar_parts: Path) -> None:
    """Train in this process with PyTorch, and print losses and seconds."""
    os.environ.setdefault("DGLBACKEND", "pytorch")
    import torch
    torch.set_num_threads(2 // n_worker)
    labels = np.load(graph / "labels.npy")
    n, n_class, count = len(labels), int(labels.max()) + 1, len(np.load(graph / "train_idx.npy"))
    layers, names = (pyg_layers if program == "pyg" else dgl_layers)(model, n_class)
    network = torch.nn.ModuleList(layers)
    for key, value in trainerd.Result(start).weights("model.safetensors").items():
        _, layer, name = key.split(".", 2)
        own = dict(layers[int(layer)].named_parameters())[names[name]]
        of = torch.from_numpy(value.copy())
        own.data = (of.t().contiguous() if program != "pyg" and model == "gcn" and of.dim() == 2 else of).reshape(own.shape)
    if program == "sar":
        import dgl
        import sar
        sar.patch_dgl()
        dgl.nn.pytorch.conv.gatconv.edge_softmax = sar.edge_softmax # sar's patch takes another class than its graphs have
        sar.initialize_comms(rank, n_worker, "127.0.0.1", "gloo")
        part = sar.load_dgl_partition_data(str(sar_parts / "speed.json"), rank, torch.device("cpu"))
        pick = lambda name: sar.suffix_key_lookup(part.node_features, name)
        x, y, rows, data = pick("features"), pick("labels"), pick("train").nonzero().view(-1), sar.construct_full_graph(part)
    else:
        x, y = torch.from_numpy(np.load(graph / "features.npy")), torch.from_numpy(labels)
        rows, edges = torch.from_numpy(np.load(graph / "train_idx.npy")), np.load(graph / "edges.npy")
        if program == "dgl":
            import dgl
            data = dgl.graph(tuple(torch.from_numpy(edges)), num_nodes=n)
            data = data if model == "sage" else dgl.add_self_loop(data)
            data.create_formats_()
        else:
            data = csr_graph(torch, edges, n, model)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    losses, seconds = [], []
    for _ in range(n_epoch):
        begin = time.perf_counter()
        h = x
        for i, layer in enumerate(network):
            h = layer(h, data) if program == "pyg" else layer(data, h).flatten(1)
            h = torch.relu(h) if i + 1 < len(network) else h
        loss = torch.nn.functional.cross_entropy(h[rows], y[rows], reduction="sum") / count
        optimizer.zero_grad()
        loss.backward()
        if program == "sar":
            sar.gather_grads(network)
            total = loss.detach().clone()
            torch.distributed.all_reduce(total)
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(float(total if program == "sar" else loss))
    print(json.dumps({"losses": losses, "seconds": seconds, "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


def sar_partition(graph: Path, model: str, parts: Path) -> None:
    """Two parts as SAR reads them, made by DGL."""
    import dgl
    import torch
    n = len(np.load(graph / "labels.npy"))
    data = dgl.graph(tuple(torch.from_numpy(np.load(graph / "edges.npy"))), num_nodes=n)
    data = data if model == "sage" else dgl.add_self_loop(data)
    data.ndata["features"] = torch.from_numpy(np.load(graph / "features.npy"))
    data.ndata["labels"] = torch.from_numpy(np.load(graph / "labels.npy"))
    data.ndata["train"] = torch.zeros(n, dtype=torch.bool)
    data.ndata["train"][torch.from_numpy(np.load(graph / "train_idx.npy"))] = True
    dgl.distributed.partition_graph(data, "speed", 2, str(parts), num_hops=1, balance_edges=True)


def run_other(of: dict[str, Any], graph: Path, model: str, work: Path, n_epoch: int, sar: str) -> dict[str, Any]:
    """One program in a process of its own, SAR in two."""
    child, n_worker = of["child"], 2 if of["child"] == "sar" else 1
    parts = work / f"sar-{graph.name}-{model == 'sage'}"
    env = {"OMP_NUM_THREADS": str(2 // n_worker), "PYTHONPATH": sar, **of.get("env", {})}
    command = [sys.executable, __file__, "--child", child, "--graphs", graph, "--models", model, "--epochs", n_epoch, "--work", work,
               "--sar", parts]
    if child == "sar" and not (parts / "speed.json").exists():
        finish([*command, "--rank", -1], env)
    others = [subprocess.Popen([*map(str, command), "--rank", str(rank)], env={**os.environ, **env}, stdout=subprocess.DEVNULL)
              for rank in range(1, n_worker)]
    try:
        out: dict[str, Any] = json.loads(finish([*command, "--rank", 0], env)[0].splitlines()[-1])
    except SystemExit:
        for other in others:
            other.kill()
        raise
    for other in others:
        other.wait()
    return out


def compare(args: argparse.Namespace) -> None:
    """All rounds, then the table."""
    best: dict[tuple[str, str], tuple[float, float]] = {}
    rows: list[str] = []
    for name in args.graphs.split(","):
        graph = args.work / name
        make_graph(name, graph)
        for model in args.models.split(","):
            row = f"{name} {model}"
            rows.append(row)
            run_trainerd(graph, model, args.work / f"start-{model}", 0, [])
            first: list[float] = []
            for _ in range(args.rounds):
                for program in args.programs:
                    of = PROGRAMS[program]
                    if (of.get("child") == "sar" and not args.sar) or (of.get("child") == "pyg" and model == "gat"):
                        continue  # PyG's attention over so many edges takes more memory than most machines have
                    init = [f"model.init={args.work / f'start-{model}' / 'model.safetensors'}"]
                    ran = (run_trainerd(graph, model, args.work / "out", args.epochs, [*of["set"], *init]) if "set" in of else
                           run_other(of, graph, model, args.work, args.epochs, args.sar))
                    seconds = min(ran["seconds"][WARM_UP:])
                    print(f"{row}, {program}: {seconds:.3f} s, {ran['mib']:.0f} MiB, losses {ran['losses'][0]:.6f} … {ran['losses'][-1]:.6f}",
                          file=sys.stderr, flush=True)
                    first.append(ran["losses"][0])
                    before = best.get((row, program), (seconds, ran["mib"]))
                    best[row, program] = min(before[0], seconds), max(before[1], ran["mib"])
            if max(first) - min(first) > 1e-3 * max(first):
                sys.exit(f"compare-speed.py: {row}: first losses differ: {first}")
    print("| |", " | ".join(args.programs), "|\n" + "|---" * (1 + len(args.programs)) + "|")
    for row in rows:
        print(f"| {row} |", " | ".join("{:.3f} s ({:.0f})".format(*best[row, p]) if (row, p) in best else "–" for p in args.programs), "|")


def main() -> None:
    """Read the command line; --child and --rank are for the script's own processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sar", default="")
    parser.add_argument("--graphs", default="sbm,rmat")
    parser.add_argument("--models", default="gcn,sage,gat")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--programs", type=lambda text: [p for p in PROGRAMS if p in text.split(";")], default=list(PROGRAMS))
    parser.add_argument("--child", choices=["dgl", "pyg", "sar"], help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child is None:
        args.work.mkdir(parents=True, exist_ok=True)
        compare(args)
    elif args.rank < 0:
        sar_partition(Path(args.graphs), args.models, Path(args.sar))
    else:
        train_child(args.child, Path(args.graphs), args.models, args.work / f"start-{args.models}", args.epochs, args.rank,
                    2 if args.child == "sar" else 1, Path(args.sar))


if __name__ == "__main__":
    main()
