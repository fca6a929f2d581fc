"""Sweeps, as `trainctl submit --sweep` has them: KEY=V1,V2 in each line, and a job for every combination."""
from __future__ import annotations

import itertools
import math

from ..errors import UsageError

JOBS_MOST = 1000
VALUES_CHECKED = 32  # one by one, before the daemon checks all jobs


def values_of(text: str) -> list[str]:
    """The texts between commas that are outside of quotes and brackets."""
    values, quote, depth, begin = [], "", 0, 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            values.append(text[begin:at])
            begin = at + 1
    return [*values, text[begin:]]


class Sweep:
    """keys: of each key its settings, KEY=VALUE."""

    def __init__(self, lines: list[str]) -> None:
        keys: dict[str, list[str]] = {}
        for line in lines:
            key, _, text = line.partition("=")
            values = values_of(text)
            if not key or not text:
                raise UsageError(f"--sweep is '{line[:100]}', expected KEY=VALUE,VALUE, as train.lr=0.01,0.003")
            if key in keys:
                raise UsageError(f"--sweep: {key} is swept already")
            if "" in values:
                raise UsageError(f"--sweep: {key} has an empty value, expected {key}=VALUE,VALUE")
            if len(set(values)) < len(values):
                raise UsageError(f"--sweep: {key} has a value twice")
            keys[key] = [f"{key}={value}" for value in values]
        self.keys = list(keys.values())
        self.n_job = math.prod(map(len, self.keys))
        if self.n_job > JOBS_MOST:
            raise UsageError(f"--sweep: {self.n_job} jobs, expected at most {JOBS_MOST}")

    @property
    def first(self) -> list[str]:
        return [values[0] for values in self.keys]

    def jobs(self) -> list[list[str]]:
        """The settings of each job; the last key's values change first."""
        return [list(one) for one in itertools.product(*self.keys)]

    def checked(self) -> list[list[str]]:
        """The first job's settings, and further ones so that each value is in one."""
        others = [[*self.first[:at], value, *self.first[at + 1:]] for at, values in enumerate(self.keys) for value in values[1:]]
        return [self.first, *others[:VALUES_CHECKED]]
