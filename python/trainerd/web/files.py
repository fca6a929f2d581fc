"""Files of a job's output folder. It belongs to the job's owner, who may change it at any time, and root's page may show it.

So no link in it or in its place is followed, no pipe or device is opened for reading, nothing is read without a limit,
and of another user's job only that user's files are.
"""
from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import stat
from collections.abc import Iterator
from typing import Any, BinaryIO

from ..errors import MissingInput
from ..fields import Shown

NAMES_MOST = 1000  # of a folder, looked at


def _uid_of(owner: str) -> int:
    try:
        return int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
    except KeyError as error:
        raise MissingInput(f"this machine has no user '{owner}'") from error


class RunFolder:
    """The output folder of a job, held open. Files in it are named by their last part alone."""

    def __init__(self, shown: Shown) -> None:
        path = str(shown["output"])
        self._uid = _uid_of(str(shown["job"]["owner"]))
        self.is_own = self._uid == os.geteuid()
        try:
            self._folder = self._open_folder(path.rstrip("/") or "/")
        except OSError as error:
            raise MissingInput(f"cannot open '{path}': {error.strerror}") from error
        if not self._belongs(os.fstat(self._folder)):
            os.close(self._folder)
            raise MissingInput(f"'{path}' is not of the user whose job it is")

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._folder)

    def _open_folder(self, path: str) -> int:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            return os.open(path, flags | os.O_NOFOLLOW)
        except NotADirectoryError:
            if not (self.is_own and stat.S_ISLNK((about := os.lstat(path)).st_mode) and about.st_uid == self._uid):
                raise
            return os.open(path, flags)  # a link of this process's user

    def _belongs(self, about: os.stat_result) -> bool:
        return self.is_own or about.st_uid == self._uid

    def listed(self) -> list[dict[str, Any]]:
        """Name and size of the regular files that this process may read."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in itertools.islice(entries, NAMES_MOST):
                with contextlib.suppress(OSError):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode) and self._belongs(about) and os.access(entry.name, os.R_OK, dir_fd=self._folder):
                        files.append({"name": entry.name, "bytes": about.st_size})
        return sorted(files, key=lambda file: str(file["name"]))

    def open(self, name: str) -> tuple[BinaryIO, int]:
        """A regular file, and its size."""
        try:
            if name in ("", ".", "..") or "/" in name or "\0" in name:
                raise FileNotFoundError
            # Without O_NONBLOCK opening a pipe waits for its writer.
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=self._folder)
        except (OSError, UnicodeError) as error:
            raise MissingInput(f"the job's folder has no file '{name}' that can be opened") from error
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or not self._belongs(about):
            os.close(file)
            raise MissingInput(f"the job's folder has no file '{name}' of its own")
        return os.fdopen(file, "rb"), about.st_size

    def read(self, name: str, most: int) -> bytes | None:
        """The whole file; None where it is missing, refused or larger than `most`."""
        with contextlib.suppress(MissingInput, OSError):
            file, size = self.open(name)
            with file:
                content = file.read(most + 1) if size <= most else None
            if content is not None and len(content) <= most:
                return content
        return None


def pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Exactly the first `size` bytes, also of a file that grows; fewer only of one that was cut."""
    while size > 0 and (piece := file.read(min(size, 1 << 18))):
        size -= len(piece)
        yield piece
