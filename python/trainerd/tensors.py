"""Tensors and sparse matrices of PyTorch, torch_sparse, SciPy and DGL as NumPy arrays.

Objects are recognised by their attributes, so that these packages need not be imported here.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from .arrays import Array, np
from .errors import DataError, shown


class Rows(NamedTuple):
    """Rows of non-zeros: row i has the columns indices[indptr[i]:indptr[i + 1]], each once, in ascending order."""

    indptr: Array
    indices: Array
    data: Array
    shape: tuple[int, int]


class Entries(NamedTuple):
    """A sparse matrix as a list of its entries. `values` None: all are 1."""

    rows: Array
    columns: Array
    values: Array | None
    shape: tuple[int, int]


def array_of(value: Any) -> Array:
    """A tensor of any library, or anything NumPy takes, as an array."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    for step in ("detach", "cpu"):
        value = getattr(value, step)() if hasattr(value, step) else value
    try:
        array: Array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    except ValueError:
        raise DataError(f"{shown(value)} is no array: its rows have different lengths") from None
    return array


def is_sparse(value: Any) -> bool:
    """A sparse tensor of PyTorch (COO, CSR, CSC), a SparseTensor of torch_sparse, or a sparse matrix of SciPy."""
    return "sparse" in str(getattr(value, "layout", "")) or hasattr(value, "sparse_sizes") or hasattr(value, "tocoo")


def entries_of(value: Any) -> Entries:
    """The entries of a sparse matrix of any kind that `is_sparse` accepts."""
    if hasattr(value, "sparse_sizes"):
        rows, columns, values = value.coo()
        shape = value.sparse_sizes()
    elif hasattr(value, "tocoo"):
        coo = value.tocoo()
        rows, columns, values, shape = coo.row, coo.col, coo.data, coo.shape
    else:
        if "coo" not in str(value.layout):
            value = value.to_sparse_coo() if hasattr(value, "to_sparse_coo") else value.to_sparse(2)
        coo = value.coalesce()
        (rows, columns), values, shape = coo.indices(), coo.values(), coo.shape
    if len(shape) != 2:
        raise DataError(f"a sparse tensor has shape {list(shape)}, expected a matrix")
    return Entries(array_of(rows), array_of(columns), None if values is None else array_of(values), (int(shape[0]), int(shape[1])))


def rows_of(entries: Entries) -> Rows:
    """Entries sorted into rows; entries at the same place are added."""
    n, f = entries.shape
    values = np.ones(len(entries.rows), np.float32) if entries.values is None else entries.values
    if values.ndim != 1:
        raise DataError(f"a sparse matrix has entries of shape {list(values.shape[1:])}, expected numbers")
    places, where = np.unique(entries.rows.astype(np.int64) * f + entries.columns, return_inverse=True)
    summed = values.astype(np.float32)
    if len(places) != len(values):
        summed = np.bincount(where, values.astype(np.float64), len(places)).astype(np.float32)
    else:
        summed = np.empty_like(summed)
        summed[where] = values
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(places // max(f, 1), minlength=n), out=indptr[1:])
    return Rows(indptr, places % max(f, 1), summed, (n, f))


def features_of(value: Any) -> Array | Rows:
    """Features as a dense array, or as rows of non-zeros if they are sparse."""
    return rows_of(entries_of(value)) if is_sparse(value) else array_of(value)


def matrix_edges(matrix: Any) -> tuple[Array, Array | None]:
    """Edges [2, E] and their weights or None of an adjacency matrix whose row u has the nodes that u points to."""
    edges, weights = adjacent_edges(matrix)
    return edges[::-1], weights


def adjacent_edges(adj_t: Any) -> tuple[Array, Array | None]:
    """Edges [2, E], from sources to destinations, and their weights or None, of a transposed adjacency matrix as PyG keeps it: a row
    has the sources of the edges into its node."""
    if not is_sparse(adj_t):
        raise DataError(f"adj_t is a {type(adj_t).__name__}, expected a sparse matrix")
    entries = entries_of(adj_t)
    ones = entries.values is None or bool((entries.values == 1).all())  # PyTorch's sparse tensors have values where edges have no weights
    return np.stack([entries.columns, entries.rows]), None if ones else entries.values
