"""A module of PyTorch Geometric as the start of a training: its text, its weights by their names there, and back again.

Where each number of the module lies in the text's tensors is found by a copy of the module whose numbers are their own places.
"""
from __future__ import annotations

import copy
from typing import Any, NamedTuple

from .arrays import Array, np
from .errors import DataError, UsageError
from .module_calls import Tensors, calls_of
from .module_program import Writer, write_calls
from .modules import without_end
from .tensors import array_of

DIGIT = 1 << 20  # numbers below it are exact in float32


class Start(NamedTuple):
    """The text, its tensors, and the [dataset] section that goes with them."""

    text: str
    tensors: Tensors
    dataset: dict[str, Any]


def start_of(model: Any, columns: int) -> Start:
    """columns: of the features. Raises UsageError that names the module that cannot be trained."""
    start = _written(model, columns)
    _places(model, columns)
    return start


def load_back(model: Any, columns: int, weights: Tensors, text: str) -> bool:
    """Put the weights of a training into the module that it began with. False: it began with another one."""
    try:
        if _written(model, columns).text != text:
            return False
    except UsageError:
        return False
    values = np.concatenate([array_of(value).reshape(-1) for value in _numbers(model)]).astype(np.float32)
    for name, places in _places(model, columns).items():
        if name not in weights or weights[name].shape != places.shape:
            raise DataError(f"the training's weights have no '{name}' {list(places.shape)}")
        values[places] = weights[name]
    _fill(model, values)
    return True


def _written(model: Any, columns: int) -> Start:
    calls, _ = without_end(calls_of(model))
    writer = Writer(trains=True)
    text, dataset = write_calls(writer, calls, columns)
    return Start(text, writer.tensors, dataset)


def _parts(model: Any) -> list[Any]:
    return list(model) if isinstance(model, (list, tuple)) else [model]


def _numbers(model: Any) -> list[Any]:
    """Its tensors of numbers: parameters and buffers, each once."""
    found = {id(value): value for part in _parts(model) for value in (*part.parameters(), *part.buffers()) if value.is_floating_point()}
    return list(found.values())


def _fill(model: Any, values: Array) -> None:
    import torch
    begin = 0
    for value in _numbers(model):
        value.data.copy_(torch.from_numpy(values[begin:begin + value.numel()].reshape(tuple(value.shape))))
        begin += value.numel()


def _places(model: Any, columns: int) -> dict[str, Array]:
    """Of each tensor of the text: where its numbers lie in those of the module, one tensor after another."""
    n = sum(value.numel() for value in _numbers(model))
    places = np.arange(1, n + 1)  # 0: none of the module's
    digits = []
    for values in (places % DIGIT, places // DIGIT):
        probe = copy.deepcopy(model)
        _fill(probe, values.astype(np.float32))
        digits.append(_written(probe, columns).tensors)
    low, high = digits
    found = {name: low[name].astype(np.int64) + DIGIT * high[name].astype(np.int64) - 1 for name in low}
    taken = np.zeros(n, np.int64)
    for name, of in found.items():
        if of.size and (of.min() < 0 or of.max() >= n or (low[name] % 1 != 0).any()):
            raise UsageError(f"model: '{name}' of the job's text is made from several weights of the module, which cannot be trained one by one")
        np.add.at(taken, of.reshape(-1), 1)
    _check_taken(model, taken)
    return found


def _check_taken(model: Any, taken: Array) -> None:
    """Each number that PyTorch would train is trained, once, and no other."""
    names = {id(value): name for part in _parts(model) for name, value in (*part.named_parameters(), *part.named_buffers())}
    begin = 0
    for value in _numbers(model):
        of = taken[begin:begin + value.numel()]
        begin += value.numel()
        is_weight = hasattr(value, "requires_grad") and type(value).__name__ == "Parameter"
        why = ("is frozen (requires_grad=False), and a job trains all weights" if is_weight and not value.requires_grad and of.any() else
               "is not among the weights of the job" if is_weight and value.requires_grad and (of == 0).any() else
               "is used in several places of the job's text" if (of > 1).any() else "")
        if why:
            raise UsageError(f"model: '{names[id(value)]}' {why}")
