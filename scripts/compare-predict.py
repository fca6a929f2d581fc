#!/usr/bin/env python3
"""Time and memory of predictions beside PyTorch Geometric's own, with the same weights on one graph: scripts/compare-predict.py [NAME ...]

Run by a Python that has PyTorch Geometric. Its models are called on the whole graph in evaluation, without gradients, by edge_index and,
where the layer can, by a transposed CSR matrix. Two layers, 64 features, 64 columns (gat: 4 heads of 64), 8 classes; the graph of
compare-programs.py. Each runs alone, on two threads, the two in turn, TURNS times (3). Seconds are the lesser of PyTorch Geometric's two
calls, and of trainerd its evaluation, which lacks sums of features that are made before; whole those of the process from start to end; cpu
likewise, of all processors; megabytes the peak of the process that computes, for trainerd also with its coordinator's. The closing lines are
ratios of each turn's pair, their median: a call over a whole run of trainerd, in which the graph is read and the results are written, too.
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build/compare-programs"
F, C, HIDDEN = 64, 8, 64
NAMES = ("gat", "gcn", "sage")
TURNS = int(os.environ.get("TURNS", "3"))
sys.path.insert(0, str(ROOT / "python"))


def model_of(name):
    import torch
    from torch_geometric import nn
    torch.manual_seed(1)
    if name == "gat":
        return nn.GAT(F, 4 * HIDDEN, 2, C, heads=4, act="elu").eval()
    return {"gcn": nn.GCN, "sage": nn.GraphSAGE}[name](F, HIDDEN, 2, C).eval()


def graph():
    import numpy as np
    import torch
    edges, x = (torch.from_numpy(np.load(FOLDER / f"plain/{what}.npy")) for what in ("edges", "features"))
    return edges, x


def of_pyg(name, form, out):
    """In a process of its own."""
    import torch
    torch.set_num_threads(2)
    edges, x = graph()
    model = model_of(name)
    if form == "csr":
        edges = torch.sparse_coo_tensor(edges.flip(0), torch.ones(edges.shape[1]), (len(x), len(x))).to_sparse_csr()
    spent = []
    with torch.inference_mode():
        for _ in range(2):
            begin = time.perf_counter()
            logits = model(x, edges)
            spent.append(time.perf_counter() - begin)
    torch.save(logits, out)
    return min(spent), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def prepare(name):
    """The weights, and the job's file."""
    from trainerd.arrays import save_safetensors
    from trainerd.modules import job_of_module
    from trainerd.toml_text import job_text
    job, tensors = job_of_module(model_of(name))
    job["dataset"]["path"] = str(FOLDER / "plain")
    save_safetensors(FOLDER / f"{name}.safetensors", tensors)
    (FOLDER / f"{name}.toml").write_text(job_text({"name": name, **job, "workers": {"threads": 2}}))


def of_trainerd(name, out):
    begin, cpu = time.perf_counter(), cpu_of_children()
    subprocess.run([ROOT / "build/release/bin/trainerd", "--predict", FOLDER / f"{name}.safetensors", "--config", FOLDER / f"{name}.toml",
                    "--set", f"output.dir={out}"], check=True, capture_output=True)
    whole, cpu = time.perf_counter() - begin, cpu_of_children() - cpu
    result = json.loads((pathlib.Path(out) / "result.json").read_text())
    return {"seconds": result["seconds"]["evaluate"], "whole": whole, "cpu": cpu, "mb": result["memory"][0]["resident_peak"] / 1e6,
            "with": (result["memory"][0]["resident_peak"] + result["coordinator_resident_peak"]) / 1e6}


def cpu_of_children():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def alone(*arguments):
    begin, cpu = time.perf_counter(), cpu_of_children()
    done = subprocess.run([sys.executable, __file__, "--alone", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    seconds, mb = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": seconds, "whole": time.perf_counter() - begin, "cpu": cpu_of_children() - cpu, "mb": mb}


def compare(name):
    import numpy as np
    import torch
    prepare(name)
    rows = {"trainerd": [], "edges": [], "csr": []}
    with tempfile.TemporaryDirectory() as folder:
        of_trainerd(name, f"{folder}/first")  # the graph's parts are kept for the next runs
        for turn in range(TURNS):
            rows["trainerd"].append(of_trainerd(name, f"{folder}/{turn}"))
            for form in ("edges",) if name == "gat" else ("edges", "csr"):  # GATConv has no product of matrices
                found = alone(name, form, f"{folder}/{form}.pt")
                rows[form] += [found] if found is not None else []
            for who, runs in rows.items():
                if runs:
                    print(name, who, " ".join(f"{key} {value:.2f}" for key, value in runs[-1].items()), flush=True)
        own, theirs = np.load(f"{folder}/0/logits.npy"), torch.load(f"{folder}/edges.pt").numpy()
        difference = np.linalg.norm(own - theirs) / np.linalg.norm(theirs)
    print(f"{name}: logits differ by {difference:.1e}")
    for who in ("edges", "csr"):
        for key, of in (("seconds", "whole"), ("whole", "whole"), ("cpu", "cpu"), ("mb", "mb"), ("mb", "with")) if rows[who] else ():
            ratios = [b[key] / a[of] for a, b in zip(rows["trainerd"], rows[who])]
            print(f"{name}: PyTorch Geometric by {who}, {key} / trainerd, {of}: {statistics.median(ratios):.2f} "
                  f"({min(ratios):.2f} to {max(ratios):.2f})", flush=True)


def main():
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(of_pyg(*sys.argv[2:])))
        return
    if not (FOLDER / "plain/edges.npy").exists():
        sys.exit(f"{FOLDER}/plain is not there: scripts/compare-programs.py writes it")
    for name in sys.argv[1:] or NAMES:
        compare(name)


main()
