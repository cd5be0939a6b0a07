"""The interface of sentence_transformers.SentenceTransformer."""
from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from .device import Device
from .model import Floats, Model
from .tokenizer import Tokenizer


class SentenceTransformer:
    """Embeddings by the names that sentence-transformers has for them, for code that was written for it.

        s = clef.SentenceTransformer("all-MiniLM-L6-v2")    # a local folder, a GGUF file, or a Model
        s.similarity(s.encode(["a cat"]), s.encode(["a dog"]))
    """

    def __init__(self, model: Model | str | os.PathLike[str], *, device: str | Device = "auto",
                 truncate_dim: int | None = None) -> None:
        self._model = model if isinstance(model, Model) else Model(model, device=device)
        self._truncate_dim = truncate_dim

    @property
    def tokenizer(self) -> Tokenizer:
        return self._model.tokenizer

    @property
    def max_seq_length(self) -> int:
        return self._model.max_tokens

    def get_max_seq_length(self) -> int:
        return self.max_seq_length

    def get_sentence_embedding_dimension(self) -> int:
        """The length of an embedding."""
        dims = self._model.embedding_dims
        return min(dims, self._truncate_dim) if self._truncate_dim else dims

    get_embedding_dimension = get_sentence_embedding_dimension

    def encode(self, sentences: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None,
               batch_size: int = 32, show_progress_bar: bool | None = None, output_value: str = "sentence_embedding",
               precision: str = "float32", convert_to_numpy: bool = True, convert_to_tensor: bool = False,
               device: Any = None, normalize_embeddings: bool = False, truncate_dim: int | None = None,
               **options: Any) -> Any:
        """Embeddings, float32 [n, d]; of one text [d]. Texts that are too long lose their ends, as there.

        convert_to_numpy=False gives a list of arrays, convert_to_tensor=True a tensor of PyTorch. normalize_embeddings
        makes each row's length 1. `device` is the model's own. output_value and precision have one value each.
        """
        if output_value != "sentence_embedding" or precision != "float32" or prompt_name is not None:
            raise ValueError("encode: expected output_value 'sentence_embedding', precision 'float32' and no "
                             f"prompt_name, got {output_value!r}, {precision!r}, {prompt_name!r}")
        one = isinstance(sentences, str)
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        rows = self._rows([prompt + text for text in texts] if prompt else texts, batch_size, bool(show_progress_bar))
        dims = truncate_dim or self._truncate_dim
        if dims:
            rows = rows[:, :dims]
        if normalize_embeddings:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        if convert_to_tensor:
            import torch

            tensor = torch.from_numpy(np.ascontiguousarray(rows))
            return tensor[0] if one else tensor
        if one:
            return rows[0]
        return rows if convert_to_numpy else list(rows)

    encode_query = encode
    encode_document = encode

    def _rows(self, texts: list[str], batch_size: int, is_shown: bool) -> Floats:
        """In batches of similar length, so that Ctrl-C and the progress line come between them."""
        out = np.empty((len(texts), self._model.embedding_dims), np.float32)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for begin in range(0, len(order), max(1, batch_size)):
            part = order[begin : begin + max(1, batch_size)]
            out[part] = self._model.embed([texts[i] for i in part], truncate=True)
            if is_shown:
                print(f"\rBatches: {begin + len(part)}/{len(order)}", end="", file=sys.stderr, flush=True)
        if is_shown:
            print(file=sys.stderr)
        return out

    def similarity(self, a: Any, b: Any) -> Any:
        """The cosine of each pair of rows, [n, m]; a tensor of PyTorch if one of them is one."""
        is_tensor = any(type(x).__module__.startswith("torch") for x in (a, b))
        x, y = (np.atleast_2d(np.asarray(rows, np.float32)) for rows in (a, b))
        x, y = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (x, y))
        found = x @ y.T
        if not is_tensor:
            return found
        import torch

        return torch.from_numpy(found)

    def similarity_pairwise(self, a: Any, b: Any) -> Any:
        """The cosine of each row of a with the same row of b."""
        from ._native import ffi, lib

        x, y = (np.ascontiguousarray(np.atleast_2d(rows), np.float32) for rows in (a, b))
        if x.shape != y.shape:
            raise ValueError(f"similarity_pairwise: expected equal shapes, got {x.shape} and {y.shape}")
        return np.array([lib.clef_cosine(ffi.cast("const float *", ffi.from_buffer(p)),
                                         ffi.cast("const float *", ffi.from_buffer(q)), len(p))
                         for p, q in zip(x, y)], np.float32)
