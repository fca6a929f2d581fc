"""Graphs of PyTorch Geometric, DGL, OGB, NetworkX and of arrays as npy folders that trainerd reads (docs/data.md).

    from_pyg(data, "data/mine")          then: dataset.path = "data/mine"

Each takes the options of `Options` and returns the folder's path. Only NumPy is imported here: objects are
recognised by their attributes.
"""
from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Unpack

from .arrays import Array, np
from .errors import DataError, MissingInput, UsageError, shown
from .graph import SPLITS, Graph, HeldOut, Options, write_graph
from .names import names_of, numbers_of, objects_of
from .tensors import adjacent_edges, array_of, features_of, is_sparse, matrix_edges

Folder = str | os.PathLike[str]


# Names of masks, of which the first that is there is read.
MASKS = {"train": ("train_mask",), "valid": ("val_mask", "valid_mask"), "test": ("test_mask",)}


def _mask(values: Any, name: str = "a mask") -> Array:
    """A mask as booleans; one of a single split as a vector."""
    given = array_of(values)
    mask = given.astype(bool)
    if not np.array_equal(mask, given):
        raise DataError(f"{name} has values from {given.min()} to {given.max()}, expected True or False for each node; node numbers are "
                        "train, valid and test of a dict of arrays")
    return mask[:, 0] if mask.ndim == 2 and mask.shape[1] == 1 else mask


def _masks(store: Any, get: Any) -> dict[str, Array]:
    """The masks of the splits; a warning names other attributes that look like splits."""
    found = {split: next((name for name in names if get(store, name) is not None), None) for split, names in MASKS.items()}
    keys = getattr(store, "keys", ())  # a method, of older PyG a list
    left = sorted(str(key) for key in (keys() if callable(keys) else keys)
                  if str(key).endswith(("_mask", "_idx")) and key not in found.values() and get(store, key) is not None)
    if left:
        known = ", ".join(name for names in MASKS.values() for name in names)
        warnings.warn(f"not read: {', '.join(left)}; splits are read from {known}", stacklevel=4)
    return {split: _mask(get(store, name), f"data.{name}") for split, name in found.items() if name is not None}


# Names of a graph's arrays in PyTorch Geometric, also as keys of a dict, and in DGL.
PYG_NAMES = {"edges": "edge_index", "features": "x", "labels": "y", "train": "train_mask", "valid": "val_mask", "test": "test_mask",
             "nodes": "num_nodes", "edge_weight": "edge_weight", "edge_attr": "edge_attr", "edge_type": "edge_type"}
DGL_NAMES = {"edges": "edges()", "features": "ndata['feat']", "labels": "ndata['label']", "edge_weight": "edata['w']",
             "edge_attr": "edata['feat']", "edge_type": "edata['etype']", **{name: f"ndata['{mask}']" for name, mask in SPLITS.items()}}


# (head, relation, tail): edges [2, E].
Relations = dict[tuple[str, str, str], Array]


def _typed_rows(relations: Relations, rows: list[Any]) -> Array | None:
    """Features of edges, one relation after another, if all relations have them with the same number of columns."""
    found = [_given(of) for of in rows]
    widths = {None if of is None else of.shape[1:] for of in found}
    if len(widths) > 1:
        lacks = next((r for r, of in zip(relations, found, strict=True) if of is None), None)
        why = "they have different columns" if lacks is None else f"the edges from {lacks[0]} to {lacks[2]} have none"
        warnings.warn(f"features of edges are not kept: expected some of each relation, as many columns, and {why}", stacklevel=4)
    return np.concatenate([of for of in found if of is not None]) if len(widths) == 1 and None not in widths else None


def _typed_weights(relations: Relations, weights: list[Any]) -> Array | None:
    """Weights of edges, one relation after another; 1 for relations without weights. None if no relation has
    weights."""
    found = [_given(of) for of in weights]
    if all(of is None for of in found):
        return None
    all_weights: Array = np.concatenate([np.ones(edges.shape[1], np.float32) if of is None else of.reshape(-1)
                                         for edges, of in zip(relations.values(), found, strict=True)])
    return all_weights


