#!/usr/bin/env python3
"""Load what trainerd trained into PyTorch Geometric's modules and compare their logits with trainerd's.

    load_into_pyg.py runs/cora-gcn data/cora      a job's output folder, its npy dataset folder

Net below is the model of any job; its state_dict has the names and shapes that trainerd writes. Copy it.
"""
import json
import os
import sys

try:
    import numpy as np
    import torch
    from torch.nn import Identity, LayerNorm, Linear, ModuleList, ReLU, Sequential
    from torch_geometric.nn import (APPNP, BatchNorm, GATConv, GATv2Conv, GCNConv, GINConv, SAGEConv, SGConv,
                                    TransformerConv)
    from torch_geometric.utils import add_self_loops, coalesce, remove_self_loops, to_undirected
except ImportError as error:
    sys.exit(f"load_into_pyg.py needs PyTorch and PyTorch Geometric ({error}): pip install torch torch_geometric")

ATTENTIONS = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}
ACTIVATIONS = {"relu": torch.relu, "elu": torch.nn.functional.elu, "leaky_relu": torch.nn.functional.leaky_relu,
               "gelu": torch.nn.functional.gelu, "none": Identity()}


def conv(model, loops, f_in, f_out, last):
    """One layer of the kind that the job's [model] section names; the last one averages its heads, others have them side by side."""
    kind = model["kind"]
    if kind in ATTENTIONS:
        heads = model["out_heads" if last else "heads"]
        own = {} if kind == "transformer" else {"add_self_loops": loops}
        return ATTENTIONS[kind](f_in, f_out if last else f_out // heads, heads=heads, concat=not last, **own)
    if kind == "gcn":
        return GCNConv(f_in, f_out, add_self_loops=loops)
    if kind == "sage":
        return SAGEConv(f_in, f_out, aggr=model["aggregator"])
    if kind == "sgc":
        return SGConv(f_in, f_out, K=model["steps"], add_self_loops=loops)
    if kind == "gin":
        hidden = model["hidden"]
        mlp = Sequential(Linear(f_in, hidden), ReLU(), Linear(hidden, f_out))
        return GINConv(mlp, train_eps=model["learn_eps"])
    sys.exit(f'model.kind = "{kind}" is not known here')


class Net(torch.nn.Module):
    """The trained model, as it evaluates (dropout has no weights and is left out)."""

    def __init__(self, job, f_in, n_class):
        super().__init__()
        model = job["model"]
        loops = job["dataset"]["self_loops"] != "no"  # what the definitions of gcn, sgc and appnp add
        n_layer = 1 if model["kind"] == "sgc" else model["layers"]
        n_linear = n_layer if model["kind"] == "appnp" else model["linear_layers"]
        heads = model["heads"] if model["kind"] in ATTENTIONS else 1  # hidden columns are per head
        self.jump = model["jumping_knowledge"]
        n_hidden = n_layer if self.jump != "none" else n_layer - 1
        widths = [f_in]
        for layer in range(n_hidden):
            widths.append(model["hidden"] * (heads if layer < n_layer - n_linear else 1))
        widths += [n_class] * (n_layer - n_hidden)
        pairs = list(zip(widths, widths[1:]))
        self.convs = ModuleList(conv(model, loops, *pair, last=i == n_hidden) for i, pair in enumerate(pairs[:n_layer - n_linear]))
        self.lins = ModuleList(Linear(*pair) for pair in pairs[n_layer - n_linear:])
        if self.jump != "none":
            self.lin = Linear(sum(widths[1:]) if self.jump == "concat" else widths[1], n_class)
        # After each hidden layer: residual, norm, activation. A residual has weights where widths differ, or everywhere.
        between = pairs[:n_hidden]
        self.residuals = self.norms = None
        if model["residual"]:
            plain = not model["residual_linear"]
            self.residuals = ModuleList(Identity() if plain and a == b else Linear(a, b, bias=False) for a, b in between)
        norm = {"layer": LayerNorm, "batch": BatchNorm}.get(model["norm"])
        if norm:
            self.norms = ModuleList(norm(b) for _, b in between)
        self.activation = ACTIVATIONS[model["activation"]]
        self.propagate = None
        if model["kind"] == "appnp":
            self.propagate = APPNP(model["steps"], model["alpha"], add_self_loops=loops)

    def forward(self, x, edge_index):
        layers = [(lambda x, conv=conv: conv(x, edge_index)) for conv in self.convs] + list(self.lins)
        outputs = []
        for i, layer in enumerate(layers):
            y = layer(x)
            if i < len(layers) - 1 or self.jump != "none":
                if self.residuals:
                    y = y + self.residuals[i](x)
                if self.norms:
                    y = self.norms[i](y)
                y = self.activation(y)
            x = y
            outputs.append(x)
        if self.jump != "none":
            x = self.lin(torch.cat(outputs, 1) if self.jump == "concat" else torch.stack(outputs).amax(0))
        return self.propagate(x, edge_index) if self.propagate else x


def read_weights(path):
    """A .safetensors file as {name: tensor}: 8 bytes of length, a JSON header, the values."""
    try:
        from safetensors.torch import load_file
        return load_file(path)
    except ImportError:
        pass
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        values = file.read()
    header.pop("__metadata__", None)
    weights = {}
    for name, tensor in header.items():
        flat = np.frombuffer(values[slice(*tensor["data_offsets"])], "<f4")
        weights[name] = torch.from_numpy(flat.reshape(tensor["shape"]).copy())
    return weights


def read_graph(folder, options):
    """x and edge_index of an npy folder, changed as the job's [dataset] section says."""
    def load(name, kind=np.int64):
        return torch.from_numpy(np.load(os.path.join(folder, name)).astype(kind))

    if os.path.exists(os.path.join(folder, "features.npy")):
        x = load("features.npy", np.float32)
    else:  # the rows' non-zeros, as CSR
        n_stored = load("feat_indptr.npy").diff()
        rows = torch.arange(len(n_stored)).repeat_interleave(n_stored)
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as file:
            x = torch.zeros(len(n_stored), json.load(file)["features"])
        x[rows, load("feat_indices.npy")] = load("feat_data.npy", np.float32)
    if options["normalize_features"] == "row":
        x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-30)

    edge_index = coalesce(load("edges.npy"))
    if options["undirected"] == "yes":
        edge_index = to_undirected(edge_index)
    if options["self_loops"] != "auto":
        edge_index = remove_self_loops(edge_index)[0]
    if options["self_loops"] == "yes":
        edge_index = add_self_loops(edge_index, num_nodes=len(x))[0]
    return x, edge_index


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, dataset = sys.argv[1:]
    with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
        job = json.load(file)["job"]
    expected = torch.from_numpy(np.load(os.path.join(run, "logits.npy")))
    x, edge_index = read_graph(dataset, job["dataset"])

    net = Net(job, x.shape[1], expected.shape[1])
    net.load_state_dict(read_weights(os.path.join(run, "model.safetensors")), strict=True)
    net.eval()
    with torch.no_grad():
        logits = net(x, edge_index)

    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"{len(net.state_dict())} tensors loaded; logits differ by at most {error:.1e} of the largest")
    sys.exit(0 if error <= 1e-5 else 1)


if __name__ == "__main__":
    main()
