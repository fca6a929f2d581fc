"""NumPy, and files of arrays: .npy and .safetensors, checked. The only file that knows where NumPy comes from."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import CannotCreate, DataError, MissingInput

try:
    import numpy as np
    import numpy.typing as npt
except ImportError as missing:
    raise MissingInput("arrays need NumPy: pip install numpy, or on Debian apt install python3-numpy") from missing

Array = npt.NDArray[Any]

# Element types of .safetensors; trainerd writes F32.
_ELEMENTS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1"}
_HEADER_MOST = 100 << 20

__all__ = ["Array", "load_array", "load_safetensors", "np", "save_array", "save_safetensors"]


def load_array(path: str | os.PathLike[str]) -> Array:
    """An array of a .npy file."""
    try:
        array: Array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"'{os.fspath(path)}': {error}") from error
    except OSError as error:
        raise MissingInput(f"'{os.fspath(path)}': {error.strerror}") from error
    return array


def save_array(path: str | os.PathLike[str], values: Array) -> None:
    """Write an array as a .npy file, all of it or nothing."""
    target = Path(path).expanduser()
    aside = target.with_name(f".{target.name}.new")
    try:
        with open(aside, "wb") as file:
            np.save(file, values)
        aside.replace(target)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise CannotCreate(f"cannot create '{target}': {error.strerror or error}") from error


def _tensor_of(path: str, values: Array, name: str, entry: Any) -> Array:
    """One tensor of the values behind the header."""
    try:
        element = np.dtype(_ELEMENTS[entry["dtype"]])
        begin, end = (int(offset) for offset in entry["data_offsets"])
        shape = [int(length) for length in entry["shape"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"'{path}': tensor '{name}' is not described as .safetensors are: {error!r}") from error
    n_value = 1
    for length in shape:
        n_value *= length
    if min(shape, default=1) < 0 or not 0 <= begin <= end <= len(values) or end - begin != n_value * element.itemsize:
        raise DataError(f"'{path}': tensor '{name}' of shape {shape} has bytes {begin} to {end} of {len(values)}")
    tensor: Array = np.frombuffer(values[begin:end].tobytes(), element).reshape(shape).copy()
    return tensor


def load_safetensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """A .safetensors file: 8 bytes of length, a JSON header, the values."""
    text = os.fspath(path)
    try:
        raw: Array = np.fromfile(text, np.uint8)
    except OSError as error:
        raise MissingInput(f"'{text}': {error.strerror}") from error
    n_header = int.from_bytes(raw[:8].tobytes(), "little")
    if len(raw) < 8 or n_header > min(len(raw) - 8, _HEADER_MOST):
        raise DataError(f"'{text}' is not a .safetensors file: its header would have {n_header} bytes of {len(raw)}")
    try:
        header = json.loads(raw[8:8 + n_header].tobytes())
    except ValueError as error:
        raise DataError(f"'{text}': the header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise DataError(f"'{text}': the header is not a JSON object")
    header.pop("__metadata__", None)
    return {name: _tensor_of(text, raw[8 + n_header:], name, entry) for name, entry in header.items()}


def save_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Array]) -> None:
    """Write float32 arrays as a .safetensors file."""
    header, offset = {}, 0
    arrays = {name: np.ascontiguousarray(tensor, "<f4").reshape(tensor.shape) for name, tensor in tensors.items()}
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.tobytes())
