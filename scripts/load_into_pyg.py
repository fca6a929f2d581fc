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
    from torch_geometric.nn import (APPNP, AGNNConv, BatchNorm, GATConv, GATv2Conv, GCN2Conv, GCNConv, GINConv, RGCNConv,
                                    SAGEConv, SGConv, TransformerConv)
    from torch_geometric.utils import add_remaining_self_loops, add_self_loops, coalesce, remove_self_loops, to_undirected
except ImportError as error:
    sys.exit(f"load_into_pyg.py needs PyTorch and PyTorch Geometric ({error}): pip install torch torch_geometric")

ATTENTIONS = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}
WEIGHTED = ("gcn", "appnp", "sgc", "gcnii")  # layers that take weights of edges
WEIGHABLE = (*WEIGHTED, "sage", "gin")  # with dataset.edge_weights = "yes"
ACTIVATIONS = {"relu": torch.relu, "elu": torch.nn.functional.elu, "leaky_relu": torch.nn.functional.leaky_relu,
               "gelu": torch.nn.functional.gelu, "none": Identity()}


class Weighted:
    """Neighbours' rows count their edges' weights times, as in DGL's SAGEConv and GINConv; a mean divides by the number of edges."""

    def forward(self, x, edge_index, edge_weight):
        self.edge_weight = edge_weight
        return super().forward(x, edge_index)

    def message(self, x_j):
        return x_j * self.edge_weight[:, None]


class WeightedSAGEConv(Weighted, SAGEConv):
    pass


class WeightedGINConv(Weighted, GINConv):
    pass


