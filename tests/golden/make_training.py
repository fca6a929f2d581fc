#!/usr/bin/env python3
"""Reference results for how a model is trained: losses, clipping, schedules, metrics. Float64, plain PyTorch.

    usage: make_training.py GOLDEN_DIR OUT_FILE

GOLDEN_DIR/gcn has graph, features, labels, splits and initial weights of a two-layer GCN. OUT_FILE is JSON, a list of cases:
    name      what the case is about
    train     lines of [train] that the job has
    labels    in place of the graph's own: rows of numbers, null: unknown. Not there: the graph's
    files     .npy files that the job names: {name: numbers}
    losses    the mean loss over the training nodes before each step
    norms     of all gradients, before they are clipped; only where the job clips
    rates     the learning rate of each step; only where the schedule looks at evaluations
    valid     the metric of the validation nodes after each step; only where the case is about it
The training script is the usual one: forward, loss over the training nodes, backward, clip_grad_norm_, step, evaluation, scheduler.
"""
import json
import os
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
N_STEP = 10


def read_safetensors(path):
    content = open(path, "rb").read()
    n = struct.unpack("<Q", content[:8])[0]
    out = {}
    for name, what in json.loads(content[8:8 + n]).items():
        if name != "__metadata__":
            begin, end = what["data_offsets"]
            values = np.frombuffer(content[8 + n + begin:8 + n + end], "<f4").reshape(what["shape"])
            out[name] = torch.tensor(values.astype(np.float64), requires_grad=True)
    return out


class Graph:
    def __init__(self, folder):
        load = lambda name: np.load(os.path.join(folder, name + ".npy"))
        self.src, self.dst = (torch.tensor(row) for row in load("edges"))
        self.x = torch.tensor(load("features").astype(np.float64))
        self.y = torch.tensor(load("labels").astype(np.int64))
        self.train, self.valid = torch.tensor(load("train_idx")), torch.tensor(load("valid_idx"))
        self.weights = os.path.join(folder, "init.safetensors")
        loop = torch.arange(len(self.y))
        self.src, self.dst = torch.cat([self.src, loop]), torch.cat([self.dst, loop])
        degree = torch.zeros(len(self.y)).index_add(0, self.dst, torch.ones(len(self.dst)))
        self.norm = (degree[self.src] * degree[self.dst]).rsqrt()[:, None]

    def propagate(self, x):
        return torch.zeros(len(self.y), x.shape[1]).index_add(0, self.dst, x[self.src] * self.norm)

    def logits(self, p):
        h = torch.relu(self.propagate(self.x @ p["convs.0.lin.weight"].T) + p["convs.0.bias"])
        return self.propagate(h @ p["convs.1.lin.weight"].T) + p["convs.1.bias"]


def run(graph, loss_of, optimizer_of, clip=None, scheduler_of=None, valid_of=None):
    """loss_of(logits, rows): mean loss; valid_of(logits, rows): what the scheduler looks at."""
    p = read_safetensors(graph.weights)
    optimizer = optimizer_of(list(p.values()))
    scheduler = scheduler_of(optimizer) if scheduler_of else None
    out = {"losses": [], "norms": [], "rates": [], "valid": []}
    for _ in range(N_STEP):
        optimizer.zero_grad()
        loss = loss_of(graph.logits(p), graph.train)
        loss.backward()
        out["losses"].append(loss.item())
        if clip is not None:
            out["norms"].append(torch.nn.utils.clip_grad_norm_(list(p.values()), clip).item())
        out["rates"].append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if valid_of:
            with torch.no_grad():
                out["valid"].append(float(valid_of(graph.logits(p), graph.valid)))
        if scheduler:
            scheduler.step(out["valid"][-1])
    keep = (["losses"] + (["norms"] if clip is not None else []) + (["rates"] if scheduler else [])
            + (["valid"] if valid_of else []))
    return {name: out[name] for name in keep}


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01, weight_decay=5e-4)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.5, momentum=0.9)


ADAM = ["lr = 0.01", "weight_decay = 5e-4"]
MOMENTUM = ['optimizer = "sgd"', "lr = 0.5", "momentum = 0.9"]


def balanced(y, n_class):
    count = torch.bincount(y, minlength=n_class).double()
    some = count > 0
    return torch.where(some, len(y) / (some.sum() * count.clamp(min=1)), torch.ones(n_class))


def clip_cases(graph):
    cross = lambda z, rows: F.cross_entropy(z[rows], graph.y[rows])
    for most in (0.05, 1.0):
        yield f"clip {most}", MOMENTUM + [f"clip_norm = {most}"], {}, run(graph, cross, momentum, clip=most)


def weight_cases(graph):
    y, n_class = graph.y, int(graph.y.max()) + 1
    given = [0.5, 2.0, 0.0, 1.25, 3.0]
    for name, lines, weight, smoothing in (
            ("smoothing", ["label_smoothing = 0.1"], None, 0.1),
            ("balanced", ['class_weights = "balanced"'], balanced(y[graph.train], n_class), 0.0),
            ("weights and smoothing", ['class_weights = "weights.npy"', "label_smoothing = 0.2"], torch.tensor(given), 0.2)):
        loss = lambda z, rows: F.cross_entropy(z[rows], y[rows], weight=weight, label_smoothing=smoothing)
        yield name, ADAM + lines, {"files": {"weights.npy": given}} if "weights.npy" in lines[0] else {}, run(graph, loss, adam)
    rows_of = ((torch.arange(len(y))[:, None] * 7 + torch.arange(n_class) * 3) % 5 < 2).double()
    positive = rows_of[graph.train].sum(0)
    pos_weight = (len(graph.train) - positive) / positive
    loss = lambda z, rows: F.binary_cross_entropy_with_logits(z[rows], rows_of[rows], pos_weight=pos_weight)
    yield "balanced labels", ADAM + ['class_weights = "balanced"'], {"labels": rows_of.tolist()}, run(graph, loss, adam)


