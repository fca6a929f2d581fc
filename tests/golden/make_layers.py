#!/usr/bin/env python3
"""Reference results for what layers can read besides rows of features. Float64, plain PyTorch, formulas written out.

    usage: make_layers.py GOLDEN_DIR OUT_FILE

Cases as those of make_training.py, ten steps of Adam, with more in each:
    graph     the folder of GOLDEN_DIR that has graph, features, labels and splits
    model     lines of [model]
    dataset   lines of [dataset]
    data      .npy files of the data folder: {name: numbers}
    without   files of the graph that the data folder does not have
    shapes    {name: shape} of the initial weights; element i of tensor t is (((73 i + 29 t) mod 257) - 128) / 512, both from 0
"""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
N_STEP = 10
HIDDEN = 16


class Graph:
    def __init__(self, folder):
        load = lambda name: torch.tensor(np.load(os.path.join(folder, name + ".npy")).astype(np.float64))
        self.src, self.dst = load("edges").long()
        self.x, self.y, self.train = load("features"), load("labels").long(), load("train_idx").long()
        self.n, self.n_class = len(self.y), int(self.y.max()) + 1
        self.types = load("edge_type").long() if os.path.exists(os.path.join(folder, "edge_type.npy")) else None

    def sum(self, rows, of=None):
        """Σ over the edges into each node, all or those of one relation."""
        dst = self.dst if of is None else self.dst[of]
        return torch.zeros(self.n, rows.shape[1]).index_add(0, dst, rows)

    def degree(self, of=None):
        return self.sum(torch.ones(len(self.dst) if of is None else int(of.sum()), 1), of).clamp(min=1)


def weights_of(shapes):
    def fill(t, shape):
        i = torch.arange(int(np.prod(shape)))
        return ((((73 * i + 29 * t) % 257) - 128).double() / 512).reshape(shape)
    return {name: fill(t, shape).requires_grad_() for t, (name, shape) in enumerate(shapes.items())}


def losses(graph, shapes, logits_of, fixed=()):
    p, found = weights_of(shapes), []
    optimizer = torch.optim.Adam([w for name, w in p.items() if name not in fixed], lr=0.01, weight_decay=5e-4)
    for _ in range(N_STEP):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits_of(p)[graph.train], graph.y[graph.train])
        loss.backward()
        found.append(loss.item())
        optimizer.step()
    return found


def weighted_cases(folder):
    """DGL's SAGEConv and GINConv with edge_weight: rows times weights, a mean over the number of edges."""
    graph = Graph(os.path.join(folder, "sage"))
    weight = ((37 * torch.arange(len(graph.src))) % 61).double() / 32
    data = {"edge_weight.npy": weight.tolist()}
    widths = [(graph.x.shape[1], HIDDEN), (HIDDEN, graph.n_class)]
    both = {"graph": "sage", "dataset": 'edge_weights = "yes"', "data": data}

    def neighbours(x):
        return graph.sum(x[graph.src] * weight[:, None])

    def sage(p, mean):
        x = graph.x
        for layer in range(2):
            name = f"convs.{layer}."
            y = neighbours(x) / (graph.degree() if mean else 1)
            x = y @ p[name + "lin_l.weight"].T + p[name + "lin_l.bias"] + x @ p[name + "lin_r.weight"].T
            x = torch.relu(x) if layer == 0 else x
        return x

    def gin(p):
        x = graph.x
        for layer in range(2):
            name = f"convs.{layer}."
            h = (1 + p[name + "eps"]) * x + neighbours(x)
            h = torch.relu(h @ p[name + "nn.0.weight"].T + p[name + "nn.0.bias"])
            x = h @ p[name + "nn.2.weight"].T + p[name + "nn.2.bias"]
            x = torch.relu(x) if layer == 0 else x
        return x

    shapes = {}
    for layer, (f_in, f_out) in enumerate(widths):
        shapes |= {f"convs.{layer}.lin_l.weight": [f_out, f_in], f"convs.{layer}.lin_l.bias": [f_out],
                   f"convs.{layer}.lin_r.weight": [f_out, f_in]}
    for aggregator in ("mean", "sum"):
        yield {"name": f"weighted {aggregator}", "model": f'kind = "sage"\naggregator = "{aggregator}"', **both, "shapes": shapes,
               "losses": losses(graph, shapes, lambda p: sage(p, aggregator == "mean"))}
    shapes = {}
    for layer, (f_in, f_out) in enumerate(widths):
        shapes |= {f"convs.{layer}.eps": [1], f"convs.{layer}.nn.0.weight": [HIDDEN, f_in], f"convs.{layer}.nn.0.bias": [HIDDEN],
                   f"convs.{layer}.nn.2.weight": [f_out, HIDDEN], f"convs.{layer}.nn.2.bias": [f_out]}
    yield {"name": "weighted gin", "model": 'kind = "gin"\nlearn_eps = true', **both, "shapes": shapes,
           "losses": losses(graph, shapes, gin)}


