"""Graphs in two tables, of edges and of nodes, as npy folders: DataFrames of pandas and CSV files (docs/data.md).

    from_pandas(edges, nodes, "data/mine", label="club", draw=(0.6, 0.2, 0.2))

Nodes are numbered by their rows. pandas is not imported: a table is any object with named columns.
"""
from __future__ import annotations

import csv
import gzip
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, Unpack

from .arrays import Array, np
from .errors import DataError, MissingInput, UsageError
from .graph import Graph, Options, write_graph
from .names import Numbering, Place, is_missing, names_of, objects_of
from .tensors import Entries, Rows, array_of, rows_of

Folder = str | os.PathLike[str]
SPLIT_OF = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


class Columns(TypedDict, total=False):
    """The names of the columns.

    source, target  of the edges: the nodes' names ("source", "target")
    id              of the nodes: whole numbers or texts ("id")
    label           of the nodes: classes, as numbers or texts, or regression targets ("label"); a list of columns:
                    several labels. An empty value marks an unlabelled node
    features        of the nodes: a list; default: all other columns that are numbers
    one_hot         of the nodes: a list of columns; each of their values becomes a feature (texts, or the id for
                    nodes without other features)
    split           of the nodes: 'train', 'valid', 'test' or nothing (default: "split", if that column exists)
    weight          of the edges
    relation        of the edges: its texts or numbers are relations in their order, for model.kind = "rgcn"
    """

    source: str
    target: str
    id: str
    label: str | Sequence[str]
    features: Sequence[str] | None
    one_hot: Sequence[str]
    split: str | None
    weight: str | None
    relation: str | None


class TableOptions(Columns, Options, total=False):
    """Columns, and the options of every conversion."""


class Columned(dict[str, Array]):
    """Columns by their names, as files have them. files: of its rows, one after another; first: how many rows of the first file come
    before them."""

    def __init__(self, columns: Mapping[str, Array], files: Sequence[tuple[Folder, int]], first: int = 0) -> None:
        super().__init__(columns)
        self.files, self.first = files, first

    def place(self, row: int) -> str:
        """A row, for messages."""
        row += self.first
        for path, n in self.files[:-1]:
            if row < n:
                return f"row {row} of '{os.fspath(path)}'"
            row -= n
        return f"row {row} of '{os.fspath(self.files[-1][0])}'"


def _is_number(value: Any) -> bool:
    return is_missing(value) or isinstance(value, (int, float)) or (hasattr(value, "__float__") and not hasattr(value, "__len__"))