def macro_f1(truth, predicted):
    """sklearn.metrics.f1_score(average="macro") of class numbers."""
    classes = torch.unique(torch.cat([truth, predicted]))
    return sum(2 * ((truth == k) & (predicted == k)).sum() / ((truth == k).sum() + (predicted == k).sum()) for k in classes) / len(classes)


def average_precision(truth, score):
    """sklearn.metrics.average_precision_score: sum of (recall - recall before) * precision over the distinct scores."""
    total, before = 0.0, 0.0
    for at in torch.unique(score).flip(0):
        above = score >= at
        recall, precision = truth[above].sum() / truth.sum(), truth[above].mean()
        total, before = total + (recall - before) * precision, recall
    return total


def plateau_cases(graph):
    cross = lambda z, rows: F.cross_entropy(z[rows], graph.y[rows])
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    lines = ['lr_schedule = "reduce_on_plateau"', "lr_gamma = 0.3"]
    fast = lambda parameters: torch.optim.SGD(parameters, lr=4.0, momentum=0.9)
    fast_lines = ['optimizer = "sgd"', "lr = 4.0", "momentum = 0.9"]
    accuracy = lambda z, rows: (z[rows].argmax(1) == graph.y[rows]).double().mean()
    yield "plateau of the metric", fast_lines + lines + ['lr_monitor = "metric"', "lr_patience = 1", "lr_threshold = 0.05", "lr_min = 0.5"], {}, run(
        graph, cross, fast, valid_of=accuracy,
        scheduler_of=lambda o: plateau(o, mode="max", factor=0.3, patience=1, threshold=0.05, min_lr=0.5))
    found = run(graph, cross, fast, valid_of=cross, scheduler_of=lambda o: plateau(o, factor=0.3, patience=0, threshold=0.01))
    del found["valid"]  # the job's metric is not the loss
    yield "plateau of the loss", fast_lines + lines + ["lr_patience = 0", "lr_threshold = 0.01"], {}, found


def metric_cases(graph):
    y, n_class = graph.y, int(graph.y.max()) + 1
    cross = lambda z, rows: F.cross_entropy(z[rows], y[rows])
    yield "macro F1", ADAM + ['metric = "macro_f1"'], {}, run(
        graph, cross, adam, valid_of=lambda z, rows: macro_f1(y[rows], z[rows].argmax(1)))
    rows_of = ((torch.arange(len(y))[:, None] * 11 + torch.arange(n_class) * 5) % 7 < 2).double()
    binary = lambda z, rows: F.binary_cross_entropy_with_logits(z[rows], rows_of[rows])
    yield "average precision", ADAM + ['metric = "average_precision"'], {"labels": rows_of.tolist()}, run(
        graph, binary, adam, valid_of=lambda z, rows: sum(average_precision(rows_of[rows, k], z[rows, k]) for k in range(n_class)) / n_class)


def number_cases(graph):
    """Numbers in place of classes, multiples of 1/64, a quarter of them none."""
    n, n_class = len(graph.y), int(graph.y.max()) + 1
    at = torch.arange(n)[:, None] * 37 + torch.arange(n_class) * 11
    rows_of = ((at * at) % 257 - 128).double() / 64
    rows_of[(at % 4) == 0] = torch.nan
    labels = {"labels": [[None if x != x else x for x in row] for row in rows_of.tolist()]}

    def r2(z, rows):
        scores = []
        for k in range(n_class):
            known = rows[~rows_of[rows, k].isnan()]
            t, e = rows_of[known, k], z[known, k] - rows_of[known, k]
            scores.append(1 - (e ** 2).sum() / ((t - t.mean()) ** 2).sum())
        return sum(scores) / n_class

    def rmse(z, rows):
        known = ~rows_of[rows].isnan()
        e = torch.where(known, z[rows] - rows_of[rows].nan_to_num(), 0.0)
        return ((e ** 2).sum(0) / known.sum(0)).sqrt().mean()

    for name, lines, of, valid_of in (
            ("mse", ['loss = "mse"'], F.mse_loss, r2),
            ("mae", ['loss = "mae"', 'metric = "rmse"'], F.l1_loss, rmse),
            ("huber", ['loss = "huber"', "huber_delta = 0.75"], lambda z, t: F.huber_loss(z, t, delta=0.75), r2)):
        def loss(z, rows):
            known = ~rows_of[rows].isnan()
            return of(z[rows][known], rows_of[rows][known])
        yield name, ADAM + lines, labels, run(graph, loss, adam, valid_of=valid_of)


def main():
    graph = Graph(os.path.join(sys.argv[1], "gcn"))
    cases = []
    for cases_of in (clip_cases, weight_cases, metric_cases, plateau_cases, number_cases):
        for name, lines, more, found in cases_of(graph):
            cases.append({"name": name, "train": "\n".join(lines), **more, **found})
    with open(sys.argv[2], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


main()