def row_cases(folder):
    """PyG's RGCNConv(num_nodes, hidden, ...): node numbers in place of features, weights whose rows are looked up."""
    graph = Graph(os.path.join(folder, "rgcn"))
    n_relation, n_base = int(graph.types.max()) + 1, 2
    of = [graph.types == r for r in range(n_relation)]

    def mixed(p, name):
        weight = p[name + "weight"]
        return torch.einsum("rb,bio->rio", p[name + "comp"], weight) if name + "comp" in p else weight

    def logits(p):
        first, second = mixed(p, "convs.0."), mixed(p, "convs.1.")
        x = p["convs.0.root"] + p["convs.0.bias"]
        for r in range(n_relation):
            x = x + graph.sum(first[r][graph.src[of[r]]], of[r]) / graph.degree(of[r])
        x = torch.relu(x)
        y = x @ p["convs.1.root"] + p["convs.1.bias"]
        for r in range(n_relation):
            y = y + graph.sum(x[graph.src[of[r]]], of[r]) / graph.degree(of[r]) @ second[r]
        return y

    for bases in (0, n_base):
        shapes = {}
        for layer, (f_in, f_out) in enumerate([(graph.n, HIDDEN), (HIDDEN, graph.n_class)]):
            name = f"convs.{layer}."
            shapes |= {name + "weight": [bases or n_relation, f_in, f_out], name + "root": [f_in, f_out], name + "bias": [f_out]}
            shapes |= {name + "comp": [n_relation, bases]} if bases else {}
        yield {"name": f"rows of nodes, {bases} bases", "graph": "rgcn", "without": "features.npy",
               "model": f'kind = "rgcn"\nembedding = false\nbases = {bases}', "shapes": shapes,
               "losses": losses(graph, shapes, logits)}


