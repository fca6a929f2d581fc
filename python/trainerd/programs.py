"""The programs on this machine: where they are, their keys, and a job as a child process."""
from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from .errors import MissingInput, error_of

INSIDE = Path(__file__).parent / "programs" / "bin"  # in the wheel that has them


def find_program(name: str = "trainerd", given: str | os.PathLike[str] | None = None) -> str:
    """The path of a program: the given one, else that in $TRAINERD_BIN, in this package, or on PATH, but for its relative folders: the current
    folder may belong to another user."""
    if given is not None:
        return os.path.expanduser(given)
    folder = os.environ.get("TRAINERD_BIN")
    path = os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", "").split(os.pathsep)))
    places = [Path(folder, name)] if folder else []
    found = next((str(path) for path in (*places, INSIDE / name) if os.access(path, os.X_OK)), None) or shutil.which(name, path=path)
    if found is None:
        raise MissingInput(f"the program {name} is neither in $TRAINERD_BIN nor in this package nor on PATH: install the wheel that has it "
                           "(make wheel), give program=PATH, or for a daemon client=Client()")
    return found


class Key(NamedTuple):
    """A key of a job file: `train.lr`, its meaning, and the values that it takes, with the default."""

    name: str
    help: str
    values: str


def described_keys(text: str) -> list[Key]:
    """The keys that `trainerd --describe-config` prints: a line `[section]  help`, then two lines for each key."""
    keys: list[Key] = []
    section, name, help = "", "", ""
    for line in text.splitlines():
        if heading := re.match(r"(?:\[(\w+)\]|job)  ", line):
            section = f"{heading[1]}." if heading[1] else ""
        elif key := re.match(r"  (\w+) +(.*)", line):
            name, help = section + key[1], key[2]
        elif line.startswith("   ") and name:
            keys.append(Key(name, help, line.strip()))
            name = ""
    return keys


class Keys(NamedTuple):
    """Keys of job files. `sections`: of each key, the sections that have it, "" before the first one; `epochs`: the default of
    train.epochs; `kinds`: the values of model.kind."""

    sections: dict[str, list[str]]
    epochs: int
    kinds: list[str]


@functools.cache
def keys_of(program: str) -> Keys:
    """The keys that this program knows."""
    try:
        done = subprocess.run([program, "--describe-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise MissingInput(f"cannot run '{program}': {error.strerror}") from error
    sections: dict[str, list[str]] = {}
    epochs, kinds = 0, [""]
    for key in described_keys(done.stdout):
        section, _, name = key.name.rpartition(".")
        sections.setdefault(name, []).append(section)
        if key.name == "train.epochs" and (default := re.search(r"; default (\d+)$", key.values)):
            epochs = int(default[1])
        if key.name == "model.kind" and (words := re.match(r"one of ([\w, ]+);", key.values)):
            kinds = words[1].split(", ")
    return Keys(sections, epochs, kinds)


REASON = "trainerd: "  # the begin of each line of a failure's reason
PLACE = re.compile(r"^(?:trainerd: )?job\.toml:(\d+:\d+: )?|(?<=\n)job\.toml:(\d+:\d+: )?")  # in a job file that Python has written
WARNING = re.compile(r'ts=\S+ level=warn .*?msg="(.*)"|warning: (.*)|(\S+ is not used: .*)')


def warning_of(line: str) -> str | None:
    """The sentence of a line that warns; None: it does not."""
    found = WARNING.fullmatch(PLACE.sub("", line))
    return None if found is None else re.sub(r"\\(.)", r"\1", found[1]) if found[1] is not None else found[2] or found[3]


class Child:
    """trainerd with a job, in a session of its own: signals of the terminal reach it through this process only."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self._said: IO[str] = tempfile.TemporaryFile("w+", errors="replace", encoding="utf-8")
        self._read = 0  # bytes
        try:
            self._process = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said,
                                             start_new_session=True)
        except OSError as error:
            self._said.close()
            raise MissingInput(f"cannot run '{program}': {error.strerror}") from error

    def wait(self, timeout: float | None = None) -> bool:
        """Has it ended within so many seconds?"""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        return True

    def lines(self, folder: str) -> list[str]:
        """Whole lines that it has written since the last call, which name files of `folder` without it."""
        text = os.pread(self._said.fileno(), 1 << 24, self._read).rpartition(b"\n")[0]
        self._read += len(text) + 1 if text else 0
        return text.decode(errors="replace").replace(f"{folder}/", "").splitlines()

    def log(self) -> str:
        """All that it has written, after its end: it shares this file's place."""
        self._said.seek(0)
        return self._said.read()

    def close(self) -> None:
        """Forget what it has written."""
        self._said.close()

    def stop(self) -> None:
        """Let it save a checkpoint, if it trains, and end. Further interrupts meanwhile are passed on."""
        self._process.terminate()
        while True:
            try:
                self._process.wait()
                return
            except KeyboardInterrupt:
                self._process.terminate()

    def result(self, folder: str = "") -> str:
        """The last line that it wrote, at its end; after a failure the exception of its exit code. Messages name files
        of `folder` without it."""
        with self._said:
            said = self.log()
        lines = (said.replace(f"{folder}/", "") if folder else said).strip().split("\n")
        code = self._process.returncode
        if code != 0:
            reasons = [PLACE.sub("", line.removeprefix(REASON)) for line in lines if line.startswith(REASON)]
            raise error_of(code if code > 0 else 70, "\n".join(reasons) or lines[-1] or f"trainerd ended with {code}")
        return lines[-1]
