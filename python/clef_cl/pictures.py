"""Pictures: what Model.classify() and Model.embed() take as `image`."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from ._arrays import as_array
from ._native import c_text, call, ffi, lib, new_struct, path_bytes

if TYPE_CHECKING:
    from .model import Model

Picture = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "npt.ArrayLike"]


def _bytes_of(picture: Any) -> npt.NDArray[np.uint8]:
    """Greys [height, width], colours [height, width, 3] or a picture of Pillow, as colours."""
    if hasattr(picture, "convert") and hasattr(picture, "mode"):
        picture = picture.convert("RGB")
    array = as_array(picture, "image")
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)) or not array.size:
        raise ValueError("image: expected a path, a file's bytes, a picture of Pillow, or bytes [height, width, 3] or "
                         f"[height, width], got {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array if array.ndim == 3 else np.repeat(array[:, :, None], 3, 2))


def _pixels(processor: Any, picture: Picture, pixels: Any) -> None:
    out = ffi.new("clef_picture *")
    if isinstance(picture, (str, os.PathLike)):
        call(lib.clef_picture_open, path_bytes(picture), ffi.NULL, out)
    elif isinstance(picture, (bytes, bytearray, memoryview)):
        view = ffi.from_buffer(picture)
        call(lib.clef_picture_read, view, len(view), c_text("image"), ffi.NULL, out)
    else:
        rgb = _bytes_of(picture)
        out.height, out.width = rgb.shape[:2]
        out.rgb = ffi.cast("uint8_t *", ffi.from_buffer(rgb))
        call(lib.clef_picture_process, processor, out, pixels)
        return
    try:
        call(lib.clef_picture_process, processor, out, pixels)
    finally:
        lib.clef_picture_finish(out)


def open_vision(model: Model, kind: int, pooling: str | None, normalize: bool | None) -> tuple[Any, Any]:
    """What runs pictures, and what makes pixels of them; they live as long as the model."""
    if pooling not in (None, "cls", "mean"):
        raise ValueError(f"pooling: expected cls or mean for a picture, got {pooling!r}")
    processor, vision = ffi.new("clef_picture_processor **"), ffi.new("clef_vision **")
    options = new_struct("clef_vision_opts *", {
        "kind": kind, "mean": int(pooling == "mean"), "compile": model._compile(),
        "normalize": lib.CLEF_NORMALIZE_YES if normalize else lib.CLEF_NORMALIZE_NO})
    call(lib.clef_vision_create, model.device._pointer, model._model, options, vision)
    model._own(vision[0], lib.clef_vision_destroy)
    call(lib.clef_picture_processor_create, path_bytes(model.path), processor)
    return vision[0], model._own(processor[0], lib.clef_picture_processor_destroy)


def run_picture(vision: Any, processor: Any, picture: Picture) -> npt.NDArray[np.float32]:
    """The picture's vector, or the logits of its classes."""
    pixels = ffi.new("clef_pixels *")
    _pixels(processor, picture, pixels)
    try:
        out = np.empty(lib.clef_vision_describe(vision).width, np.float32)
        call(lib.clef_vision_run, vision, pixels, 1, ffi.cast("float *", ffi.from_buffer(out)))
        return out
    finally:
        lib.clef_pixels_finish(pixels)