def _typed(counts: Mapping[str, int], features: Mapping[str, Any], relations: Relations, labels: Mapping[str, Any],
           splits: Mapping[str, Mapping[str, Array]], edge_rows: list[Any], weights: list[Any]) -> Graph:
    """One graph of several node types, numbered one after another in the order of counts.

    counts {type: nodes}, features {type: rows or None}, relations {(head, relation, tail): edges [2, E]}, labels {type: labels} of at most one
    type, splits {"train": {type: nodes or mask}, ...}, edge_rows [features of a relation's edges, or None],
    weights [of a relation's edges, or None]
    """
    n = sum(counts.values())
    first = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
    if len(labels) > 1:
        raise DataError(f"{len(labels)} node types have labels ({', '.join(labels)}), expected one")
    if not relations:
        raise DataError(f"no edges: the graph has node types ({', '.join(counts)}) and no edge type, expected one at least")
    graph = Graph(np.concatenate([edges.astype(np.int64) + [[first[head]], [first[tail]]] for (head, _, tail), edges in relations.items()], 1),
                  edge_weight=_typed_weights(relations, weights), edge_attr=_typed_rows(relations, edge_rows),
                  edge_type=np.concatenate([np.full(edges.shape[1], r) for r, edges in enumerate(relations.values())]),
                  type_names=list(counts), relation_names=["__".join(names) for names in relations], relations=len(relations),
                  nodes=n, node_type=np.repeat(np.arange(len(counts)), list(counts.values())),
                  type_features={k: features_of(features[t]) for k, t in enumerate(counts) if features.get(t) is not None})
    for labelled, given in labels.items():
        values, begin = array_of(given), first[labelled]
        values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
        of_classes = values.ndim == 1 and values.dtype.kind != "f"
        graph.labels = np.full((n, *values.shape[1:]), -1 if of_classes else np.nan, np.int64 if of_classes else np.float32)
        graph.labels[begin:begin + len(values)] = values
        for name, nodes in splits.items():
            if labelled in nodes:
                split = nodes[labelled]
                if split.dtype == bool:
                    graph.splits[name] = np.zeros((n, *split.shape[1:]), bool)
                    graph.splits[name][begin:begin + len(split)] = split
                else:
                    graph.splits[name] = split + begin
    return graph


def _pyg_edges(store: Any) -> tuple[Array, Array | None]:
    """edge_index with edge_weight, or adj_t."""
    if _get(store, "edge_index") is not None:
        return array_of(store.edge_index), _given(_get(store, "edge_weight"))
    if _get(store, "adj_t") is None:
        raise DataError("the data has neither edge_index nor adj_t")
    return adjacent_edges(store.adj_t)


def _get(store: Any, name: str) -> Any:
    return getattr(store, name, None)


def _link_edges(part: Any, split: str) -> dict[str, Array]:
    """What a part of torch_geometric.transforms.RandomLinkSplit holds out: edges, and pairs without an edge; also relations of the
    edges, if edge_type has one for each column of edge_label_index."""
    pairs, labels = array_of(part.edge_label_index), array_of(part.edge_label)
    if not np.isin(labels, (0, 1)).all():
        raise DataError(f"edge_label of the {split} data has values from {labels.min():g} to {labels.max():g}, expected 1 for edges and 0 for pairs "
                        "without one: classes of edges are not predicted")
    found = {f"{split}_edges": pairs[:, labels == 1], f"{split}_edges_negative": pairs[:, labels == 0]}
    types, edges = _given(_get(part, "edge_type")), _get(part, "edge_index")
    if types is not None and types.shape == labels.shape and (edges is None or edges.shape[1] != len(types)):
        found[f"{split}_edge_type"] = types[labels == 1]  # of edge_label_index, not of edge_index
    return {name: of for name, of in found.items() if of.size or "negative" not in name}  # a part without edges is given, too


