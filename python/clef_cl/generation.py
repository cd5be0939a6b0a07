"""A text while it is generated."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from ._arrays import whole
from ._native import c_text, call, ffi, lib, new_struct, raise_error, utf8
from .model import Model, _as_ids
from .sampling import Sampling


class Generation(Iterator[str]):
    """An iterator of a text's pieces. `ids` are the tokens so far. `finish` is None, "stop" (the model, a stop text
    or a constraint ended it) or "length". Another call of the same model ends it."""

    def __init__(self, model: Model, prompt: str | Sequence[int], *, max_tokens: int, stop: Sequence[str],
                 ignore_eos: bool, sampling: Sampling, constraint: Any = None, has_text: bool = True) -> None:
        max_tokens = whole("max_tokens", max_tokens, 0)
        self.ids: list[int] = []
        self.finish: str | None = None
        self._model = model
        self._max_tokens = max_tokens
        self._pieces: list[str] = []
        with model._working():
            self._session = model._session()
            self._ends = set() if ignore_eos else model._ends()
            self._stop, self._has_stops = self._new_stop(stop), bool(stop)
            self._n_context = lib.clef_session_n_context(self._session)
            self._has_text = has_text
            self._stream = new_struct("clef_stream *", {"tok": model._tokenizer()} if has_text else {})
            self._buffer = ffi.new("char[]", lib.CLEF_MAX_PIECE)
            # What each token needs is made once: a small model makes ten thousand of them a second.
            self._error = ffi.new("clef_error *")
            self._id, self._n = ffi.new("int32_t *"), ffi.new("size_t *")
            self._text, self._n_text = ffi.new("const char **"), ffi.new("size_t *")
            self._begin(prompt, sampling, constraint)
        model._parts["generation"] = self  # the one that the session works for

    def _new_stop(self, stop: Sequence[str]) -> Any:
        texts = [ffi.new("char[]", c_text(text)) for text in stop]
        out = ffi.new("clef_stop **")
        call(lib.clef_stop_create, ffi.new("char *[]", texts) if texts else ffi.NULL, len(texts), out)
        return ffi.gc(out[0], lib.clef_stop_destroy)

    def _begin(self, prompt: str | Sequence[int], sampling: Sampling, constraint: Any) -> None:
        model, session = self._model, self._session
        ids = model.tokenize(prompt) if isinstance(prompt, str) else prompt
        pointer, n, _keep = _as_ids(ids)
        self.prompt_tokens = n
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
            options = new_struct("clef_constraint_opts *", {"tok": tokenizer})
            call(lib.clef_constraint_create, getattr(lib, constraint[0]), data, len(data), options, compiled,
                 ffi.NULL)
            constraint = ffi.gc(compiled[0], lib.clef_constraint_destroy)
        self._constraint = constraint
        ends = sorted(self._model._ends())[:16]
        call(lib.clef_token_trie_create, tokenizer, ends, len(ends), trie)
        self._trie = ffi.gc(trie[0], lib.clef_token_trie_destroy)
        self._ends = set(ends)
        return new_struct("clef_guide *", {"constraint": self._constraint, "trie": self._trie})

    def __iter__(self) -> Generation:
        return self

    def __next__(self) -> str:
        while not self.finish:
            with self._model._guard:
                if self._model._parts.get("generation") is not self:
                    raise RuntimeError("another call of the model has ended this text")
                piece = self._step()
            if piece:
                return str(piece)
        raise StopIteration

    def run(self) -> None:
        """Generates all of it; `ids` has the tokens."""
        with self._model._guard:
            while not self.finish:
                self._step()

    def _step(self) -> str:
        """Generates a token. Returns the text that is known by it."""
        ids, error = self.ids, self._error
        if self._max_tokens and len(ids) >= self._max_tokens:
            return self._end("length")
        if lib.clef_session_n_past(self._session) >= self._n_context:
            return self._end("length")
        if lib.clef_session_next(self._session, self._id, error):
            raise_error(error)
        id = self._id[0]
        if id in self._ends:
            return self._end("stop")
        ids.append(id)
        if not self._has_text:
            return ""
        if lib.clef_stream_push(self._stream, id, self._buffer, lib.CLEF_MAX_PIECE, self._n, error):
            raise_error(error)
        piece = self._through_stop(self._n[0])
        if self._has_stops and lib.clef_stop_found(self._stop) >= 0:
            self.finish = "stop"
        return piece

    def _through_stop(self, n: int) -> str:
        if lib.clef_stop_push(self._stop, self._buffer, n, self._text, self._n_text, self._error):
            raise_error(self._error)
        n = self._n_text[0]
        return cast(str, ffi.unpack(self._text[0], n).decode()) if n else ""

    def _end(self, finish: str) -> str:
        """Gives what was held back."""
        self.finish = finish
        if not self._has_text:
            return ""
        call(lib.clef_stream_finish, self._stream, self._buffer, lib.CLEF_MAX_PIECE, self._n)
        piece = self._through_stop(self._n[0])
        call(lib.clef_stop_finish, self._stop, self._text, self._n_text)
        return piece + (str(ffi.unpack(self._text[0], self._n_text[0]), "utf-8") if self._n_text[0] else "")
