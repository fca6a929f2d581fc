#!/usr/bin/env python3
"""Turn a dataset of PyTorch Geometric, DGL, OGB or Yandex into an npy folder (edges.npy, features.npy, labels.npy, ...).

    convert_dataset.py pyg Planetoid:Cora data/cora [--root DIR]     torch_geometric.datasets.<class>(root, name)
    convert_dataset.py dgl RedditDataset data/reddit [--root DIR]    dgl.data.<class>(raw_dir)
    convert_dataset.py ogb ogbn-arxiv data/arxiv [--root DIR]        ogb.nodeproppred.NodePropPredDataset(name)
    convert_dataset.py yandex chameleon_filtered.npz data/chameleon  an archive of github.com/yandex-research/heterophilous-graphs

Only the package that is named is imported. Where there are several splits, all are written: dataset.split chooses one. From a program of your own: convert_dataset.save(folder, from_pyg(data)).
"""
import argparse
import importlib
import json
import os
import sys

try:
    import numpy as np
except ImportError:
    sys.exit("convert_dataset.py needs numpy: pip install numpy")


def array(value):
    """A tensor of any library, or anything numpy takes, as an array."""
    for step in ("detach", "cpu"):
        value = getattr(value, step)() if hasattr(value, step) else value
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def split_of(mask):
    """Node numbers of a boolean mask; several splits, one per column, stay a mask."""
    mask = array(mask).astype(bool)
    return np.flatnonzero(mask) if mask.ndim == 1 else mask


MASKS = (("train", "train_mask"), ("valid", "val_mask"), ("test", "test_mask"))


def from_types(counts, features, relations, labels, splits):
    """One graph of several node types, numbered one after another in the order of counts.

    counts {type: nodes}, features {type: rows or None}, relations [(head, tail, edges [2, E])], labels {type: labels} of one
    type, splits {"train": {type: nodes}, ...}
    """
    first = dict(zip(counts, np.cumsum([0] + list(counts.values()))))
    if len(labels) != 1:
        sys.exit(f"{len(labels)} node types have labels, expected one")
    (labelled, values), = labels.items()
    values = array(values)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    none, kind = (np.nan, np.float32) if values.ndim == 2 or values.dtype.kind == "f" else (-1, np.int64)
    rows = np.full((sum(counts.values()),) + values.shape[1:], none, kind)
    rows[first[labelled]:first[labelled] + len(values)] = values
    graph = {"labels": rows,
             "edges": np.concatenate([array(e) + [[first[h]], [first[t]]] for h, t, e in relations], 1),
             "edge_type": np.concatenate([np.full(array(e).shape[1], r) for r, (_, _, e) in enumerate(relations)]),
             "relations": len(relations),
             "node_type": np.repeat(np.arange(len(counts)), list(counts.values())),
             "type_features": {k: array(features[t]) for k, t in enumerate(counts) if features.get(t) is not None}}
    for name, nodes in splits.items():
        if labelled in nodes:
            split = array(nodes[labelled])
            graph[name] = split + first[labelled]
            if split.ndim == 2:
                graph[name] = np.zeros((sum(counts.values()), split.shape[1]), bool)
                graph[name][first[labelled]:first[labelled] + len(split)] = split
    return graph


def from_pyg(data):
    """torch_geometric.data.Data: x, edge_index, edge_type, edge_weight, y, train_mask, val_mask, test_mask; or HeteroData."""
    if getattr(data, "node_types", None) is not None:
        relations = [(e[0], e[2], data[e].edge_index) for e in data.edge_types]
        stores = {t: data[t] for t in data.node_types}
        splits = {name: {t: split_of(getattr(s, mask)) for t, s in stores.items() if getattr(s, mask, None) is not None}
                  for name, mask in MASKS}
        return from_types({t: int(s.num_nodes) for t, s in stores.items()}, {t: getattr(s, "x", None) for t, s in stores.items()},
                          relations, {t: s.y for t, s in stores.items() if getattr(s, "y", None) is not None}, splits)
    graph = {"edges": array(data.edge_index)}
    for name in ("edge_type", "edge_weight"):
        if getattr(data, name, None) is not None:
            graph[name] = array(getattr(data, name))
    if getattr(data, "y", None) is None and getattr(data, "train_idx", None) is not None:  # Entities: AIFB, MUTAG, ...
        graph["labels"] = np.full(int(data.num_nodes), -1, np.int64)
        for split in ("train", "test"):
            graph[split] = array(getattr(data, f"{split}_idx"))
            graph["labels"][graph[split]] = array(getattr(data, f"{split}_y"))
        return graph
    graph["labels"] = array(data.y)
    if getattr(data, "x", None) is not None:
        graph["features"] = array(data.x)
    for name, mask in MASKS:
        if getattr(data, mask, None) is not None:
            graph[name] = split_of(getattr(data, mask))
    return graph


def from_dgl(data):
    """dgl.DGLGraph: ndata feat, label, train_mask, val_mask, test_mask; edata weight or w; of one node type or several."""
    if len(getattr(data, "etypes", [None])) > 1:
        stores = {t: data.nodes[t].data for t in data.ntypes}
        relations = [(e[0], e[2], np.stack([array(end) for end in data.edges(etype=e)])) for e in data.canonical_etypes]
        splits = {name: {t: split_of(s[mask]) for t, s in stores.items() if mask in s} for name, mask in MASKS}
        return from_types({t: int(data.num_nodes(t)) for t in data.ntypes}, {t: s.get("feat") for t, s in stores.items()}, relations,
                          {t: s["label"] for t, s in stores.items() if "label" in s}, splits)
    source, destination = data.edges()
    graph = {"edges": np.stack([array(source), array(destination)]), "labels": array(data.ndata["label"])}
    for name in ("weight", "w"):
        if name in getattr(data, "edata", {}):
            graph["edge_weight"] = array(data.edata[name])
    if "feat" in data.ndata:
        graph["features"] = array(data.ndata["feat"])
    for name, mask in MASKS:
        if mask in data.ndata:
            graph[name] = split_of(data.ndata[mask])
    return graph


