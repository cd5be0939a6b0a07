"""Models: what they generate, their logits, embeddings, classes."""
from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ._arrays import as_c_array, whole
from ._native import (ClosedError, NotFound, Unsupported, c_text, call, ffi, fields_of, lib, new_struct, path_bytes,
                      text_of, utf8)
from ._pages import Attention, Profile
from .device import Device, DeviceLock, Progress
from .pictures import Picture, open_vision, run_picture
from .sampling import Sampling
from .speech import Sound, Transcript, read_sound, transcribe
from .tokenizer import Ids, Tokenizer, as_ids, decode_with, encode_with

if TYPE_CHECKING:
    from .generation import Generation
    from .graph import Graph
    from .ranks import Ranks

Floats = npt.NDArray[np.float32]
_kv_types = {"f32": "CLEF_F32", "f16": "CLEF_F16", "q8_0": "CLEF_Q8_0"}
_poolings = {"mean": lib.CLEF_POOL_MEAN, "cls": lib.CLEF_POOL_CLS, "last": lib.CLEF_POOL_LAST}
_as_ids = as_ids


def _floats(pointer: Any, *shape: int) -> Floats:
    """A read-only view of memory of the library."""
    n = int(np.prod(shape))
    return np.frombuffer(memoryview(ffi.buffer(pointer, 4 * n)).toreadonly(), dtype=np.float32).reshape(shape)


def _refuse_beside_image(**others: Any) -> None:
    for name, value in others.items():
        if value is not None and value is not False:
            raise TypeError(f"{name}: expected none beside image")


class _Working:
    """`with` it, a thread has the device for itself. The model must be open."""

    def __init__(self, lock: DeviceLock, finalizer: Any, path: str) -> None:
        self._lock, self._finalizer, self._path = lock, finalizer, path

    def __enter__(self) -> None:
        self._lock.__enter__()
        try:
            self.check()
        except ClosedError:
            self._lock.__exit__()
            raise

    def check(self) -> None:
        """Raises, if the model was closed."""
        if not self._finalizer.alive:
            raise ClosedError(f"{self._path}: the model was closed")

    def __exit__(self, *exception: object) -> None:
        self._lock.__exit__()


