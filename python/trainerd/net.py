"""The trained model of any job in PyTorch Geometric's modules, and its inputs from an npy folder.

Net's state_dict has the names and shapes that trainerd writes. `pyg` loads weights and compares logits. You may copy
this file into your own programs. It has no type annotations, since PyTorch's types are Any for the checker.
"""
from __future__ import annotations

import ast
import json
import os

from .arrays import np
from .errors import DataError, MissingInput
from .program_torch import ProgramModule, entry_of

try:
    import torch
    from torch.nn import Identity, LayerNorm, Linear, ModuleList, ReLU, Sequential
    from torch_geometric.nn import (APPNP, AGNNConv, BatchNorm, GATConv, GATv2Conv, GCN2Conv, GCNConv, GINConv, RGCNConv,
                                    SAGEConv, SGConv, TransformerConv)
    from torch_geometric.utils import add_remaining_self_loops, add_self_loops, coalesce, remove_self_loops, to_undirected
except ImportError as error:
    raise MissingInput(f"PyTorch and PyTorch Geometric cannot be imported ({error}): pip install torch torch_geometric") from error

ATTENTIONS = {"gat": GATConv, "gatv2": GATv2Conv, "transformer": TransformerConv}
OF_EDGE = {"feature": "edge_attr", "relation": "edge_type", "norm": "edge_weight", "weight": "edge_weight"}  # words of programs
WEIGHTED = ("gcn", "appnp", "sgc", "gcnii")  # layers with edge weights
WEIGHABLE = (*WEIGHTED, "sage", "gin")  # with dataset.edge_weights = "yes"
ACTIVATIONS = {"relu": torch.relu, "elu": torch.nn.functional.elu, "leaky_relu": torch.nn.functional.leaky_relu,
               "gelu": torch.nn.functional.gelu, "none": Identity()}


class Weighted:
    """Neighbours' rows are multiplied by their edges' weights, as in DGL's SAGEConv and GINConv; a mean divides by
    the number of edges."""

    def forward(self, x, edge_index, edge_weight):
        self.edge_weight = edge_weight
        return super().forward(x, edge_index)

    def message(self, x_j):
        return x_j * self.edge_weight[:, None]


class WeightedSAGEConv(Weighted, SAGEConv):
    pass


class WeightedGINConv(Weighted, GINConv):
    pass


