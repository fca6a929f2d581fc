"""Graphs in Parquet files as npy folders, by pyarrow (docs/data.md). Edges are read a batch after another, so that memory holds
the arrays that are written, and the table of the nodes.

    from_parquet(["nodes.parquet", "edges"], "data/mine", label="club", draw=(0.6, 0.2, 0.2))
"""
from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from .arrays import Array, np
from .errors import DataError, MissingInput
from .names import objects_of
from .tables import ENDS, Columned, Folder, TableOptions, write_tables

BATCH_ROWS = 1 << 18
INDEX = re.compile(r"__index_level_\d+__")  # how pandas calls an index that has no name
BUFFER_BYTES = 1 << 20  # of a column: a row group may have all edges of its file


def _files_of(paths: Iterable[Folder]) -> list[Path]:
    """Files, and those in folders, in the order of their names."""
    files: list[Path] = []
    for path in (Path(os.path.expanduser(given)) for given in paths):
        found = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not found or not found[0].is_file():
            raise MissingInput(f"'{path}': no such file, or a folder without .parquet files")
        files += found
    return files


class _File:
    """A file, and the columns that pandas would have of it: an index without a name is none."""

    def __init__(self, path: Path) -> None:
        try:
            import pyarrow.parquet
        except ImportError as error:
            raise MissingInput(f"'pyarrow' cannot be imported ({error}): pip install pyarrow") from error
        try:
            self.opened = pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER_BYTES)
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"'{path}': {str(error).splitlines()[0]}, expected Parquet") from error
        names: list[str] = self.opened.schema_arrow.names
        again = next((name for name in names if names.count(name) > 1), None)
        if again is not None:
            raise DataError(f"'{path}' has the column {again!r} twice, expected each name once")
        self.path, self.n, self.columns = path, int(self.opened.metadata.num_rows), [name for name in names if not INDEX.fullmatch(name)]

    def batches(self, columns: list[str]) -> Iterator[Columned]:
        first = 0
        for batch in self.opened.iter_batches(BATCH_ROWS, columns=columns):
            yield Columned({name: self._values(name, batch.column(name)) for name in batch.schema.names}, [(self.path, self.n)], first)
            first += batch.num_rows

    def table(self) -> dict[str, Array]:
        read = self.opened.read(columns=self.columns)
        return {name: self._values(name, read.column(name)) for name in self.columns}

    def _values(self, name: str, column: Any) -> Array:
        """A column as NumPy has it, null as None or NaN. Of a dictionary `to_numpy` would make the last entry of each null, and of large
        whole numbers beside nulls others."""
        import pyarrow
        from pyarrow import compute, types
        try:
            if types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if types.is_binary(column.type) or types.is_large_binary(column.type):
                column = column.cast(pyarrow.large_string())
            if types.is_nested(column.type) or (types.is_integer(column.type) and column.null_count and _beyond_float(compute.min_max(column))):
                return objects_of(column.to_pylist())
            values: Array = column.to_numpy(zero_copy_only=False)
        except pyarrow.ArrowException as error:
            raise DataError(f"'{self.path}', column {name!r}: {str(error).splitlines()[0]}, expected numbers or texts") from error
        return values


def _beyond_float(ends: Any) -> bool:
    """Are there whole numbers that float64 rounds?"""
    return any(end is not None and abs(end) > 2**53 for end in ends.as_py().values())


def _nodes_of(files: Sequence[_File]) -> Columned:
    """The files' columns, one file's rows after another's."""
    for file in files[1:]:
        if set(file.columns) != set(files[0].columns):
            raise DataError(f"the files of the nodes differ: '{file.path}' has the columns {', '.join(map(repr, file.columns))}, and "
                            f"'{files[0].path}' {', '.join(map(repr, files[0].columns))}, expected the same columns in each")
    tables = [file.table() for file in files]
    columns = {name: np.concatenate([table.pop(name) for table in tables]) if len(tables) > 1 else tables[0][name] for name in files[0].columns}
    return Columned(columns, [(file.path, file.n) for file in files])


def from_parquet(paths: Sequence[Folder], folder: Folder, **options: Unpack[TableOptions]) -> Path:
    """Files, or folders of files: those that have both columns of ends are of edges, the others of nodes; options as of
    `from_pandas`. A missing value is null."""
    ends = [str(options.get(key, key)) for key in ENDS]
    files = [_File(path) for path in dict.fromkeys(_files_of(paths))]
    edges = [file for file in files if set(ends) <= set(file.columns)]
    nodes = [file for file in files if file not in edges]
    if not edges or not nodes:
        have = "; ".join(f"'{file.path}' has {', '.join(file.columns)}" for file in files[:3])
        raise DataError(f"expected files of edges, with the columns {' and '.join(map(repr, ends))} (--source, --target), and files of nodes: {have}")
    wanted = list(dict.fromkeys([*ends, *(name for name in (options.get("weight"), options.get("relation")) if name is not None)]))
    for file in edges:
        missing = [name for name in wanted if name not in file.columns]
        if missing:
            raise DataError(f"'{file.path}' has no column {missing[0]!r}, expected one of {', '.join(map(repr, file.columns))}")
    batches = (batch for file in edges for batch in file.batches(wanted))
    return write_tables(batches, sum(file.n for file in edges), _nodes_of(nodes), folder, options)
