"""Keyword arguments as a job: hidden=64, workers=2, model={"kind": "gcn"}, **{"train.lr": 0.01}.

A short name is a key of [model], [train] or [exchange], else the only key of that name in a job file.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import JobFileError
from .program import Program
from .programs import Keys

FIRST = ("model", "train", "exchange")  # sections whose keys have short names also if another section has a key of that name
SECTION_AS_KEY = {"model": "kind", "task": "kind", "workers": "count"}  # model="gcn", task="link", workers=2


def _section_of(name: str, keys: Keys) -> str:
    """The section of a short name; "": a key before the first section, or an unknown one, which the program names."""
    sections = keys.sections.get(name, [""])
    found = [section for section in sections if section in FIRST] or sections
    if len(found) > 1:
        raise JobFileError(f"'{name}' is a key of {' and of '.join(f'[{section}]' for section in found)}, expected one of "
                           f"{', '.join(repr(f'{section}.{name}') for section in found)} in set={{...}}, or a dict {found[0]}={{...}}")
    return found[0]


def job_of(given: Mapping[str, Any], keys: Keys) -> dict[str, Any]:
    """The job of keyword arguments: short names, "section.key", and sections as dicts. None: not given; the last of several
    values of a key counts."""
    job: dict[str, Any] = {}
    for name, value in given.items():
        section, dot, key = name.partition(".")
        if value is None:
            continue
        if isinstance(value, Mapping) and not dot:
            job.setdefault(name, {}).update(value)
        elif name == "model" and isinstance(value, Program):
            job.setdefault("model", {}).update(kind="program", program=value)
        elif dot:
            job.setdefault(section, {})[key] = value
        elif name in SECTION_AS_KEY:
            job.setdefault(name, {})[SECTION_AS_KEY[name]] = value
        elif section := _section_of(name, keys):
            job.setdefault(section, {})[name] = value
        else:
            job[name] = value
    return job
