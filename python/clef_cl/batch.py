"""Many texts at once, in steps that read the weights once for all of them."""
from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from ._arrays import whole
from ._native import ClosedError, Error, call, ffi, fields_of, lib, new_struct, text_of
from .device import DeviceLock
from .model import Model, _as_ids, _kv_types
from .sampling import Sampling

_finishes = {lib.CLEF_FINISH_STOP: "stop", lib.CLEF_FINISH_LENGTH: "length", lib.CLEF_FINISH_FAILED: "failed",
             lib.CLEF_FINISH_NOT_FINITE: "not finite"}


@dataclass
class Token:
    """A token that a step gave: the number of its text, its id, the text that is known by it, and at the end of a
    text "stop", "length", "failed" or "not finite". The end token itself has an empty piece."""

    text: int
    id: int
    piece: str
    finish: str | None
    logprob: float


class Batch:
    """Texts that run together on a model; texts with a common begin compute it once.

        with clef.Batch(m) as b:
            print(b.generate(["Once upon a time", "The end of"], max_tokens=20))

    max_sequences  texts that run at once; more of them wait
    context        positions that a text may have; 0: the model's
    repeatable     a text does not depend on the others, not even in the last bits
    prefix_cache   False: every prompt is computed from its first token
    ngram_max      above 0: what followed the last tokens earlier in a text is tried first (speculation)
    draft          a small Model of the same vocabulary that drafts draft_tokens tokens
    mtp            the model's own layer that predicts further tokens drafts draft_tokens tokens
    """

    def __init__(self, model: Model, *, max_sequences: int = 8, context: int = 0, kv_type: str = "f32",
                 repeatable: bool = False, prefix_cache: bool = True, ngram_max: int = 0,
                 draft: Model | None = None, draft_tokens: int = 0, mtp: bool = False) -> None:
        if kv_type not in _kv_types:
            raise ValueError(f"kv_type: expected one of {', '.join(_kv_types)}, got {kv_type!r}")
        self._model, self._draft = model, draft
        self._streams: dict[int, Any] = {}
        self._others: list[Token] = []  # of texts of add(), made while generate() ran
        options = new_struct("clef_batch_opts *", {
            "n_context": context, "max_sequences": max_sequences, "kv_type": getattr(lib, _kv_types[kv_type]),
            "repeatable": int(repeatable), "no_prefix_cache": int(not prefix_cache), "ngram_max": ngram_max,
            "draft": draft._model if draft is not None else ffi.NULL, "draft_tokens": draft_tokens,
            "mtp": int(mtp), "compile": model._compile(), "loras": model._loras})
        out = ffi.new("clef_batch **")
        with draft._working() if draft is not None else nullcontext(), model._working():
            call(lib.clef_batch_create, model.device._pointer, model._model, options, out)
        self._batch = out[0]
        self._finalizer = weakref.finalize(self, _destroy, self._batch, model._lock, draft)
        model._register(self._finalizer, model._lock)
        if draft is not None:
            draft._register(self._finalizer, model._lock)

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._model._working():
            if not self._finalizer.alive:
                raise ClosedError("the batch was closed")
            yield

    def add(self, prompt: str | Sequence[int], *, max_tokens: int = 0, ignore_eos: bool = False,
            logprobs: bool = False, **sampling: Any) -> int:
        """Adds a text and returns its number; step() computes it. Options as of Model.generate()."""
        model = self._model
        with self._working():
            ids = model.tokenize(prompt) if isinstance(prompt, str) else prompt
            pointer, n, _keep = _as_ids(ids)
            chosen, _kept = Sampling(**sampling).new_options(model._model)
            request = new_struct("clef_request *", {
                "n_max": whole("max_tokens", max_tokens, 0), "ignore_eos": int(ignore_eos), "sampling": chosen[0],
                "logprobs": int(logprobs), "lora": int(model._loras != ffi.NULL)})
            if model.is_encoder_decoder:
                request.source, request.n_source = pointer, n
                pointer = ffi.new("int32_t[2]")
                n = lib.clef_session_start(model._session(), pointer)
            request.ids, request.n = pointer, n
            number = ffi.new("int64_t *")
            call(lib.clef_batch_add, self._batch, request, number)
            self._streams[number[0]] = new_struct("clef_stream *", {"tok": model._tokenizer()})
        return int(number[0])

    def cancel(self, text: int) -> None:
        """Forgets a text."""
        with self._working():
            call(lib.clef_batch_cancel, self._batch, text)
            self._streams.pop(text, None)

    def step(self) -> list[Token]:
        """Runs one step of all texts. An empty list: prompts are still being read, or nothing is left (see
        `is_idle`)."""
        with self._working():
            found, self._others = self._others, []
            return found + self._step()

    def _step(self) -> list[Token]:
        rows = ffi.new("int32_t *")
        tokens = ffi.new("clef_batch_token[32]")
        found: list[Token] = []
        with self._working():
            call(lib.clef_batch_step, self._batch, rows)
            while n := lib.clef_batch_take(self._batch, tokens, 32):
                found += [self._token(tokens[i]) for i in range(n)]
        return found

    def find(self, text: int) -> dict[str, Any] | None:
        """How far a text is: is_running, n_past, n_cached (of its prompt, found in the prefix cache); None: there is no
        such text."""
        n_past, n_cached = ffi.new("int32_t *"), ffi.new("int32_t *")
        with self._working():
            state = lib.clef_batch_find(self._batch, text, n_past, n_cached)
        return None if state < 0 else {"is_running": bool(state), "n_past": n_past[0], "n_cached": n_cached[0]}

    @property
    def stats(self) -> dict[str, Any]:
        """Counts of texts, steps, tokens and pages, by the names of clef_batch_stats."""
        with self._working():
            return fields_of(lib.clef_batch_describe(self._batch))

    @property
    def warnings(self) -> list[str]:
        """Why there is no prefix cache, or no speculation although it was asked for."""
        with self._working():
            found = (lib.clef_batch_no_prefix_cache(self._batch), lib.clef_batch_no_speculation(self._batch))
            return [text_of(text) for text in found if text != ffi.NULL]

    @property
    def step_graph(self) -> Any:
        """A copy of the graph of a step as the device runs it."""
        from .graph import Graph

        with self._working():
            plan = lib.clef_batch_plan(self._batch, 0)
            return Graph._of(lib.clef_graph_clone(lib.clef_plan_graph(plan)), self._model)

    @property
    def is_idle(self) -> bool:
        """Whether no text is left to compute."""
        return not self._streams and not self._others

    def _token(self, token: Any) -> Token:
        stream = self._streams[token.sequence]
        buffer, n = ffi.new("char[]", lib.CLEF_MAX_PIECE), ffi.new("size_t *")
        piece = b""
        if token.finish in (lib.CLEF_FINISH_NONE, lib.CLEF_FINISH_LENGTH):
            call(lib.clef_stream_push, stream, token.id, buffer, lib.CLEF_MAX_PIECE, n)
            piece = ffi.buffer(buffer, n[0])[:]
        if token.finish:
            call(lib.clef_stream_finish, stream, buffer, lib.CLEF_MAX_PIECE, n)
            piece += ffi.buffer(buffer, n[0])[:]
            del self._streams[token.sequence]
        return Token(token.sequence, token.id, piece.decode("utf-8", "replace"), _finishes.get(token.finish),
                     token.logprob)

    def __iter__(self) -> Iterator[Token]:
        """The tokens of all texts that were added, as they come."""
        while not self.is_idle:
            yield from self.step()

    def generate(self, prompts: Sequence[str | Sequence[int]], **options: Any) -> list[str]:
        """The texts that follow the prompts. Options as of add(). An Error names the prompts that failed; if one of
        them is refused, none is computed. Texts of add() go on meanwhile, and step() gives their tokens later."""
        if isinstance(prompts, str):
            raise TypeError("prompts: expected a list of texts, got one text")
        texts: dict[int, str] = {}
        failed: list[int] = []
        try:
            for i, prompt in enumerate(prompts):
                try:
                    texts[self.add(prompt, **options)] = ""
                except Error as error:
                    error.args = (f"prompt {i}: {error}",)
                    raise
            numbers = list(texts)
            while any(number in self._streams for number in numbers):
                for token in self._step():
                    if token.text not in texts:
                        self._others.append(token)
                        continue
                    texts[token.text] += token.piece
                    failed += [numbers.index(token.text)] * (token.finish in ("failed", "not finite"))
        except BaseException:
            if self._finalizer.alive:
                for number in texts:
                    self._forget(number)
            raise
        if failed:
            raise Error(f"prompts {', '.join(map(str, failed))}: no token of the vocabulary could follow the text, or "
                        "the logits are not finite")
        return list(texts.values())

    def _forget(self, text: int) -> None:
        if text in self._streams:
            self.cancel(text)

    def close(self) -> None:
        """Gives back its memory."""
        self._finalizer()

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _destroy(batch: Any, lock: DeviceLock, draft: Model | None) -> None:
    def close() -> None:
        lib.clef_batch_destroy(batch)
        draft  # noqa: B018  the batch reads its weights until here

    lock.close(close)
