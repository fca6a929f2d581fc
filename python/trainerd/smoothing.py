"""Label propagation, and Correct & Smooth of a trained model's probabilities (docs/smoothing.md).

    y = trainerd.label_propagation("data/cora", layers=50, alpha=0.9)
    y = trainerd.correct_and_smooth(result)

Each is a job without epochs whose section [post] asks for it. The logits of its model, a GCN that learns nothing, are not used.
"""
from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .arrays import Array, np
from .data import graph_of, labels_of
from .errors import DataError, UsageError
from .graph import Graph, node_count, read_graph, split_nodes
from .names import CLASS_NAMES, classes_of, load_names
from .results import Result
from .sources import Source, is_in_memory
from .tensors import array_of
from .training import train as run_job

Folder = str | os.PathLike[str]

READING = ("split", "undirected", "self_loops", "edge_weights")  # keys of [dataset] that say how edges and splits are read


def label_propagation(data: Any, *, labels: Any = None, train: Any = None, split: int | None = None, layers: int = 50, alpha: float = 0.9,
                      normalize: bool = True, set: Mapping[str, Any] | None = None, program: Folder | None = None, **keys: Any) -> Array:
    """Propagate the training nodes' labels over the graph, without a model: float32 [N, C], rows in the order of the nodes.

        y = trainerd.label_propagation("data/cora", workers=2)
        y.argmax(1)                                        # each node's class

    Z <- clamp(alpha A Z + (1 - alpha) Y, 0, 1), `layers` times from Z = Y, the training nodes' labels as one-hot rows; other nodes' rows are
    0. A has 1 / sqrt(d_i d_j), or w / sqrt(d_i d_j) if edges have weights; no loops are added.

    data       a data folder's path, a graph of PyTorch Geometric or DGL, a dict of the arrays that `from_arrays` takes, or a dict: the
               [dataset] section of a job file
    labels     a class for each node, -1 for none; default: the data's
    train      nodes whose labels are known: their numbers, or a mask; default: the data's training nodes
    split      of several splits of the data; default: that of the [dataset] section, else the first one, 0
    normalize  False: A has the edges' weights as they are
    set, keys  keys of the jobs, as for `trainerd.train`: workers=2, parts=8, undirected="yes"; no result depends on workers
    program    path of the program trainerd; default: that in $TRAINERD_BIN, in this package, or on PATH
    """
    with _graph(data, labels, train, split) as section:
        post = {"label_propagation": True, "layers": layers, "alpha": alpha, "normalize": normalize}
        return _posted(section, post, {**keys, **(set or {})}, program)[0]


def correct_and_smooth(result: Any, data: Any = None, *, labels: Any = None, train: Any = None, split: int | None = None,
                       correct_layers: int = 50, correct_alpha: float = 1.0, smooth_layers: int = 50, smooth_alpha: float = 0.8,
                       autoscale: bool = True, scale: float = 1.0, normalize: bool = True, set: Mapping[str, Any] | None = None,
                       program: Folder | None = None, **keys: Any) -> Array:
    """Correct & Smooth (Huang et al., ICLR 2021): better probabilities from a model's own and the known labels, float32 [N, C].

        result = trainerd.train("data/cora", hidden=16)
        y = trainerd.correct_and_smooth(result, workers=2)

    Correct: the training nodes' errors, their labels less their probabilities, are propagated, scaled and added. Smooth: the training nodes'
    rows become their labels, and all rows are propagated as in `label_propagation`.

    result     of a training of classes, or its folder, or any model's probabilities [N, C]
    data       the graph, as for `label_propagation`; default: that of the result. Its split, and how its edges are read, are the result's
    labels     a class for each node, -1 for none; default: the data's
    train      nodes whose labels are known: their numbers, or a mask; default: the data's training nodes
    correct_layers, correct_alpha, smooth_layers, smooth_alpha   of the two propagations; layers = 0 leaves one out
    autoscale  True: errors are kept between -1 and 1, and each node's is scaled to the training nodes' mean size.
               False: the training nodes' errors stay as they are in each step, and all are multiplied by `scale`
    split, normalize, set, keys, program   as for `label_propagation`
    """
    post = {"correct_layers": correct_layers, "correct_alpha": correct_alpha, "smooth_layers": smooth_layers, "smooth_alpha": smooth_alpha,
            "autoscale": autoscale, "normalize": normalize, **({"scale": scale} if not autoscale else {})}
    return smoothed(result, data, post, {**keys, **(set or {})}, labels, train, split, program)[0]


def smoothed(result: Any, data: Any, post: Mapping[str, Any], keys: Mapping[str, Any], labels: Any = None, train: Any = None,
             split: int | None = None, program: Folder | None = None) -> tuple[Array, dict[str, float | None]]:
    """Smoothed rows, and their metrics by split: valid, test and others."""
    probabilities, found = _probabilities_of(result)
    metric = {} if found is None else {"train.metric": found.json.get("metric", "auto")}
    with _graph(data, labels, train, split, found, probabilities) as section:
        return _posted(section, post, {**metric, **keys}, program, probabilities)


# --- the graph, and what is known of its nodes ---


