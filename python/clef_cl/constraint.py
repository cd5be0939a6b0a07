"""Constraints by themselves: to judge texts, and to mask logits of one's own loop."""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import whole
from ._native import call, ffi, lib, new_struct, utf8
from .tokenizer import Tokenizer

_kinds = {"grammar": lib.CLEF_CONSTRAIN_GBNF, "json_schema": lib.CLEF_CONSTRAIN_SCHEMA,
          "regex": lib.CLEF_CONSTRAIN_REGEX, "choice": lib.CLEF_CONSTRAIN_CHOICES}


class Constraint:
    """What a text may be: Constraint(regex="a+b"), Constraint(json_schema={..}), grammar=, choice=.

        c = clef.Constraint(json_schema={"type": "integer"})
        c.matches("12")                                     # True

    With a tokenizer it also masks tokens: mask() says which may come, accept() goes on by one. any_order: of a schema,
    to judge texts of others: members in any order, any white space. strict: unknown formats are errors.
    """

    def __init__(self, *, tokenizer: Tokenizer | None = None, ends: Sequence[int] = (), strict: bool = False,
                 any_order: bool = False, **source: Any) -> None:
        if len(source) != 1 or next(iter(source)) not in _kinds:
            raise ValueError(f"Constraint: expected one of {', '.join(_kinds)}, got {', '.join(source) or 'none'}")
        kind, value = next(iter(source.items()))
        text = value if isinstance(value, str) else json.dumps(list(value) if kind == "choice" else value)
        self._tokenizer = tokenizer  # borrowed by the trie
        with self._use() as pointer:
            self._compile(_kinds[kind], text, pointer, list(ends), strict, any_order)
        self._state = ffi.new("clef_constraint_state *")
        self.reset()

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """The clef_tokenizer, which must be open; NULL if there is none."""
        if self._tokenizer is None:
            yield ffi.NULL
            return
        with self._tokenizer._use() as pointer:
            yield pointer

    def _compile(self, kind: int, text: str, pointer: Any, ends: list[int], strict: bool, any_order: bool) -> None:
        options = new_struct("clef_constraint_opts *", {"strict": int(strict), "any_order": int(any_order),
                                                     "tok": pointer})
        out, problem = ffi.new("clef_constraint **"), ffi.new("clef_constraint_problem *")
        data = utf8(text)
        call(lib.clef_constraint_create, kind, data, len(data), options, out, problem)
        self._constraint = ffi.gc(out[0], lib.clef_constraint_destroy)
        self._trie: Any = None
        if self._tokenizer is not None:
            special = self._tokenizer.special
            known = ends or [special[role] for role in ("eos",) if role in special]
            trie = ffi.new("clef_token_trie **")
            call(lib.clef_token_trie_create, pointer, known, len(known), trie)
            self._trie = ffi.gc(trie[0], lib.clef_token_trie_destroy)

    def reset(self) -> None:
        """Begins a new text."""
        with self._use():
            call(lib.clef_constraint_begin, self._constraint, self._state)

    def read(self, text: str | bytes) -> int:
        """Goes on by a text; returns how many of its bytes are allowed. The place is before the first that is not."""
        data, n = utf8(text), ffi.new("size_t *")
        with self._use():
            call(lib.clef_constraint_read, self._constraint, self._state, data, len(data), n)
        return int(n[0])

    @property
    def may_end(self) -> bool:
        """Whether the text may end here."""
        with self._use():
            return bool(lib.clef_constraint_may_end(self._constraint, self._state))

    def matches(self, text: str) -> bool:
        """Whether a whole text fits. The place is that after it."""
        self.reset()
        return self.read(text) == len(utf8(text)) and self.may_end

    def _tokens(self) -> Any:
        if self._trie is None:
            raise ValueError("expected a constraint with a tokenizer, got one without")
        return self._trie

    def mask(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, bool [n_vocab]."""
        with self._use():
            words = np.zeros(lib.clef_token_trie_mask_words(self._tokens()), np.uint32)
            call(lib.clef_constraint_mask, self._constraint, self._trie, self._state,
                 ffi.cast("uint32_t *", ffi.from_buffer(words)))
        bits = np.unpackbits(words.view(np.uint8), bitorder="little")
        return bits[: len(self._tokenizer or ())].astype(bool)

    def accept(self, id: int) -> None:
        """Goes on by a token. One that is not allowed raises ArgumentError."""
        with self._use():
            call(lib.clef_constraint_accept, self._constraint, self._tokens(), self._state, whole("id", id))

    @property
    def n_bytes(self) -> int:
        """The memory that it has now."""
        return int(lib.clef_constraint_bytes(self._constraint))

    def __str__(self) -> str:
        """What was compiled, for people."""
        out, n = ffi.new("char **"), ffi.new("size_t *")
        call(lib.clef_constraint_describe, self._constraint, out, n)
        try:
            return bytes(ffi.buffer(out[0], n[0])[:]).decode("utf-8")
        finally:
            lib.clef_text_free(out[0])
