"""The cache folder: built programs, proofs, tuning, tokens."""
from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Union

from ._native import call, ffi, lib, new_struct, path_bytes, text_of

_kinds = {"program": lib.CLEF_CACHE_PROGRAM, "fused_step": lib.CLEF_CACHE_FUSED_STEP, "proofs": lib.CLEF_CACHE_PROOFS,
          "tuning": lib.CLEF_CACHE_TUNING, "speed": lib.CLEF_CACHE_SPEED, "tokens": lib.CLEF_CACHE_TOKENS,
          "temporary": lib.CLEF_CACHE_TEMPORARY}
_names = {number: name for name, number in _kinds.items()}


@dataclass(frozen=True)
class Entry:
    """A file of the cache. age: seconds since it was written or used."""

    kind: str
    path: str
    n_bytes: int
    age: int
    is_damaged: bool


@dataclass(frozen=True)
class Aside:
    """A kernel that is not used on a device, and why."""

    op: str
    variant: str
    why: str
    device: str
    n_hung: int
    age: int


class _Report:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.asides: list[Aside] = []

    def entry(self, entry: Any) -> None:
        self.entries.append(Entry(_names[entry.kind], text_of(entry.path), entry.n_bytes, entry.age,
                                  bool(entry.is_damaged)))

    def aside(self, aside: Any) -> None:
        self.asides.append(Aside(text_of(aside.op), text_of(aside.variant), text_of(aside.why), text_of(aside.device),
                                 aside.n_hung, aside.age))


def folder() -> str:
    """The cache folder: $CLEF_CACHE_DIR, else $XDG_CACHE_HOME/clef, else ~/.cache/clef; "": there is none."""
    out = ffi.new("char[4096]")
    return text_of(out) if lib.clef_cache_dir(out, 4096) else ""


def limit() -> int:
    """The bytes that the folder is kept to."""
    out = ffi.new("uint64_t *")
    call(lib.clef_cache_limit, out)
    return int(out[0])


_Path = Union[str, "os.PathLike[str]", None]


def _folder(path: _Path) -> bytes:
    return path_bytes(folder() if path is None else path)


def _report(path: _Path, verify: bool) -> _Report:
    report = _Report()
    handle = ffi.new_handle(report)
    struct = new_struct("clef_cache_report *", {"verify": int(verify), "entry": lib.clef_py_cache_entry,
                                             "aside": lib.clef_py_cache_aside, "user": handle})
    call(lib.clef_cache_list, _folder(path), struct)
    return report


def entries(path: _Path = None, *, verify: bool = False) -> list[Entry]:
    """The files of the cache. verify: each is read and checked."""
    return _report(path, verify).entries


def set_aside(path: _Path = None) -> list[Aside]:
    """The kernels that are set aside."""
    return _report(path, False).asides


def clear(kinds: Sequence[str] | None = None, path: _Path = None) -> int:
    """Removes files, of some kinds or all; returns how many."""
    bits = 0
    for kind in _kinds if kinds is None else kinds:
        if kind not in _kinds:
            raise ValueError(f"kinds: expected some of {', '.join(_kinds)}, got {kind!r}")
        bits |= 1 << _kinds[kind]
    n = ffi.new("int32_t *")
    call(lib.clef_cache_clear, _folder(path), bits, n)
    return int(n[0])


def forget_aside(path: _Path = None) -> int:
    """Forgets what is set aside, so that the next start tries it again; returns how many kernels."""
    n = ffi.new("int32_t *")
    call(lib.clef_cache_clear_aside, _folder(path), n)
    return int(n[0])
