"""LoRA adapters: looking into them, and writing them."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._arrays import as_c_array
from ._native import c_text, call, ffi, lib, new_struct, path_bytes, text_of
from .model import Model

_dtypes = {"float32": lib.CLEF_F32, "float16": lib.CLEF_F16, "bfloat16": lib.CLEF_BF16}


class Adapter:
    """An adapter of an open model, to look into. Model(lora=path) uses one.

    `targets` has for each weight that it changes (down [rank, n_in], up [rank, n_out]): the product becomes
    x W^T + (x down^T) up.
    """

    def __init__(self, path: str | os.PathLike[str], model: Model, scale: float = 1.0) -> None:
        out = ffi.new("clef_lora **")
        with model._working():
            call(lib.clef_lora_open, path_bytes(path), model._model, scale, out)
            adapter = ffi.gc(out[0], lib.clef_lora_close)
            self.path, self.scale = text_of(lib.clef_lora_path(adapter)), float(lib.clef_lora_scale(adapter))
            self.targets = {}
            for i in range(lib.clef_lora_n_targets(adapter)):
                target = lib.clef_lora_target(adapter, i)
                self.targets[text_of(target.weight)] = (_matrix(target.down, target.rank, target.n_in),
                                                        _matrix(target.up, target.rank, target.n_out))
            ffi.release(adapter)


def _matrix(pointer: Any, rows: int, columns: int) -> Any:
    return np.frombuffer(ffi.buffer(pointer, 4 * rows * columns), np.float32).reshape(rows, columns).copy()


def save_adapter(model: Model, path: str | os.PathLike[str], matrices: Mapping[str, tuple[Any, Any]], *,
                 alpha: float = 0.0, dtype: str = "float32", base: str | None = None) -> None:
    """Writes an adapter as PEFT's folder. matrices: for each weight A [rank, n_in] and B [n_out, rank], all of one
    rank; the product becomes x W^T + (alpha / rank) (x A^T) B^T. alpha 0: rank."""
    arrays = {name: (as_c_array(a, np.float32, name), as_c_array(b, np.float32, name))
              for name, (a, b) in matrices.items()}
    ranks = {a.shape[0] for a, _ in arrays.values()} | {b.shape[1] for _, b in arrays.values()}
    if len(ranks) != 1:
        raise ValueError(f"matrices: expected one rank, got {sorted(ranks)}")
    if dtype not in _dtypes:
        raise ValueError(f"dtype: expected one of {', '.join(_dtypes)}, got {dtype!r}")
    names = [ffi.new("char[]", c_text(name)) for name in arrays]
    structs = ffi.new("clef_lora_matrices[]", [
        {"weight": name, "a": ffi.cast("const float *", ffi.from_buffer(a)),
         "b": ffi.cast("const float *", ffi.from_buffer(b))} for name, (a, b) in zip(names, arrays.values())])
    base_name = ffi.new("char[]", c_text(base)) if base else ffi.NULL
    options = new_struct("clef_lora_save_opts *", {"rank": ranks.pop(), "alpha": alpha, "dtype": _dtypes[dtype],
                                                "base": base_name})
    with model._working():
        call(lib.clef_lora_save, model._model, path_bytes(path), options, structs, len(arrays))