def conv(model, loops, f_in, f_out, last, n_relation, weighted):
    """One layer of the kind that the job's [model] section names; the last one averages its heads, others have them side by side."""
    kind = model["kind"]
    if kind in ATTENTIONS:
        heads = model["out_heads" if last else "heads"]
        own = {} if kind == "transformer" else {"add_self_loops": loops}
        return ATTENTIONS[kind](f_in, f_out if last else f_out // heads, heads=heads, concat=not last, **own)
    if kind == "rgcn":
        return RGCNConv(f_in, f_out, n_relation, num_bases=model["bases"] or None, num_blocks=model["blocks"] or None)
    if kind == "gcn":
        return GCNConv(f_in, f_out, add_self_loops=loops)
    if kind == "sage":
        return (WeightedSAGEConv if weighted else SAGEConv)(f_in, f_out, aggr=model["aggregator"])
    if kind == "sgc":
        return SGConv(f_in, f_out, K=model["steps"], add_self_loops=loops)
    if kind == "gin":
        hidden = model["hidden"]
        mlp = Sequential(Linear(f_in, hidden), ReLU(), Linear(hidden, f_out))
        return (WeightedGINConv if weighted else GINConv)(mlp, train_eps=model["learn_eps"])
    sys.exit(f'model.kind = "{kind}" is not known here')


class Net(torch.nn.Module):
    """The trained model, as it evaluates (dropout has no weights and is left out)."""

    def __init__(self, job, f_in, n_class, n_relation=0, typed=False):
        super().__init__()
        model = job["model"]
        weighted = job["dataset"]["edge_weights"] == "yes"
        loops = job["dataset"]["self_loops"] != "no"  # what the definitions of gcn, sgc, appnp, agnn, gcnii add
        n_layer = 1 if model["kind"] == "sgc" else model["layers"]
        n_linear = n_layer if model["kind"] in ("appnp", "agnn") else model["linear_layers"]
        self.initial = model["kind"] == "gcnii"  # its layers read the first linear map's output; another map follows them
        if self.initial:
            n_layer, n_linear = n_layer + 1, 1
        heads = model["heads"] if model["kind"] in ATTENTIONS else 1  # model.hidden is per head
        # Typed nodes' features, side by side: a projection for each type, or a vector for each node. Without features, and with
        # model.embedding = false, the first layer is RGCNConv(num_nodes, ...), and x may be None.
        self.embedding = Linear(f_in, model["hidden"], bias=False) if typed and model["kind"] == "rgcn" and model["embedding"] else None
        self.jump = model["jumping_knowledge"]
        n_hidden = n_layer if self.jump != "none" else n_layer - 1
        widths = [model["hidden"] if self.embedding or self.initial else f_in]
        for layer in range(n_hidden):
            widths.append(model["hidden"] * (heads if layer < n_layer - n_linear else 1))
        widths += [n_class] * (n_layer - n_hidden)
        pairs = list(zip(widths, widths[1:]))
        if self.initial:
            self.convs = ModuleList(GCN2Conv(model["hidden"], model["alpha"], model["theta"], layer, add_self_loops=loops)
                                    for layer in range(1, n_layer))
        else:
            self.convs = ModuleList(conv(model, loops, *pair, i == n_hidden, n_relation, weighted)
                                    for i, pair in enumerate(pairs[:n_layer - n_linear]))
        self.middle = model["kind"] == "agnn"  # its steps come before the last linear layer; the first one's beta stays 1
        if self.middle:
            self.convs = ModuleList(AGNNConv(requires_grad=step > 0, add_self_loops=loops) for step in range(model["steps"]))
        self.lins = ModuleList(Linear(*pair) for pair in pairs[n_layer - n_linear:])
        if self.initial:
            self.lins.insert(0, Linear(f_in, model["hidden"]))
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

    def forward(self, x, edge_index, of_edge=None):
        """of_edge: types of edges for rgcn, weights for the layers that take them."""
        graph = (edge_index,) if of_edge is None else (edge_index, of_edge)
        lins = list(self.lins)
        x = self.embedding(x) if self.embedding else x
        if self.initial:
            x = self.activation(lins.pop(0)(x))
            graph = (x, *graph)
        convs = [(lambda x, conv=conv: conv(x, *graph)) for conv in self.convs]
        layers = lins if self.middle else convs + lins
        outputs = []
        for i, layer in enumerate(layers):
            y = layer(x)
            if i < len(layers) - 1 or self.jump != "none":
                if self.residuals:
                    y = y + self.residuals[i](x)
                if self.norms:
                    y = self.norms[i](y)
                y = self.activation(y)
            for step in convs if self.middle and i == len(layers) - 2 else []:
                y = step(y)
            x = y
            outputs.append(x)
        if self.jump != "none":
            x = self.lin(torch.cat(outputs, 1) if self.jump == "concat" else torch.stack(outputs).amax(0))
        return self.propagate(x, *graph) if self.propagate else x


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


def load(folder, name, kind=np.int64):
    return torch.from_numpy(np.load(os.path.join(folder, name)).astype(kind))


def read_rows(folder, prefix, n_column):
    """Rows of non-zeros, as CSR in three files, as dense ones."""
    n_stored = load(folder, prefix + "indptr.npy").diff()
    rows = torch.arange(len(n_stored)).repeat_interleave(n_stored)
    columns = load(folder, prefix + "indices.npy")
    x = torch.zeros(len(n_stored), n_column or int(columns.max()) + 1)
    x[rows, columns] = load(folder, prefix + "data.npy", np.float32)
    return x


def read_typed_features(folder, n_node, counts):
    """Each type's features in columns of their own; a type without any has one column per node."""
    there = os.path.exists(os.path.join(folder, "node_type.npy"))
    node_type = load(folder, "node_type.npy") if there else torch.zeros(n_node, dtype=torch.int64)
    columns = []
    for k in range(int(node_type.max()) + 1):
        nodes = (node_type == k).nonzero()[:, 0]
        if os.path.exists(os.path.join(folder, f"feat_t{k}.npy")):
            rows = load(folder, f"feat_t{k}.npy", np.float32)
        elif os.path.exists(os.path.join(folder, f"feat_t{k}_indptr.npy")):
            rows = read_rows(folder, f"feat_t{k}_", counts.get(str(k), {}).get("features"))
        else:
            rows = torch.eye(len(nodes))
        x = torch.zeros(n_node, rows.shape[1])
        x[nodes] = rows
        columns.append(x)
    return torch.cat(columns, 1)


def read_features(folder, n_node):
    """x, and whether its columns are several node types'."""
    counts = None
    if os.path.exists(os.path.join(folder, "meta.json")):
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as file:
            counts = json.load(file).get("features")
    if os.path.exists(os.path.join(folder, "features.npy")):
        return load(folder, "features.npy", np.float32), False
    if os.path.exists(os.path.join(folder, "feat_indptr.npy")):
        return read_rows(folder, "feat_", counts), False
    return read_typed_features(folder, n_node, counts if isinstance(counts, dict) else {}), True


def read_typed_edges(folder, options):
    """edge_index and edge_type; inverse relations behind the stored ones."""
    edges = torch.unique(torch.cat([load(folder, "edges.npy"), load(folder, "edge_type.npy")[None]]), dim=1)
    if options["undirected"] == "yes":
        n_relation = int(edges[2].max()) + 1
        edges = torch.cat([edges, torch.stack([edges[1], edges[0], edges[2] + n_relation])], 1)
    if options["self_loops"] == "no":
        edges = edges[:, edges[0] != edges[1]]
    return edges[:2], edges[2]


def read_weighted_edges(folder, options, n_node):
    """edge_index and edge_weight; the layers add the loops that are not there."""
    edge_index, weight = coalesce(load(folder, "edges.npy"), load(folder, "edge_weight.npy", np.float32))
    if options["undirected"] == "yes":
        edge_index, weight = to_undirected(edge_index, weight)
    if options["self_loops"] == "yes":
        return add_remaining_self_loops(edge_index, weight, 1.0, n_node)
    return remove_self_loops(edge_index, weight) if options["self_loops"] == "no" else (edge_index, weight)


def read_edges(folder, options, n_node):
    edge_index = coalesce(load(folder, "edges.npy"))
    if options["undirected"] == "yes":
        edge_index = to_undirected(edge_index)
    if options["self_loops"] != "auto":
        edge_index = remove_self_loops(edge_index)[0]
    if options["self_loops"] == "yes":
        edge_index = add_self_loops(edge_index, num_nodes=n_node)[0]
    return edge_index, None


def training_nodes(folder, split):
    """Their numbers: of train_idx.npy, or train_mask.npy where that is missing; of several splits this one."""
    path = os.path.join(folder, "train_idx.npy")
    if os.path.exists(path):
        nodes = np.load(path)
        nodes = nodes[split] if nodes.ndim == 2 else nodes
        return torch.from_numpy(nodes[nodes >= 0].astype(np.int64))
    mask = np.load(os.path.join(folder, "train_mask.npy"))
    return torch.from_numpy(np.flatnonzero(mask[:, split] if mask.ndim == 2 else mask))


def known_labels(folder, split, shape):
    """One column per class; rows that were not trained on are 0."""
    known = torch.zeros(shape)
    labels = torch.from_numpy(np.load(os.path.join(folder, "labels.npy")))
    train = training_nodes(folder, split)
    if labels.dim() > 1:
        known[train] = labels[train].float().nan_to_num()
    else:
        train = train[labels[train] >= 0]
        known[train, labels[train].long()] = 1
    return known


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    run, dataset = sys.argv[1:]
    with open(os.path.join(run, "result.json"), encoding="utf-8") as file:
        job = json.load(file)["job"]
    expected = torch.from_numpy(np.load(os.path.join(run, "logits.npy")))
    x, typed = read_features(dataset, len(expected))
    if job["dataset"]["normalize_features"] == "row":
        x = x / x.abs().sum(1, keepdim=True).clamp(min=1e-30)
    if job["model"]["label_input"]:
        x = torch.cat([x, known_labels(dataset, job["dataset"]["split"], expected.shape)], 1)
    if job["model"]["kind"] == "rgcn":
        edge_index, of_edge = read_typed_edges(dataset, job["dataset"])
    elif (job["model"]["kind"] in (WEIGHABLE if job["dataset"]["edge_weights"] == "yes" else WEIGHTED)
          and job["dataset"]["edge_weights"] != "no" and os.path.exists(os.path.join(dataset, "edge_weight.npy"))):
        edge_index, of_edge = read_weighted_edges(dataset, job["dataset"], len(x))
    else:
        edge_index, of_edge = read_edges(dataset, job["dataset"], len(x))

    weights = read_weights(os.path.join(run, "best.safetensors"))
    n_relation = int(of_edge.max()) + 1 if job["model"]["kind"] == "rgcn" else 0
    net = Net(job, x.shape[1], expected.shape[1], n_relation, typed)
    net.load_state_dict(weights, strict=True)
    net.eval()
    with torch.no_grad():
        logits = net(x, edge_index, of_edge)

    error = ((logits - expected).abs().max() / expected.abs().max()).item()
    print(f"{len(net.state_dict())} tensors loaded; logits differ by at most {error:.1e} of the largest")
    sys.exit(0 if error <= 1e-5 else 1)


if __name__ == "__main__":
    main()