def _link_graph(train: Any, valid: Any, test: Any) -> Graph:
    """The three parts of RandomLinkSplit: messages pass along the edges of the training's, and it trains on these."""
    if any(_get(part, "edge_label_index") is None or _get(part, "edge_label") is None for part in (train, valid, test)):
        raise DataError("three graphs of PyTorch Geometric are those of RandomLinkSplit, expected edge_label_index and edge_label in each")
    edges, labels = _pyg_edges(train)[0], array_of(train.edge_label)
    of_loss, no_edges = (array_of(train.edge_label_index)[:, of] for of in (labels != 0, labels == 0))
    ends = train.num_nodes * edges.astype(np.int64) + edges[::-1]  # a number of each pair, forward and backward
    if not np.isin(train.num_nodes * of_loss[0].astype(np.int64) + of_loss[1], ends).all():
        raise DataError("the training data have edges of the loss that pass no messages, expected RandomLinkSplit with disjoint_train_ratio=0: "
                        "a job trains on the edges that pass messages")
    if np.isin(train.num_nodes * no_edges[0].astype(np.int64) + no_edges[1], train.num_nodes * edges[0].astype(np.int64) + edges[1]).any():
        raise DataError("edge_label of the training data is 0 for pairs that edge_index joins, expected pairs without an edge: signs and classes of "
                        "edges are not predicted")
    graph = pyg_graph(train)
    graph.held_out = _link_edges(valid, "valid") | _link_edges(test, "test")
    return graph


def _split_graph(data: Any) -> Graph:
    """The Data of torch_geometric.datasets.RelLinkPredDataset: edges and relations of three splits. Its edge_index also has the
    inverse of each training edge, which dataset.undirected = "yes" adds here."""
    graph = Graph(array_of(data.train_edge_index), edge_type=array_of(data.train_edge_type), nodes=int(data.num_nodes))
    if _get(data, "x") is not None:
        graph.features = features_of(data.x)
    for split in ("valid", "test"):
        graph.held_out |= {f"{split}_edges": array_of(data[f"{split}_edge_index"]), f"{split}_edge_type": array_of(data[f"{split}_edge_type"])}
    return graph


def pyg_graph(data: Any) -> Graph:
    """A Graph of torch_geometric.data.Data or HeteroData, or of the three Data of RandomLinkSplit."""
    if isinstance(data, (tuple, list)):
        if len(data) != 3:
            raise DataError(f"data is {shown(data)} of {len(data)}, expected one graph ({'data[0]' if len(data) == 1 else 'data[i]'}), or the three of RandomLinkSplit")
        return _link_graph(*data)
    if _get(data, "node_types") is not None:
        stores = {t: data[t] for t in data.node_types}
        splits: dict[str, dict[str, Array]] = {name: {} for name in SPLITS}
        for t, store in stores.items():
            for name, mask in _masks(store, _get).items():
                splits[name][t] = mask
        edges_of = [_pyg_edges(data[e]) for e in data.edge_types]
        relations = {tuple(e): edges for e, (edges, _) in zip(data.edge_types, edges_of, strict=True)}
        return _typed({t: int(s.num_nodes) for t, s in stores.items()}, {t: _get(s, "x") for t, s in stores.items()}, relations,
                      {t: s.y for t, s in stores.items() if _get(s, "y") is not None}, splits,
                      [_get(data[e], "edge_attr") for e in data.edge_types], [weights for _, weights in edges_of])
    if _get(data, "train_edge_type") is not None and _get(data, "valid_edge_type") is not None:
        return _split_graph(data)
    edges, weights = _pyg_edges(data)
    graph = Graph(edges, edge_weight=weights, edge_attr=_given(_get(data, "edge_attr")))
    if _get(data, "num_nodes") is not None:
        graph.nodes = int(data.num_nodes)
    if _get(data, "edge_type") is not None:
        graph.edge_type = array_of(data.edge_type)
    if _get(data, "x") is not None:
        graph.features = features_of(data.x)
    if _get(data, "y") is not None:
        graph.labels = array_of(data.y)
        graph.splits = _masks(data, _get)
    elif _get(data, "train_idx") is not None:  # Entities: AIFB, MUTAG, ...
        graph.labels = np.full(int(data.num_nodes), -1, np.int64)
        for split in ("train", "test"):
            nodes = graph.splits[split] = array_of(getattr(data, f"{split}_idx"))
            graph.labels[nodes] = array_of(getattr(data, f"{split}_y"))
    return graph


