#!/usr/bin/env python3
"""Reference results on a graph whose edges lead downstream: each part of neighbouring nodes has in-edges from some parts and
out-edges to others. Float64, plain PyTorch, every kind of layer.

    usage: make_directed.py GOLDEN_DIR OUT_FILE

Layers are those of make_golden.py, which lies in GOLDEN_DIR, and those written out here. Cases are made as in make_layers.py,
and have besides
    method    how parts are made
"""
import json
import math
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, sys.argv[1])
import make_golden as golden
from make_layers import HIDDEN, Graph, losses

N_HEAD, N_RELATION = 2, 3


def river(n):
    """A main stream from node to node, and from every third node a branch that joins it seven nodes below."""
    edges = [(i, i + 1) for i in range(n - 1)] + [(i, i + 7) for i in range(0, n - 7, 3)]
    return [list(ends) for ends in zip(*edges)], [e % N_RELATION for e in range(len(edges))]


def of(p, layer):
    name = f"convs.{layer}."
    return {k[len(name):]: v for k, v in p.items() if k.startswith(name)}


def two_layers(layer, first={}, last={}):
    return lambda p, x, g: layer(of(p, 1), torch.relu(layer(of(p, 0), x, g, **first)), g, **last)


def sage_of(how):
    def layer(p, x, g):
        rows = torch.full((g["n"], x.shape[1]), -math.inf).index_reduce(0, g["dst"], x[g["src"]], "amax")
        rows = torch.where(torch.isfinite(rows), rows, torch.zeros(())) if how == "max" else golden.scatter_sum(x[g["src"]], g["dst"], g["n"])
        return rows @ p["lin_l.weight"].T + p["lin_l.bias"] + x @ p["lin_r.weight"].T
    return layer


def propagate(x, g):
    return golden.gcn_norm_propagate(x, g["src"], g["dst"], g["n"])


def linear(p, name, x):
    return x @ p[name + ".weight"].T + p[name + ".bias"]


def transformer(p, x, g, concat):
    heads = lambda name: linear(p, name, x).view(g["n"], N_HEAD, -1)
    query, key, value = heads("lin_query"), heads("lin_key"), heads("lin_value")
    score = (query[g["dst"]] * key[g["src"]]).sum(-1) / query.shape[2] ** 0.5
    y = golden.scatter_sum(value[g["src"]] * golden.segment_softmax(score, g["dst"], g["n"])[..., None], g["dst"], g["n"])
    return (y.flatten(1) if concat else y.mean(1)) + linear(p, "lin_skip", x)


def agnn(p, x, g, steps=3):
    x = torch.relu(linear(p, "lins.0", x))
    src, dst = golden.add_self_loops(g["src"], g["dst"], g["n"])
    for step in range(steps):
        unit = F.normalize(x, dim=1)
        score = p[f"convs.{step}.beta"] * (unit[src] * unit[dst]).sum(1, keepdim=True)
        x = golden.scatter_sum(x[src] * golden.segment_softmax(score, dst, g["n"]), dst, g["n"])
    return linear(p, "lins.1", x)


def appnp(p, x, g, steps=4, alpha=0.1):
    h = z = linear(p, "lins.1", torch.relu(linear(p, "lins.0", x)))
    for _ in range(steps):
        z = (1 - alpha) * propagate(z, g) + alpha * h
    return z


def sgc(p, x, g, steps=3):
    for _ in range(steps):
        x = propagate(x, g)
    return linear(p, "convs.0.lin", x)


def gcnii(p, x, g, alpha=0.1, theta=0.5):
    x = first = torch.relu(linear(p, "lins.0", x))
    for layer in range(2):
        beta = math.log(theta / (layer + 1) + 1)
        s = (1 - alpha) * propagate(x, g) + alpha * first
        x = torch.relu((1 - beta) * s + beta * (s @ p[f"convs.{layer}.weight1"]))
    return linear(p, "lins.1", x)


