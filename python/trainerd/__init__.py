"""trainerd in Python: submit jobs and wait for them, write data folders, read trained weights and predictions
(docs/python.md).

The client needs only the standard library. Modules that need NumPy, PyTorch or a graph library are imported at first
use.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import trackers
from .client import Client
from .connection import Lost
from .errors import (CannotCreate, DataError, InternalError, Interrupted, IOFailed, JobFileError, JobWarning, MissingInput, OutOfMemory, TrainerdError,
                     TrainingFailed, Unavailable, UsageError)
from .job import Job
from .prediction import predict
from .program import Program, program
from .results import Result
from .toml_text import job_text
from .training import resume, train
from .version import VERSION as __version__

if TYPE_CHECKING:
    from .data import from_arrays, from_dgl, from_networkx, from_ogb, from_pyg, from_yandex
    from .modules import predict_pyg
    from .pyg import load_into_pyg, pyg_inputs, pyg_model
    from .parquet import from_parquet
    from .smoothing import correct_and_smooth, label_propagation
    from .tables import from_csv, from_pandas

# Imported when they are first used.
_LATER = {"correct_and_smooth": "smoothing", "from_arrays": "data", "from_csv": "tables", "from_dgl": "data", "from_networkx": "data",
          "from_ogb": "data", "from_pandas": "tables", "from_parquet": "parquet", "from_pyg": "data", "from_yandex": "data",
          "label_propagation": "smoothing", "load_into_pyg": "pyg", "predict_pyg": "modules", "pyg_inputs": "pyg", "pyg_model": "pyg"}

__all__ = [
    "CannotCreate", "Client", "DataError", "IOFailed", "InternalError", "Interrupted", "Job", "JobFileError", "JobWarning", "Lost",
    "MissingInput", "OutOfMemory", "Program", "Result", "TrainerdError", "TrainingFailed", "Unavailable", "UsageError", "__version__",
    "correct_and_smooth", "from_arrays", "from_csv", "from_dgl", "from_networkx", "from_ogb", "from_pandas", "from_parquet", "from_pyg",
    "from_yandex", "job_text", "label_propagation", "load_into_pyg", "predict", "predict_pyg", "program", "pyg_inputs",
    "pyg_model", "resume", "trackers", "train",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
