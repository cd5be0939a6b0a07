"""The data of a training: text files become tokens, and tokens become rows."""
from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from ._native import ClosedError, c_text, call, ffi, fields_of, lib, new_struct, text_of
from .device import Progress
from .model import Model
from .tokenizer import Tokenizer

Paths = Union[str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]

_objectives = {"next_token": lib.CLEF_NEXT_TOKEN, "masked": lib.CLEF_MASKED_TOKENS, "pairs": lib.CLEF_TEXT_PAIRS}
_rules = {"marked": lib.CLEF_DOCUMENTS_MARKED, "blank_lines": lib.CLEF_DOCUMENTS_BLANK_LINES,
          "lines": lib.CLEF_DOCUMENTS_LINES, "files": lib.CLEF_DOCUMENTS_FILES}
_packings = {"stream": lib.CLEF_PACK_STREAM, "whole": lib.CLEF_PACK_WHOLE}
_splits = {"training": lib.CLEF_TRAINING, "validation": lib.CLEF_VALIDATION}


def choose(what: str, known: dict[str, int], name: str) -> int:
    """The number of a name."""
    if name not in known:
        raise ValueError(f"{what}: expected one of {', '.join(known)}, got {name!r}")
    return known[name]


def paths_of(paths: Paths) -> list[str]:
    return [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]


def new_strings(texts: Sequence[str]) -> tuple[Any, list[Any]]:
    """A char *[] and what it points to."""
    keep = [ffi.new("char[]", c_text(text)) for text in texts]
    return (ffi.new("char *[]", keep) if keep else ffi.NULL), keep


class Dataset:
    """Text files as rows of tokens.

    files       texts in UTF-8; *.jsonl has {"text": ..} or {"source": .., "target": ..} on each line
    tokenizer   a Model, a Tokenizer, or the path of one
    n_tokens    the length of a row
    validation  the part of the tokens that is for validation; or files, which are all for it; 0: none
    objective   "next_token" (decoders), "masked" (encoders), "pairs" (encoder-decoders); None: as the Model is
    documents   how files are cut into documents: "marked" (by lines that are `separator`), "blank_lines", "lines",
                "files"
    packing     "stream": rows are cut from one stream of documents; "whole": no document is cut that fits a row
    """

    def __init__(self, files: Paths, tokenizer: Model | Tokenizer | str | os.PathLike[str], *, n_tokens: int,
                 n_target: int = 0, validation: float | Paths = 0.05, objective: str | None = None,
                 documents: str = "marked", separator: str | None = None, packing: str = "stream",
                 end_of_text: str | None = None,
                 mask_rate: float = 0.15, seed: int = 0, cache_dir: str | os.PathLike[str] | None = None,
                 progress: Progress | None = None, note: Callable[[str], Any] | None = None) -> None:
        start = -1
        if not isinstance(tokenizer, (Model, Tokenizer)):
            tokenizer = Tokenizer(tokenizer)
        if isinstance(tokenizer, Model):
            hparams = tokenizer.hparams
            start = hparams["decoder_start"]
            kind = "pairs" if tokenizer.is_encoder_decoder else "masked" if tokenizer.is_encoder else "next_token"
            objective = objective or kind
            tokenizer = tokenizer.tokenizer
        self.objective, self.n_tokens, self.n_target = objective or "next_token", n_tokens, n_target or n_tokens
        own = isinstance(validation, (int, float))
        if own and not 0 <= validation < 1:  # type: ignore[operator]
            raise ValueError(f"validation: expected a part of 0 to 1, or files, got {validation}")
        if isinstance(files, (list, tuple)) and not files:
            raise ValueError("files: expected at least one, got an empty list")
        texts, keep = new_strings(paths_of(files))
        others, keep_others = new_strings([] if own else paths_of(validation))  # type: ignore[arg-type]
        folder = None if cache_dir is None else os.fspath(cache_dir)
        more = [ffi.new("char[]", c_text(text)) if text is not None else ffi.NULL
                for text in (separator, end_of_text, folder)]
        handles = (ffi.new_handle(progress), ffi.new_handle(note or (lambda text: None)))
        options = new_struct("clef_dataset_opts *", {
            "files": texts, "n_files": len(keep), "validation_files": others, "n_validation_files": len(keep_others),
            "validation": (float(validation) or -1.0) if own else 0.0,  # type: ignore[arg-type]
            "objective": choose("objective", _objectives, self.objective),
            "documents": choose("documents", _rules, documents), "packing": choose("packing", _packings, packing),
            "n_tokens": n_tokens, "n_target": n_target, "separator": more[0], "end_of_text": more[1],
            "cache_dir": more[2], "decoder_start": start, "mask_rate": mask_rate, "seed": seed,
            "progress": lib.clef_py_progress, "progress_user": handles[0], "note": lib.clef_py_notice,
            "note_user": handles[1]})
        out = ffi.new("clef_dataset **")
        with tokenizer._use() as pointer:
            call(lib.clef_dataset_open, pointer, options, out)
        self._dataset = out[0]
        self._finalizer = weakref.finalize(self, lib.clef_dataset_close, self._dataset)

    @property
    def info(self) -> dict[str, Any]:
        """The counts of both splits ("training" and "validation": n_documents, n_tokens, n_rows), the fingerprint, and
        the other fields of clef_dataset_info."""
        info = lib.clef_dataset_describe(self._pointer)
        return {**fields_of(info), "fingerprint": text_of(info.fingerprint),
                **{name: fields_of(info.splits[i]) for name, i in _splits.items()}}

    @property
    def _pointer(self) -> Any:
        if not self._finalizer.alive:
            raise ClosedError("the dataset was closed")
        return self._dataset

    def n_steps(self, epochs: float, n_rows: int) -> int:
        """The steps of n_rows rows in which so many epochs are read."""
        if not 0 <= epochs < 2**32 or n_rows < 1:  # a NaN, too
            raise ValueError(f"n_steps: expected some epochs and at least 1 row, got {epochs} and {n_rows}")
        return int(lib.clef_dataset_n_steps(self._pointer, epochs, n_rows))

    def rows(self, begin: int, n: int, split: str = "training") -> dict[str, npt.NDArray[np.int32]]:
        """Rows begin .. begin + n - 1, by the names of a training graph's inputs: input_ids, labels, attention_mask,
        first and positions, int32 [n, n_tokens]; of pairs decoder_input_ids too. Rows of the training have no end."""
        arrays, struct = self._read(begin, n, split)
        del struct
        return arrays

    def _read(self, begin: int, n: int, split: str) -> tuple[dict[str, npt.NDArray[np.int32]], Any]:
        if begin < 0 or n < 0:
            raise ValueError(f"rows: expected a begin and a number from 0, got {begin} and {n}")
        shape, target = (n, self.n_tokens), (n, self.n_target)
        is_pairs = self.objective == "pairs"
        arrays = {"input_ids": np.empty(shape, np.int32), "attention_mask": np.empty(shape, np.int32),
                  "labels": np.empty(target if is_pairs else shape, np.int32), "first": np.empty(shape, np.int32),
                  "positions": np.empty(shape, np.int32)}
        if is_pairs:
            arrays["decoder_input_ids"] = np.empty(target, np.int32)
        rows = new_struct("clef_rows *", {name: ffi.cast("int32_t *", ffi.from_buffer(array))
                                       for name, array in arrays.items()})
        call(lib.clef_dataset_read, self._pointer, choose("split", _splits, split), begin, n, rows)
        return arrays, rows

    def close(self) -> None:
        """Gives back its memory."""
        self._finalizer()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
