"""The interface of sentence_transformers.SentenceTransformer."""
from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import as_c_array
from ._native import Unsupported, ffi, lib
from .device import Device
from .model import Floats, Model
from .tokenizer import Tokenizer


_similarities = ("cosine", "dot", "euclidean", "manhattan")


def _settings(path: str, name: str) -> dict[str, Any]:
    """A JSON file of a model's folder; {} if there is none."""
    file = os.path.join(path, name)
    if not os.path.isfile(file):
        return {}
    with open(file, encoding="utf-8") as text:
        found = json.load(text)
    return found if isinstance(found, dict) else {}


_forms = {"int8": (lib.CLEF_VECTOR_INT8, np.int8), "uint8": (lib.CLEF_VECTOR_UINT8, np.uint8),
          "binary": (lib.CLEF_VECTOR_BINARY, np.int8), "ubinary": (lib.CLEF_VECTOR_UBINARY, np.uint8)}


def quantize_embeddings(embeddings: Any, precision: str, ranges: Any = None, calibration_embeddings: Any = None) -> Any:
    """Vectors in fewer bits, by the definitions of sentence-transformers: one row for each.

    precision  "int8" and "uint8" cut the range of each number into 256; "binary" and "ubinary" keep signs as bits;
               "float32" changes nothing
    ranges     [2, d], the least and the greatest of each number; None: those of calibration_embeddings, or else of the
               vectors themselves, of which there have to be two at least
    """
    rows = as_c_array(embeddings, np.float32, "embeddings")
    if precision == "float32":
        return rows
    if precision not in _forms:
        raise ValueError(f"precision: expected one of float32, {', '.join(_forms)}, got {precision!r}")
    if rows.ndim != 2:
        raise ValueError(f"embeddings: expected rows of numbers, got the shape {list(rows.shape)}")
    form, dtype = _forms[precision]
    n, d = rows.shape
    out = np.empty((n, lib.clef_vector_bytes(form, d)), dtype)
    bounds = ffi.NULL
    if precision.endswith("int8") and n:
        limits = _ranges(rows, precision, ranges, calibration_embeddings)
        bounds = ffi.cast("const float *", ffi.from_buffer(limits))
    lib.clef_vector_pack(form, ffi.cast("const float *", ffi.from_buffer(rows)), n, d, bounds,
                         ffi.cast("void *", ffi.from_buffer(out)))
    return out


def _ranges(rows: Floats, precision: str, ranges: Any, calibration: Any) -> Floats:
    d = rows.shape[1]
    if ranges is None:
        known = rows if calibration is None else as_c_array(calibration, np.float32, "calibration_embeddings")
        if len(known) < 2:
            raise ValueError(f"precision {precision}: expected ranges, calibration_embeddings or several embeddings")
        ranges = np.stack([known.min(0), known.max(0)])
    limits = as_c_array(ranges, np.float32, "ranges")
    if limits.shape != (2, d):
        raise ValueError(f"ranges: expected the shape [2, {d}], got {list(limits.shape)}")
    return limits


