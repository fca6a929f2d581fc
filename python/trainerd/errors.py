"""What can go wrong, as exceptions: one class for each exit code of trainerd's programs.

The text of an exception says what, where and what was expected, in the words of the daemon where it comes from there.
"""
from __future__ import annotations


class TrainerdError(Exception):
    """Anything that trainerd refuses or that fails. `exit_code` is that of its programs, `reason` the sentence; `job` is the number of
    the job that ended so, None where a request or an argument was refused."""

    exit_code: int = 70
    job: int | None = None

    def __init__(self, reason: str, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        if exit_code is not None:
            self.exit_code = exit_code


class TrainingFailed(TrainerdError):
    """Training began and failed, for example because the loss is no number."""

    exit_code = 1


class UsageError(TrainerdError, ValueError):
    """A wrong argument or request."""

    exit_code = 2


class DataError(TrainerdError, ValueError):
    """A graph, a file or an array is not what it has to be."""

    exit_code = 65


class MissingInput(TrainerdError, LookupError):
    """A file, a job or a package is not there."""

    exit_code = 66


class Unavailable(TrainerdError, ConnectionError):
    """No daemon answers, it went away, does not serve this client now, or a job's worker was lost."""

    exit_code = 69


class InternalError(TrainerdError):
    """A mistake of trainerd."""

    exit_code = 70


class OutOfMemory(TrainerdError, MemoryError):
    """The job needs more memory than there is or than it may take."""

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
    """The exception for an exit code; codes that have no class of their own are TrainerdError."""
    return _CLASSES.get(exit_code, TrainerdError)(reason, exit_code)
