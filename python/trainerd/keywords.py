"""Keyword arguments as a job: hidden=64, workers=2, model={"kind": "gcn"}, set={"train.lr": 0.01}.

A short name is a key of [model], [train] or [exchange], else the only key of that name in a job file. Each key has one value: two
arguments that give it different ones are refused.
"""
from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .errors import JobFileError, UsageError, shown
from .program import Program, configured
from .programs import Keys

FIRST = ("model", "train", "exchange")  # sections whose keys have short names also if another section has a key of that name
SECTION_AS_KEY = {"model": "kind", "task": "kind", "workers": "count"}  # model="gcn", task="link", workers=2
ELSEWHERE = {"learning_rate": "lr", "hidden_channels": "hidden", "hidden_dim": "hidden", "num_layers": "layers", "num_epochs": "epochs",
             "n_epochs": "epochs", "num_workers": "workers", "act": "activation", "aggr": "aggregator", "jk": "jumping_knowledge", "K": "steps",
             "verbose": "progress", "criterion": "loss", "optim": "optimizer", "edge_index": "data", "x": "data", "y": "data"}  # names of others
NONE = {"batch_size": "an epoch is one step over all nodes", "num_neighbors": "a layer reads all neighbours", "out_channels": "the labels say it",
        "in_channels": "the features say it", "shuffle": "an epoch is one step over all nodes"}
TABLES = ("args", "names")  # of [model], dicts of their own
ARGUMENTS = ("output", "draw", "progress", "tracker", "daemon")  # of `train` itself

ALIKE_LEAST = 0.6  # of two words, as difflib counts it


class Given(NamedTuple):
    """A job, and the arguments that gave its keys, as messages name them: ("train", "lr"): "lr=0.1"."""

    job: dict[str, Any]
    by: dict[tuple[str, str], str]


def _nearest(word: str, known: list[str]) -> str | None:
    """The most similar word, if it is a likely one."""
    alike = {one: difflib.SequenceMatcher(None, word, one).ratio() for one in known}
    near = max(known, key=lambda one: alike[one])
    return near if alike[near] >= ALIKE_LEAST else None


def _section_of(name: str, value: Any, keys: Keys) -> str:
    """The section of a short name; "": a key before the first section."""
    if name not in keys.sections:
        near = ELSEWHERE.get(name) or (None if name in NONE else _nearest(name, [*keys.sections, *SECTION_AS_KEY, *TABLES, *ARGUMENTS]))
        why = f"; did you mean {near}=?" if near else f": {NONE[name]}" if name in NONE else ""
        raise JobFileError(f"{name}={shown(value)}: there is no key '{name}'{why}")
    sections = keys.sections[name]
    found = [section for section in sections if section in FIRST] or sections
    if len(found) > 1:
        raise JobFileError(f"'{name}' is a key of {' and of '.join(f'[{section}]' for section in found)}, expected one of "
                           f"{', '.join(repr(f'{section}.{name}') for section in found)} in set={{...}}, or a dict {found[0]}={{...}}")
    return found[0]


def _model_of(value: Any, keys: Keys) -> dict[str, Any]:
    """[model] of model="gcn", "pna", "own.gnn", a text with lines, or a Program: a kind, the text of that name in configs/programs, or a text."""
    if isinstance(value, str) and "\n" in value:
        value = Program.from_text(value)
    if isinstance(value, Program):
        return {"kind": "program", "program": value}
    if isinstance(value, os.PathLike) or (isinstance(value, str) and (value.endswith(".gnn") or os.sep in value)):
        return {"kind": "program", "program": Program.from_file(value)}
    if not isinstance(value, str):
        raise UsageError(f"model is {shown(value)}, expected a kind ('gcn'), a text's name ('pna') or file ('own.gnn'), a Program, a "
                         "torch.nn.Module, or a dict: the [model] section")
    if value in keys.kinds:
        return {"kind": value}
    texts = configured()
    if value in texts:
        return {"kind": "program", "program": Program.from_file(texts[value])}
    others = sorted(texts.keys() - set(keys.kinds))
    near = _nearest(value.lower().removesuffix("conv"), [*keys.kinds, *others])
    raise JobFileError(f"model={value!r}: there is no kind or text of that name" + (f"; did you mean {near!r}?" if near else "")
                       + f"; expected a kind ({', '.join(keys.kinds)}), a text ({', '.join(others) or 'none is on this machine'}), or a file that ends with .gnn")


def _keys_in(name: str, value: Any, keys: Keys) -> Iterator[tuple[str, str, Any]]:
    """Section, key and value of each key that an argument gives."""
    section, dot, key = name.partition(".")
    if name in TABLES:
        yield "model", name, value
    elif isinstance(value, Mapping) and not dot:
        yield from ((name, str(key), of) for key, of in value.items())
    elif dot:
        yield section, key, value
    elif name == "model":
        yield from (("model", key, of) for key, of in _model_of(value, keys).items())
    elif name in SECTION_AS_KEY:
        yield name, SECTION_AS_KEY[name], value
    else:
        yield _section_of(name, value, keys), name, value


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (str, int, float, tuple, list)) and a == b) \
        or (isinstance(a, Program) and isinstance(b, Program) and a.text == b.text)


def job_of(given: Mapping[str, Any], keys: Keys, set: Mapping[str, Any] | None = None) -> Given:
    """The job of keyword arguments and of `set`: short names, "section.key", and sections as dicts. None: not given."""
    made = Given({}, {})

    def put(into: dict[str, Any], place: tuple[str, str], key: str, value: Any, by: str) -> None:
        if isinstance(into.get(key), dict) and isinstance(value, Mapping):
            for inner, of in value.items():
                put(into[key], (place[0], f"{place[1]}.{inner}"), inner, of, by)
        elif key in into and not _is_same(into[key], value):
            raise UsageError(f"{made.by[place]} and {by} both give {'.'.join(filter(None, place))}, expected one of them")
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value
            made.by.setdefault(place, by)
            for inner in value if isinstance(value, Mapping) else ():
                made.by.setdefault((place[0], f"{place[1]}.{inner}"), by)

    arguments = [(name, value, f"{name}={shown(value)}") for name, value in given.items()]
    arguments += [(name, value, f"set={{{name!r}: {shown(value)}}}") for name, value in (set or {}).items()]
    for name, value, by in arguments:
        for section, key, of in () if value is None else _keys_in(name, value, keys):
            put(made.job.setdefault(section, {}) if section else made.job, (section, key), key, of, by)
    return made
