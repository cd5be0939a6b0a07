"""Files of tensors: safetensors, and the metadata of GGUF."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import as_array
from ._native import Error, c_text, call, ffi, lib, path_bytes, text_of

_dtypes = {"float32": lib.CLEF_F32, "float16": lib.CLEF_F16, "int32": lib.CLEF_I32, "int8": lib.CLEF_I8}


def load_file(path: str | os.PathLike[str], *names: str) -> dict[str, npt.NDArray[Any]]:
    """The tensors of a .safetensors file as float32 or int32, by name; all, or those named."""
    out = ffi.new("clef_tensor_file **")
    call(lib.clef_tensor_file_open, path_bytes(path), out)
    file = ffi.gc(out[0], lib.clef_tensor_file_close)
    numbers = range(lib.clef_tensor_file_count(file)) if not names else [_number(file, name) for name in names]
    found = {}
    for i in numbers:
        info = lib.clef_tensor_file_get(file, i)
        # Dtypes that clef does not have are converted: integers are tried first, since a float refuses that.
        kinds = ["i32"] if info.dtype in (lib.CLEF_I32, lib.CLEF_I8) else ["f32"]
        if info.dtype == lib.CLEF_N_DTYPES:
            kinds = ["i32", "f32"]
        found[text_of(info.name)] = _read(file, i, info, kinds)
    return found


def _number(file: Any, name: str) -> int:
    number = int(lib.clef_tensor_file_find(file, c_text(name)))
    if number < 0:
        raise KeyError(name)
    return number


def _read(file: Any, i: int, info: Any, kinds: list[str]) -> npt.NDArray[Any]:
    shape = tuple(info.dims[0 : info.rank])
    for kind in kinds:
        array: npt.NDArray[Any] = np.empty(shape, np.int32 if kind == "i32" else np.float32)
        try:
            call(lib.clef_tensor_file_read, file, i, lib.CLEF_I32 if kind == "i32" else lib.CLEF_F32,
                 ffi.from_buffer(array), array.size)
            return array
        except Error:
            if kind == kinds[-1]:
                raise
    raise AssertionError("unreachable")


def save_file(tensors: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes arrays of float32, float16, int32 or int8 to a .safetensors file. It appears when it is complete."""
    arrays = {}
    for name, data in tensors.items():
        array = as_array(data, name)
        if array.dtype.name not in _dtypes:
            raise ValueError(f"{name}: expected one of {', '.join(_dtypes)}, got {array.dtype}")
        arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
    names = [ffi.new("char[]", c_text(name)) for name in arrays]
    infos = ffi.new("clef_tensor_info[]", [
        {"name": name, "dtype": _dtypes[array.dtype.name], "rank": array.ndim, "dims": list(array.shape),
         "n_bytes": array.nbytes, "data": ffi.from_buffer(array)} for name, array in zip(names, arrays.values())])
    call(lib.clef_tensor_file_write, path_bytes(path), infos, len(arrays))


def gguf_metadata(path: str | os.PathLike[str]) -> tuple[dict[str, str], int]:
    """The keys of a GGUF file with their values as text, and the number of its tensors. It need not be a model."""
    found: dict[str, str] = {}
    handle, n = ffi.new_handle(found), ffi.new("uint64_t *")
    call(lib.clef_gguf_metadata, path_bytes(path), lib.clef_py_entry, handle, n)
    return found, int(n[0])