def from_ogb(dataset):
    """ogb.nodeproppred.NodePropPredDataset: (graph, labels) and get_idx_split()."""
    data, labels = dataset[0]
    if "edge_index" not in data:
        relations = [(e[0], e[2], edges) for e, edges in data["edge_index_dict"].items()]
        return from_types(data["num_nodes_dict"], data.get("node_feat_dict") or {}, relations, labels, dataset.get_idx_split())
    graph = {"edges": array(data["edge_index"]), "labels": array(labels)}
    if data.get("edge_weight") is not None:
        graph["edge_weight"] = array(data["edge_weight"])
    if data.get("node_feat") is not None:
        graph["features"] = array(data["node_feat"])
    for name, nodes in dataset.get_idx_split().items():
        graph[name] = array(nodes)
    return graph


def from_yandex(file):
    """An archive with edges [E, 2], node_features, node_labels, and train_masks, val_masks, test_masks [splits, N]; both directions."""
    edges = file["edges"].T
    edges = np.unique(np.concatenate([edges, edges[::-1]], 1), axis=1)
    graph = {"edges": edges, "features": file["node_features"], "labels": file["node_labels"]}
    for name, mask in MASKS:
        graph[name] = split_of(file[mask + "s"].T)
    return graph


def labels_of(labels, numbers):
    """Classes as int32 [N], -1 for none; several columns as float32 rows; numbers to be predicted as float32."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 or numbers:
        return labels.astype(np.float32)
    if labels.dtype.kind == "f" and (labels[~np.isnan(labels)] % 1 != 0).any():
        sys.exit("the labels are no whole numbers, expected classes; --numbers writes numbers to be predicted (train.loss = mse, mae, huber)")
    return np.where(np.isnan(labels), -1, labels).astype(np.int32) if labels.dtype.kind == "f" else labels.astype(np.int32)


def save(folder, graph, name=None, numbers=False):
    """Write the folder; ids are int32 where they fit, features stay float16 or become float32; types are int32."""
    labels = labels_of(graph["labels"], numbers)
    edges = graph["edges"]
    if edges.ndim != 2 or edges.shape[0] != 2:
        sys.exit(f"edges have shape {list(edges.shape)}, expected [2, any]")
    if edges.size and (edges.min() < 0 or edges.max() >= len(labels)):
        sys.exit(f"edges name nodes {edges.min()} to {edges.max()}, expected 0 to {len(labels) - 1}")
    if "train" not in graph:
        sys.exit("the dataset has no training nodes, expected a train mask or split")
    os.makedirs(folder, exist_ok=True)

    def put(file, values):
        np.save(os.path.join(folder, file), np.ascontiguousarray(values))

    put("edges.npy", edges.astype(np.int32 if len(labels) < 2**31 else np.int64))
    put("labels.npy", labels)
    meta = {"name": name or os.path.basename(os.path.normpath(folder)), "nodes": len(labels)}
    if "features" in graph:
        features = graph["features"]
        put("features.npy", features if features.dtype == np.float16 else features.astype(np.float32))
        meta["features"] = int(features.shape[1])
    if "edge_weight" in graph:
        weights = graph["edge_weight"]
        if weights.size != edges.shape[1]:
            sys.exit(f"edge weights have shape {list(weights.shape)}, expected one for each of {edges.shape[1]} edges")
        put("edge_weight.npy", weights.reshape(-1).astype(np.float32))
    for name in ("edge_type", "node_type"):
        if name in graph:
            put(f"{name}.npy", graph[name].astype(np.int32))
    if "relations" in graph:
        meta["relations"] = graph["relations"]
    for k, rows in graph.get("type_features", {}).items():
        put(f"feat_t{k}.npy", rows if rows.dtype == np.float16 else rows.astype(np.float32))
    for split, mask in MASKS:
        files = (f"{split}_idx.npy", f"{mask}.npy")
        for file in files:  # of an earlier conversion
            if os.path.exists(os.path.join(folder, file)):
                os.remove(os.path.join(folder, file))
        if split in graph:
            many = graph[split].ndim == 2
            put(files[many], graph[split].astype(bool if many else np.int64))
    with open(os.path.join(folder, "meta.json"), "w", encoding="utf-8") as file:
        json.dump(meta, file, indent=1)
        file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", choices=("pyg", "dgl", "ogb", "yandex"))
    parser.add_argument("dataset", help="class, or class:name; for ogb the data set's name, for yandex the file")
    parser.add_argument("folder", help="npy folder to write")
    parser.add_argument("--root", default="data/downloads", help="where the package keeps its downloads")
    parser.add_argument("--numbers", action="store_true", help="labels are numbers to be predicted, not classes")
    asked = parser.parse_args()
    kind, _, name = asked.dataset.partition(":")
    if asked.package == "pyg":
        kinds = importlib.import_module("torch_geometric.datasets")
        data = getattr(kinds, kind)(asked.root, name) if name else getattr(kinds, kind)(asked.root)
        graph = from_pyg(data[0])
    elif asked.package == "dgl":
        graph = from_dgl(getattr(importlib.import_module("dgl.data"), kind)(raw_dir=asked.root)[0])
    elif asked.package == "yandex":
        graph = from_yandex(np.load(asked.dataset))
    else:
        graph = from_ogb(importlib.import_module("ogb.nodeproppred").NodePropPredDataset(kind, root=asked.root))
    save(asked.folder, graph, numbers=asked.numbers)


if __name__ == "__main__":
    main()