def shapes_of(f, c):
    """Of two layers, by layer and kind."""
    wide = lambda width, last: N_HEAD * (c if last else width)
    def both(layer):
        return {f"convs.{i}.{k}": s for i, sizes in enumerate([(f, HIDDEN), (HIDDEN, c)]) for k, s in layer(*sizes, i == 1).items()}
    def heads(layer):
        return {f"convs.{i}.{k}": s for i, sizes in enumerate([(f, HIDDEN), (N_HEAD * HIDDEN, c)])
                for k, s in layer(*sizes, N_HEAD * sizes[1], sizes[1] if i else N_HEAD * sizes[1]).items()}
    def lins(*widths):
        return {f"lins.{i}.{k}": s for i, (a, b) in enumerate(zip(widths, widths[1:])) for k, s in (("weight", [b, a]), ("bias", [b]))}
    sage = both(lambda a, b, last: {"lin_l.weight": [b, a], "lin_l.bias": [b], "lin_r.weight": [b, a]})
    return {
        "gcn": both(lambda a, b, last: {"lin.weight": [b, a], "bias": [b]}), "sage": sage,
        "gin": both(lambda a, b, last: {"eps": [1], "nn.0.weight": [HIDDEN, a], "nn.0.bias": [HIDDEN], "nn.2.weight": [b, HIDDEN],
                                        "nn.2.bias": [b]}),
        "rgcn": both(lambda a, b, last: {"weight": [N_RELATION, a, b], "root": [a, b], "bias": [b]}),
        "gat": heads(lambda a, b, w, y: {"lin.weight": [w, a], "att_src": [1, N_HEAD, b], "att_dst": [1, N_HEAD, b], "bias": [y]}),
        "gatv2": heads(lambda a, b, w, y: {"lin_l.weight": [w, a], "lin_l.bias": [w], "lin_r.weight": [w, a], "lin_r.bias": [w],
                                           "att": [1, N_HEAD, b], "bias": [y]}),
        "transformer": heads(lambda a, b, w, y: {f"lin_{name}.{k}": s for name, size in
                                                 (("key", w), ("query", w), ("value", w), ("skip", y))
                                                 for k, s in (("weight", [size, a]), ("bias", [size]))}),
        "agnn": lins(f, HIDDEN, c) | {f"convs.{step}.beta": [1] for step in range(3)}, "appnp": lins(f, HIDDEN, c),
        "sgc": {"convs.0.lin.weight": [c, f], "convs.0.lin.bias": [c]},
        "gcnii": lins(f, HIDDEN, c) | {f"convs.{layer}.weight1": [HIDDEN, HIDDEN] for layer in range(2)}}


def cases_of(folder):
    graph = Graph(os.path.join(folder, "gcn"))
    edges, types = river(graph.n)
    src, dst = torch.tensor(edges)
    g = {"src": src, "dst": dst, "type": torch.tensor(types), "n": graph.n}
    shapes = shapes_of(graph.x.shape[1], graph.n_class)
    heads = [dict(heads=N_HEAD, concat=True), dict(heads=N_HEAD, concat=False)]
    kinds = [("gcn", "gcn", "", two_layers(golden.gcn)), ("sage, mean", "sage", "", two_layers(golden.sage)),
             ("sage, max", "sage", 'aggregator = "max"', two_layers(sage_of("max"))),
             ("sage, sum", "sage", 'aggregator = "sum"', two_layers(sage_of("sum"))),
             ("gin", "gin", "learn_eps = true", two_layers(golden.gin)),
             ("rgcn", "rgcn", "", two_layers(golden.rgcn, *[dict(relations=N_RELATION)] * 2)),
             ("gat", "gat", "heads = 2\nout_heads = 2", two_layers(golden.gat, *heads)),
             ("gatv2", "gatv2", "heads = 2\nout_heads = 2", two_layers(golden.gatv2, *heads)),
             ("transformer", "transformer", "heads = 2\nout_heads = 2", two_layers(transformer, dict(concat=True), dict(concat=False))),
             ("agnn", "agnn", "steps = 3", agnn), ("appnp", "appnp", "steps = 4", appnp), ("sgc", "sgc", "steps = 3", sgc),
             ("gcnii", "gcnii", "", gcnii)]
    for name, kind, options, logits in kinds:
        # agnn's first beta stays as it is
        fixed = ["convs.0.beta"] if kind == "agnn" else []
        yield {"name": name + " downstream", "graph": "gcn", "method": "block", "model": f'kind = "{kind}"\n{options}',
               "data": {"edges.npy": edges} | ({"edge_type.npy": types} if kind == "rgcn" else {}), "shapes": shapes[kind],
               "losses": losses(graph, shapes[kind], lambda p: logits(p, graph.x, g), fixed), "train": "lr = 0.01\nweight_decay = 5e-4"}


def main():
    with open(sys.argv[2], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case) for case in cases_of(sys.argv[1])) + "\n]\n")


main()