class SentenceTransformer:
    """Embeddings by the names that sentence-transformers has for them, for code that was written for it.

        s = clef.SentenceTransformer("all-MiniLM-L6-v2")    # a local folder, a GGUF file, or a Model
        s.similarity(s.encode(["a cat"]), s.encode(["a dog"]))

    device               what Model() takes; None: "auto"
    prompts, default_prompt_name, similarity_fn_name
                         None: what the folder's config_sentence_transformers.json says
    """

    def __init__(self, model: Model | str | os.PathLike[str], *, device: str | Device | None = None,
                 prompts: Mapping[str, str] | None = None, default_prompt_name: str | None = None,
                 similarity_fn_name: str | None = None, truncate_dim: int | None = None) -> None:
        self._model = model if isinstance(model, Model) else Model(model, device="auto" if device is None else device)
        self._truncate_dim = self._dims(truncate_dim)
        config = _settings(self._model.path, "config_sentence_transformers.json")
        self.prompts: dict[str, str] = dict(config.get("prompts") or {} if prompts is None else prompts)
        self.default_prompt_name = default_prompt_name or config.get("default_prompt_name")
        if self.default_prompt_name is not None:
            self._prompt(self.default_prompt_name)
        self.similarity_fn_name = similarity_fn_name or config.get("similarity_fn_name") or "cosine"
        if self.similarity_fn_name not in _similarities:
            raise ValueError(f"similarity_fn_name: expected one of {', '.join(_similarities)}, "
                             f"got {self.similarity_fn_name!r}")
        pooling = _settings(os.path.join(self._model.path, "1_Pooling"), "config.json")
        self._pools_prompts = bool(pooling.get("include_prompt", True))

    def _prompt(self, name: str) -> str:
        if name not in self.prompts:
            raise ValueError(f"prompt_name: expected one of {', '.join(self.prompts) or '(none)'}, got {name!r}")
        return self.prompts[name]

    def _dims(self, n: int | None) -> int | None:
        if n is not None and n < 1:
            raise ValueError(f"truncate_dim: expected at least 1, got {n}")
        return n

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

        prompt, prompt_name  a text before each sentence: itself, or its name in `prompts`; without both that of
                             default_prompt_name
        convert_to_numpy     False: a list of NumPy arrays, where sentence-transformers gives a list of tensors
        convert_to_tensor    True: a tensor of PyTorch, whatever convert_to_numpy is
        normalize_embeddings makes each row's length 1
        device               is not read: the model's own computes
        precision            what quantize_embeddings() takes
        output_value         has one value. Further options are refused, unless they are None
        """
        unknown = [name for name, value in options.items() if value is not None]
        if unknown:
            raise TypeError(f"encode: unknown options: {', '.join(unknown)}")
        if output_value != "sentence_embedding":
            raise ValueError(f"encode: expected output_value 'sentence_embedding', got {output_value!r}")
        if batch_size < 1:
            raise ValueError(f"batch_size: expected at least 1, got {batch_size}")
        one = isinstance(sentences, str)
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"sentences: expected texts, got {type(text).__name__} as number {i}")
        prompt = self._before(prompt_name, prompt)
        rows = self._rows([prompt + text for text in texts], batch_size, bool(show_progress_bar))
        dims = self._dims(truncate_dim) or self._truncate_dim
        if dims:
            rows = rows[:, :dims]
        if normalize_embeddings:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        rows = quantize_embeddings(rows, precision)
        if convert_to_tensor:
            import torch

            tensor = torch.from_numpy(np.ascontiguousarray(rows))
            return tensor[0] if one else tensor
        if one:
            return rows[0]
        return rows if convert_to_numpy else list(rows)

    def _before(self, name: str | None, prompt: str | None) -> str:
        """The text that goes before each sentence."""
        if prompt is None:
            name = self.default_prompt_name if name is None else name
            prompt = "" if name is None else self._prompt(name)
        if prompt and not self._pools_prompts:
            raise Unsupported(f"{self._model.path}: its pooling leaves out the prompt's tokens, which clef cannot do")
        return prompt

    def encode_query(self, sentences: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None,
                     **options: Any) -> Any:
        """encode() with the prompt called "query", if the model has one and no other is named."""
        return self.encode(sentences, self._named(("query",), prompt_name, prompt), prompt, **options)

    def encode_document(self, sentences: str | Sequence[str], prompt_name: str | None = None,
                        prompt: str | None = None, **options: Any) -> Any:
        """encode() with the prompt called "document", "passage" or "corpus", if the model has one and no other is
        named."""
        names = ("document", "passage", "corpus")
        return self.encode(sentences, self._named(names, prompt_name, prompt), prompt, **options)

    def _named(self, names: Sequence[str], prompt_name: str | None, prompt: str | None) -> str | None:
        if prompt_name is not None or prompt is not None:
            return prompt_name
        return next((name for name in names if name in self.prompts), None)

    def _rows(self, texts: list[str], batch_size: int, is_shown: bool) -> Floats:
        """In batches of similar length, so that Ctrl-C and the progress line come between them."""
        out = np.empty((len(texts), self._model.embedding_dims), np.float32)
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for begin in range(0, len(order), batch_size):
            part = order[begin : begin + batch_size]
            out[part] = self._model.embed([texts[i] for i in part], truncate=True, no_prompt=True)
            if is_shown:
                print(f"\rBatches: {begin + len(part)}/{len(order)}", end="", file=sys.stderr, flush=True)
        if is_shown:
            print(file=sys.stderr)
        return out

    def similarity(self, a: Any, b: Any) -> Any:
        """The similarity of each pair of rows by similarity_fn_name, [n, m]: the cosine, the dot product, or the
        negative distance; a tensor of PyTorch if one of them is one."""
        x, y = (np.atleast_2d(as_c_array(rows, np.float32, "embeddings")) for rows in (a, b))
        if self.similarity_fn_name == "euclidean":
            found = -np.sqrt(np.maximum(np.square(x[:, None] - y[None]).sum(-1), 0))
        elif self.similarity_fn_name == "manhattan":
            found = -np.abs(x[:, None] - y[None]).sum(-1)
        else:
            found = self._unit(x) @ self._unit(y).T
        return self._like(found, a, b)

    def similarity_pairwise(self, a: Any, b: Any) -> Any:
        """The similarity of each row of a with the same row of b, [n]."""
        x, y = (np.atleast_2d(as_c_array(rows, np.float32, "embeddings")) for rows in (a, b))
        if x.shape != y.shape:
            raise ValueError(f"similarity_pairwise: expected equal shapes, got {list(x.shape)} and {list(y.shape)}")
        if self.similarity_fn_name == "cosine":
            found = np.array([lib.clef_cosine(ffi.cast("const float *", ffi.from_buffer(p)),
                                              ffi.cast("const float *", ffi.from_buffer(q)), len(p))
                              for p, q in zip(x, y)], np.float32)
        elif self.similarity_fn_name == "dot":
            found = (x * y).sum(-1)
        else:
            distance = np.abs(x - y) if self.similarity_fn_name == "manhattan" else np.square(x - y)
            found = -distance.sum(-1) if self.similarity_fn_name == "manhattan" else -np.sqrt(distance.sum(-1))
        return self._like(found, a, b)

    def _unit(self, rows: Floats) -> Floats:
        if self.similarity_fn_name == "dot":
            return rows
        unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return unit

    @staticmethod
    def _like(found: Floats, a: Any, b: Any) -> Any:
        if not any(type(x).__module__.startswith("torch") for x in (a, b)):
            return found
        import torch

        return torch.from_numpy(found)
