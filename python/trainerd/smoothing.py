"""Label propagation, and Correct & Smooth of a trained model's probabilities (docs/smoothing.md).

    y = trainerd.label_propagation("data/cora", layers=50, alpha=0.9)
    y = trainerd.correct_and_smooth(result)

trainerd propagates: each propagation is a job whose model is a vertex program without weights, whose features are the rows to propagate,
and whose logits are the result. Only what one node does by itself between two propagations is done here.
"""
from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .arrays import Array, np
from .data import graph_of, labels_of
from .errors import DataError, UsageError
from .graph import Graph, node_count, read_graph, split_nodes
from .names import CLASS_NAMES, classes_of, load_names
from .results import Result
from .sources import Source
from .tensors import array_of
from .training import train as run_job

Folder = str | os.PathLike[str]

LAYERS_MOST = 512  # such a program has less than the 4 096 operations that a program may have
SCALE_MOST = 1000.0  # of a node's error by autoscale, above which it is 1, as in PyTorch Geometric
READING = ("undirected", "self_loops", "edge_weights")  # keys of [dataset] that say how edges are read

# Z <- bound(alpha A Z + (1 - alpha) Y), where A has w / sqrt(d_i d_j), or w. bound(Z) is Z between low and high; or, if `fixed`, Y for the
# training nodes and Z for the others, for which the features have a last column of 1, and Y is 0.
PROPAGATION = """\
def model(v, classes, layers, alpha, by_degree, fixed, low, high):
    y = v.x[:, 0:classes]
    start, free = (1 - alpha) * y, v.x[:, classes:v.x.width] if fixed else 1
    v.z = y
    for i in range(layers):
        z = alpha * sum((e.norm if by_degree else e.weight) * e.src.z for e in v.in_edges) + start
        v.z = z * free + y if fixed else clamp(z, low, high)
    return v.z
"""


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
    nodes = _nodes_of(data, labels, train, split)
    jobs = _Jobs(nodes, normalize, {**keys, **(set or {})}, program)
    return jobs.propagate(nodes.known_rows(np.zeros((nodes.n, nodes.n_class), np.float32)), "layers", layers, alpha)


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
    autoscale  True: errors are kept between -1 and 1, and each node's is scaled to the training nodes' mean size
               False: the training nodes' errors stay as they are in each step, and all are multiplied by `scale`
    split, normalize, set, keys, program   as for `label_propagation`
    """
    probabilities, found = _probabilities_of(result)
    nodes = _nodes_of(data, labels, train, split, found, probabilities)
    jobs = _Jobs(nodes, normalize, {**keys, **(set or {})}, program)
    if not np.isfinite(scale):
        raise UsageError(f"scale is {scale}, expected a finite number")
    y: Array = probabilities
    if correct_layers != 0:
        errors = nodes.known_rows(y) - y
        if autoscale:
            smoothed = jobs.propagate(errors, "correct_layers", correct_layers, correct_alpha, low=-1.0)
            y = y + _scales(np.abs(errors).sum(1, dtype=np.float64).sum() / len(nodes.train), smoothed) * smoothed
        else:
            y = y + np.float32(scale) * jobs.propagate(errors, "correct_layers", correct_layers, correct_alpha, fixed=True)
    y = nodes.known_rows(y)
    return y if smooth_layers == 0 else jobs.propagate(y, "smooth_layers", smooth_layers, smooth_alpha)


def accuracies(rows: Array, result: Result, data: Folder | None = None) -> dict[str, float]:
    """The share of the labelled nodes of each split whose greatest number is at their class. data: a folder; default: the result's graph."""
    graph, section, _ = _load(data, result)
    if graph.labels is None:
        return {}
    classes = _classes(graph.labels)
    found = {}
    for name, values in graph.splits.items():
        nodes = split_nodes(values, len(classes), name, section["split"])
        nodes = nodes[classes[nodes] >= 0]
        if len(nodes):
            found[name] = float((rows[nodes].argmax(1) == classes[nodes]).mean())
    return found


def _scales(mean: float, errors: Array) -> Array:
    """Each node's factor, which makes its errors' sum the training nodes' mean; 1 where that is no factor. float32 [N, 1]"""
    sums = np.abs(errors).sum(1, keepdims=True, dtype=np.float64)
    scales = np.full_like(sums, SCALE_MOST + 1)
    np.divide(mean, sums, out=scales, where=sums > 0)
    return np.where(scales > SCALE_MOST, 1.0, scales).astype(np.float32)


