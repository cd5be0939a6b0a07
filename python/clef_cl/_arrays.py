"""Arrays of others as NumPy arrays: DLPack, the buffer protocol, the array interface, lists."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

# DLPack's number of the host's memory (dlpack.h).
_HOST = 1


def as_array(data: Any, name: str = "array") -> npt.NDArray[Any]:
    """`data` as a NumPy array. Its memory is shared where it can be."""
    if isinstance(data, np.ndarray):
        return data
    if hasattr(data, "__dlpack__") and not isinstance(data, np.generic):
        kind = data.__dlpack_device__()[0] if hasattr(data, "__dlpack_device__") else _HOST
        if kind != _HOST:
            raise ValueError(f"{name}: expected an array in the host's memory, got one on a device (call .cpu() first)")
        if getattr(data, "requires_grad", False):
            data = data.detach()  # a tensor of torch that records gradients refuses DLPack
        return np.from_dlpack(data)
    return np.asarray(data)


def whole(name: str, value: Any, least: int = -(2**31), most: int = 2**31 - 1) -> int:
    """A whole number between bounds; by default any that fits int32."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, got {value!r}") from None
    if not least <= number <= most:
        raise ValueError(f"{name}: expected {least} to {most}, got {number}")
    return number


def as_c_array(data: Any, dtype: Any, name: str = "array") -> npt.NDArray[Any]:
    """`data` as a dense array of a dtype. Integers that do not fit are an error; floats are rounded."""
    array = as_array(data, name)
    wanted = np.dtype(dtype)
    if wanted.kind == "i" and array.dtype != wanted:
        if array.size == 0:
            return np.ascontiguousarray(array, wanted)
        if array.dtype.kind not in "iub":
            raise ValueError(f"{name}: expected integers, got {array.dtype}")
        low, high = int(array.min()), int(array.max())
        limits = np.iinfo(wanted)
        if low < limits.min or high > limits.max:
            raise ValueError(f"{name}: expected numbers that fit {wanted}, got {low} to {high}")
    elif wanted.kind == "f" and array.dtype.kind not in "fiub":
        raise ValueError(f"{name}: expected numbers, got {array.dtype}")
    return np.ascontiguousarray(array, wanted).reshape(array.shape)  # a scalar keeps its rank 0
