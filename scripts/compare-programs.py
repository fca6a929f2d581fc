#!/usr/bin/env python3
"""Time and memory of vertex programs beside PyTorch Geometric's modules, on one graph: scripts/compare-programs.py [NAME ...]

`make bench-programs PYG=DIR/bin/python` runs it, by a Python that has PyTorch Geometric: python3 -m venv DIR; DIR/bin/pip install numpy torch
torch_geometric. PyG runs as it is, and by torch.compile where that can be; the faster of both counts. Two layers, 64 features, 64 hidden
columns, 8 classes, 10^5 nodes, 3 million edges at random; Adam. Each runs alone, on two threads; seconds are the least of the epochs behind
the first one, megabytes the peak of the process that trains. The graph is written to build/compare-programs once.
"""
import json
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/compare-programs"
N, M, F, C, EPOCHS = 100_000, 3_000_000, 64, 8, 4
CASES = {  # name: text, [model.args]
    "resgated": ("resgated", {}), "edgeconv": ("edgeconv", {}), "edgeconv-mlp": ("edgeconv", {"hidden": 64}), "gmm": ("gmm", {}),
    "pna": ("pna", {}), "gen": ("gen", {}), "film": ("film", {})}


def write_graph(np):
    rng = np.random.default_rng(1)
    one = np.unique(rng.integers(0, N, (2, M)), axis=1)
    one = one[:, one[0] < one[1]]
    rows = rng.random((one.shape[1], 2), dtype=np.float32)
    for name in ("plain", "featured"):
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "edges.npy", np.concatenate([one, one[::-1]], 1))
        np.save(folder / "features.npy", rng.standard_normal((N, F), dtype=np.float32))
        np.save(folder / "labels.npy", rng.integers(0, C, N))
        for split, part in (("train", (0, 60)), ("valid", (60, 80)), ("test", (80, 100))):
            np.save(folder / f"{split}_idx.npy", np.arange(N // 100 * part[0], N // 100 * part[1]))
    np.save(FOLDER / "featured/edge_attr.npy", np.concatenate([rows, rows]))


def train(name, folder, lines):
    """Seconds an epoch and megabytes of a job; lines: of [model]."""
    job, result = FOLDER / f"{name}.toml", FOLDER / "runs"
    job.write_text("\n".join([f'name = "{name}"', "[dataset]", f'path = "{FOLDER / folder}"', 'undirected = "no"', "[train]", f"epochs = {EPOCHS}",
                              "eval_every = 0", "[output]", f'dir = "{result}"', "[model]", "layers = 2", "hidden = 64", *lines]) + "\n")
    subprocess.run([ROOT / "build/release/bin/trainerd", "--config", job], check=True, capture_output=True)
    epochs = [json.loads(line) for line in (result / "metrics.jsonl").read_text().splitlines()]
    memory = json.loads((result / "result.json").read_text())["memory"][0]["resident_peak"]
    return min(epoch["epoch_s"] for epoch in epochs[1:]), memory / 1e6


def of_text(name, text, args, folder="plain"):
    return train(name, folder, ['kind = "program"', f'program = "{text}"', "[model.args]", *(f"{key} = {value}" for key, value in args.items())])


def of_trainerd(name):
    text, args = CASES[name]
    return of_text(name, ROOT / f"configs/programs/{text}.gnn", args, "featured" if name == "gmm" else "plain")


def unmatched(kind, args):
    """A kind, and its text as an edge program: seconds of both."""
    text = FOLDER / f"unmatched-{kind}.gnn"
    text.write_text("match = False\n" + (ROOT / f"configs/programs/{kind}.gnn").read_text())
    own = train(kind, "plain", [f'kind = "{kind}"', *(f"{key} = {value}" for key, value in args.items())])
    return own[0], of_text(f"unmatched-{kind}", text, args)[0]


def of_pyg(name, compiles):
    import numpy as np
    import torch
    from torch_geometric import nn
    torch.set_num_threads(2)
    folder = FOLDER / ("featured" if name == "gmm" else "plain")
    edges, x, y = (torch.from_numpy(np.load(folder / f"{what}.npy")) for what in ("edges", "features", "labels"))
    train = torch.from_numpy(np.load(folder / "train_idx.npy"))
    more = (torch.from_numpy(np.load(folder / "edge_attr.npy")),) if name == "gmm" else ()
    by_destination = torch.argsort(edges[1], stable=True)  # PyG is 1.2 to 2.5 times as fast then
    edges, more = edges[:, by_destination], tuple(rows[by_destination] for rows in more)
    line = torch.nn.Linear
    make = {"resgated": nn.ResGatedGraphConv, "edgeconv": lambda a, b: nn.EdgeConv(line(2 * a, b)),
            "edgeconv-mlp": lambda a, b: nn.EdgeConv(torch.nn.Sequential(line(2 * a, 64), torch.nn.ReLU(), line(64, b))),
            "gmm": lambda a, b: nn.GMMConv(a, b, 2, 3), "gen": lambda a, b: nn.GENConv(a, b, num_layers=1), "film": nn.FiLMConv,
            "pna": lambda a, b: nn.PNAConv(a, b, ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"],
                                           torch.bincount(torch.bincount(edges[1], minlength=N)))}[name]
    convs = torch.nn.ModuleList([make(F, 64), make(64, C)])
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.01)
    if compiles:
        for conv in convs:
            conv.compile(dynamic=False)
    seconds = []
    while len(seconds) < 2 or (len(seconds) < 4 and sum(seconds[1:]) < 20):
        begin = time.monotonic()
        optimizer.zero_grad()
        logits = convs[1](torch.relu(convs[0](x, edges, *more)), edges, *more)
        torch.nn.functional.cross_entropy(logits[train], y[train]).backward()
        optimizer.step()
        seconds.append(time.monotonic() - begin)
    print(min(seconds[1:]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def beside(name, how):
    """Seconds and megabytes in a process of its own; infinite where it fails."""
    done = subprocess.run([sys.executable, __file__, how, name], capture_output=True, text=True, check=False)
    return tuple(map(float, done.stdout.split()[-2:])) if done.returncode == 0 else (float("inf"), float("inf"))


if len(sys.argv) == 3 and sys.argv[1] in ("--pyg", "--compiled"):
    of_pyg(sys.argv[2], sys.argv[1] == "--compiled")
    sys.exit()
if not (FOLDER / "featured/edge_attr.npy").exists():
    import numpy
    write_graph(numpy)
print("| | trainerd | PyG | PyG, compiled | faster | of its memory |\n|---|---|---|---|---|---|")
for case in sys.argv[1:] or CASES:
    own, plain, compiled = of_trainerd(case), beside(case, "--pyg"), beside(case, "--compiled")
    cells = [f"{s:.2f} s ({m:.0f} MB)" if m < float("inf") else "fails" for s, m in (own, plain, compiled)]
    best = [min(plain[i], compiled[i]) / own[i] for i in (0, 1)]
    print(f"| {case} | " + " | ".join(cells) + f" | {best[0]:.1f} × | 1/{best[1]:.0f} |", flush=True)
if not sys.argv[1:]:
    print("\n| kind | its epoch | its text by edge programs | |\n|---|---|---|---|")
    for kind, more in (("gcn", {}), ("sage", {}), ("gat", {"heads": 4})):
        seconds = unmatched(kind, more)
        print(f"| {kind} | {seconds[0]:.3f} s | {seconds[1]:.3f} | {seconds[1] / seconds[0]:.1f} × |", flush=True)
