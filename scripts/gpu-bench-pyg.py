#!/usr/bin/env python3
"""What gpu-bench compares with: the same work by PyTorch Geometric, on a graph that bench_gpu wrote: of an epoch the job's own.

    gpu-bench-pyg.py layer FOLDER                            one GATConv, 4 heads of 64 columns, forward and backward
    gpu-bench-pyg.py epoch gcn|sage FOLDER FEATURES HIDDEN CLASSES LAYERS   a training epoch over a torch.sparse CSR matrix

Prints a line for each way: its name, the milliseconds (median of 20) and the bytes of device memory at most; or its name, "cannot" and why.
"""
import statistics
import sys
import time

N_WARM, N_TIMED = 3, 20
HEADS, COLUMNS = 4, 64


def cannot(name, why):
    print(name, "cannot", str(why).splitlines()[0] if str(why) else type(why).__name__, flush=True)


try:
    import numpy as np
    import torch
except ImportError as error:
    cannot("pyg", error)
    sys.exit(0)
try:
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv
except ImportError as error:
    cannot("pyg", error)
    sys.exit(0)

gpu = torch.cuda.is_available()
device = torch.device("cuda" if gpu else "cpu")
torch.backends.cuda.matmul.allow_tf32 = False  # as trainerd


def wait():
    if gpu:
        torch.cuda.synchronize()


def measure(name, run):
    """Time `run`, which makes one pass; what fails is said and not measured."""
    try:
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        times = []
        for i in range(N_WARM + N_TIMED):
            wait()
            begin = time.perf_counter()
            run()
            wait()
            times.append(time.perf_counter() - begin)
        n_bytes = torch.cuda.max_memory_allocated() if gpu else 0
        print(name, f"{1e3 * statistics.median(times[N_WARM:]):.6g}", n_bytes, flush=True)
    except Exception as error:  # out of memory, or what this version of PyTorch cannot compile
        cannot(name, f"{type(error).__name__}: {error}")


def graph_of(folder):
    indptr = torch.from_numpy(np.fromfile(folder + "/indptr", dtype=np.int64))
    cols = torch.from_numpy(np.fromfile(folder + "/cols", dtype=np.uint32).astype(np.int64))
    return indptr, cols


def layer(folder):
    indptr, cols = graph_of(folder)
    n, width = len(indptr) - 1, HEADS * COLUMNS
    rows = torch.repeat_interleave(torch.arange(n), indptr[1:] - indptr[:-1])
    edges = torch.stack([cols, rows]).to(device)
    x = torch.rand(n, width, device=device, requires_grad=True)
    grad = torch.rand(n, width, device=device)
    conv = GATConv(width, COLUMNS, heads=HEADS, bias=False).to(device)

    def once(module):
        x.grad = None
        conv.zero_grad(set_to_none=True)
        module(x, edges).backward(grad)

    measure("plain", lambda: once(conv))
    if gpu:
        torch.cuda.empty_cache()
    if hasattr(torch, "compile"):
        try:
            compiled = torch.compile(conv)
        except Exception as error:
            cannot("compiled", error)
            return
        measure("compiled", lambda: once(compiled))
    else:
        cannot("compiled", "this PyTorch has no torch.compile")


def epoch(kind, folder, features, hidden, classes, layers):
    indptr, cols = graph_of(folder)
    n = len(indptr) - 1
    adjacency = torch.sparse_csr_tensor(indptr, cols, torch.ones(len(cols)), size=(n, n)).to(device)
    widths = [features] + [hidden] * (layers - 1) + [classes]
    make = (lambda a, b: GCNConv(a, b, cached=True)) if kind == "gcn" else (lambda a, b: SAGEConv(a, b))
    convs = torch.nn.ModuleList(make(a, b) for a, b in zip(widths, widths[1:])).to(device)
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.01)
    x = torch.rand(n, features, device=device)
    labels = torch.randint(classes, (n,), device=device)

    def once():
        optimizer.zero_grad(set_to_none=True)
        h = x
        for i, conv in enumerate(convs):
            h = conv(h, adjacency)
            h = torch.relu(h) if i + 1 < len(convs) else h
        torch.nn.functional.cross_entropy(h, labels).backward()
        optimizer.step()

    measure("csr", once)


if sys.argv[1] == "layer":
    layer(sys.argv[2])
else:
    epoch(sys.argv[2], sys.argv[3], *(int(a) for a in sys.argv[4:8]))