def _dgl_weights(edge_data: Any) -> Any:
    return next((edge_data[name] for name in ("w", "weight") if name in edge_data), None)


def dgl_graph(graph: Any) -> Graph:
    """A Graph of dgl.DGLGraph, of one node type or several."""
    if len(getattr(graph, "etypes", [None])) > 1 or len(getattr(graph, "ntypes", [None])) > 1:
        stores = {t: graph.nodes[t].data for t in graph.ntypes}
        splits: dict[str, dict[str, Array]] = {name: {} for name in SPLITS}
        for t, store in stores.items():
            for name, values in _masks(store, lambda s, key: s.get(key)).items():
                splits[name][t] = values
        relations = {tuple(e): np.stack([array_of(end) for end in graph.edges(etype=e)]) for e in graph.canonical_etypes}
        return _typed({t: int(graph.num_nodes(t)) for t in graph.ntypes}, {t: s.get("feat") for t, s in stores.items()}, relations,
                      {t: s["label"] for t, s in stores.items() if "label" in s}, splits,
                      [graph.edges[e].data.get("feat") for e in graph.canonical_etypes],
                      [_dgl_weights(graph.edges[e].data) for e in graph.canonical_etypes])
    source, destination = graph.edges()
    made = Graph(np.stack([array_of(source), array_of(destination)]))
    if hasattr(graph, "num_nodes"):
        made.nodes = int(graph.num_nodes())
    edge_data = getattr(graph, "edata", {})
    made.edge_weight = _given(_dgl_weights(edge_data))
    if "feat" in edge_data:
        made.edge_attr = array_of(edge_data["feat"])
    for name in ("_TYPE", "etype"):  # of dgl.to_homogeneous, and of DGL's examples
        if name in edge_data:
            made.edge_type = array_of(edge_data[name])
    if "feat" in graph.ndata:
        made.features = features_of(graph.ndata["feat"])
    if "label" in graph.ndata:
        made.labels = array_of(graph.ndata["label"])
        made.splits = _masks(graph.ndata, lambda s, key: s.get(key))
    return made


def from_pyg(data: Any, folder: Folder, **options: Unpack[Options]) -> Path:
    """torch_geometric.data.Data: x (also sparse), edge_index, edge_weight and edge_attr, or adj_t; edge_type, y, train_mask, val_mask or
    valid_mask, test_mask (with several splits a column for each); or HeteroData; or the three Data of RandomLinkSplit."""
    return write_graph(pyg_graph(data), folder, **options)


def from_dgl(graph: Any, folder: Folder, **options: Unpack[Options]) -> Path:
    """dgl.DGLGraph: ndata feat, label, train_mask, val_mask or valid_mask, test_mask; edata weight or w, feat, and _TYPE or etype; or
    one of several node types."""
    return write_graph(dgl_graph(graph), folder, **options)


def from_ogb(dataset: Any, folder: Folder, **options: Unpack[Options]) -> Path:
    """ogb.nodeproppred.NodePropPredDataset, or its PyG form: a graph, labels, and get_idx_split()."""
    first, splits = dataset[0], dataset.get_idx_split()
    if not isinstance(first, tuple):
        graph = pyg_graph(first)
        graph.splits = {name: array_of(nodes) for name, nodes in splits.items()}
        return write_graph(graph, folder, **options)
    data, labels = first
    if "edge_index" not in data:
        relations = {tuple(e): array_of(edges) for e, edges in data["edge_index_dict"].items()}
        named = {name: {t: array_of(of) for t, of in nodes.items()} for name, nodes in splits.items()}
        rows = data.get("edge_feat_dict") or {}
        typed = _typed(data["num_nodes_dict"], data.get("node_feat_dict") or {}, relations, labels, named,
                       [rows.get(e) for e in data["edge_index_dict"]], [None] * len(relations))
        return write_graph(typed, folder, **options)
    graph = Graph(array_of(data["edge_index"]), array_of(labels), splits={name: array_of(nodes) for name, nodes in splits.items()})
    if data.get("edge_weight") is not None:
        graph.edge_weight = array_of(data["edge_weight"])
    graph.edge_attr = _given(data.get("edge_feat"))
    if data.get("node_feat") is not None:
        graph.features = array_of(data["node_feat"])
    return write_graph(graph, folder, **options)


