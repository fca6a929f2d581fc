"""A model's predictions as columns, with the names of the data folder: ids, classes, probabilities."""
from __future__ import annotations

import os
from typing import Any

from .arrays import Array, load_array, np
from .names import TYPE_NAMES, load_names, load_node_names


def _types_of(folder: str, n: int) -> dict[str, Array]:
    """Each node's type by its name, and its number among those of its type."""
    names, path = load_names(folder, TYPE_NAMES), os.path.join(folder, "node_type.npy")
    if names is None or not os.path.isfile(path):
        return {}
    types = load_array(path)
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


def node_columns(logits: Array, dataset: dict[str, Any], folder: str | None) -> dict[str, Array]:
    """Columns with a value for each node: see `Result.table`. dataset: of result.json; folder: the data folder,
    None: missing."""
    n, n_class = logits.shape
    names = dataset.get("class_names") or [str(k) for k in range(n_class)]
    ids = None if folder is None else load_node_names(folder, n)
    columns: dict[str, Array] = {"id": np.arange(n) if ids is None else ids}
    if ids is None and folder is not None:
        columns |= _types_of(folder, n)
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