def _is_vector(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0


def _vectors(values: list[Any], *, missing: bool) -> Array | int:
    """Vectors of numbers as rows of one length, of NaN for `missing` ones; or the row of the first that is none."""
    length = next((len(value) for value in values if _is_vector(value)), 0)
    for row, value in enumerate(values):
        if not (missing and is_missing(value)) and not (_is_vector(value) and len(value) == length and all(_is_number(x) and not is_missing(x)
                                                                                                           for x in value)):
            return row
    return np.array([[np.nan] * length if is_missing(value) else [float(x) for x in value] for value in values], np.float64).reshape(-1, length)


class _Table:
    """A DataFrame, or any object with named columns: that of the nodes, or one of edges."""

    def __init__(self, table: Any, what: str, first: int = 0) -> None:
        self.table, self.what = table, what
        self.names: list[str] = list(getattr(table, "columns", table))
        self.place: Place = table.place if isinstance(table, Columned) else lambda row: f"row {first + row}"
        again = next((name for k, name in enumerate(self.names) if name in self.names[:k]), None)
        if again is not None:
            raise DataError(f"the {what} have the column {again!r} twice, expected each name once")

    def said(self, name: str) -> str:
        return f"column {name!r} of the {self.what}"

    def wrong(self, name: str, row: int, value: Any, expected: str) -> DataError:
        text = " ".join(str(value).split())
        is_now = "is empty" if is_missing(value) else f"is {text[:40] + '…' if len(text) > 40 else text}" if _is_vector(value) else f"is {text!r}"
        return DataError(f"{self.said(name)}: {self.place(row)} {is_now}, expected {expected}")

    def column(self, name: str, key: str) -> Array:
        """A column as an array of any type."""
        if name not in self.names:
            shown = ", ".join(map(repr, self.names))
            raise DataError(f"the {self.what} have no column {name!r} for {key} (--{key}), expected one of {shown}")
        column = self.table[name]
        values = array_of(column.to_numpy() if hasattr(column, "to_numpy") else column)
        return values if values.ndim == 1 else objects_of(values)  # vectors of one length, of Polars' Array

    def scalars(self, name: str, key: str) -> Array:
        """A column of numbers, texts and the like: no lists."""
        column = self.column(name, key)
        for row, value in enumerate(column if column.dtype.kind == "O" else ()):
            if hasattr(value, "__len__") and not isinstance(value, (str, bytes)):
                raise self.wrong(name, row, value, "a number or a text")
        return column

    def numbers(self, name: str, key: str, *, missing: bool = False) -> Array:
        """A column of numbers as float64; NaN for `missing` values, if allowed."""
        column = self.column(name, key)
        if column.dtype.kind in "iub" or (column.dtype.kind == "f" and (missing or not np.isnan(column).any())):
            return column.astype(np.float64)
        values = column.astype(object)
        for row, value in enumerate(values):
            if (is_missing(value) and not missing) or not _is_number(value) or column.dtype.kind in "mM":
                raise self.wrong(name, row, column[row], "a number")
        return np.array([np.nan if is_missing(value) else float(value) for value in values], np.float64)

    def rows(self, name: str, key: str, *, missing: bool = False) -> Array:
        """A column of numbers, or of vectors of one length, as rows."""
        column = self.column(name, key)
        if column.dtype.kind != "O" or not any(map(_is_vector, column)):
            return self.numbers(name, key, missing=missing)[:, None]
        values = column.tolist()
        rows = _vectors(values, missing=missing)
        if isinstance(rows, int):
            length = next(len(value) for value in values if _is_vector(value))
            raise self.wrong(name, rows, values[rows], f"{length} numbers, as many as in the other rows")
        return rows

    def has_rows(self, name: str, key: str) -> bool:
        """Are all values of a column numbers or missing, or vectors of one length? Times are no numbers."""
        column = self.column(name, key)
        if column.dtype.kind != "O" or not any(map(_is_vector, column)):
            return column.dtype.kind in "iufb" or (column.dtype.kind not in "mM" and all(map(_is_number, column.tolist())))
        return not isinstance(_vectors(column.tolist(), missing=True), int)


def _dense_of(nodes: _Table, n: int, given: Sequence[str] | None, others: set[str]) -> Array:
    """Columns of numbers, side by side; by default all columns without another purpose."""
    names = list(given) if given is not None else [name for name in nodes.names if name not in others]
    left_out = [name for name in names if given is None and not nodes.has_rows(name, "features")]
    if left_out:
        warnings.warn(f"columns of the nodes that are no numbers are left out: {', '.join(map(repr, left_out))}; one_hot=[...] (--one-hot) "
                      "makes a feature of each value, and lists of one length are features", stacklevel=5)
    found = [nodes.rows(name, "features").astype(np.float32) for name in names if name not in left_out]
    return np.concatenate(found, 1) if found else np.zeros((n, 0), np.float32)


def _features_of(nodes: _Table, n: int, columns: Columns, others: set[str]) -> Array | Rows | None:
    """Numbers, then a feature for each value of the one-hot columns; None: no features."""
    one_hot = list(columns.get("one_hot", []))
    dense = _dense_of(nodes, n, columns.get("features"), others | set(one_hot))
    if not one_hot:
        return dense if dense.shape[1] else None
    (rows, places), width = np.nonzero(dense), dense.shape[1]
    entries = [(rows, places, dense[rows, places])]
    for name in one_hot:
        values = nodes.scalars(name, "one-hot").tolist()
        number = {value: k for k, value in enumerate(dict.fromkeys(value for value in values if not is_missing(value)))}
        there = np.array([row for row, value in enumerate(values) if not is_missing(value)], np.int64)
        entries.append((there, np.array([width + number[values[row]] for row in there], np.int64), np.ones(len(there), np.float32)))
        width += len(number)
    rows, places, weights = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return rows_of(Entries(rows, places, weights, (n, width)))


def _splits_of(nodes: _Table, name: str) -> dict[str, Array]:
    values = nodes.scalars(name, "split").tolist()
    wrong = [(row, value) for row, value in enumerate(values) if not is_missing(value) and value not in SPLIT_OF]
    if wrong:
        raise nodes.wrong(name, *wrong[0], "'train', 'valid', 'test' or nothing")
    of = np.array([SPLIT_OF.get(value, "") if isinstance(value, str) else "" for value in values], str)
    return {split: np.flatnonzero(of == split) for split in ("train", "valid", "test")}


def _labels_of(nodes: _Table, label: str | Sequence[str], may_lack: bool) -> Array | None:
    """One column, also of lists, or several side by side; None: there are none, and they may be missing."""
    names = [label] if isinstance(label, str) else list(label)
    if may_lack and names[0] not in nodes.names:
        return None
    column = nodes.column(names[0], "label")
    if not isinstance(label, str) or (column.dtype.kind == "O" and any(map(_is_vector, column))):
        labels = np.concatenate([nodes.rows(name, "label", missing=True) for name in names], 1)
    else:
        labels = nodes.scalars(label, "label")
        if labels.dtype.kind in "mM" and len(labels):
            raise nodes.wrong(label, 0, labels[0], "a class: a number or a text")
    if labels.size and not may_lack and all(map(is_missing, labels.reshape(-1).tolist())):
        raise DataError(f"{nodes.said(names[0])}: no row has a label; predict_only (--predict-only) writes a graph for predictions, or for links")
    return labels


ENDS = ("source", "target")


class _EdgeRows:
    """A graph's edges, a table of some of them after another."""

    def __init__(self, graph: Graph, columns: Columns, n: int) -> None:
        names = graph.node_names if graph.node_names is not None else np.zeros(0)
        self.graph, self.columns, self.nodes, self.first, self.relations = graph, columns, Numbering(names), 0, dict[Any, int]()
        graph.edges = np.empty((2, n), np.int32 if len(names) < 2**31 else np.int64)
        graph.edge_weight = np.empty(n, np.float32) if columns.get("weight") is not None else None
        graph.edge_type = np.empty(n, np.int32) if columns.get("relation") is not None else None

    def add(self, edges: Any) -> None:
        columns, graph, end, table = self.columns, self.graph, self.first, _Table(edges, "edges", self.first)
        for row, key in enumerate(ENDS):
            name = str(columns.get(key, key))
            numbers = self.nodes.of(table.scalars(name, key), table.said(name), table.place)
            end = self.first + len(numbers)
            graph.edges[row, self.first:end] = numbers
        weight, relation = columns.get("weight"), columns.get("relation")
        if weight is not None and graph.edge_weight is not None:
            graph.edge_weight[self.first:end] = table.numbers(weight, "weight")
        if relation is not None and graph.edge_type is not None:
            graph.edge_type[self.first:end] = self._relations(table, relation)
        self.first = end

    def _relations(self, table: _Table, name: str) -> list[int]:
        """Numbers in the order in which relations come."""
        values = table.scalars(name, "relation").tolist()
        empty = next((row for row, value in enumerate(values) if is_missing(value)), None)
        if empty is not None:
            raise table.wrong(name, empty, None, "a relation")
        return [self.relations.setdefault(value, len(self.relations)) for value in values]

    def end(self) -> None:
        """Relations are numbered in the order of their names."""
        if self.graph.edge_type is not None:
            names = sorted(self.relations, key=lambda value: (isinstance(value, str), value))
            number = np.zeros(len(names), np.int32)
            number[[self.relations[name] for name in names]] = np.arange(len(names), dtype=np.int32)
            self.graph.edge_type = number[self.graph.edge_type] if names else self.graph.edge_type
            self.graph.relation_names = [str(name) for name in names]
            self.graph.relations = len(names)


def _graph_of(nodes: _Table, columns: Columns, options: Options) -> Graph:
    """The nodes' part."""
    id, label, split = columns.get("id", "id"), columns.get("label", "label"), columns.get("split")
    names = names_of(nodes.scalars(id, "id"), nodes.said(id), nodes.place)
    graph = Graph(np.zeros((2, 0), np.int32), nodes=len(names))
    graph.node_names = names
    graph.labels = _labels_of(nodes, label, bool(options.get("predict_only")))
    split = "split" if split is None and "split" in nodes.names else split
    if split is not None:
        graph.splits = _splits_of(nodes, split)
    graph.features = _features_of(nodes, len(names), columns, {id, *([label] if isinstance(label, str) else label), split or id})
    return graph


def _add_edges(graph: Graph, columns: Columns, edges: Iterable[Any], n_edge: int) -> None:
    rows = _EdgeRows(graph, columns, n_edge)
    for table in edges:
        rows.add(table)
    rows.end()


def write_tables(edges: Iterable[Any], n_edge: int, nodes: Any, folder: Folder, given: TableOptions) -> Path:
    """A table of the nodes, and the n_edge edges in one table after another; options as of `from_pandas`."""
    unknown = sorted(given.keys() - TableOptions.__annotations__.keys())
    if unknown:
        raise UsageError(f"'{unknown[0]}' is not an option, expected one of {', '.join(TableOptions.__annotations__)}")
    columns: Any = {key: value for key, value in given.items() if key in Columns.__annotations__}
    others: Any = {key: value for key, value in given.items() if key not in Columns.__annotations__}
    label = columns.get("label", "label")
    if not isinstance(label, str) and others.get("classes") is None and not others.get("numbers"):
        others["classes"] = list(label)
    graph = _graph_of(_Table(nodes, "nodes"), columns, others)
    del nodes  # features are copies
    _add_edges(graph, columns, edges, n_edge)
    return write_graph(graph, folder, **others)


def from_pandas(edges: Any, nodes: Any, folder: Folder, **options: Unpack[TableOptions]) -> Path:
    """Two DataFrames: a row for each edge, a row for each node. Options are those of
    `trainerd.tables.Columns` (source, target, id, label, features, one_hot, split, weight, relation) and of
    `trainerd.graph.Options` (draw, seed, overwrite, numbers, classes, predict_only, name). Edges are directed: with
    dataset.undirected = "yes" a job adds the reverse ones.

        trainerd.from_pandas(payments, accounts, "data/payments", source="from", target="to", id="account", label="fraud",
                             draw=(0.6, 0.2, 0.2))
    """
    n_edge = len(_Table(edges, "edges").column(str(options.get("source", "source")), "source"))
    return write_tables([edges], n_edge, nodes, folder, options)


# --- CSV ---

def _whole(texts: list[str]) -> Array | None:
    """Whole numbers, as Python writes them; None for other texts."""
    try:
        whole = [int(text) for text in texts]
    except ValueError:
        return None
    same = all(str(number) == text and abs(number) < 2**63 for number, text in zip(whole, texts, strict=True))
    return np.array(whole, np.int64) if same else None


def _values_of(texts: list[str], are_names: bool) -> Array:
    """Whole numbers, numbers with NaN for empty texts (never of names: 007 is not 7), or texts with None for empty ones."""
    whole = _whole(texts)
    if whole is not None:
        return whole
    try:
        if not are_names and not any("_" in text for text in texts):  # Python takes 1_0 for 10
            return np.array([float(text) if text else np.nan for text in texts], np.float64)
    except ValueError:
        pass
    return objects_of(text or None for text in texts)


def _rows_of(path: Folder, separator: str) -> Iterable[tuple[int, list[str]]]:
    """Rows of a CSV file with their line numbers, headings first, without empty lines."""
    name = os.path.expanduser(path)
    opened = gzip.open if os.fspath(name).endswith(".gz") else open
    try:
        with opened(name, "rt", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            for row in reader:
                if row:
                    yield reader.line_num, row
    except OSError as error:
        raise MissingInput(f"'{os.fspath(path)}': {error.strerror or error}") from error
    except (csv.Error, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise DataError(f"'{os.fspath(path)}': {error}, expected CSV in UTF-8") from error


def _table_of(path: Folder, separator: str, names: set[str]) -> Columned:
    """The columns of a CSV file, whose first line has their names; those of `names` have names of nodes."""
    rows = iter(_rows_of(path, separator))
    headings = [name.strip() for _, row in islice(rows, 1) for name in row]
    if not headings or len(set(headings)) < len(headings):
        raise DataError(f"'{os.fspath(path)}': expected a first line with a name for each column, each once")
    columns: list[list[str]] = [[] for _ in headings]
    for line, row in rows:
        if len(row) != len(headings):
            raise DataError(f"'{os.fspath(path)}', line {line}: has {len(row)} values, expected {len(headings)} as in the first line")
        for column, value in zip(columns, row, strict=True):
            column.append(value.strip())
    return Columned({name: _values_of(column, name in names) for name, column in zip(headings, columns, strict=True)}, [(path, len(columns[0]))])


def from_csv(edges: Folder, nodes: Folder, folder: Folder, *, separator: str = ",", **options: Unpack[TableOptions]) -> Path:
    """Two CSV files (also .gz) with a line of headings: a line for each edge, a line for each node; options as of
    `from_pandas`. An empty value is missing."""
    ends = {options.get("source", "source"), options.get("target", "target")}
    return from_pandas(_table_of(edges, separator, ends), _table_of(nodes, separator, {options.get("id", "id")}), folder, **options)