def from_yandex(file: Folder, folder: Folder, **options: Unpack[Options]) -> Path:
    """A .npz archive of github.com/yandex-research/heterophilous-graphs: edges [E, 2], node_features, node_labels, and train_masks,
    val_masks, test_masks [splits, N]. Both directions of each edge are written."""
    try:
        with np.load(os.path.expanduser(file), allow_pickle=False) as arrays:
            edges = arrays["edges"].T
            graph = Graph(np.unique(np.concatenate([edges, edges[::-1]], 1), axis=1), arrays["node_labels"], arrays["node_features"],
                          splits={split: _mask(arrays[mask + "s"].T) for split, mask in SPLITS.items()})
    except OSError as error:
        raise MissingInput(f"'{os.fspath(file)}': {error.strerror or error}") from error
    except (KeyError, ValueError) as error:
        raise DataError(f"'{os.fspath(file)}' is not such an archive: {error}") from error
    return write_graph(graph, folder, **options)


def _given(value: Any) -> Array | None:
    return None if value is None else array_of(value)


def labels_of(labels: Any) -> Array | None:
    """Labels of nodes, also a list of texts."""
    if isinstance(labels, (list, tuple)) and any(isinstance(label, str) for label in labels):
        return objects_of(labels)  # NumPy would make texts of None and NaN
    return _given(labels)


def _list_edges(edges: Any, names: Array | None) -> tuple[Array, Array | None]:
    """Edges [2, E] by numbers, and their weights or None: of [2, E], of [E, 2], or of a sparse matrix whose row u has the nodes that u
    points to."""
    if is_sparse(edges):
        return matrix_edges(edges)
    ends = array_of(edges)
    if ends.ndim == 2 and ends.shape[0] != 2 and ends.shape[1] == 2:
        ends = ends.T
    if names is not None:
        return numbers_of(ends, names, "edges"), None
    if ends.dtype.kind in "OUS":
        raise DataError(f"edges have type {ends.dtype}, expected numbers of nodes, or ids=[...]: the nodes' names in the order of their rows")
    return ends, None


def _held(name: str, nodes: Any, names: Array | None) -> Array:
    """An array of `HeldOut` by numbers."""
    if name.endswith("_type"):
        return array_of(nodes)
    if "tails" not in name:
        return _list_edges(nodes, names)[0]
    return array_of(nodes) if names is None else numbers_of(array_of(nodes), names, name)


class ArrayOptions(Options, HeldOut, total=False):
    """The options of every conversion, and edges that are held out."""


def arrays_graph(*, edges: Any, labels: Any = None, features: Any = None, train: Any = None, valid: Any = None, test: Any = None,
                 ids: Any = None, edge_weight: Any = None, edge_attr: Any = None, edge_type: Any = None, node_type: Any = None,
                 nodes: int | None = None, **held_out: Unpack[HeldOut]) -> Graph:
    """A Graph of the arrays that `from_arrays` takes."""
    names = None if ids is None else names_of(ids, "ids")
    ends, weights = _list_edges(edges, names)
    splits = {name: array_of(values) for name, values in (("train", train), ("valid", valid), ("test", test)) if values is not None}
    held: dict[str, Any] = {**held_out}
    held = {name: _held(name, values, names) for name, values in held.items() if values is not None}
    if names is not None:
        splits = {name: values if values.dtype == bool else numbers_of(values, names, name) for name, values in splits.items()}
        nodes = len(names) if nodes is None else nodes
    weights = weights if edge_weight is None else array_of(edge_weight)
    return Graph(ends, labels_of(labels), None if features is None else features_of(features), weights, _given(edge_attr),
                 _given(edge_type), _given(node_type), splits=splits, nodes=nodes, node_names=names, held_out=held)


