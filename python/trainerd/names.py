"""Names of nodes and classes as numbers, and their files in a data folder (docs/data.md)."""
from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Integral, Number
from pathlib import Path
from typing import Any

from .arrays import Array, load_array, np
from .errors import DataError
from .tensors import array_of

# Files of a data folder: node_names.npy, class_names.json, ...
NODE_NAMES, CLASS_NAMES, RELATION_NAMES, TYPE_NAMES = "node_names", "class_names", "relation_names", "type_names"


Place = Callable[[int], str]  # a row, for messages
ROW: Place = "row {}".format


def is_missing(value: Any) -> bool:
    """None, NaN, NaT, pandas.NA and empty texts."""
    return (value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, str) and not value)
            or (isinstance(value, (Number, np.datetime64)) and bool(value != value)))


def objects_of(values: Iterable[Any]) -> Array:
    """Any objects as an array of one dimension, each as it is."""
    found: Array = np.fromiter(values, object)
    return found


def _is_whole(value: Any) -> bool:
    is_number = isinstance(value, (Integral, float, Decimal)) and not isinstance(value, bool)
    return is_number and bool(value % 1 == 0 and abs(value) < 2**63)


def _plain(values: Any, what: str, place: Place = ROW) -> Array:
    """Names as an array of whole numbers, or of texts if one of them is no whole number."""
    array = array_of(values) if hasattr(values, "__array__") or hasattr(values, "numpy") else objects_of(values)
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "U" and (array != "").all():
        return array
    found: list[Any] = array.reshape(-1).tolist()
    missing = next((row for row, value in enumerate(found) if is_missing(value)), None)
    if missing is not None:
        raise DataError(f"{what}: {place(missing)} has none, expected one in each row")
    if all(map(_is_whole, found)):
        return np.array([int(value) for value in found], np.int64).reshape(array.shape)
    return np.array([str(value) for value in found], str).reshape(array.shape)


def names_of(values: Any, what: str, place: Place = ROW) -> Array:
    """Names of nodes in the order of their numbers, without repeats: int64, or texts if one is no whole number."""
    names = _plain(values, what, place)
    if names.ndim != 1:
        raise DataError(f"{what} have shape {list(names.shape)}, expected one for each node")
    order = np.argsort(names, kind="stable")
    again = np.flatnonzero(names[order][1:] == names[order][:-1])
    if again.size:
        first, second = order[again[0]], order[again[0] + 1]
        raise DataError(f"{what}: {names[first].item()!r} is there twice, in {place(first)} and in {place(second)}")
    return names


SPAN_MOST = 8  # places of the least to the greatest name, for each name


class Numbering:
    """Nodes' names, whose numbers are asked for often: they are put in order once."""

    def __init__(self, names: Array) -> None:
        self.names, n = names, len(names)
        self.order = np.argsort(names, kind="stable")
        self.least = int(names.min()) if n and names.dtype.kind == "i" else 0
        span = int(names.max()) - self.least + 1 if n and names.dtype.kind == "i" else 0
        self.places = np.zeros(span if span <= SPAN_MOST * n else 0, np.int64)  # numbers by whole name, where names are close together
        if len(self.places):
            self.places[names - self.least] = np.arange(n)

    def of(self, values: Any, what: str, place: Place = ROW) -> Array:
        """Names as numbers of nodes, in the shape of `values`. Numbers and texts are compared as texts."""
        wanted = _plain(values, what, place)
        if wanted.dtype.kind != self.names.dtype.kind:
            wanted = wanted.astype(str)
            if self.names.dtype.kind != "U":
                return Numbering(self.names.astype(str)).of(wanted, what, place)
        n = len(self.names)
        numbers: Array
        if len(self.places):
            numbers = self.places[np.clip(wanted, self.least, self.least + len(self.places) - 1) - self.least]
        else:
            places = np.minimum(np.searchsorted(self.names, wanted, sorter=self.order), max(n - 1, 0))
            numbers = self.order[places] if n else np.zeros(wanted.shape, np.int64)
        wrong = np.argwhere(self.names[numbers] != wanted) if n else np.argwhere(np.ones(wanted.shape, bool))
        if wrong.size:
            at = tuple(wrong[0].tolist())
            raise DataError(f"{what}: {wanted[at].item()!r} ({place(at[-1])}) is not the name of a node")
        return numbers


def numbers_of(values: Any, names: Array, what: str) -> Array:
    """Names as numbers of nodes, as Numbering has them."""
    return Numbering(names).of(values, what)


def _numbers(labels: list[Any]) -> Array:
    """Labels other than texts as an array, NaN for unlabelled nodes."""
    try:
        return np.array([np.nan if is_missing(label) else label for label in labels], np.float64)
    except (TypeError, ValueError):
        wrong = next(label for label in labels if not isinstance(label, (int, float)) and not is_missing(label))
        raise DataError(f"the label {wrong!r} is a {type(wrong).__name__}, expected a number or a text") from None


def classes_of(labels: Array, classes: Sequence[str] | None) -> tuple[Array, list[str] | None]:
    """Text labels as numbers of classes, -1 for unlabelled nodes, with the classes' names: `classes`, or their
    alphabetical order. Labels that are numbers stay as they are."""
    if labels.dtype.kind not in "OUS" or labels.ndim != 1:
        return labels, None if classes is None else list(classes)
    found: list[Any] = labels.astype(str).tolist() if labels.dtype.kind == "S" else labels.tolist()
    texts = sorted({label for label in found if isinstance(label, str) and label})
    if not texts:
        return _numbers(found), None if classes is None else list(classes)
    wrong = [label for label in found if not isinstance(label, str) and not is_missing(label)]
    if wrong:
        raise DataError(f"labels are texts ({texts[0]!r}) and others ({wrong[0]!r}), expected one kind")
    names = texts if classes is None else list(classes)
    number = {name: k for k, name in enumerate(names)}
    unknown = [text for text in texts if text not in number]
    if unknown:
        raise DataError(f"the label {unknown[0]!r} is none of the classes {', '.join(map(repr, names))}")
    return np.array([-1 if is_missing(label) else number[label] for label in found], np.int64), names


# --- of a data folder ---

def load_names(folder: str | os.PathLike[str], file: str) -> list[str] | None:
    """A list of names in JSON; None: the folder has none."""
    path = Path(folder, f"{file}.json")
    if not path.is_file():
        return None
    try:
        names = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"'{path}': {error}, expected a list of texts") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"'{path}': expected a list of texts")
    return names


def load_node_names(folder: str | os.PathLike[str], n: int) -> Array | None:
    """The names of n nodes; None: the folder has none."""
    path = Path(folder, f"{NODE_NAMES}.npy")
    if not path.is_file():
        return None
    names = load_array(path)
    if names.shape != (n,):
        raise DataError(f"'{path}' has shape {list(names.shape)}, expected [{n}]: a name for each node")
    return names
