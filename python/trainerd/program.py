"""Vertex programs, models that users write (docs/programs.md), as Python values.

    program = Program.from_file("own.gnn")
    @trainerd.program                                   or a function whose source is the program
    def layer(v, out): ...
    client.submit({"model": {"kind": "program", "program": layer, "args": {"heads": 4}}, ...})
    layer.torch(16, 7)                                  the same text as a torch.nn.Module
"""
from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .errors import JobFileError, MissingInput

TEXT_MOST = 64 * 1024
TEXTS = Path(__file__).parent / "texts"  # of configs/programs


class Program:
    """The text of a vertex program. trainerd checks it: `trainerd --check`, or when the job is submitted."""

    def __init__(self, text: str) -> None:
        if len(text.encode()) > TEXT_MOST:
            raise JobFileError(f"the program has {len(text.encode())} bytes, expected at most {TEXT_MOST}")
        self.text = text if text.endswith("\n") else text + "\n"

    def __str__(self) -> str:
        return self.text

    @classmethod
    def from_text(cls, text: str) -> Program:
        """The program of a text."""
        return cls(text)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Program:
        """The program of a file's text."""
        try:
            with open(os.path.expanduser(path), encoding="utf-8", newline="") as file:
                return cls(file.read(TEXT_MOST + 1))
        except UnicodeDecodeError as error:
            raise JobFileError(f"the program '{os.fspath(path)}' is not UTF-8") from error
        except OSError as error:
            raise MissingInput(f"cannot open the program '{os.fspath(path)}': {error.strerror}") from error

    def torch(self, n_feature: int, n_out: int, *, args: Mapping[str, Any] | None = None, **graph: Any) -> Any:
        """One layer of the text, or its whole model, as a torch.nn.Module over arrays of edges: forward(x, edge_index,
        edge_weight=None, edge_attr=None, edge_type=None). Slow, and independent of trainerd's own arithmetic.

        args   [model.args]; for a layer also index and last
        graph  numbers of the graph that the text reads: relations=3, edge_features=2, classes=7
        """
        from .program_torch import ProgramModule  # needs PyTorch
        module: Any = ProgramModule  # untyped, as PyTorch is here
        return module(self.text, n_feature, n_out, dict(args or {}), graph)


def names_file(key: str, value: Any) -> bool:
    """Is the value of model.program or task.decoder a file's name? Else it is a text, or the name of a decoder."""
    if not isinstance(value, (str, os.PathLike)) or not value or "\n" in os.fspath(value) or "\\n" in os.fspath(value):
        return False
    return key == "model.program" or any(letter in os.fspath(value) for letter in "./~")


def program(function: Callable[..., Any], *helpers: Callable[..., Any]) -> Program:
    """The program whose text is the source of this function, `layer` or `model`, and of the functions that it calls."""
    sources = []
    for one in (function, *helpers):
        try:
            lines = textwrap.dedent(inspect.getsource(one)).splitlines()
        except (OSError, TypeError) as error:
            raise JobFileError(f"{one!r} has no source that can be read: use Program.from_text") from error
        while lines and not lines[0].startswith("def "):  # decorators
            lines.pop(0)
        sources.append("\n".join(lines))
    return Program("\n\n".join(sources) + "\n")


def configured() -> dict[str, Path]:
    """The texts of configs/programs, published layers, by their names: "pna", "gine", ..."""
    return {path.stem: path for path in sorted(TEXTS.glob("*.gnn"))}
