"""Tokenizers without a model."""
from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import as_c_array, whole
from ._native import c_text, call, ffi, lib, new_struct, path_bytes, utf8
from .device import Progress

Ids = npt.NDArray[np.int32]
_roles = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def as_ids(ids: Any) -> tuple[Any, int, Ids]:
    """Ids as C takes them, and the array that must live as long."""
    array = as_c_array(ids, np.int32, "ids")
    if array.ndim != 1:
        raise ValueError(f"ids: expected a list of integers, got an array of shape {array.shape}")
    return ffi.cast("const int32_t *", ffi.from_buffer(array)), len(array), array


def take_ids(pointer: Any, n: int) -> Ids:
    """A copy of ids of the library, which is freed."""
    try:
        return np.frombuffer(ffi.buffer(pointer, 4 * n), dtype=np.int32).copy() if n else np.empty(0, np.int32)
    finally:
        lib.clef_tokens_free(pointer)


def encode_with(tokenizer: Any, text: str, special: bool) -> Ids:
    data = utf8(text)
    out, n = ffi.new("int32_t **"), ffi.new("int32_t *")
    call(lib.clef_tokenizer_encode, tokenizer, data, len(data),
         lib.CLEF_SPECIAL_ADD if special else lib.CLEF_SPECIAL_NONE, out, n)
    return take_ids(out[0], n[0])


def decode_with(tokenizer: Any, ids: Any) -> str:
    pointer, n, _keep = as_ids(ids)
    out, n_bytes = ffi.new("char **"), ffi.new("size_t *")
    call(lib.clef_tokenizer_decode, tokenizer, pointer, n, out, n_bytes)
    try:
        return str(ffi.buffer(out[0], n_bytes[0])[:], "utf-8")
    finally:
        lib.clef_text_free(out[0])


class Tokenizer:
    """A model's tokenizer: a GGUF file, a folder, or one of tokenizer.json, tokenizer.model, *.tiktoken ..

        t = clef.Tokenizer("model.gguf")
        t.decode(t.encode("Hello"))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        out = ffi.new("clef_tokenizer **")
        call(lib.clef_tokenizer_open, path_bytes(path), out)
        self._open(out[0])
        self._finalizer = weakref.finalize(self, lib.clef_tokenizer_close, self._pointer)

    def _open(self, pointer: Any, owner: Any = None) -> None:
        self._pointer, self._owner = pointer, owner

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """The clef_tokenizer. A model's one must be open, and stays so."""
        with self._owner._working() if self._owner is not None else nullcontext():
            yield self._pointer

    @classmethod
    def _of(cls, pointer: Any, owner: Any) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        tokenizer._open(pointer, owner)
        return tokenizer

    @classmethod
    def train(cls, files: Any, folder: str | os.PathLike[str], *, n_vocab: int, min_frequency: int = 0,
              special: Sequence[str] = ("<|endoftext|>",), progress: Progress | None = None) -> Tokenizer:
        """Learns a byte-level BPE from text files, writes its folder, and opens it."""
        from .dataset import new_strings, paths_of

        texts, keep = new_strings(paths_of(files))
        names, keep_names = new_strings(special)
        handle = ffi.new_handle(progress)
        options = new_struct("clef_tokenizer_train_opts *", {
            "files": texts, "n_files": len(keep), "n_vocab": n_vocab, "min_frequency": min_frequency,
            "special": names, "n_special": len(keep_names), "progress": lib.clef_py_progress,
            "progress_user": handle})
        call(lib.clef_tokenizer_train, options, path_bytes(folder))
        return cls(folder)

    def __len__(self) -> int:
        with self._use() as tokenizer:
            return int(lib.clef_tokenizer_n_tokens(tokenizer))

    def encode(self, text: str, *, special: bool = True) -> Ids:
        """The ids of a text, int32 [n]. special: with the tokens that the model puts around a text."""
        with self._use() as tokenizer:
            return encode_with(tokenizer, text, special)

    def decode(self, ids: Any) -> str:
        """The text of ids, without special tokens. Bytes that are not UTF-8 become U+FFFD."""
        with self._use() as tokenizer:
            return decode_with(tokenizer, ids)

    def token(self, id: int) -> bytes:
        """The bytes that a token stands for; they need not be whole characters."""
        id, n = whole("id", id), ffi.new("size_t *")
        with self._use() as tokenizer:
            data = lib.clef_tokenizer_bytes(tokenizer, id, n)
            if data == ffi.NULL:
                raise IndexError(f"token: expected an id from 0 to {len(self) - 1}, got {id}")
            return bytes(ffi.buffer(data, n[0])[:])

    def find(self, token: str) -> int | None:
        """The id of a token by its text in the vocabulary; None: there is none."""
        with self._use() as tokenizer:
            found = lib.clef_tokenizer_find(tokenizer, c_text(token))
        return found if found >= 0 else None

    def is_special(self, id: int) -> bool:
        with self._use() as tokenizer:
            return bool(lib.clef_tokenizer_is_special(tokenizer, whole("id", id)))

    @property
    def special(self) -> dict[str, int]:
        """The ids of the special tokens by their roles: bos, eos, unk, sep, pad, cls, mask."""
        with self._use() as tokenizer:
            found = {role: lib.clef_tokenizer_role(tokenizer, i) for i, role in enumerate(_roles)}
            found["bos"], found["eos"] = lib.clef_tokenizer_bos(tokenizer), lib.clef_tokenizer_eos(tokenizer)
        return {role: id for role, id in found.items() if id >= 0}
