"""Models: what they generate, their logits, embeddings, classes."""
from __future__ import annotations

import json
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from ._native import call, ffi, lib, text_of, utf8
from .device import Device, DeviceLock, Progress
from .sampling import Sampling

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
_kv_types = {"f32": "CLEF_F32", "f16": "CLEF_F16", "q8_0": "CLEF_Q8_0"}


def _as_ids(ids: Sequence[int] | npt.NDArray[np.integer]) -> tuple[Any, int, Ids]:
    """Ids as C takes them, and the array that must live as long."""
    array = np.ascontiguousarray(ids, dtype=np.int32)
    if array.ndim != 1:
        raise ValueError(f"ids: expected a list of integers, got an array of shape {array.shape}")
    return ffi.cast("const int32_t *", ffi.from_buffer(array)), len(array), array


def _floats(pointer: Any, *shape: int) -> Floats:
    """A view of memory of the library."""
    n = int(np.prod(shape))
    return np.frombuffer(ffi.buffer(pointer, 4 * n), dtype=np.float32).reshape(shape)


class _Working:
    """`with` it, a thread has the device for itself. The model must be open."""

    def __init__(self, lock: DeviceLock, finalizer: Any, path: str) -> None:
        self._lock, self._finalizer, self._path = lock, finalizer, path

    def __enter__(self) -> None:
        self._lock.__enter__()
        if not self._finalizer.alive:
            self._lock.__exit__()
            raise ValueError(f"{self._path}: the model was closed")

    def __exit__(self, *exception: object) -> None:
        self._lock.__exit__()


