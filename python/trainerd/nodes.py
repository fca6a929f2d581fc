"""A model's predictions as columns, with the names of the data folder: ids, classes, probabilities."""
from __future__ import annotations

import os
from typing import Any

from .arrays import Array, load_array, np
from .graph import Graph
from .names import TYPE_NAMES, load_names, load_node_names


def _names_in(source: str | Graph, n: int) -> tuple[Array | None, Array | None, list[str] | None]:
    """Names of the nodes, their types, and the types' names; None: a folder or a graph has none."""
    if isinstance(source, Graph):
        return source.node_names, source.node_type, source.type_names
    path = os.path.join(source, "node_type.npy")
    return load_node_names(source, n), load_array(path) if os.path.isfile(path) else None, load_names(source, TYPE_NAMES)


def _types_of(types: Array, names: list[str], n: int) -> dict[str, Array]:
    """Each node's type by its name, and its number among those of its type."""
    order = np.argsort(types, kind="stable")
    place = np.empty(n, np.int64)
    place[order] = np.arange(n) - np.searchsorted(types[order], types[order])
    return {"id": place, "type": np.array(names)[types]}


def probabilities_of(logits: Array, several: bool) -> Array:
    """In float64: with several labels one for each, else for classes, with the sum 1."""
    x = logits.astype(np.float64)
    powers = np.exp(np.minimum(x, 0)) if several else np.exp(x - x.max(1, keepdims=True))
    probabilities: Array = powers / (1 + np.exp(-np.abs(x)) if several else powers.sum(1, keepdims=True))
    return probabilities


def node_columns(logits: Array, dataset: dict[str, Any], source: str | Graph | None) -> dict[str, Array]:
    """Columns with a value for each node: see `Result.table`. dataset: of result.json; source: the data folder, or the
    graph in memory; None: missing."""
    n, n_class = logits.shape
    names = dataset.get("class_names") or [str(k) for k in range(n_class)]
    ids, types, type_names = (None, None, None) if source is None else _names_in(source, n)
    columns: dict[str, Array] = {"id": np.arange(n) if ids is None else ids}
    if ids is None and types is not None and type_names is not None:
        columns |= _types_of(types, type_names, n)
    if "outputs" in dataset:
        return columns | {"value" if n_class == 1 else f"value_{name}": logits[:, k] for k, name in enumerate(names)}
    several = bool(dataset.get("multi_label"))
    probabilities = probabilities_of(logits, several)
    if several:
        columns |= {name: logits[:, k] > 0 for k, name in enumerate(names)}
    else:
        best = logits.argmax(1)
        columns |= {"class": np.array(names)[best], "probability": probabilities[np.arange(n), best]}
    return columns | {f"p_{name}": probabilities[:, k] for k, name in enumerate(names)}


def partner_columns(nodes: Array, partners: Array, scores: Array, n: int, source: str | None) -> dict[str, Array]:
    """Columns with a value for each partner of some of n nodes: id, partner, rank from 1, score. source: the data folder, or None."""
    there = partners >= 0
    row, rank = np.nonzero(there)
    ids = None if source is None else load_node_names(source, n)
    columns = {"id": nodes[row], "partner": partners[there]}
    if ids is not None:
        columns = {name: ids[numbers] for name, numbers in columns.items()}
    return columns | {"rank": rank + 1, "score": scores[there]}
