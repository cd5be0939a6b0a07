"""A text while it is generated."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ._native import call, ffi, lib, utf8
from .model import Model, _as_ids
from .sampling import Sampling


class Generation(Iterator[str]):
    """An iterator of a text's pieces. `ids` are the tokens so far. `finish` is None, "stop" (the model, a stop text
    or a constraint ended it) or "length". Another call of the same model ends it."""

    def __init__(self, model: Model, prompt: str | Sequence[int], *, max_tokens: int, stop: Sequence[str],
                 ignore_eos: bool, sampling: Sampling, constraint: Any = None) -> None:
        if max_tokens < 0:
            raise ValueError(f"max_tokens: expected a number from 0, got {max_tokens}")
        self.ids: list[int] = []
        self.finish: str | None = None
        self._model = model
        self._max_tokens = max_tokens
        self._pieces: list[str] = []
        with model._working():
            self._session = model._session()
            self._ends = set() if ignore_eos else model._ends()
            self._stop = self._new_stop(stop)
            self._stream = ffi.new("clef_stream *", {"tok": model._tokenizer()})
            self._buffer = ffi.new("char[]", lib.CLEF_MAX_PIECE)
            self._begin(prompt, sampling, constraint)
        model._parts["generation"] = self  # the one that the session works for

    def _new_stop(self, stop: Sequence[str]) -> Any:
        texts = [ffi.new("char[]", utf8(text)) for text in stop]
        out = ffi.new("clef_stop **")
        call(lib.clef_stop_create, ffi.new("char *[]", texts) if texts else ffi.NULL, len(texts), out)
        return ffi.gc(out[0], lib.clef_stop_destroy)

    def _begin(self, prompt: str | Sequence[int], sampling: Sampling, constraint: Any) -> None:
        model, session = self._model, self._session
        ids = model.tokenize(prompt) if isinstance(prompt, str) else prompt
        pointer, n, _keep = _as_ids(ids)
        call(lib.clef_session_reset, session)
        if model.is_encoder_decoder:
            call(lib.clef_session_encode, session, pointer, n)
            pointer = ffi.new("int32_t[2]")
            n = lib.clef_session_start(session, pointer)
        self._guide = self._new_guide(constraint)
        call(lib.clef_session_guide, session, self._guide)
        options, _kept = sampling.new_options(model._model)
        call(lib.clef_session_generate, session, pointer, n, self._max_tokens, options)

    def _new_guide(self, constraint: Any) -> Any:
        """constraint: None, a kind and its source, or a compiled one."""
        if constraint is None:
            return ffi.NULL
        tokenizer = self._model._tokenizer()
        compiled, trie = ffi.new("clef_constraint **"), ffi.new("clef_token_trie **")
        if isinstance(constraint, tuple):
            data = utf8(constraint[1])
            options = ffi.new("clef_constraint_opts *", {"tok": tokenizer})
            call(lib.clef_constraint_create, getattr(lib, constraint[0]), data, len(data), options, compiled,
                 ffi.NULL)
            constraint = ffi.gc(compiled[0], lib.clef_constraint_destroy)
        self._constraint = constraint
        ends = sorted(self._model._ends())[:16]
        call(lib.clef_token_trie_create, tokenizer, ends, len(ends), trie)
        self._trie = ffi.gc(trie[0], lib.clef_token_trie_destroy)
        self._ends = set(ends)
        return ffi.new("clef_guide *", {"constraint": self._constraint, "trie": self._trie})

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        while not self.finish:
            with self._model._working():
                if self._model._parts.get("generation") is not self:
                    raise RuntimeError("another call of the model has ended this text")
                piece = self._step()
            if piece:
                return piece
        raise StopIteration

    def _step(self) -> str:
        """Generates a token. Returns the text that is known by it."""
        if self._is_full():
            return self._end("length")
        out = ffi.new("int32_t *")
        call(lib.clef_session_next, self._session, out)
        if out[0] in self._ends:
            return self._end("stop")
        self.ids.append(out[0])
        n = ffi.new("size_t *")
        call(lib.clef_stream_push, self._stream, out[0], self._buffer, lib.CLEF_MAX_PIECE, n)
        piece = self._through_stop(n[0])
        if lib.clef_stop_found(self._stop) >= 0:
            self.finish = "stop"
        return piece

    def _is_full(self) -> bool:
        if self._max_tokens and len(self.ids) >= self._max_tokens:
            return True
        return lib.clef_session_n_past(self._session) >= lib.clef_session_n_context(self._session)

    def _through_stop(self, n: int) -> str:
        text, n_text = ffi.new("const char **"), ffi.new("size_t *")
        call(lib.clef_stop_push, self._stop, self._buffer, n, text, n_text)
        return ffi.buffer(text[0], n_text[0])[:].decode("utf-8") if n_text[0] else ""

    def _end(self, finish: str) -> str:
        """Gives what was held back."""
        self.finish = finish
        n = ffi.new("size_t *")
        call(lib.clef_stream_finish, self._stream, self._buffer, lib.CLEF_MAX_PIECE, n)
        piece = self._through_stop(n[0])
        text, n_text = ffi.new("const char **"), ffi.new("size_t *")
        call(lib.clef_stop_finish, self._stop, text, n_text)
        return piece + (ffi.buffer(text[0], n_text[0])[:].decode("utf-8") if n_text[0] else "")
