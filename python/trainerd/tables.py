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
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict, Unpack

from .arrays import Array, np
from .errors import DataError, MissingInput, UsageError
from .graph import Graph, Options, write_graph
from .names import Numbering, is_missing, names_of, objects_of
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


def _columns(table: Any) -> list[str]:
    return list(getattr(table, "columns", table))


def _column(table: Any, name: str, what: str, key: str) -> Array:
    """A column as an array of any type."""
    if name not in _columns(table):
        shown = ", ".join(map(repr, _columns(table)))
        raise DataError(f"the {what} have no column {name!r} for {key} (--{key}), expected one of {shown}")
    column = table[name]
    return array_of(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _is_number(value: Any) -> bool:
    return is_missing(value) or isinstance(value, (int, float)) or hasattr(value, "__float__")


def _are_numbers(column: Array) -> bool:
    """Are all values numbers or missing? Times are no numbers."""
    return column.dtype.kind in "iufb" or (column.dtype.kind not in "mM" and all(map(_is_number, column.tolist())))


def _numbers(column: Array, name: str, what: str, *, missing: bool = False, first: int = 0) -> Array:
    """A column of numbers as float64; NaN for `missing` values, if allowed."""
    if column.dtype.kind in "iub" or (column.dtype.kind == "f" and (missing or not np.isnan(column).any())):
        return column.astype(np.float64)
    values = column.astype(object)
    for row, value in enumerate(values):
        if is_missing(value) and not missing:
            raise DataError(f"column {name!r} of the {what}: row {first + row} is empty, expected a number")
        if not _is_number(value) or column.dtype.kind in "mM":
            raise DataError(f"column {name!r} of the {what}: row {first + row} is {str(column[row])!r}, expected a number")
    return np.array([np.nan if is_missing(value) else float(value) for value in values], np.float64)


def _dense_of(nodes: Any, given: Sequence[str] | None, others: set[str]) -> Array:
    """Columns of numbers, side by side; by default all columns without another purpose."""
    names = list(given) if given is not None else [name for name in _columns(nodes) if name not in others]
    columns = {name: _column(nodes, name, "nodes", "features") for name in names}
    left_out = [name for name, column in columns.items() if given is None and not _are_numbers(column)]
    if left_out:
        warnings.warn(f"columns of the nodes that are no numbers are left out: {', '.join(map(repr, left_out))}; one_hot=[...] (--one-hot) "
                      "makes a feature of each value", stacklevel=5)
    found = [_numbers(column, name, "nodes").astype(np.float32) for name, column in columns.items() if name not in left_out]
    return np.stack(found, 1) if found else np.zeros((len(_column(nodes, _columns(nodes)[0], "nodes", "id")), 0), np.float32)


def _features_of(nodes: Any, columns: Columns, others: set[str]) -> Array | Rows | None:
    """Numbers, then a feature for each value of the one-hot columns; None: no features."""
    one_hot = list(columns.get("one_hot", []))
    dense = _dense_of(nodes, columns.get("features"), others | set(one_hot))
    if not one_hot:
        return dense if dense.shape[1] else None
    (rows, places), width = np.nonzero(dense), dense.shape[1]
    entries = [(rows, places, dense[rows, places])]
    for name in one_hot:
        values = _column(nodes, name, "nodes", "one-hot").tolist()
        number = {value: k for k, value in enumerate(dict.fromkeys(value for value in values if not is_missing(value)))}
        there = np.array([row for row, value in enumerate(values) if not is_missing(value)], np.int64)
        entries.append((there, np.array([width + number[values[row]] for row in there], np.int64), np.ones(len(there), np.float32)))
        width += len(number)
    rows, places, weights = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return rows_of(Entries(rows, places, weights, (len(dense), width)))


def _splits_of(column: Array, name: str) -> dict[str, Array]:
    values = column.tolist()
    wrong = [(row, value) for row, value in enumerate(values) if not is_missing(value) and value not in SPLIT_OF]
    if wrong:
        raise DataError(f"column {name!r} of the nodes: row {wrong[0][0]} is {wrong[0][1]!r}, expected 'train', 'valid', 'test' or nothing")
    of = np.array([SPLIT_OF.get(value, "") if isinstance(value, str) else "" for value in values], str)
    return {split: np.flatnonzero(of == split) for split in ("train", "valid", "test")}


ENDS = ("source", "target")


class _EdgeRows:
    """A graph's edges, a table of some of them after another."""

    def __init__(self, graph: Graph, columns: Columns, n: int) -> None:
        names = graph.node_names if graph.node_names is not None else np.zeros(0)
        self.graph, self.columns, self.nodes, self.first, self.relations = graph, columns, Numbering(names), 0, dict[Any, int]()
        graph.edges = np.empty((2, n), np.int32 if len(names) < 2**31 else np.int64)
        graph.edge_weight = np.empty(n, np.float32) if columns.get("weight") is not None else None
        graph.edge_type = np.empty(n, np.int32) if columns.get("relation") is not None else None

    def add(self, table: Any) -> None:
        columns, graph, end = self.columns, self.graph, self.first
        for row, key in enumerate(ENDS):
            name = str(columns.get(key, key))
            numbers = self.nodes.of(_column(table, name, "edges", key), f"column {name!r} of the edges", self.first)
            end = self.first + len(numbers)
            graph.edges[row, self.first:end] = numbers
        weight, relation = columns.get("weight"), columns.get("relation")
        if weight is not None and graph.edge_weight is not None:
            graph.edge_weight[self.first:end] = _numbers(_column(table, weight, "edges", "weight"), weight, "edges", first=self.first)
        if relation is not None and graph.edge_type is not None:
            graph.edge_type[self.first:end] = self._relations(_column(table, relation, "edges", "relation").tolist(), relation)
        self.first = end

    def _relations(self, values: list[Any], name: str) -> list[int]:
        """Numbers in the order in which relations come."""
        empty = next((row for row, value in enumerate(values) if is_missing(value)), None)
        if empty is not None:
            raise DataError(f"column {name!r} of the edges: row {self.first + empty} is empty, expected a relation")
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


def _graph_of(nodes: Any, columns: Columns, options: Options) -> Graph:
    """The nodes' part."""
    id, label, split = columns.get("id", "id"), columns.get("label", "label"), columns.get("split")
    names = names_of(_column(nodes, id, "nodes", "id"), f"column {id!r} of the nodes")
    graph = Graph(np.zeros((2, 0), np.int32), nodes=len(names))
    graph.node_names = names
    several = [label] if isinstance(label, str) else list(label)
    if not options.get("predict_only") or several[0] in _columns(nodes):
        found = {name: _column(nodes, name, "nodes", "label") for name in several}
        graph.labels = found[label] if isinstance(label, str) else np.stack([_numbers(column, name, "nodes", missing=True)
                                                                             for name, column in found.items()], 1)
    split = "split" if split is None and "split" in _columns(nodes) else split
    if split is not None:
        graph.splits = _splits_of(_column(nodes, split, "nodes", "split"), split)
    graph.features = _features_of(nodes, columns, {id, *several, split or id})
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
    graph = _graph_of(nodes, columns, others)
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
    return write_tables([edges], len(_column(edges, str(options.get("source", "source")), "edges", "source")), nodes, folder, options)


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
        if not are_names:
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


def _table_of(path: Folder, separator: str, names: set[str]) -> dict[str, Array]:
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
    return {name: _values_of(column, name in names) for name, column in zip(headings, columns, strict=True)}


def from_csv(edges: Folder, nodes: Folder, folder: Folder, *, separator: str = ",", **options: Unpack[TableOptions]) -> Path:
    """Two CSV files (also .gz) with a line of headings: a line for each edge, a line for each node; options as of
    `from_pandas`. An empty value is missing."""
    ends = {options.get("source", "source"), options.get("target", "target")}
    return from_pandas(_table_of(edges, separator, ends), _table_of(nodes, separator, {options.get("id", "id")}), folder, **options)
