"""trainerd in Python: submit jobs and wait for them, write data folders, take trained weights and predictions back (docs/python.md).

The client needs the standard library alone. What needs NumPy, PyTorch or a graph library is imported when it is first used.
"""
from __future__ import annotations

from .client import Client
from .errors import (CannotCreate, DataError, InternalError, Interrupted, IOFailed, JobFileError, MissingInput, OutOfMemory, TrainerdError,
                     TrainingFailed, Unavailable, UsageError)
from .job import Job
from .results import Result
from .toml_text import job_text
from .version import VERSION as __version__

__all__ = [
    "CannotCreate", "Client", "DataError", "IOFailed", "InternalError", "Interrupted", "Job", "JobFileError", "MissingInput",
    "OutOfMemory", "Result", "TrainerdError", "TrainingFailed", "Unavailable", "UsageError", "__version__", "job_text",
]