@contextmanager
def _graph(data: Any, labels: Any, train: Any, split: int | None, result: Result | None = None,
           probabilities: Array | None = None) -> Iterator[dict[str, Any]]:
    """The [dataset] section of the data, by default of the result's, with these labels and training nodes. They are read and checked here
    where they are not the job's to read."""
    if data is None and result is None:
        raise UsageError("probabilities have no graph of their own, expected data=")
    data = result.data if data is None and result is not None else data
    keys = {} if result is None else result.json["job"]["dataset"]
    given = {} if split is None else {"split": split}
    names = None if result is None else result.class_names()
    if not is_in_memory(data):
        with Source(data) as source:
            section = {**{key: keys[key] for key in READING if key in keys}, **source.section, **given}
        if labels is None and train is None:
            yield section
            return
        if not section.get("path"):
            raise UsageError("labels= and train= are of a graph in memory or an npy folder, and the [dataset] section has no path")
        path = os.path.expanduser(section["path"])
        graph, names = read_graph(path), names or load_names(path, CLASS_NAMES)
    else:
        graph, section = graph_of(data), {**{key: keys[key] for key in READING if key in keys}, **given}
    known = _known(graph, labels, train, section.pop("split", 0), names, probabilities)
    with Source(known[0], classes=known[1]) as source:
        yield {**{key: value for key, value in section.items() if key in READING}, **source.section}


def _known(graph: Graph, labels: Any, train: Any, split: int, names: list[str] | None, probabilities: Array | None) -> tuple[Graph, list[str]]:
    """The edges with the training nodes' labels alone, and names of the classes."""
    given = graph.labels if labels is None else labels_of(labels)
    if given is None:
        raise DataError("the graph has no labels, expected labels=: a class for each node, -1 for none")
    numbers, names = classes_of(given, names)
    classes = _classes(numbers)
    chosen = graph.splits.get("train") if train is None else array_of(train)
    if chosen is None:
        raise DataError("the graph has no training nodes, expected train=: their numbers, or a mask")
    n = node_count(graph, len(classes))
    if len(classes) != n:
        raise DataError(f"there are labels of {len(classes)} nodes, and the graph has {n}")
    if probabilities is not None and len(probabilities) != n:
        raise DataError(f"the probabilities have {len(probabilities)} rows, and the graph has {n} nodes: is it the graph of the result?")
    known = np.unique(split_nodes(chosen, n, "train", split))
    known = known[classes[known] >= 0]
    if not len(known):
        raise DataError("no training node has a label")
    n_class = int(classes.max()) + 1 if names is None else len(names)
    if probabilities is not None:
        n_class = probabilities.shape[1]
        if classes[known].max() >= n_class:
            raise DataError(f"a training node has the class {classes[known].max()}, and the probabilities have {n_class} columns")
    only = np.full(n, -1)
    only[known] = classes[known]
    return Graph(graph.edges, only, edge_weight=graph.edge_weight, splits={"train": known}), [str(k) for k in range(n_class)]


def _classes(labels: Array) -> Array:
    """One class for each node, int64 [N], -1 for none."""
    values = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if values.ndim == 2:
        raise DataError(f"labels have shape {list(values.shape)}, several for each node: expected one class for each node")
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise DataError(f"labels have shape {list(values.shape)} and type {values.dtype}, expected a class for each node")
    known = np.where(np.isnan(values), -1, values) if values.dtype.kind == "f" else values
    if (known % 1 != 0).any() or (known < -1).any():
        raise DataError("labels are numbers (regression), expected classes from 0, -1 for none")
    return known.astype(np.int64)


def _probabilities_of(result: Any) -> tuple[Array, Result | None]:
    """float32 [N, C], and the result that has them."""
    if not isinstance(result, (Result, str, os.PathLike)):
        given = array_of(result)
        if given.ndim != 2 or given.dtype.kind != "f" or not np.isfinite(given).all():
            raise DataError(f"the probabilities have shape {list(given.shape)} and type {given.dtype}, expected finite numbers [nodes, classes]")
        return given.astype(np.float32), None
    found = result if isinstance(result, Result) else Result(result)
    if found.json.get("dataset", {}).get("multi_label"):
        raise DataError(f"'{found.folder}' is of several labels per node, expected a training of classes")
    return found.probabilities(), found


# --- the job ---


def _posted(section: Mapping[str, Any], post: Mapping[str, Any], keys: Mapping[str, Any], program: Folder | None,
            probabilities: Array | None = None) -> tuple[Array, dict[str, float | None]]:
    """The rows of a propagation, and their metrics by split. Of a generator's graph, labels depend on the number of features."""
    method = "label_propagation" if probabilities is None else "correct_and_smooth"
    made = section if section.get("generator", "none") != "none" else {**section, "features": "degree"}
    with tempfile.TemporaryDirectory(prefix="trainerd-smooth-") as folder:
        asked = {**post, method: True}
        if probabilities is not None:
            asked["probabilities_file"] = Path(folder, "probabilities.npy")
            np.save(asked["probabilities_file"], probabilities)
        done = run_job({**made, "edge_features": "auto"}, output=Path(folder, "out"), progress=False, program=program,
                       set={"name": "propagation", "model": {"kind": "gcn", "layers": 1}, **keys, "train.epochs": 0, "post": asked})
        of = done.json["post"][method]
        return done.array(of["file"]), of["metrics"]
