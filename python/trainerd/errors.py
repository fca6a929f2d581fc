"""What can go wrong, as exceptions: one class for each exit code of trainerd's programs.

The text of an exception says what, where and what was expected; errors of the daemon have its own words.
"""
from __future__ import annotations

import os
import sys
import warnings

SHOWN_MOST = 60  # characters of a value in a message
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class JobWarning(UserWarning):
    """What a job says of its data and keys while it runs: a key or an array without effect, edges of one direction, ..."""


def warn(text: str) -> None:
    """A JobWarning, at the line that called this package."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, JobWarning, depth)


def shown(value: object) -> str:
    """A value as messages have it: arrays and long values by their type, and arrays by their shape."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    shape, kind = getattr(value, "shape", None), f"{'an' if type(value).__name__[0] in 'AEIOUaeiou' else 'a'} {type(value).__name__}"
    if shape is not None and len(shape) > 0:
        return f"{kind} {list(shape)}"
    text = repr(value)
    return kind if len(text) > SHOWN_MOST or "\n" in text or text.startswith("<") else text


class TrainerdError(Exception):
    """Any refusal or failure. `exit_code` is that of trainerd's programs, `reason` the sentence. `job` is the number
    of the failed job, None for a refused request or argument."""

    exit_code: int = 70
    job: int | None = None

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        if exit_code is not None:
            self.exit_code = exit_code


class TrainingFailed(TrainerdError):
    """Training began and failed, for example because the loss is not a number."""

    exit_code = 1


class UsageError(TrainerdError, ValueError):
    """A wrong argument or request."""

    exit_code = 2


class DataError(TrainerdError, ValueError):
    """A graph, a file or an array is invalid."""

    exit_code = 65


class MissingInput(TrainerdError, LookupError):
    """A file, a job or a package is missing."""

    exit_code = 66


class Unavailable(TrainerdError, ConnectionError):
    """No daemon answers, it went away, does not serve this client now, or a job's worker was lost."""

    exit_code = 69


class InternalError(TrainerdError):
    """A bug of trainerd."""

    exit_code = 70


class OutOfMemory(TrainerdError, MemoryError):
    """The job needs more memory than the machine has, or than its limit."""

    exit_code = 71


class CannotCreate(TrainerdError, OSError):
    """An output cannot be created."""

    exit_code = 73


class IOFailed(TrainerdError, OSError):
    """A file cannot be read or written."""

    exit_code = 74


class Interrupted(TrainerdError):
    """The job was stopped; a checkpoint is saved where it had begun, and `Job.resume` continues it."""

    exit_code = 75


class JobFileError(TrainerdError, ValueError):
    """A job file, a setting, an address or a secret file is wrong."""

    exit_code = 78


_CLASSES: dict[int, type[TrainerdError]] = {
    kind.exit_code: kind
    for kind in (TrainingFailed, UsageError, DataError, MissingInput, Unavailable, InternalError, OutOfMemory, CannotCreate, IOFailed,
                 Interrupted, JobFileError)
}


def error_of(exit_code: int, reason: str) -> TrainerdError:
    """The exception for an exit code; codes without their own class are TrainerdError."""
    return _CLASSES.get(exit_code, TrainerdError)(reason, exit_code)
