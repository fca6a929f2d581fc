"""A job as Python dicts, written as the TOML text that `trainerd --check` reads.

Strict: values that TOML or a job file cannot express are refused with the key's name.
"""
from __future__ import annotations

import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import JobFileError, UsageError, shown
from .program import Program

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def toml_string(text: str) -> str:
    """A text as a TOML basic string, quotes included."""
    escaped = "".join(ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 0x20 or ord(c) == 0x7F else c) for c in text)
    return f'"{escaped}"'


def toml_value(value: object, where: str) -> str:
    """A text, path, boolean, number or list of texts as TOML; `where` names it in errors."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Program):
        return toml_string(value.text)
    if isinstance(value, (str, os.PathLike)):
        text = os.fspath(value)
        if not isinstance(text, str):
            raise JobFileError(f"{where}: the path {text!r} is bytes, expected a text")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise JobFileError(f"{where}: {text!r} is not UTF-8") from None
        return toml_string(text)
    if isinstance(value, (list, tuple)):
        wrong = [item for item in value if not isinstance(item, str)]
        if wrong:
            raise JobFileError(f"{where} is {shown(value)}, expected a text, a number or a boolean; a list has texts alone, and not {shown(wrong[0])}")
        return "[" + ", ".join(toml_value(item, where) for item in value) + "]"
    if isinstance(value, numbers.Integral):
        if not -2**63 <= int(value) < 2**63:
            raise JobFileError(f"{where}: {int(value)} does not fit 64 bits")
        return str(int(value))
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise JobFileError(f"{where}: {float(value)} is not a finite number")
        text = repr(float(value))
        return text if "e" not in text or "." in text else text.replace("e", ".0e")
    raise JobFileError(f"{where} is {shown(value)}, expected a text, a number or a boolean; leave a key out for its default")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str) or BARE_KEY.fullmatch(key) is None:
        hint = ""
        if isinstance(key, str) and key.count(".") == 1:
            section, _, name = key.partition(".")
            hint = f"; a section is a dict of its own: {{{section!r}: {{{name!r}: ...}}}}"
        raise JobFileError(f"{where}: {key!r} is not a key, expected letters, digits, _ and -{hint}")
    return key


def job_text(job: Mapping[str, Any]) -> str:
    """The job file of {"name": ..., "model": {"kind": "gcn", ...}, ...}: keys at the top first, then each section."""
    top, sections = [], []
    for key, value in job.items():
        name = _key(key, "job")
        if isinstance(value, Mapping):
            tables = {k: v for k, v in value.items() if name == "model" and k in ("args", "names")}  # of all sections
            lines = [f"[{name}]", *(f"{_key(k, name)} = {toml_value(v, f'{name}.{k}')}" for k, v in value.items() if k not in tables)]
            for table, entries in tables.items():
                if not isinstance(entries, Mapping):
                    raise JobFileError(f"model.{table} is {shown(entries)}, expected a dict")
                quote = table == "names"  # "convs.0"
                lines.append(f"[model.{table}]")
                lines += [f"{toml_value(k, f'model.{table}') if quote else _key(k, f'model.{table}')} = {toml_value(v, f'model.{table}.{k}')}"
                          for k, v in entries.items()]
            sections.append("\n".join(lines))
        else:
            top.append(f"{name} = {toml_value(value, name)}")
    blocks = (["\n".join(top)] if top else []) + sections
    return "\n\n".join(blocks) + "\n"


def settings_of(settings: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    """Settings for `--set`: ["train.epochs=3"] as it is, or {"train.epochs": 3}."""
    if settings is None:
        return []
    if isinstance(settings, Mapping):
        return [f"{key}={toml_value(value, f'set: {key}')}" for key, value in settings.items()]
    if isinstance(settings, str):
        raise UsageError(f"set: {shown(settings)} is a text, expected a dict or a list of 'section.key=value'")
    wrong = [setting for setting in settings if not isinstance(setting, str) or "=" not in setting]
    if wrong:
        raise UsageError(f"set: {shown(wrong[0])} is not 'section.key=value'")
    return list(settings)