def from_arrays(folder: Folder, *, edges: Any, labels: Any = None, features: Any = None, train: Any = None, valid: Any = None,
                test: Any = None, ids: Any = None, edge_weight: Any = None, edge_attr: Any = None, edge_type: Any = None,
                node_type: Any = None, nodes: int | None = None, **options: Unpack[ArrayOptions]) -> Path:
    """Arrays or tensors: edges [2, E] or [E, 2], or a sparse matrix [N, N]; labels [N], also texts, or [N, C]; features [N, F] (also
    sparse). edge_attr [E, D] or [E] are features of edges; train, valid, test are node numbers or masks ([N], or [N, splits]).

    ids: the names of the nodes, whole numbers or texts, in the order of their rows. Edges, train, valid and test
    then use names.

    For links (task.kind = "link") edges that are held out, and what they are ranked among: valid_edges, test_edges and the others of
    `trainerd.graph.HeldOut`. Labels and training nodes may then be missing.
    """
    held: Any = {name: value for name, value in options.items() if name in HeldOut.__annotations__}
    others: Any = {name: value for name, value in options.items() if name not in HeldOut.__annotations__}
    known = [*Options.__annotations__, *HeldOut.__annotations__, *list(inspect.signature(arrays_graph).parameters)[:-1]]
    if unknown := next((name for name in others if name not in Options.__annotations__), None):
        raise UsageError(f"'{unknown}' is not an array or option of from_arrays, expected one of {', '.join(sorted(known))}")
    graph = arrays_graph(edges=edges, labels=labels, features=features, train=train, valid=valid, test=test, ids=ids, edge_weight=edge_weight,
                         edge_attr=edge_attr, edge_type=edge_type, node_type=node_type, nodes=nodes, **held)
    return write_graph(graph, folder, **others)


def _dict_graph(data: Mapping[str, Any]) -> Graph:
    """A Graph of a dict of the arrays that `from_arrays` takes, by its names or PyTorch Geometric's."""
    known = [*list(inspect.signature(arrays_graph).parameters)[:-1], *HeldOut.__annotations__]
    of_pyg = {name: ours for ours, name in PYG_NAMES.items()} | {"valid_mask": "valid"}
    unknown = sorted(str(name) for name in data if name not in known and name not in of_pyg)
    if unknown:
        raise UsageError(f"data: {unknown[0]!r} is not an array of a graph, expected one of {', '.join(known)}; or as in PyTorch Geometric "
                         f"{', '.join(name for name in of_pyg if name not in known)}")
    arrays: dict[str, Any] = {}
    words: dict[str, str] = {}
    for name, value in data.items():
        ours = name if name in known else of_pyg[name]
        if value is None:
            continue
        if ours in arrays:
            raise UsageError(f"{words[ours]} and data[{name!r}] are both given, expected one of them")
        words[ours] = f"data[{name!r}]"
        try:
            arrays[ours] = _mask(value, "the mask") if name.endswith("_mask") else value
            if isinstance(value, list) and ours in ("features", "edges"):
                array_of(value)
        except DataError as error:
            raise DataError(f"{words[ours]}: {error.reason}") from None
    try:
        graph = arrays_graph(**arrays)
    except DataError as error:
        raise DataError(f"data: {error.reason}") from None
    graph.words = words
    return graph


def graph_of(data: Any) -> Graph:
    """A Graph of an object of PyTorch Geometric (also the three Data of RandomLinkSplit) or DGL, or of a dict of the arrays that
    `from_arrays` takes."""
    if isinstance(data, Graph):
        return data
    if isinstance(data, Mapping):
        return _dict_graph(data)
    if hasattr(data, "canonical_etypes"):
        graph = dgl_graph(data)
        graph.words = {name: f"data.{of}" for name, of in DGL_NAMES.items()}
        return graph
    first = data[0] if isinstance(data, (tuple, list)) and data else data
    if hasattr(first, "edge_index") or hasattr(first, "adj_t") or hasattr(first, "edge_types"):
        graph = pyg_graph(data)
        graph.words = {name: f"data.{of}" for name, of in PYG_NAMES.items()} if first is data and not hasattr(data, "edge_types") else {}
        return graph
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and hasattr(data, "num_classes"):
        raise UsageError(f"data is {shown(data)} of {len(data)} graphs, expected one of them: data[0]")
    raise UsageError(f"data is {shown(data)}, expected a folder's path, a graph of PyTorch Geometric or DGL, or a dict: arrays, "
                     "or [dataset]")