def edge_cases(folder):
    """PyG's GATConv, GATv2Conv and TransformerConv with edge_dim; loops of the first two with fill_value="mean"."""
    graph = Graph(os.path.join(folder, "gat"))
    n, n_head, n_feature = graph.n, 2, 3
    e = torch.arange(len(graph.src))
    f = torch.stack([((37 * e + 11 * d) % 61).double() / 32 - 1 for d in range(n_feature)], 1)
    stays = graph.src != graph.dst
    node, other = torch.arange(n), graph.dst[stays]
    mean = torch.zeros(n, n_feature).index_add(0, other, f[stays])
    mean = mean / torch.zeros(n, 1).index_add(0, other, torch.ones(len(other), 1)).clamp(min=1)
    looped = torch.cat([graph.src[stays], node]), torch.cat([other, node]), torch.cat([f[stays], mean])

    def attend(score, message, dst):
        """Σ softmax(score) · message over the edges into each node, head by head."""
        weight = torch.exp(score - score.detach().max())
        total = torch.zeros(n, n_head).index_add(0, dst, weight).clamp(min=1e-300)
        return torch.zeros(n, *message.shape[1:]).index_add(0, dst, (weight / total[dst])[:, :, None] * message)

    def heads(x):
        return x.view(len(x), n_head, -1)

    def gat(p, x):
        src, dst, f = looped
        z, fz = heads(x @ p["lin.weight"].T), heads(f @ p["lin_edge.weight"].T)
        score = (z * p["att_src"]).sum(-1)[src] + (z * p["att_dst"]).sum(-1)[dst] + (fz * p["att_edge"]).sum(-1)
        return attend(F.leaky_relu(score, 0.2), z[src], dst), p["bias"]

    def gatv2(p, x):
        src, dst, f = looped
        left, right = heads(x @ p["lin_l.weight"].T + p["lin_l.bias"]), heads(x @ p["lin_r.weight"].T + p["lin_r.bias"])
        score = (p["att"] * F.leaky_relu(left[src] + right[dst] + heads(f @ p["lin_edge.weight"].T), 0.2)).sum(-1)
        return attend(score, left[src], dst), p["bias"]

    def transformer(p, x):
        key, query, value = (heads(x @ p[f"lin_{of}.weight"].T + p[f"lin_{of}.bias"]) for of in ("key", "query", "value"))
        fz = heads(f @ p["lin_edge.weight"].T)
        score = (query[graph.dst] * (key[graph.src] + fz)).sum(-1) / query.shape[2] ** 0.5
        return attend(score, value[graph.src] + fz, graph.dst), x @ p["lin_skip.weight"].T + p["lin_skip.bias"]

    def shapes_of(kind, layer):
        f_in, f_out = ((graph.x.shape[1], HIDDEN), (n_head * HIDDEN, graph.n_class))[layer]
        wide, joined, att = n_head * f_out, n_head * f_out if layer == 0 else f_out, [1, n_head, f_out]
        shapes = {"lin_edge.weight": [wide, n_feature]}
        if kind == "gat":
            return shapes | {"lin.weight": [wide, f_in], "att_src": att, "att_dst": att, "att_edge": att, "bias": [joined]}
        maps = {"lin_l": wide, "lin_r": wide} if kind == "gatv2" else {"lin_key": wide, "lin_query": wide, "lin_value": wide,
                                                                       "lin_skip": joined}
        for name, width in maps.items():
            shapes |= {name + ".weight": [width, f_in], name + ".bias": [width]}
        return shapes | ({"att": att, "bias": [joined]} if kind == "gatv2" else {})

    def logits(p, layer_of):
        x = graph.x
        for layer in range(2):
            own = {name[len("convs.0."):]: w for name, w in p.items() if name.startswith(f"convs.{layer}.")}
            y, rest = layer_of(own, x)
            x = torch.relu(y.reshape(n, -1) + rest) if layer == 0 else y.mean(1) + rest
        return x

    for kind, layer_of in (("gat", gat), ("gatv2", gatv2), ("transformer", transformer)):
        shapes = {f"convs.{layer}.{name}": shape for layer in range(2) for name, shape in shapes_of(kind, layer).items()}
        yield {"name": f"{kind} over edges with features", "graph": "gat", "dataset": 'edge_features = "yes"',
               "data": {"edge_attr.npy": f.tolist()}, "model": f'kind = "{kind}"\nheads = {n_head}\nout_heads = {n_head}',
               "shapes": shapes, "losses": losses(graph, shapes, lambda p: logits(p, layer_of))}


def main():
    cases = [case for cases_of in (weighted_cases, row_cases, edge_cases) for case in cases_of(sys.argv[1])]
    with open(sys.argv[2], "w") as file:
        lines = [json.dumps({"train": "lr = 0.01\nweight_decay = 5e-4", **case}) for case in cases]
        file.write("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