# --- the nodes, and what is known of them ---


@dataclasses.dataclass
class _Nodes:
    """Nodes of a graph, and their classes as far as they are known: of the training nodes, which all have one."""

    graph: Graph
    reading: dict[str, Any]  # keys of [dataset]: how the edges are read
    train: Array  # their numbers, ascending
    classes: Array  # theirs, in this order
    n: int
    n_class: int

    def known_rows(self, rows: Array) -> Array:
        """A copy of the rows, with the training nodes' labels in their place as one-hot rows."""
        known: Array = rows.astype(np.float32)
        known[self.train] = np.arange(self.n_class) == self.classes[:, None]
        return known


def _load(data: Any, result: Result | None) -> tuple[Graph, dict[str, Any], list[str] | None]:
    """The edges, labels and splits of the data, by default of the result's; keys of [dataset] that say how to read them; the classes'
    names."""
    if data is None and result is None:
        raise UsageError("probabilities have no graph of their own, expected data=")
    data = result.data if data is None and result is not None else data
    keys = {} if result is None else result.json["job"]["dataset"]
    names = None if result is None else result.class_names()
    section = {"path": data} if isinstance(data, (str, os.PathLike)) else data
    if isinstance(section, Mapping) and "edges" not in section:
        if not section.get("path"):
            raise UsageError("data: the [dataset] section has no path, expected that of an npy folder; the graph of a generator has no files")
        keys = {**keys, **section}
        path = os.path.expanduser(section["path"])
        graph, names = read_graph(path), names or load_names(path, CLASS_NAMES)
    else:
        graph = graph_of(section)
    return graph, {"split": 0, **{key: keys[key] for key in ("split", *READING) if key in keys}}, names


def _nodes_of(data: Any, labels: Any, train: Any, split: int | None, result: Result | None = None, probabilities: Array | None = None) -> _Nodes:
    graph, section, names = _load(data, result)
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
    known = np.unique(split_nodes(chosen, n, "train", section["split"] if split is None else split))
    known = known[classes[known] >= 0]
    if not len(known):
        raise DataError("no training node has a label")
    n_class = int(classes.max()) + 1 if names is None else len(names)
    if probabilities is not None:
        n_class = probabilities.shape[1]
        if classes[known].max() >= n_class:
            raise DataError(f"a training node has the class {classes[known].max()}, and the probabilities have {n_class} columns")
    return _Nodes(graph, {f"dataset.{key}": section[key] for key in READING if key in section}, known, classes[known], n, n_class)


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


# --- the jobs ---


@dataclasses.dataclass
class _Jobs:
    """Propagations on one graph, each a job."""

    nodes: _Nodes
    normalize: bool
    keys: dict[str, Any]
    program: Folder | None

    def propagate(self, rows: Array, what: str, layers: int, alpha: float, low: float = 0.0, high: float = 1.0, fixed: bool = False) -> Array:
        """`PROPAGATION` of the rows; fixed: those of the training nodes stay."""
        if not 1 <= layers <= LAYERS_MOST:
            raise UsageError(f"{what} is {layers}, expected 1 to {LAYERS_MOST}")
        if not 0 <= alpha <= 1:
            raise UsageError(f"{what.replace('layers', 'alpha') if '_' in what else 'alpha'} is {alpha}, expected 0 to 1")
        nodes, start = self.nodes, rows
        if fixed:
            free = np.ones((nodes.n, 1), np.float32)
            free[nodes.train] = 0
            start = np.concatenate([rows, free], 1)
        labels = np.full(nodes.n, -1)
        labels[nodes.train] = nodes.classes
        graph = Graph(nodes.graph.edges, labels, start, nodes.graph.edge_weight, splits={"train": nodes.train})
        args = {"layers": layers, "alpha": alpha, "by_degree": self.normalize, "fixed": fixed, "low": low, "high": high}
        keys = {"name": "propagation", **nodes.reading, **self.keys, "train.epochs": 0,
                "model": {"kind": "program", "program": PROPAGATION, "args": args}}
        with (tempfile.TemporaryDirectory(prefix="trainerd-smooth-") as folder,
              Source(graph, classes=[str(k) for k in range(nodes.n_class)]) as source):
            done = run_job(source.section, output=Path(folder, "out"), progress=False, program=self.program, set=keys)
            return done.logits()