def conv(model, loops, f_in, f_out, last, n_relation, weighted, edge_dim):
    """One layer of the job's model.kind. The last layer averages its heads, the others concatenate them."""
    kind = model["kind"]
    if kind in ATTENTIONS:
        heads = model["out_heads" if last else "heads"]
        own = {} if kind == "transformer" else {"add_self_loops": loops}
        return ATTENTIONS[kind](f_in, f_out if last else f_out // heads, heads=heads, concat=not last, edge_dim=edge_dim or None, **own)
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
    raise DataError(f'model.kind = "{kind}" is not known here')


def read_of_edges(text):
    """What a program reads of edges, as its module's argument."""
    names = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    return next((key for word, key in OF_EDGE.items() if word in names), None)


class ProgramLayer(ProgramModule):
    """A layer of a vertex program, or its whole model, as the other layers here: of_edge is what its text reads of edges."""

    def __init__(self, model, dataset, f_in, f_out, layer, last, embedding=None):
        text = model["program"]
        self.of_edge = read_of_edges(text)
        counts = {**dataset, **dataset.get("counts", {})}
        super().__init__(text, f_in, f_out, {**model["args"], "index": layer, "last": last}, counts)
        if embedding is not None:
            self.embedding = embedding

    def forward(self, x, edge_index, of_edge=None):
        return super().forward(self.embedding(x) if "embedding" in self._modules else x, edge_index, **({self.of_edge: of_edge} if self.of_edge else {}))


class Embedding(Linear):
    """Without a bias, also for sparse rows: a node without features has a 1 in its own column, which selects that
    column of the weight."""

    def __init__(self, f_in, f_out):
        super().__init__(f_in, f_out, bias=False)

    def forward(self, x):
        return torch.sparse.mm(x, self.weight.t()) if x.is_sparse else super().forward(x)


class Net(torch.nn.Module):
    """The trained model in evaluation (without dropout, which has no weights)."""

    def __init__(self, job, dataset, typed=False):
        super().__init__()
        model, n_relation, edge_dim = job["model"], dataset["relations"], dataset.get("edge_features", 0)
        f_in, n_class = widths_of(job, dataset)
        weighted = job["dataset"]["edge_weights"] == "yes"
        loops = job["dataset"]["self_loops"] != "no"  # the definitions of gcn, sgc, appnp, agnn, gcnii add loops
        n_layer = 1 if model["kind"] == "sgc" else model["layers"]
        n_linear = n_layer if model["kind"] in ("appnp", "agnn") else model["linear_layers"]
        self.initial = model["kind"] == "gcnii"  # its layers read the first linear map's output; another map follows them
        if self.initial:
            n_layer, n_linear = n_layer + 1, 1
        heads = model["heads"] if model["kind"] in ATTENTIONS else 1  # model.hidden is per head
        # Typed nodes' features, side by side: a projection for each type, or a vector for each node (dataset.features = "learned"). Without
        # features, and with model.embedding = false, there is none: the first layer is RGCNConv(num_nodes, ...), which takes no x.
        self.embedding = Embedding(f_in, model["hidden"]) if typed else None
        f_in = model["hidden"] if self.embedding else f_in
        self.jump = model["jumping_knowledge"]
        n_hidden = n_layer if self.jump != "none" else n_layer - 1
        widths = [model["hidden"] if self.initial else f_in]
        for layer in range(n_hidden):
            widths.append(model["hidden"] * (heads if layer < n_layer - n_linear else 1))
        widths += [n_class] * (n_layer - n_hidden)
        if model["kind"] == "program":  # a layer's own width is known when it is there
            self.convs = ModuleList()
            for i in range(n_layer - n_linear):
                out = n_class if i == n_hidden else model["hidden"]
                self.convs.append(ProgramLayer(model, dataset, widths[i], out, i, i == n_hidden))
                widths[i + 1] = self.convs[i].width
        pairs = list(zip(widths, widths[1:]))
        if self.initial:
            self.convs = ModuleList(GCN2Conv(model["hidden"], model["alpha"], model["theta"], layer, add_self_loops=loops)
                                    for layer in range(1, n_layer))
        elif model["kind"] != "program":
            self.convs = ModuleList(conv(model, loops, *pair, i == n_hidden, n_relation, weighted, edge_dim)
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
        """of_edge: types of edges for rgcn, weights or features for layers that use them."""
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


def widths_of(job, dataset):
    """Columns of the input, and of the logits."""
    n_out = dataset["classes"] if "classes" in dataset else dataset["outputs"]
    return dataset["features"] + (n_out if job["model"]["label_input"] else 0), n_out


def make_net(job, dataset, typed=False):
    """The job's model; dataset: as in result.json; typed: a projection or vectors of nodes come before it."""
    model = job["model"]
    if model["kind"] != "program" or entry_of(model["program"]) == "layer":
        return Net(job, dataset, typed)
    f_in, n_class = widths_of(job, dataset)
    embedding = Embedding(f_in, model["hidden"]) if typed else None
    return ProgramLayer(model, dataset, model["hidden"] if typed else f_in, n_class, -1, True, embedding)


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
    """Each type's features in their own columns, as a sparse tensor; a type without features has one column per
    node."""
    there = os.path.exists(os.path.join(folder, "node_type.npy"))
    node_type = load(folder, "node_type.npy") if there else torch.zeros(n_node, dtype=torch.int64)
    places, values, first = [], [], 0
    for k in range(int(node_type.max()) + 1):
        nodes = (node_type == k).nonzero()[:, 0]
        if os.path.exists(os.path.join(folder, f"feat_t{k}.npy")):
            rows = load(folder, f"feat_t{k}.npy", np.float32).to_sparse()
        elif os.path.exists(os.path.join(folder, f"feat_t{k}_indptr.npy")):
            rows = read_rows(folder, f"feat_t{k}_", counts.get(str(k), {}).get("features")).to_sparse()
        else:
            own = torch.arange(len(nodes))
            rows = torch.sparse_coo_tensor(torch.stack([own, own]), torch.ones(len(nodes)), (len(nodes), len(nodes))).coalesce()
        places.append(torch.stack([nodes[rows.indices()[0]], rows.indices()[1] + first]))
        values.append(rows.values())
        first += rows.shape[1]
    return torch.sparse_coo_tensor(torch.cat(places, 1), torch.cat(values), (n_node, first)).coalesce()


def read_features(folder, n_node):
    """x: of all nodes, or of node types, a sparse tensor."""
    counts = None
    if os.path.exists(os.path.join(folder, "meta.json")):
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as file:
            counts = json.load(file).get("features")
    if os.path.exists(os.path.join(folder, "features.npy")):
        return load(folder, "features.npy", np.float32)
    if os.path.exists(os.path.join(folder, "feat_indptr.npy")):
        return read_rows(folder, "feat_", counts)
    return read_typed_features(folder, n_node, counts if isinstance(counts, dict) else {})


def read_typed_edges(folder, options, n_node):
    """edge_index and edge_type; inverse relations after the stored ones."""
    edges = torch.unique(torch.cat([load(folder, "edges.npy"), load(folder, "edge_type.npy")[None]]), dim=1)
    if options["undirected"] == "yes":
        n_relation = int(edges[2].max()) + 1
        edges = torch.cat([edges, torch.stack([edges[1], edges[0], edges[2] + n_relation])], 1)
    if options["self_loops"] == "no":
        edges = edges[:, edges[0] != edges[1]]
    if options["self_loops"] == "yes":  # loops are of no relation
        edges = edges[:, edges[0] != edges[1]]
        loops = torch.arange(n_node)
        edges = torch.cat([edges, torch.stack([loops, loops, torch.full_like(loops, -1)])], 1)
    return edges[:2], edges[2]


def read_weighted_edges(folder, options, n_node):
    """edge_index and edge_weight; the layers add missing loops."""
    edge_index, weight = coalesce(load(folder, "edges.npy"), load(folder, "edge_weight.npy", np.float32))
    if options["undirected"] == "yes":
        edge_index, weight = to_undirected(edge_index, weight)
    if options["self_loops"] == "yes":
        return add_remaining_self_loops(edge_index, weight, 1.0, n_node)
    return remove_self_loops(edge_index, weight) if options["self_loops"] == "no" else (edge_index, weight)


def read_featured_edges(folder, options, n_node, replaces):
    """edge_index and edge_attr; repeats have equal rows. Loops that are added have the mean of the other rows; with `replaces`, as GATConv and
    GATv2Conv have it, stored loops, too."""
    rows = load(folder, "edge_attr.npy", np.float32)
    edge_index, rows = coalesce(load(folder, "edges.npy"), rows[:, None] if rows.dim() == 1 else rows, reduce="max")
    if options["undirected"] == "yes":
        edge_index, rows = to_undirected(edge_index, rows, reduce="max")
    if options["self_loops"] == "no" or (replaces and options["self_loops"] == "yes"):
        edge_index, rows = remove_self_loops(edge_index, rows)
    if options["self_loops"] == "yes":
        edge_index, rows = add_remaining_self_loops(edge_index, rows, fill_value="mean", num_nodes=n_node)
    return edge_index, rows


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
    """Numbers of the training nodes, from train_idx.npy or else train_mask.npy; with several splits of this one."""
    path = os.path.join(folder, "train_idx.npy")
    if os.path.exists(path):
        nodes = np.load(path)
        nodes = nodes[split] if nodes.ndim == 2 else nodes
        return torch.from_numpy(nodes[nodes >= 0].astype(np.int64))
    mask = np.load(os.path.join(folder, "train_mask.npy"))
    return torch.from_numpy(np.flatnonzero(mask[:, split] if mask.ndim == 2 else mask))


def known_labels(folder, split, shape):
    """One column per class; rows of other nodes than training nodes are 0."""
    known = torch.zeros(shape)
    labels = torch.from_numpy(np.load(os.path.join(folder, "labels.npy")))
    train = training_nodes(folder, split)
    if labels.dim() > 1:
        known[train] = labels[train].float().nan_to_num()
    else:
        train = train[labels[train] >= 0]
        known[train, labels[train].long()] = 1
    return known


def normalized(x):
    """Rows divided by the sums of their absolute values (dataset.normalize_features = "row")."""
    if not x.is_sparse:
        return x / x.abs().sum(1, keepdim=True).clamp(min=1e-30)
    sums = torch.zeros(x.shape[0]).index_add(0, x.indices()[0], x.values().abs())
    return torch.sparse_coo_tensor(x.indices(), x.values() / sums[x.indices()[0]].clamp(min=1e-30), x.shape).coalesce()


def made_features(word, edge_index, n_node):
    """Features made from the graph (dataset.features): columns of degrees, without loops, or a column for each
    node."""
    if word != "degree":
        own = torch.arange(n_node)
        return torch.sparse_coo_tensor(torch.stack([own, own]), torch.ones(n_node), (n_node, n_node)).coalesce()
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    return torch.stack([torch.ones(n_node), *(torch.bincount(ends, minlength=n_node).float().log1p() for ends in (target, source))], 1)


def read_inputs(folder, job, shape):
    """x, edge_index and types, weights or features of edges (or None), the inputs of the job's Net. shape: of its
    logits. x is sparse if nodes without features have embeddings."""
    edge_index, of_edge = read_graph(folder, job, shape[0])
    word = job["dataset"].get("features")
    x = made_features(word, edge_index, shape[0]) if isinstance(word, str) else read_features(folder, shape[0])
    if job["dataset"]["normalize_features"] == "row":
        x = normalized(x)
    if job["model"]["label_input"]:
        known = known_labels(folder, job["dataset"]["split"], shape)
        x = torch.cat([x, known.to_sparse() if x.is_sparse else known], 1)
    has_embedding = word == "learned" or job["model"]["kind"] == "rgcn" and job["model"].get("embedding", True) and word != "one_hot"
    if x.is_sparse and not has_embedding:  # layers read dense rows; RGCNConv(num_nodes, ...) reads no x
        x = None if job["model"]["kind"] == "rgcn" and not job["model"]["residual"] else x.to_dense()
    return x, edge_index, of_edge


def read_graph(folder, job, n_node):
    """edge_index and types, weights or features of edges (or None): the inputs of the job's Net."""
    model, options = job["model"], job["dataset"]
    typed, featured = model["kind"] == "rgcn", model["kind"] in ATTENTIONS
    weighted = model["kind"] in (WEIGHABLE if options["edge_weights"] == "yes" else WEIGHTED)
    if model["kind"] == "program":
        settings = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(model["program"]).body
                    if isinstance(node, ast.Assign) and node.targets[0].id in ("self_loops", "edge_weights")}
        reads = read_of_edges(model["program"])
        typed, featured = reads == "edge_type", reads == "edge_attr"
        weighted = reads == "edge_weight" and (options["edge_weights"] == "yes" or settings.get("edge_weights", True))
        if options["self_loops"] == "auto" and settings.get("self_loops"):  # the module adds no loops
            options = {**options, "self_loops": "yes"}
    if typed:
        return read_typed_edges(folder, options, n_node)
    if featured and options.get("edge_features", "no") != "no" and os.path.exists(os.path.join(folder, "edge_attr.npy")):
        return read_featured_edges(folder, options, n_node, replaces=model["kind"] in ("gat", "gatv2"))
    if weighted and options["edge_weights"] != "no" and os.path.exists(os.path.join(folder, "edge_weight.npy")):
        return read_weighted_edges(folder, options, n_node)
    return read_edges(folder, options, n_node)
