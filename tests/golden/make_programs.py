#!/usr/bin/env python3
"""Reference results for the texts of configs/programs that no built-in kind has: PyTorch Geometric's modules in float64.

    usage: make_programs.py OUT_FILE

Two layers with a relu between them, over a directed graph with a hub, a loop, a repeated edge, and a node without edges.
Cases as those of make_layers.py, which also says what the weights are, with
    hidden     columns of the first layer
    logits     rows of the initial weights
    gradients  {name: numbers} of the first step
"""
import json
import sys

import torch
from torch.nn import Linear, ReLU, Sequential
from torch_geometric import nn

from make_layers import losses, weights_of

torch.set_default_dtype(torch.float64)
N, F, HIDDEN, C, D, HUB, ALONE = 20, 4, 5, 3, 2, 3, 19
TWO = ((F, HIDDEN), (HIDDEN, C))


class Graph:
    def __init__(self):
        pairs = {(i, HUB) for i in range(ALONE)} | {(i, (7 * i + k) % ALONE) for i in range(ALONE) for k in (1, 5)} | {(8, 8)}
        src, dst = torch.tensor(sorted(pairs)).T
        of_edge = torch.stack([((37 * torch.arange(len(src)) + 11 * d) % 61) / 64 - 0.5 for d in range(D)], 1)
        self.edges, self.of_edge = torch.stack([src, dst]), of_edge
        self.x = ((53 * torch.arange(N * F)) % 127).reshape(N, F) / 64 - 1
        self.y, self.train = (5 * torch.arange(N) + torch.arange(N) // 4) % C, torch.tensor([i for i in range(N) if i % 3 != 1])
        self.degrees = torch.bincount(torch.bincount(dst, minlength=N))
        others = {"train_idx": self.train, "valid_idx": torch.tensor([1, 4]), "test_idx": torch.tensor([7, 10])}
        again = lambda values: torch.cat([values, values[:1]])  # the first edge twice, which counts once
        arrays = {"edges": again(self.edges.T).T, "edge_attr": again(of_edge), "features": self.x, "labels": self.y, **others}
        self.data = {f"{name}.npy": values.tolist() for name, values in arrays.items()}


class Mapped(torch.nn.Module):
    """CGConv has as many columns out as in: a linear map before it."""

    def __init__(self, f_in, f_out):
        super().__init__()
        self.lin, self.conv = Linear(f_in, f_out), nn.CGConv(f_out, D)

    def forward(self, x, edges, of_edge):
        return self.conv(self.lin(x), edges, of_edge)


def cases_of(graph):
    """Text, lines of [model.args], whether it reads features of edges, and the module of f_in and f_out columns."""
    mlp = lambda i, o: Sequential(Linear(i, 6), ReLU(), Linear(6, o))
    pna = ["mean", "min", "max", "std"], ["identity", "amplification", "attenuation"], graph.degrees
    return [("resgated", "", False, nn.ResGatedGraphConv), ("film", "", False, nn.FiLMConv),
            ("edgeconv", "", False, lambda i, o: nn.EdgeConv(Linear(2 * i, o))),
            ("edgeconv", 'args.aggregator = "mean"', False, lambda i, o: nn.EdgeConv(Linear(2 * i, o), "mean")),
            ("edgeconv", "args.hidden = 6", False, lambda i, o: nn.EdgeConv(mlp(2 * i, o))),
            ("gen", "", False, lambda i, o: nn.GENConv(i, o, num_layers=1)),
            ("gen", "args.learn_t = true", False, lambda i, o: nn.GENConv(i, o, num_layers=1, learn_t=True)),
            ("pna", "", False, lambda i, o: nn.PNAConv(i, o, *pna)), ("gmm", "", True, lambda i, o: nn.GMMConv(i, o, D, 3)),
            ("gine", "args.hidden = 6", True, lambda i, o: nn.GINEConv(mlp(i, o), edge_dim=D)), ("cg", "", True, Mapped),
            ("nn", "", True, lambda i, o: nn.NNConv(i, o, Linear(D, i * o)))]


def case_of(graph, text, args, featured, module_of):
    convs = [module_of(*widths) for widths in TWO]
    own = lambda name: name.removeprefix("conv.")
    shapes = {f"convs.{k}.{own(name)}": list(w.shape) for k, conv in enumerate(convs) for name, w in conv.named_parameters()}
    inputs = (graph.edges, graph.of_edge) if featured else (graph.edges,)

    def logits_of(p):
        x = graph.x
        for k, conv in enumerate(convs):
            weights = {name: p[f"convs.{k}.{own(name)}"] for name, _ in conv.named_parameters()}
            x = torch.func.functional_call(conv, weights, (x, *inputs))
            x = torch.relu(x) if k == 0 else x
        return x

    weights = weights_of(shapes)
    logits = logits_of(weights)
    torch.nn.functional.cross_entropy(logits[graph.train], graph.y[graph.train]).backward()
    rounded = lambda values: [float(f"{value:.9g}") for value in values.flatten().tolist()]
    return {"name": f"{text} {args}".strip(), "model": f'kind = "program"\nprogram = "{text}.gnn"\n{args}', "hidden": HIDDEN,
            "train": "lr = 0.01\nweight_decay = 5e-4", "data": graph.data, "shapes": shapes,
            "logits": rounded(logits), "gradients": {name: rounded(w.grad) for name, w in weights.items()},
            "losses": losses(graph, shapes, logits_of)}


def main():
    graph = Graph()
    with open(sys.argv[1], "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case_of(graph, *case)) for case in cases_of(graph)) + "\n]\n")


if __name__ == "__main__":
    main()
