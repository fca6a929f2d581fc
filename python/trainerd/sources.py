"""The graph of a job, as the [dataset] section that trainerd reads: a folder, or a graph in memory."""
from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from .errors import UsageError, warn

if TYPE_CHECKING:
    from .graph import Options


EDGES = ("edges", "edge_index")  # a dict with one of them has arrays


def is_in_memory(data: Any) -> bool:
    """Is it a graph, or arrays? Else it is a folder, or a [dataset] section."""
    return not (isinstance(data, (str, os.PathLike)) or (isinstance(data, Mapping) and not any(name in data for name in EDGES)))


def is_module(model: Any) -> bool:
    """Is it a torch.nn.Module, or a list of modules in the order of their calls?"""
    first = model[0] if isinstance(model, (list, tuple)) and model else model
    return not isinstance(first, type) and hasattr(first, "state_dict") and hasattr(first, "named_modules")


def columns_of(data: Any) -> int:
    """Columns of the features; 0: there are none."""
    if is_in_memory(data):
        from .data import graph_of
        features = graph_of(data).features
        return 0 if features is None else int(features.shape[1])
    folder = data.get("path", "") if isinstance(data, Mapping) else data
    from .arrays import load_array
    file = Path(os.path.expanduser(folder), "features.npy")
    if file.is_file():
        return int(load_array(file).shape[1])
    meta = file.with_name("meta.json")
    return int(json.loads(meta.read_text(encoding="utf-8")).get("features", 0)) if meta.is_file() else 0


class Source:
    """A graph and its [dataset] section, until it is closed.

        with Source(data) as source:
            job["dataset"] = source.section

    data     a data folder's path, a graph of PyTorch Geometric or DGL, a dict of arrays (edges, features, labels, ...: those of
             `from_arrays`), or a dict: the [dataset] section
    folder   where the files of a graph in memory are written; default: they stay in memory (`hold_graph`), for programs
             of this user on this machine
    options  of conversions, for a graph in memory
    """

    def __init__(self, data: Any, folder: Path | None = None, **options: Unpack[Options]) -> None:
        self.held: Path | None = None  # the folder of a graph that stays in memory
        self._names: dict[str, str] = {}  # of the caller, by those of the files
        self.is_named = True  # by the caller; no graph in memory
        self._open = ExitStack()
        if isinstance(data, (str, os.PathLike)):
            self.section: dict[str, Any] = {"path": os.path.abspath(os.path.expanduser(data))}
        elif not is_in_memory(data):
            arrays = [name for name, value in data.items() if len(getattr(value, "shape", ())) > 0]
            if arrays:
                raise UsageError(f"data has arrays ({', '.join(map(str, arrays))}), and no edges: expected data['edge_index'] or data['edges']")
            self.section = dict(data)
        else:
            with self._open as undone:
                self.section = {"path": self._write(data, folder, options)}
                self._open = undone.pop_all()

    def _write(self, data: Any, folder: Path | None, options: Options) -> Path:
        self.is_named = False
        from .data import graph_of
        from .graph import hold_graph, write_graph
        graph = graph_of(data)
        self._names = graph.words
        if graph.edges.shape[-1] == 0:
            warn(f"the graph has no edges{graph.place('edges')}")
        if folder is not None:
            return write_graph(graph, folder, **options)
        self.held = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="trainerd-data-")), "data")
        hold_graph(graph, self.held, self._open, **options)
        return self.held

    def named(self, text: str) -> str:
        """A job's sentence, with the arrays of a graph in memory by the names that the caller has given them."""
        if self.held is None:
            return text

        def name_of(file: re.Match[str]) -> str:
            stem = re.sub("_(idx|mask)$", "", file[1] or "data")
            stem = "features" if stem.startswith("feat_") else {"val": "valid"}.get(stem, stem)
            return self._names.get(stem, stem)
        return re.sub(rf"'?{re.escape(str(self.held))}(?:/(\w+)\.npy)?'?", name_of, text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def keep(self, folder: Path) -> None:
        """Copy a graph that stays in memory to a folder on disk, where it outlives this process."""
        if self.held is not None:
            shutil.copytree(self.held, folder, dirs_exist_ok=True)