class _Described:
    """What a model's hyperparameters say."""

    _model: Any
    _context = 0
    _guard: _Working

    def _working(self) -> _Working:
        return self._guard

    @property
    def hparams(self) -> dict[str, Any]:
        """The numbers and names of clef_hparams: arch, name, n_layers, d_model, n_vocab, n_context .."""
        with self._working():
            return fields_of(lib.clef_model_hparams(self._model)[0])

    @property
    def is_encoder(self) -> bool:
        """Whether all tokens see each other, as in BERT."""
        with self._working():
            return bool(lib.clef_model_is_encoder(self._model))

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it reads a source and writes a target, as T5."""
        with self._working():
            return int(lib.clef_model_hparams(self._model).n_decoder_layers) > 0

    def graph(self, *, context: int = 0, batch: int = 0, sequences: int = 0, optimize: str | None = "fuse",
              all_logits: bool = False, taps: Sequence[str] = (), train: bool = False, for_export: bool = False,
              part: str = "whole", padding_mask: bool = False, kv_type: str = "f32") -> Graph:
        """The model's graph, after the passes up to `optimize` (None: none of them).

        context, batch, sequences  bounds of positions, of the tokens of a step, and of sequences; 0: the model's
        all_logits  logits of every position, and not of the last one alone
        taps        further outputs: "hidden_last", "attention_0" .., or any value's name
        train       the graph ends with a loss
        for_export  as Graph.to_onnx() wants it for the names of Optimum (optimize="drop")
        part        of an encoder-decoder: "whole", "encoder" or "decoder"
        padding_mask  a further input attention_mask, where 0 marks padding
        kv_type     of the KV cache: "f32", "f16" or "q8_0"
        """
        from .graph import Graph

        parts = {"whole": lib.CLEF_PART_WHOLE, "encoder": lib.CLEF_PART_ENCODER, "decoder": lib.CLEF_PART_DECODER}
        if part not in parts:
            raise ValueError(f"part: expected one of {', '.join(parts)}, got {part!r}")
        if kv_type not in _kv_types:
            raise ValueError(f"kv_type: expected one of {', '.join(_kv_types)}, got {kv_type!r}")
        names = [ffi.new("char[]", c_text(name)) for name in taps]
        tapped = ffi.new("char *[]", names) if names else ffi.NULL
        out = ffi.new("clef_graph **")
        with self._working():
            options = new_struct("clef_build_opts *", {
                "n_context": context or self._context, "n_batch": batch, "n_sequences": sequences,
                "all_logits": int(all_logits), "taps": tapped, "n_taps": len(names), "train": int(train),
                "for_export": int(for_export), "part": parts[part],
                "padding_mask": int(padding_mask), "kv_type": getattr(lib, _kv_types[kv_type])})
            call(lib.clef_model_build, self._model, options, out)
            graph = Graph._of(out[0], self)
            if optimize:
                call(lib.clef_graph_optimize, out[0], c_text(optimize))
        return graph


class Shape(_Described):
    """A model's hyperparameters without its weights, to plan with models that are not here.

    path   a config.json, or a folder with one
    dtype  which its matrices would have: "f16", "bf16", "f32", "q8_0", "q4_k" ..

    Its graphs can be looked at, counted and cut for ranks: `Shape(path).graph().of_rank(1, 8).count()`.
    """

    def __init__(self, path: str | os.PathLike[str], *, dtype: str = "f16") -> None:
        from .graph import _dtype

        self.path, self.dtype = os.fspath(path), dtype
        out = ffi.new("clef_model **")
        call(lib.clef_model_open_shape, c_text(self.path), _dtype(dtype), out)
        self._model = out[0]
        self._finalizer = weakref.finalize(self, lib.clef_model_close, self._model)
        self._guard = _Working(DeviceLock(), self._finalizer, self.path)

    def _weight_source(self) -> tuple[Any, Any]:
        raise Unsupported(f"{self.path}: these are hyperparameters without weights, so that nothing can run")

    def close(self) -> None:
        """Gives back its memory."""
        with self._guard._lock:
            self._finalizer()

    def __enter__(self) -> Shape:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<clef.Shape {self.path}>"


class Model(_Described):
    """A model on a device.

    path      a GGUF file or a Hugging Face folder; None: the small model that comes with clef
    device    what Device() takes as `which`, or a Device
    context   positions that a text may have; 0: the model's own
    kv_type   of the KV cache: "f32", "f16" or "q8_0"
    exact     products with quantised weights keep their activations in f32
    lora      the path of an adapter (PEFT's folder or a GGUF file) that all texts use
    n_beams   beams() may use so many; generate(), logits() and the like need a model without
    progress  called with what, done and total during long work; a true result stops it
    ranks     the Ranks that run it together; this is rank 0, and `device` is what Ranks.lead() takes

    The weights are mapped, not read. What a text, a batch or embeddings need on the device is made at their first
    use. Calls from several threads wait for each other, also those of models that share a Device; other models run at
    once. The GIL is released in every call that computes.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, device: str | Device = "auto", context: int = 0,
                 kv_type: str = "f32", exact: bool = False, lora: str | os.PathLike[str] | None = None,
                 lora_scale: float = 1.0, n_beams: int = 0, progress: Progress | None = None,
                 ranks: Ranks | None = None) -> None:
        if kv_type not in _kv_types:
            raise ValueError(f"kv_type: expected one of {', '.join(_kv_types)}, got {kv_type!r}")
        if not abs(lora_scale) < float("inf"):
            raise ValueError(f"lora_scale: expected a finite number, got {lora_scale}")
        if path is None:
            path = text_of(lib.clef_demo_model())
            if not path:
                raise FileNotFoundError("no path was given, and clef's own model is not installed")
        self.path = os.fspath(path)
        self.device = (ranks.lead(device) if ranks is not None
                       else Device(device) if isinstance(device, str) else device)
        self._lock = self.device._lock
        self._owned: list[Any] = []  # closers, the last one first
        self._users: list[tuple[Any, DeviceLock]] = []  # finalizers of batches, plans .. on it, closed before it
        # The device outlives what is on it: it is an argument, and was made before.
        self._keep: list[Any] = []  # handles of callbacks
        self._finalizer = weakref.finalize(self, _close_all, self._users, self._owned, self.device, self._keep)
        self.device._register(self._finalizer)
        out = ffi.new("clef_model **")
        call(lib.clef_model_open, c_text(self.path), out)
        self._model = self._own(out[0], lib.clef_model_close)
        self._loras = self._open_lora(os.fspath(lora), lora_scale) if lora else ffi.NULL
        self._lora = (os.fspath(lora), lora_scale) if lora else None
        self._progress = ffi.new_handle(progress)
        self._keep.append(self._progress)
        self._context, self._kv_type, self._exact, self._n_beams = context, kv_type, exact, n_beams
        self._has_own_device = isinstance(device, str) and ranks is None  # ranks close theirs
        self._parts: dict[str, Any] = {}
        self._published: Any = None  # the trainer whose weights it has
        self._guard = _Working(self._lock, self._finalizer, self.path)

    # ---- life ----------------------------------------------------------------------------------------------

    def _own(self, pointer: Any, close: Any) -> Any:
        self._owned.append(lambda: close(pointer))
        return pointer

    def _open_lora(self, path: str, scale: float) -> Any:
        adapter, out = ffi.new("clef_lora **"), ffi.new("clef_lora_set **")
        call(lib.clef_lora_open, c_text(path), self._model, scale, adapter)
        try:
            call(lib.clef_lora_set_create, self._model, adapter, 1, out)
        finally:
            lib.clef_lora_close(adapter[0])
        return self._own(out[0], lib.clef_lora_set_destroy)

    def close(self) -> None:
        """Gives back all memory, on the device too. Later calls fail; further close() do nothing."""
        with self._lock:
            self._parts.clear()
            self._finalizer()
        if self._has_own_device:
            self.device.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<clef.Model {self.path}>"

    def _settings(self) -> dict[str, Any]:
        """What its answers depend on beside its path."""
        return {"context": self._context, "kv_type": self._kv_type, "exact": self._exact, "lora": self._lora}

    def _compile(self) -> dict[str, Any]:
        return {"exact": int(self._exact), "progress": lib.clef_py_progress, "progress_user": self._progress}

    def _part(self, name: str, make: Any) -> Any:
        """What calls of one kind need on the device, made by the first of them."""
        if name not in self._parts:
            self._parts[name] = make()
        return self._parts[name]

    def _forget_sessions(self) -> None:
        """Gives up what has the weights on the device; the next calls make it anew."""
        self._parts.clear()
        while len(self._owned) > 1 + (self._loras != ffi.NULL):
            self._owned.pop()()

    def _register(self, finalizer: Any, lock: DeviceLock) -> None:
        """Notes what is to be closed before the model: a weakref.finalize, and the lock of what it frees."""
        self._users[:] = [user for user in self._users if user[0].alive]
        self._users.append((finalizer, lock))

    def _session(self) -> Any:
        def make() -> Any:
            options = new_struct("clef_session_opts *", {
                "n_context": self._context, "n_beams": self._n_beams, "kv_type": getattr(lib, _kv_types[self._kv_type]),
                "loras": self._loras, "lora": int(self._loras != ffi.NULL), "compile": self._compile()})
            out = ffi.new("clef_session **")
            call(lib.clef_session_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_session_destroy)
        return self._part("session", make)

    # ---- what the model is ---------------------------------------------------------------------------------

    @property
    def metadata(self) -> dict[str, str]:
        """The keys of the GGUF file or of config.json, and their values as text."""
        found: dict[str, str] = {}
        handle = ffi.new_handle(found)
        with self._working():
            lib.clef_model_metadata(self._model, lib.clef_py_entry, handle)
        return found

    @property
    def sampling(self) -> dict[str, float]:
        """The sampling options that the model's files recommend."""
        found, value = {}, ffi.new("double *")
        with self._working():
            for name in ("temperature", "top_k", "top_p", "min_p", "typical", "repeat_penalty"):
                if lib.clef_model_sampling(self._model, c_text(name), value):
                    found[name] = float(value[0])
        return found

    def tensors(self) -> dict[str, dict[str, Any]]:
        """The weights in the model's files: dtype, shape and bytes, by name."""
        found = {}
        with self._working():
            for i in range(lib.clef_model_n_tensors(self._model)):
                tensor = lib.clef_model_tensor(self._model, i)
                found[text_of(tensor.name)] = {"dtype": text_of(lib.clef_dtype_name(tensor.dtype)),
                                               "shape": tuple(tensor.dims[0 : tensor.rank]),
                                               "n_bytes": tensor.n_bytes}
        return found

    def tensor(self, name: str) -> Floats:
        """The numbers of a weight, float32, decoded."""
        with self._working():
            for i in range(lib.clef_model_n_tensors(self._model)):
                tensor = lib.clef_model_tensor(self._model, i)
                if text_of(tensor.name) == name:
                    out = np.empty(tuple(tensor.dims[0 : tensor.rank]), np.float32)
                    lib.clef_dtype_decode(tensor.dtype, tensor.data, out.size,
                                          ffi.cast("float *", ffi.from_buffer(out)))
                    return out
        raise KeyError(name)

    def _weight_source(self) -> tuple[Any, Any]:
        """The clef_weight_source of its graphs, and that one's user. The model must be open, and outlive both."""
        self._guard.check()
        if self._loras != ffi.NULL:
            return lib.clef_lora_set_weight, ffi.cast("void *", self._loras)
        return lib.clef_model_weight, ffi.cast("void *", self._model)

    def _weights_name(self) -> Any:
        """What other ranks open to have them; valid until the next call."""
        return lib.clef_model_weights_name(self._model, self._loras)

    # ---- tokens --------------------------------------------------------------------------------------------

    def _tokenizer(self) -> Any:
        error = ffi.new("clef_error *")
        tokenizer = lib.clef_model_tokenizer(self._model, error)
        if tokenizer == ffi.NULL:
            call(lambda err: _copy_error(error, err))
        return tokenizer

    def tokenize(self, text: str, *, special: bool = True) -> Ids:
        """The ids of a text, int32 [n]. special: with the tokens that the model puts before and after a text (BOS,
        [CLS] ..)."""
        with self._working():
            return encode_with(self._tokenizer(), text, special)

    def detokenize(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The text of ids, without special tokens. Bytes that are not UTF-8 become U+FFFD."""
        with self._working():
            return decode_with(self._tokenizer(), ids)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer; it lives as long as the model."""
        with self._working():
            return Tokenizer._of(self._tokenizer(), self)

    def _ends(self) -> set[int]:
        hparams = lib.clef_model_hparams(self._model)
        ends = {hparams.eos, *hparams.eos_more[0 : hparams.n_eos_more]}
        try:
            ends.add(lib.clef_tokenizer_eos(self._tokenizer()))
        except NotFound:
            pass  # a model without a tokenizer generates ids
        return ends - {-1}

    # ---- logits --------------------------------------------------------------------------------------------

    def logits(self, ids: Sequence[int] | npt.NDArray[np.integer], *, copy: bool = True) -> Floats:
        """The logits of the token after `ids`, float32 [n_vocab]. copy=False: a read-only view of the library's own
        memory, which the next call overwrites, and close() frees. Of an encoder-decoder, ids are the source, and the
        logits those of the target's first token."""
        pointer, n, _keep = _as_ids(ids)
        out = ffi.new("const float **")
        with self._working():
            self._parts.pop("generation", None)
            session = self._session()
            call(lib.clef_session_reset, session)
            if self.is_encoder_decoder:
                call(lib.clef_session_encode, session, pointer, n)
                pointer = ffi.new("int32_t[2]")
                n = lib.clef_session_start(session, pointer)
            call(lib.clef_session_feed, session, pointer, n, out)
            return self._logits_of(out[0], copy)

    # ---- the session ---------------------------------------------------------------------------------------

    def feed(self, ids: Sequence[int] | npt.NDArray[np.integer], *, copy: bool = True) -> Floats:
        """Goes on with the text that the model has in its KV cache by `ids`, and returns the logits of the token after
        them, as logits() does, which begins a new text."""
        pointer, n, _keep = _as_ids(ids)
        out = ffi.new("const float **")
        with self._working():
            self._parts.pop("generation", None)
            call(lib.clef_session_feed, self._session(), pointer, n, out)
            return self._logits_of(out[0], copy)

    def _logits_of(self, pointer: Any, copy: bool) -> Floats:
        # The view holds the model: its memory goes no earlier.
        kept = ffi.gc(ffi.cast("float *", pointer), lambda _, model=self: None)
        view = _floats(kept, lib.clef_model_hparams(self._model).n_vocab)
        return view.copy() if copy else view

    @property
    def cached_ids(self) -> Ids:
        """The ids in the KV cache, int32 [n]."""
        with self._working():
            session = self._session()
            n = lib.clef_session_n_past(session)
            return np.array(ffi.unpack(lib.clef_session_ids(session), n), np.int32)

    @property
    def source_ids(self) -> Ids:
        """The ids that the encoder of an encoder-decoder has read last."""
        n = ffi.new("int32_t *")
        with self._working():
            ids = lib.clef_session_source(self._session(), n)
            return np.array(ffi.unpack(ids, n[0]) if n[0] else [], np.int32)

    def keep(self, n: int) -> None:
        """Keeps the first n positions of the KV cache, from which feed() goes on."""
        with self._working():
            self._parts.pop("generation", None)
            call(lib.clef_session_keep, self._session(), whole("n", n))

    def save_session(self, path: str | os.PathLike[str]) -> None:
        """Writes the KV cache and its ids to a file, from which load_session() goes on."""
        with self._working():
            self._parts.pop("generation", None)
            call(lib.clef_session_save, self._session(), path_bytes(path))

    def load_session(self, path: str | os.PathLike[str]) -> None:
        """Replaces the KV cache by that of a file of the same model, which is checked first."""
        with self._working():
            self._parts.pop("generation", None)
            call(lib.clef_session_check, self._model, getattr(lib, _kv_types[self._kv_type]), self._loras,
                 int(self._loras != ffi.NULL), path_bytes(path))
            call(lib.clef_session_load, self._session(), path_bytes(path))

    @property
    def stats(self) -> dict[str, Any]:
        """Memory, launches and work of a step, by the names of clef_plan_stats."""
        with self._working():
            return fields_of(lib.clef_session_describe(self._session()))

    def profile(self) -> Profile:
        """The times of the last step's launches. The device was opened with profile=True."""
        from .graph import profile_of

        with self._working():
            return profile_of(lib.clef_session_profile, self._session())

    def step_graph(self) -> Graph:
        """A copy of the graph of a step as the device runs it."""
        from .graph import Graph

        with self._working():
            plan = lib.clef_session_plan(self._session(), 0)
            return Graph._of(lib.clef_graph_clone(lib.clef_plan_graph(plan)), self)

    # ---- text ----------------------------------------------------------------------------------------------

    @overload
    def generate(self, prompt: str | Sequence[int], *, stream: Literal[False] = False, **options: Any) -> str: ...
    @overload
    def generate(self, prompt: str | Sequence[int], *, stream: Literal[True], **options: Any) -> Generation: ...

    def generate(self, prompt: str | Sequence[int], *, stream: bool = False, max_tokens: int = 0,
                 stop: str | Sequence[str] = (), ignore_eos: bool = False, json_schema: Any = None,
                 grammar: str | None = None, regex: str | None = None, choice: Sequence[str] | None = None,
                 **sampling: Any) -> str | Generation:
        """The text that follows a prompt.

        prompt      a text, or ids, to which nothing is added
        stream      True: an iterator of pieces, each of whole characters, as soon as they are known
        max_tokens  0: until the model ends the text, or its context is full
        stop        texts that end it; they are not part of it
        ignore_eos  the model's end tokens do not end it
        json_schema, grammar, regex, choice
                    one of them: what the text must be. A JSON Schema as a dict or as text; GBNF as llama.cpp has it;
                    a regular expression of ECMA-262; one of these texts
        sampling    the fields of Sampling: temperature, top_k, seed ..

        With a seed or at temperature 0 the text is that of `clef run` with the same options.
        """
        from .generation import Generation  # it needs Model

        with self._working():  # a whole text, before another thread's begins
            generation = Generation(self, prompt, max_tokens=max_tokens,
                                    stop=[stop] if isinstance(stop, str) else stop, ignore_eos=ignore_eos,
                                    sampling=Sampling(**sampling),
                                    constraint=_constraint_of(json_schema, grammar, regex, choice))
            return generation if stream else "".join(generation)

    def generate_ids(self, prompt: str | Sequence[int], **options: Any) -> Ids:
        """As generate(), but the new tokens' ids, int32 [n]. The end token is not one of them. With ids as the prompt
        the model needs no tokenizer."""
        from .generation import Generation

        stop = options.pop("stop", ())
        constraint = _constraint_of(*(options.pop(name, None) for name in ("json_schema", "grammar", "regex",
                                                                           "choice")))
        with self._working():
            generation = Generation(self, prompt, max_tokens=options.pop("max_tokens", 0),
                                    stop=[stop] if isinstance(stop, str) else stop,
                                    ignore_eos=options.pop("ignore_eos", False), sampling=Sampling(**options),
                                    constraint=constraint, has_text=bool(stop))
            generation.run()
        return np.array(generation.ids, np.int32)

    def beams(self, prompt: str | Sequence[int], *, max_tokens: int = 0, n_best: int = 1, length_penalty: float = 1.0,
              early_stopping: bool = False, ignore_eos: bool = False) -> list[dict[str, Any]]:
        """Beam search, as transformers' generate(num_beams=.., do_sample=False): the best texts, each with "text",
        "ids", "score" and "ended". The model was opened with n_beams."""
        if not self._n_beams:
            raise ValueError("beams: expected a model that was opened with n_beams, got one without")
        out, n = ffi.new("clef_hypothesis **"), ffi.new("int32_t *")
        with self._working():
            session = self._session()
            ids = self.tokenize(prompt) if isinstance(prompt, str) else prompt
            pointer, n_ids, _keep = _as_ids(ids)
            if self.is_encoder_decoder:
                call(lib.clef_session_encode, session, pointer, n_ids)
                pointer = ffi.new("int32_t[2]")
                n_ids = lib.clef_session_start(session, pointer)
            options = new_struct("clef_beam_opts *", {
                "n_best": n_best, "length_penalty": length_penalty, "early_stopping": int(early_stopping),
                "n_max": max_tokens, "ignore_eos": int(ignore_eos)})
            call(lib.clef_session_beams, session, pointer, n_ids, options, out, n)
            try:
                found = [{"ids": np.array(ffi.unpack(out[0][i].ids, out[0][i].n), np.int32), "score": out[0][i].score,
                          "ended": bool(out[0][i].ended)} for i in range(n[0])]
            finally:
                lib.clef_hypotheses_free(out[0], n[0])
        return [{"text": self.detokenize(text["ids"]), **text} for text in found]

    # ---- chat ----------------------------------------------------------------------------------------------

    def chat(self, messages: Sequence[Mapping[str, Any]], *, stream: bool = False, **options: Any) -> Any:
        """The model's answer to a conversation, as OpenAI's API has messages: [{"role": "user", "content": ..}, ..].

        tools        functions that the model may call, as OpenAI's API has them. The answer's calls are well formed
        tool_choice  "auto", "none", "required", or the name of a function
        template     the model's own chat template; or "chatml" and others, or the path of a file
        tool_format  how calls are written, if the template does not show it: `clef template --help` lists them
        arguments    further variables of the template, as {"enable_thinking": False}
        and the options of generate().

        Returns the message: {"role": "assistant", "content": str or None, "tool_calls": [..]} and "reasoning_content"
        if there is some. stream: an iterator of parts of it, which add up to the message.
        """
        from .conversation import Answer

        with self._working():
            answer = Answer(self, messages, **options)
            return answer if stream else answer.message()

    def apply_template(self, messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Any] | None = None,
                       template: str | os.PathLike[str] | None = None, arguments: Mapping[str, Any] | None = None,
                       add_generation_prompt: bool = True) -> str:
        """The text that the chat template makes of a conversation."""
        from .conversation import Rendered

        return str(Rendered(self, messages, tools, template, arguments or {}, add_generation_prompt).text)

    # ---- embeddings, classes, masks ------------------------------------------------------------------------

    def _embedder(self, pooling: str | None = None, normalize: bool | None = None, no_prompt: bool = False,
                  prompt_name: str | None = None, dimensions: int | None = None) -> Any:
        if pooling is not None and pooling not in _poolings:
            raise ValueError(f"pooling: expected one of {', '.join(_poolings)}, got {pooling!r}")
        if dimensions is not None and dimensions < 1:
            raise ValueError(f"dimensions: expected at least 1, got {dimensions}")
        if no_prompt and prompt_name is not None:
            raise ValueError("embed: expected no_prompt or prompt_name, not both")

        def make() -> Any:
            out = ffi.new("clef_embedder **")
            wanted = (lib.CLEF_NORMALIZE_MODEL if normalize is None
                      else lib.CLEF_NORMALIZE_YES if normalize else lib.CLEF_NORMALIZE_NO)
            name = ffi.NULL if prompt_name is None else ffi.new("char[]", c_text(prompt_name))
            options = new_struct("clef_embed_opts *", {
                "pooling": _poolings[pooling] if pooling else lib.CLEF_POOL_NONE, "normalize": wanted, "no_prompt": int(no_prompt),
                "prompt_name": name,
                "n_dims": dimensions or 0, "compile": self._compile()})
            call(lib.clef_embedder_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_embedder_destroy)

        return self._part(f"embedder {pooling} {normalize} {no_prompt} {dimensions} {prompt_name}", make)

    def embed(self, texts: str | Sequence[Any] | None = None, *, image: Picture | None = None, truncate: bool = False,
              pooling: str | None = None, normalize: bool | None = None, no_prompt: bool = False,
              prompt_name: str | None = None, dimensions: int | None = None) -> Floats:
        """Embeddings, float32 [n, d], one row for each text; of one text [d]. A list of lists of ids works too.

        image      instead of texts a picture, whose vector [d] is wanted: the path of a PNG, JPEG, WebP or PPM file; its
                   bytes; a picture of Pillow; or bytes [height, width, 3] or [height, width]

        truncate   texts that are too long lose their ends; else they raise LimitError
        pooling    "mean", "cls" or "last"; None: what the model's files say
        normalize  whether rows have the length 1; None: what the model's files say
        no_prompt  texts are taken without the prompt that the model's files put before each
        prompt_name  another prompt of the model's files
        dimensions the first numbers of each row, for models that were trained for it; None: all
        """
        if image is not None:
            _refuse_beside_image(texts=texts, truncate=truncate, no_prompt=no_prompt, prompt_name=prompt_name,
                                 dimensions=dimensions)
            return self._see(lib.CLEF_VISION_VECTOR, image, pooling, normalize)[1]
        if not isinstance(texts, Iterable) or isinstance(texts, (bytes, Mapping)):
            raise TypeError(f"embed: expected a text, or a list of texts or of ids, got {type(texts).__name__}")
        many = [texts] if isinstance(texts, str) else list(texts)
        with self._working():
            embedder = self._embedder(pooling, normalize, no_prompt, prompt_name, dimensions)
            out = np.empty((len(many), lib.clef_embedder_describe(embedder).n_dims), np.float32)
            if many:
                self._embed(embedder, many, truncate, ffi.cast("float *", ffi.from_buffer(out)))
        return out[0] if isinstance(texts, str) else out

    def _see(self, kind: int, image: Picture, pooling: str | None = None,
             normalize: bool | None = None) -> tuple[Any, Floats]:
        with self._working():
            vision, processor = self._part(f"vision {kind} {pooling} {bool(normalize)}",
                                           lambda: open_vision(self, kind, pooling, normalize))
            return vision, run_picture(vision, processor, image)

    @staticmethod
    def _embed(embedder: Any, many: list[Any], truncate: bool, out: Any) -> None:
        if all(isinstance(text, str) for text in many):
            data = [ffi.from_buffer(utf8(text)) for text in many]
            spans = ffi.new("clef_span[]", [{"text": d, "n_bytes": len(d)} for d in data])
            call(lib.clef_embed_texts, embedder, spans, len(many), int(truncate), out, ffi.NULL)
            return
        ids = [_as_ids(text) for text in many]
        pointers = ffi.new("int32_t *[]", [ffi.cast("int32_t *", pointer) for pointer, _, _ in ids])
        call(lib.clef_embed_ids, embedder, pointers, [n for _, n, _ in ids], len(many), out)

    def embed_sparse(self, texts: str | Sequence[str], *, truncate: bool = False) -> Any:
        """How much each token counts in a text, by bge-m3's sparse_linear: a dict {id: weight} of one text, a list of
        them of a list. Special tokens and weights of 0 are left out."""
        def weights(embedder: Any, ids: Any, n: int) -> dict[int, float]:
            out, count = ffi.new("clef_token_weight[]", max(n, 1)), ffi.new("int32_t *")
            call(lib.clef_embed_sparse, embedder, ids, n, out, count)
            return {out[i].id: out[i].weight for i in range(count[0])}

        return self._embed_tokens(texts, truncate, weights)

    def embed_multi(self, texts: str | Sequence[str], *, truncate: bool = False) -> Any:
        """bge-m3's vectors of all tokens but the first, by colbert_linear: float32 [n - 1, d] of one text, a list of them
        of a list. Each vector has the length 1."""
        def vectors(embedder: Any, ids: Any, n: int) -> Floats:
            dims = ffi.new("int32_t *")
            call(lib.clef_embed_multi_dims, embedder, dims)
            out = np.empty((n - 1, dims[0]), np.float32)
            call(lib.clef_embed_multi, embedder, ids, n, ffi.cast("float *", ffi.from_buffer(out)))
            return out

        return self._embed_tokens(texts, truncate, vectors)

    def _embed_tokens(self, texts: str | Sequence[str], truncate: bool, compute: Callable[[Any, Any, int], Any]) -> Any:
        many = [texts] if isinstance(texts, str) else list(texts)
        found = []
        with self._working():
            embedder = self._embedder()
            for text in many:
                encoded, data = ffi.new("clef_encoded *"), ffi.from_buffer(utf8(text))
                try:
                    call(lib.clef_embed_encode, embedder, {"text": data, "n_bytes": len(data)}, int(truncate), encoded)
                    found.append(compute(embedder, encoded.ids, encoded.n))
                finally:
                    lib.clef_encoded_finish(encoded)
        return found[0] if isinstance(texts, str) else found

    @property
    def embedding_dims(self) -> int:
        """The length of an embedding."""
        with self._working():
            return int(lib.clef_embedder_describe(self._embedder()).n_dims)

    @property
    def max_tokens(self) -> int:
        """The most tokens of a text that embed() takes."""
        with self._working():
            return int(lib.clef_embedder_describe(self._embedder()).max_tokens)

    def _ranker(self, raw: bool) -> Any:
        def make() -> Any:
            out = ffi.new("clef_ranker **")
            options = new_struct("clef_ranker_opts *", {"raw": int(raw), "compile": self._compile()})
            call(lib.clef_ranker_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_ranker_destroy)
        return self._part(f"ranker {raw}", make)

    def _encode_ranked(self, info: Any, query: str, document: str, truncate: bool) -> tuple[Ids, Ids]:
        a, b = ffi.from_buffer(utf8(query)), ffi.from_buffer(utf8(document))
        out = ffi.new("clef_encoded *")
        try:
            call(lib.clef_rank_encode, self._tokenizer(), info, {"text": a, "n_bytes": len(a)},
                 {"text": b, "n_bytes": len(b)}, int(truncate), out)
            return (np.frombuffer(ffi.buffer(out.ids, 4 * out.n), np.int32).copy(),
                    np.frombuffer(ffi.buffer(out.types, 4 * out.n), np.int32).copy())
        finally:
            lib.clef_encoded_finish(out)

    def rank(self, pairs: Sequence[tuple[str, str]], *, truncate: bool = True, raw: bool = False) -> Floats:
        """How well the second text of each pair answers the first, float32 [n], by a cross-encoder or a decoder that
        answers yes or no: from 0 to 1, unless the model's files say that its logits are the scores.

        truncate   pairs that are too long lose their ends; else they raise LimitError
        raw        the model's logits
        """
        many = [tuple(pair) for pair in pairs]
        for i, pair in enumerate(many):
            if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
                raise TypeError(f"rank: expected pairs of texts, got {pair!r} as number {i}")
        out = np.empty(len(many), np.float32)
        with self._working():
            ranker = self._ranker(raw)
            info = ffi.new("clef_ranker_info *", lib.clef_ranker_describe(ranker))
            rows = [self._encode_ranked(info, query, document, truncate) for query, document in many]
            ids, types = ([_as_ids(row[k]) for row in rows] for k in (0, 1))
            pointers = [ffi.new("int32_t *[]", [ffi.cast("int32_t *", one[0]) for one in part]) for part in (ids, types)]
            call(lib.clef_rank_ids, ranker, pointers[0], pointers[1], [one[1] for one in ids], len(many),
                 ffi.cast("float *", ffi.from_buffer(out)))
        return out

    def _transcriber(self, words: bool) -> Any:
        def make() -> Any:
            out = ffi.new("clef_transcriber **")
            options = new_struct("clef_transcriber_opts *", {
                "n_beams": self._n_beams, "words": int(words), "kv_type": getattr(lib, _kv_types[self._kv_type]),
                "compile": self._compile()})
            call(lib.clef_transcriber_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_transcriber_destroy)
        return self._part(f"transcriber {words}", make)

    def transcribe(self, sound: Sound, rate: int | None = None, *, language: str | None = None, translate: bool = False,
                   prompt: str | None = None, condition: bool = False, timestamps: bool = False, words: bool = False,
                   temperatures: Sequence[float] | None = None, max_tokens: int = 0, seed: int = 0) -> Transcript:
        """What is said in a sound, by a Whisper model.

        sound         the path of a WAV, FLAC, Ogg, AIFF, AU, CAF or MP3 file; its bytes; or an array of samples [n] or
                      [n, channels] with its `rate`: floats from -1 to 1, or integers of a sound file
        language      a code ("de") or a name; None: what the first 30 seconds sound like
        translate     write it in English
        prompt        a text that might have come before
        condition     each window of 30 seconds sees the text before it
        timestamps    segments are those of the model's timestamps, which sounds above 30 seconds always have
        words         with the times of words
        temperatures  to try one after the other while a text fails a check; None: 0, 0.2 .. 1
        max_tokens    most tokens of a window; 0: the model's limit
        """
        samples = read_sound(sound, rate)
        tries = None if temperatures is None else [float(x) for x in temperatures]
        options = {"translate": int(translate), "condition": int(condition), "timestamps": int(timestamps),
                   "words": int(words), "n_max": whole("max_tokens", max_tokens, 0), "seed": whole("seed", seed, 0, 2**64 - 1)}
        with self._working():
            return transcribe(self, self._transcriber(words), samples, language, prompt, tries, options)

    def _classifier(self, head: str) -> Any:
        def make() -> Any:
            out = ffi.new("clef_classifier **")
            options = new_struct("clef_classifier_opts *", {"head": getattr(lib, head), "compile": self._compile()})
            call(lib.clef_classifier_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_classifier_destroy)
        return self._part(head, make)

    def _encode_pair(self, text: str, pair: str | None) -> tuple[Ids, Ids]:
        a, b = utf8(text), utf8(pair) if pair is not None else None
        out = ffi.new("clef_encoded *")
        call(lib.clef_tokenizer_encode_pair, self._tokenizer(), a, len(a), b if b is not None else ffi.NULL,
             len(b) if b is not None else 0, ffi.NULL, out)
        try:
            n = out.n
            return (np.frombuffer(ffi.buffer(out.ids, 4 * n), np.int32).copy(),
                    np.frombuffer(ffi.buffer(out.types, 4 * n), np.int32).copy())
        finally:
            lib.clef_encoded_finish(out)

    def _run_classifier(self, classifier: Any, text: str, pair: str | None) -> tuple[Ids, Floats]:
        ids, types = self._encode_pair(text, pair)
        info = lib.clef_classifier_describe(classifier)
        out = ffi.new("const float **")
        call(lib.clef_classify, classifier, _as_ids(ids)[0], _as_ids(types)[0], len(ids), out)
        return ids, _floats(out[0], len(ids) if info.per_token else 1, info.n_classes).copy()

    def _classify_image(self, image: Picture, classes: Sequence[str] | None) -> list[dict[str, Any]]:
        if classes is None:
            vision, row = self._see(lib.CLEF_VISION_CLASSES, image)
            labels = [text_of(lib.clef_vision_label(vision, i)) for i in range(len(row))]
            kind = lib.clef_vision_describe(vision).classes
        else:
            vision, row = self._see(lib.CLEF_VISION_VECTOR, image, None, True)
            info, labels = lib.clef_vision_describe(vision), list(classes)
            if not info.has_texts or not labels:
                raise Unsupported(f"{self.path}: classes: expected some, and a model that compares pictures with texts")
            row = np.ascontiguousarray(self.embed(labels, normalize=True) @ row * info.scale + info.bias, np.float32)
            kind = lib.CLEF_CLASS_SIGMOID if info.sigmoid else lib.CLEF_CLASS_SOFTMAX
        scores = np.empty_like(row)
        lib.clef_class_probabilities(kind, ffi.cast("const float *", ffi.from_buffer(row)), len(row),
                                     ffi.cast("float *", ffi.from_buffer(scores)))
        return [{"label": labels[i], "score": float(scores[i])} for i in np.argsort(-row, kind="stable")]

    def classify(self, text: str | None = None, pair: str | None = None, *, image: Picture | None = None,
                 classes: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The classes of a text, or of a pair of texts, by the model's own classifier: [{"label", "score"}, ..], the
        likeliest first. A model that labels tokens gives a list for each token, with its text as "token".

        image    instead of a text a picture, as in embed()
        classes  texts that the picture is compared with, by CLIP or SigLIP; None: the model's own classes
        """
        if image is not None:
            _refuse_beside_image(text=text, pair=pair)
            return self._classify_image(image, classes)
        if text is None or classes is not None:
            raise TypeError("classify: expected a text, or an image with or without classes")
        with self._working():
            classifier = self._classifier("CLEF_HEAD_CLASSES")
            info = lib.clef_classifier_describe(classifier)
            ids, rows = self._run_classifier(classifier, text, pair)
            labels = [text_of(lib.clef_classifier_label(classifier, i)) for i in range(info.n_classes)]
            scores = np.empty_like(rows)
            for i, row in enumerate(rows):
                lib.clef_class_probabilities(info.kind, ffi.cast("const float *", ffi.from_buffer(row)), len(row),
                                             ffi.cast("float *", ffi.from_buffer(scores[i])))
        found = [[{"label": labels[i], "score": float(row[i])} for i in np.argsort(-row, kind="stable")]
                 for row in scores]
        if not info.per_token:
            return found[0]
        return [{"token": self.detokenize([i]), "classes": classes} for i, classes in zip(ids, found)]

    def fill_mask(self, text: str, *, top: int = 5) -> list[list[dict[str, Any]]]:
        """What a masked language model expects at each mask token of a text: a list for each mask of
        {"token", "text", "score"}, the likeliest first."""
        top = whole("top", top, 1)
        with self._working():
            mask = lib.clef_tokenizer_role(self._tokenizer(), lib.CLEF_ROLE_MASK)
            ids, rows = self._run_classifier(self._classifier("CLEF_HEAD_MASKED"), text, None)
        found = []
        for row in rows[np.flatnonzero(ids == mask)].astype(np.float64):
            scores = np.exp(row - row.max())
            scores /= scores.sum()
            best = np.argsort(-scores, kind="stable")[:top]
            found.append([{"token": int(i), "text": self.detokenize([i]), "score": float(scores[i])} for i in best])
        if not found:
            raise ValueError("fill_mask: the text has no mask token")
        return found

    # ---- the graph -----------------------------------------------------------------------------------------

    def _rows_of(self, ids: Any, name: str) -> Ids:
        """Ids of the vocabulary, [B, T]. A graph of its own reads zeros for others."""
        rows = np.atleast_2d(as_c_array(ids, np.int32, name))
        n_vocab = self.hparams["n_vocab"]
        if rows.ndim != 2 or rows.size == 0:
            raise ValueError(f"{name}: expected ids [T] or [B, T], got an array of shape {list(np.shape(ids))}")
        if rows.min() < 0 or rows.max() >= n_vocab:
            raise ValueError(f"{name}: expected ids from 0 to {n_vocab - 1}, got {rows.min()} to {rows.max()}")
        return rows

    def evaluate(self, ids: Any, *, target: Any = None, attention_mask: Any = None,
                 taps: Sequence[str] = ()) -> dict[str, Any]:
        """Runs ids [T] or [B, T] once, without a cache between calls: "logits" of every position, and the taps, such as
        "hidden_last" and "attention_0". target: of an encoder-decoder, the decoder's ids. attention_mask: as ids; 0
        marks padding."""
        rows = self._rows_of(ids, "ids")
        inputs: dict[str, Any] = {"input_ids": rows}
        if self.is_encoder_decoder:
            if target is None:
                raise ValueError("evaluate: an encoder-decoder needs a target")
            inputs["decoder_input_ids"] = self._rows_of(target, "target")
        if attention_mask is not None and np.all(attention_mask):
            attention_mask = None  # nothing is padding; linear attention has no mask
        if attention_mask is not None:
            inputs["attention_mask"] = np.atleast_2d(as_c_array(attention_mask, np.int32, "attention_mask"))
        n = max(array.shape[1] for array in inputs.values())
        graph = self.graph(context=n, batch=n, sequences=len(rows), optimize=None, taps=taps,
                           all_logits=True, padding_mask=attention_mask is not None)
        if "pos" in graph.inputs:
            inputs["pos"] = np.zeros(len(rows), np.int32)
        with graph.plan(self.device, exact=self._exact, progress=ffi.from_handle(self._progress)) as plan:
            return plan.run(**inputs)

    def attention(self, text: str | Sequence[int], *, target: str | Sequence[int] | None = None,
                  layers: Sequence[int] | None = None) -> Attention:
        """Where each token of a text looks, for all layers and heads or for some layers. In a notebook it is a picture.
        target: of an encoder-decoder: the decoder's own text; the result is then its cross-attention to `text`."""
        ids = self.tokenize(text) if isinstance(text, str) else _as_ids(text)[2]
        hparams = self.hparams
        wanted: Any = None
        if target is not None:
            wanted = self.tokenize(target) if isinstance(target, str) else _as_ids(target)[2]
        n_layers = hparams["n_decoder_layers"] if self.is_encoder_decoder else hparams["n_layers"]
        chosen = list(range(n_layers)) if layers is None else [whole("layers", i, 0, n_layers - 1) for i in layers]
        if not chosen:
            raise ValueError("layers: expected at least one, got none")
        prefix = "cross_attention" if self.is_encoder_decoder else "attention"
        found = self.evaluate(ids, target=wanted, taps=[f"{prefix}_{i}" for i in chosen])
        weights = np.stack([found[f"{prefix}_{i}"][0] for i in chosen])
        tokenizer = self.tokenizer
        names = [[tokenizer.token(i).decode("utf-8", "replace") for i in row]
                 for row in (ids if wanted is None else wanted, ids)]
        return Attention(names[0], weights, names[1], chosen)

    def quantize(self, path: str | os.PathLike[str], type: str, *, tokenizer: bool = True,
                 imatrix: str | os.PathLike[str] | None = None, tensor_types: Mapping[str, str] | None = None,
                 progress: Progress | None = None, note: Callable[[str], Any] | None = None) -> None:
        """Writes the model as a GGUF file with quantised weights: "q8_0", "q4_k_m" .. (clef.quantize_types()).

        imatrix       a file of `clef imatrix` or llama-imatrix, by which the K and IQ types weigh errors
        tensor_types  types of single matrices by parts of their names, {"attn_v": "q6_k"}; the first that fits holds
        """
        handles = ffi.new_handle(progress), ffi.new_handle(note or (lambda text: None))
        name = ffi.new("char[]", c_text(type))
        texts = [(ffi.new("char[]", c_text(k)), ffi.new("char[]", c_text(v))) for k, v in (tensor_types or {}).items()]
        rules = ffi.new("clef_quantize_rule[]", [{"pattern": k, "type": v} for k, v in texts])
        importance = ffi.new("clef_imatrix **")
        options = new_struct("clef_quantize_opts *", {
            "type": name, "rules": rules, "n_rules": len(texts), "no_tokenizer": int(not tokenizer), "progress": lib.clef_py_progress,
            "progress_user": handles[0], "note": lib.clef_py_notice, "note_user": handles[1]})
        with self._working():
            if not lib.clef_quantize_knows(name):
                raise ValueError(f"type: expected one of {', '.join(quantize_types())}, got {type!r}")
            if imatrix is not None:
                call(lib.clef_imatrix_open, path_bytes(imatrix), importance)
                options.imatrix = importance[0]
            try:
                call(lib.clef_model_quantize, self._model, path_bytes(path), options)
            finally:
                lib.clef_imatrix_close(importance[0])

    def save(self, path: str | os.PathLike[str], weights: Mapping[str, Any], *, dtype: str = "float32") -> None:
        """Writes the model with other numbers in some of its weights, as a folder or a .gguf file."""
        dtypes = {"float32": lib.CLEF_F32, "float16": lib.CLEF_F16, "bfloat16": lib.CLEF_BF16}
        if dtype not in dtypes:
            raise ValueError(f"dtype: expected one of {', '.join(dtypes)}, got {dtype!r}")
        arrays = {name: as_c_array(array, np.float32, name) for name, array in weights.items()}
        unknown = arrays.keys() - self.tensors().keys()
        if unknown:
            raise KeyError(f"{', '.join(sorted(unknown))}: the model has no such weight")

        def read(name: str, n: int) -> Any:
            array = arrays.get(name)
            if array is None:
                return ffi.NULL
            if array.size != n:
                raise ValueError(f"{name}: expected {n} numbers, got {array.size}")
            return ffi.cast("const float *", ffi.from_buffer(array))

        handle = ffi.new_handle(read)
        values = new_struct("clef_weight_values *", {"read": lib.clef_py_values, "user": handle})
        options = new_struct("clef_save_opts *", {"dtype": dtypes[dtype]})
        with self._working():
            call(lib.clef_model_save, self._model, path_bytes(path), options, values)


def quantize_types() -> list[str]:
    """The types that Model.quantize() writes."""
    return _names(lib.clef_quantize_type)


def architectures() -> list[str]:
    """The architectures that clef knows."""
    return _names(lib.clef_arch_name)


def _names(function: Callable[[int], Any]) -> list[str]:
    found: list[str] = []
    while (name := function(len(found))) != ffi.NULL:
        found.append(text_of(name))
    return found


def _copy_error(source: Any, target: Any) -> int:
    target[0] = source[0]
    return int(source.status)


def _close_all(users: list[tuple[Any, DeviceLock]], closers: list[Any], device: Device, keep: list[Any]) -> None:
    def close() -> None:
        while users:
            finalizer, lock = users.pop()
            with lock:  # not while it computes
                finalizer()
        while closers:
            closers.pop()()
        keep.clear()

    device._lock.close(close)


def _constraint_of(json_schema: Any, grammar: str | None, regex: str | None,
                   choice: Sequence[str] | None) -> tuple[str, str] | None:
    """The kind of a constraint and its source, of whichever argument was given."""
    given: list[tuple[str, str]] = []
    if json_schema is not None:
        source = json_schema if isinstance(json_schema, str) else json.dumps(json_schema)
        given.append(("CLEF_CONSTRAIN_SCHEMA", source))
    if grammar is not None:
        given.append(("CLEF_CONSTRAIN_GBNF", grammar))
    if regex is not None:
        given.append(("CLEF_CONSTRAIN_REGEX", regex))
    if choice is not None:
        given.append(("CLEF_CONSTRAIN_CHOICES", json.dumps(list(choice))))
    if len(given) > 1:
        raise ValueError("json_schema, grammar, regex, choice: expected at most one of them")
    return given[0] if given else None
