"""Graphs in Parquet files as npy folders, by pyarrow (docs/data.md). Edges are read a batch after another, so that memory holds
the arrays that are written, and the table of the nodes.

    from_parquet(["nodes.parquet", "edges"], "data/mine", label="club", draw=(0.6, 0.2, 0.2))
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

from .errors import DataError, MissingInput
from .tables import ENDS, Folder, TableOptions, write_tables

BATCH_ROWS = 1 << 18
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


def _opened(path: Path) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingInput(f"'pyarrow' cannot be imported ({error}): pip install pyarrow") from error
    try:
        return pyarrow.parquet.ParquetFile(path, buffer_size=BUFFER_BYTES)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"'{path}': {str(error).splitlines()[0]}, expected Parquet") from error


def _columns_of(table: Any) -> dict[str, Any]:
    return {name: column.to_numpy(zero_copy_only=False) for name, column in zip(table.column_names, table.columns, strict=True)}


def _batches(files: Sequence[Any], columns: list[str]) -> Iterator[dict[str, Any]]:
    for file in files:
        for batch in file.iter_batches(BATCH_ROWS, columns=columns):
            yield _columns_of(batch)


def _table(files: Sequence[Any]) -> dict[str, Any]:
    import pyarrow

    try:
        table = pyarrow.concat_tables([file.read() for file in files])
    except pyarrow.ArrowException as error:
        raise DataError(f"the files of the nodes differ: {str(error).splitlines()[0]}, expected the same columns in each") from error
    return {name: table.column(name).to_numpy() for name in table.column_names}


def from_parquet(paths: Sequence[Folder], folder: Folder, **options: Unpack[TableOptions]) -> Path:
    """Files, or folders of files: those that have both columns of ends are of edges, the others of nodes; options as of
    `from_pandas`. A missing value is null."""
    ends = [str(options.get(key, key)) for key in ENDS]
    opened = {path: _opened(path) for path in _files_of(paths)}
    edges = [file for file in opened.values() if set(ends) <= set(file.schema_arrow.names)]
    nodes = [file for file in opened.values() if file not in edges]
    if not edges or not nodes:
        have = "; ".join(f"'{path}' has {', '.join(file.schema_arrow.names)}" for path, file in list(opened.items())[:3])
        raise DataError(f"expected files of edges, with the columns {' and '.join(map(repr, ends))} (--source, --target), and files of nodes: {have}")
    wanted = [*ends, *(name for name in (options.get("weight"), options.get("relation")) if name is not None)]
    for path, file in opened.items():
        missing = [name for name in wanted if file in edges and name not in file.schema_arrow.names]
        if missing:
            raise DataError(f"'{path}' has no column {missing[0]!r}, expected one of {', '.join(map(repr, file.schema_arrow.names))}")
    return write_tables(_batches(edges, list(dict.fromkeys(wanted))), sum(file.metadata.num_rows for file in edges), _table(nodes), folder, options)