def _rows_of(values: list[Any], nodes: list[Any], what: str) -> Array:
    """One number, or one vector as long as the others, of each node."""
    shape = np.shape(values[0]) if values else ()
    for node, value in zip(nodes, values, strict=True):
        try:
            row = np.asarray(float("") if value is None else value, np.float64)
        except (TypeError, ValueError):
            raise DataError(f"{what} of node {node!r} is {value!r}, expected a number or a vector of numbers") from None
        if row.shape != shape or row.ndim > 1:
            raise DataError(f"{what} of node {node!r} has shape {list(row.shape)}, expected {list(shape)} as of node {nodes[0]!r}")
    rows: Array = np.array(values)
    return rows[:, None] if rows.ndim == 1 else rows


def _edge_numbers(edges: Iterable[tuple[Any, Any, Any]], weight: str) -> Array:
    found = list(edges)
    for u, v, value in found:
        if not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
            raise DataError(f"{weight!r} of the edge from {u!r} to {v!r} is {value!r}, expected a number")
    return np.array([float(value) for _, _, value in found], np.float64)


def from_networkx(graph: Any, folder: Folder, *, labels: str | Mapping[Any, Any] | None = None, features: str | Any = None,
                  train: Iterable[Any] | None = None, valid: Iterable[Any] | None = None, test: Iterable[Any] | None = None,
                  weight: str | None = None, **options: Unpack[Options]) -> Path:
    """A networkx graph: its nodes are numbered in their order, and their names kept; an undirected graph's edges are written in both
    directions.

    labels              a node attribute, or {node: label}; other nodes are unlabelled. Texts are classes in
                        alphabetical order
    features            a node attribute (numbers, or vectors of one length), or rows in the order of the nodes
    train, valid, test  nodes
    weight              an edge attribute; edges without it count 1
    """
    nodes = list(graph)
    number = {node: i for i, node in enumerate(nodes)}

    def split_of(of: Iterable[Any]) -> Array:
        of = list(of)
        missing = [node for node in of if node not in number]
        if missing:
            raise DataError(f"{missing[0]!r} is not a node of the graph")
        return np.array([number[node] for node in of], np.int64)

    ends = [(number[u], number[v]) for u, v in graph.edges()]
    edges = np.array(ends, np.int64).reshape(-1, 2).T
    weights = None if weight is None else _edge_numbers(graph.edges(data=weight, default=1.0), weight)
    if not graph.is_directed():
        back = edges[0] != edges[1]  # a loop is its own reverse
        edges = np.concatenate([edges, edges[::-1, back]], 1)
        weights = None if weights is None else np.concatenate([weights, weights[back]])
    made = Graph(edges, edge_weight=weights, nodes=len(nodes))
    made.node_names = None if nodes == list(range(len(nodes))) else names_of(nodes, "nodes")
    made.splits = {name: split_of(of) for name, of in (("train", train), ("valid", valid), ("test", test)) if of is not None}
    if labels is not None:
        made.labels = objects_of(graph.nodes[node].get(labels) if isinstance(labels, str) else labels.get(node) for node in nodes)
    if isinstance(features, str):
        absent = [node for node in nodes if features not in graph.nodes[node]]
        if absent:
            raise DataError(f"node {absent[0]!r} has no attribute '{features}'")
        made.features = _rows_of([graph.nodes[node][features] for node in nodes], nodes, f"'{features}'")
    elif features is not None:
        made.features = features_of(features)
    return write_graph(made, folder, **options)