class Model:
    """A model on a device.

    path      a GGUF file or a Hugging Face folder; None: the small model that comes with clef
    device    what Device() takes as `which`, or a Device
    context   positions that a text may have; 0: the model's own
    kv_type   of the KV cache: "f32", "f16" or "q8_0"
    exact     products with quantised weights keep their activations in f32
    lora      the path of an adapter (PEFT's folder or a GGUF file) that all texts use
    progress  called with what, done and total during long work; a true result stops it

    The weights are mapped, not read. What a text, a batch or embeddings need on the device is made at their first
    use. Calls from several threads wait for each other, also those of models that share a Device; other models run at
    once. The GIL is released in every call that computes.
    """

    def __init__(self, path: str | None = None, *, device: str | Device = "auto", context: int = 0,
                 kv_type: str = "f32", exact: bool = False, lora: str | None = None, lora_scale: float = 1.0,
                 progress: Progress | None = None) -> None:
        if kv_type not in _kv_types:
            raise ValueError(f"kv_type: expected one of {', '.join(_kv_types)}, got {kv_type!r}")
        if path is None:
            path = text_of(lib.clef_demo_model())
            if not path:
                raise FileNotFoundError("no path was given, and clef's own model is not installed")
        self.path = path
        self.device = Device(device) if isinstance(device, str) else device
        self._lock = self.device._lock
        self._owned: list[Any] = []  # closers, the last one first
        # The device outlives what is on it: it is an argument, and was made before.
        self._keep: list[Any] = []  # handles of callbacks
        self._finalizer = weakref.finalize(self, _close_all, self._owned, self.device, self._keep)
        self.device._register(self._finalizer)
        out = ffi.new("clef_model **")
        call(lib.clef_model_open, utf8(path), out)
        self._model = self._own(out[0], lib.clef_model_close)
        self._loras = self._open_lora(lora, lora_scale) if lora else ffi.NULL
        self._progress = ffi.new_handle(progress)
        self._keep.append(self._progress)
        self._context, self._kv_type, self._exact = context, kv_type, exact
        self._has_own_device = isinstance(device, str)
        self._parts: dict[str, Any] = {}
        self._guard = _Working(self._lock, self._finalizer, self.path)

    # ---- life ----------------------------------------------------------------------------------------------

    def _own(self, pointer: Any, close: Any) -> Any:
        self._owned.append(lambda: close(pointer))
        return pointer

    def _open_lora(self, path: str, scale: float) -> Any:
        adapter, out = ffi.new("clef_lora **"), ffi.new("clef_lora_set **")
        call(lib.clef_lora_open, utf8(path), self._model, scale, adapter)
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

    def _working(self) -> _Working:
        return self._guard

    def _compile(self) -> dict[str, Any]:
        return {"exact": int(self._exact), "progress": lib.clef_py_progress, "progress_user": self._progress}

    def _part(self, name: str, make: Any) -> Any:
        """What calls of one kind need on the device, made by the first of them."""
        if name not in self._parts:
            self._parts[name] = make()
        return self._parts[name]

    def _session(self) -> Any:
        def make() -> Any:
            options = ffi.new("clef_session_opts *", {
                "n_context": self._context, "kv_type": getattr(lib, _kv_types[self._kv_type]),
                "loras": self._loras, "lora": int(self._loras != ffi.NULL), "compile": self._compile()})
            out = ffi.new("clef_session **")
            call(lib.clef_session_create, self.device._pointer, self._model, options, out)
            return self._own(out[0], lib.clef_session_destroy)
        return self._part("session", make)

    # ---- what the model is ---------------------------------------------------------------------------------

    @property
    def hparams(self) -> dict[str, Any]:
        """The numbers and names of clef_hparams: arch, name, n_layers, d_model, n_vocab, n_context .."""
        struct = lib.clef_model_hparams(self._model)[0]
        found: dict[str, Any] = {}
        for name, kind in ffi.typeof(struct).fields:
            if kind.type.kind in ("primitive", "enum"):
                found[name] = getattr(struct, name)
            elif kind.type.cname.startswith("char["):
                found[name] = text_of(getattr(struct, name))
        return found

    @property
    def metadata(self) -> dict[str, str]:
        """The keys of the GGUF file or of config.json, and their values as text."""
        found: dict[str, str] = {}
        handle = ffi.new_handle(found)
        lib.clef_model_metadata(self._model, lib.clef_py_entry, handle)
        return found

    @property
    def is_encoder(self) -> bool:
        """Whether all tokens see each other, as in BERT."""
        return bool(lib.clef_model_is_encoder(self._model))

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether it reads a source and writes a target, as T5."""
        return lib.clef_model_hparams(self._model).n_decoder_layers > 0

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
        data = utf8(text)
        out, n = ffi.new("int32_t **"), ffi.new("int32_t *")
        with self._working():
            call(lib.clef_tokenizer_encode, self._tokenizer(), data, len(data),
                 lib.CLEF_SPECIAL_ADD if special else lib.CLEF_SPECIAL_NONE, out, n)
            try:
                return np.frombuffer(ffi.buffer(out[0], 4 * n[0]), dtype=np.int32).copy() if n[0] else np.empty(
                    0, np.int32)
            finally:
                lib.clef_tokens_free(out[0])

    def detokenize(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The text of ids, without special tokens. Bytes that are no UTF-8 become U+FFFD."""
        pointer, n, _keep = _as_ids(ids)
        out, n_bytes = ffi.new("char **"), ffi.new("size_t *")
        with self._working():
            call(lib.clef_tokenizer_decode, self._tokenizer(), pointer, n, out, n_bytes)
            try:
                return ffi.buffer(out[0], n_bytes[0])[:].decode("utf-8")
            finally:
                lib.clef_text_free(out[0])

    def _ends(self) -> set[int]:
        hparams = lib.clef_model_hparams(self._model)
        ends = {hparams.eos, *hparams.eos_more[0 : hparams.n_eos_more]}
        ends.add(lib.clef_tokenizer_eos(self._tokenizer()))
        return ends - {-1}

    # ---- logits --------------------------------------------------------------------------------------------

    def logits(self, ids: Sequence[int] | npt.NDArray[np.integer], *, copy: bool = True) -> Floats:
        """The logits of the token after `ids`, float32 [n_vocab]. copy=False: a read-only view of the library's own
        memory, which the next call overwrites. Of an encoder-decoder, ids are the source, and the logits those of
        the target's first token."""
        pointer, n, _keep = _as_ids(ids)
        out = ffi.new("const float **")
        with self._working():
            session = self._session()
            call(lib.clef_session_reset, session)
            if self.is_encoder_decoder:
                call(lib.clef_session_encode, session, pointer, n)
                pointer = ffi.new("int32_t[2]")
                n = lib.clef_session_start(session, pointer)
            call(lib.clef_session_feed, session, pointer, n, out)
            view = _floats(out[0], lib.clef_model_hparams(self._model).n_vocab)
            if copy:
                return view.copy()
            view.flags.writeable = False
            return view

    # ---- text ----------------------------------------------------------------------------------------------

    @overload
    def generate(self, prompt: str | Sequence[int], *, stream: Literal[False] = False, **options: Any) -> str: ...
    @overload
    def generate(self, prompt: str | Sequence[int], *, stream: Literal[True], **options: Any) -> Iterator[str]: ...

    def generate(self, prompt: str | Sequence[int], *, stream: bool = False, max_tokens: int = 0,
                 stop: str | Sequence[str] = (), ignore_eos: bool = False, json_schema: Any = None,
                 grammar: str | None = None, regex: str | None = None, choice: Sequence[str] | None = None,
                 **sampling: Any) -> str | Iterator[str]:
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
        """As generate(), but the new tokens' ids, int32 [n]. The end token is not one of them."""
        from .generation import Generation

        stop = options.pop("stop", ())
        constraint = _constraint_of(*(options.pop(name, None) for name in ("json_schema", "grammar", "regex",
                                                                           "choice")))
        with self._working():
            generation = Generation(self, prompt, max_tokens=options.pop("max_tokens", 0),
                                    stop=[stop] if isinstance(stop, str) else stop,
                                    ignore_eos=options.pop("ignore_eos", False), sampling=Sampling(**options),
                                    constraint=constraint)
            generation.run()
        return np.array(generation.ids, np.int32)

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
                       template: str | None = None, arguments: Mapping[str, Any] | None = None,
                       add_generation_prompt: bool = True) -> str:
        """The text that the chat template makes of a conversation."""
        from .conversation import Rendered

        return Rendered(self, messages, tools, template, arguments or {}, add_generation_prompt).text

    # ---- embeddings, classes, masks ------------------------------------------------------------------------

    def embed(self, texts: str | Sequence[str], *, truncate: bool = False) -> Floats:
        """Embeddings, float32 [n, d], one row for each text; of one text [d]. Pooling and normalisation are those of
        the model's files. truncate: texts that are too long lose their ends; else they raise LimitError."""
        many = [texts] if isinstance(texts, str) else list(texts)
        data = [ffi.from_buffer(utf8(text)) for text in many]
        spans = ffi.new("clef_span[]", [{"text": d, "n_bytes": len(d)} for d in data])

        def make() -> Any:
            out = ffi.new("clef_embedder **")
            call(lib.clef_embedder_create, self.device._pointer, self._model,
                 ffi.new("clef_embed_opts *", {"compile": self._compile()}), out)
            return self._own(out[0], lib.clef_embedder_destroy)

        with self._working():
            embedder = self._part("embedder", make)
            out = np.empty((len(many), lib.clef_embedder_describe(embedder).n_dims), np.float32)
            if many:
                call(lib.clef_embed_texts, embedder, spans, len(many), int(truncate),
                     ffi.cast("float *", ffi.from_buffer(out)), ffi.NULL)
        return out[0] if isinstance(texts, str) else out

    def _classifier(self, head: str) -> Any:
        def make() -> Any:
            out = ffi.new("clef_classifier **")
            options = ffi.new("clef_classifier_opts *", {"head": getattr(lib, head), "compile": self._compile()})
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

    def classify(self, text: str, pair: str | None = None) -> list[dict[str, Any]]:
        """The classes of a text, or of a pair of texts, by the model's own classifier: [{"label", "score"}, ..], the
        likeliest first. A model that labels tokens gives a list for each token, with its text as "token"."""
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

    def graph(self, *, context: int = 0, batch: int = 0, optimize: str | None = "fuse") -> Any:
        """The model's graph, after the passes up to `optimize` (None: none of them)."""
        from .graph import Graph

        out = ffi.new("clef_graph **")
        with self._working():
            options = ffi.new("clef_build_opts *", {"n_context": context or self._context, "n_batch": batch})
            call(lib.clef_model_build, self._model, options, out)
            graph = Graph._of(out[0], self)
            if optimize:
                call(lib.clef_graph_optimize, out[0], utf8(optimize))
        return graph


def _copy_error(source: Any, target: Any) -> int:
    target[0] = source[0]
    return source.status


def _close_all(closers: list[Any], device: Device, keep: list[Any]) -> None:
    def close() -> None:
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
