"""Checking and tuning the kernels of a device."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._native import c_text, call, ffi, fields_of, lib, new_struct, text_of
from .device import Device, Progress
from .graph import Graph

_states = {lib.CLEF_SELFTEST_PASSED: "passed", lib.CLEF_SELFTEST_FAILED: "failed", lib.CLEF_SELFTEST_UNFIT: "unfit"}
_variants = {lib.CLEF_VARIANT_CHOSEN: "chosen", lib.CLEF_VARIANT_SLOWER: "slower", lib.CLEF_VARIANT_FAILED: "failed",
             lib.CLEF_VARIANT_UNTIMED: "untimed", lib.CLEF_VARIANT_UNFIT: "unfit",
             lib.CLEF_VARIANT_BY_ORDER: "by_order"}


@dataclass(frozen=True)
class Result:
    """What a variant of an op did: state is "passed", "failed" or "unfit"; worst: its largest error, where 1 is the
    largest allowed."""

    op: str
    variant: str
    state: str
    used: bool
    cases: int
    failed: int
    worst: float
    why: str


def selftest(device: Device, op: str | None = None, *, all: bool = False,
             progress: Progress | None = None) -> list[Result]:
    """Compares the kernels of an op, or of all, with their references. all: also those that would not be used."""
    found: list[Result] = []

    def row(row: Any) -> None:
        found.append(Result(text_of(row.op), text_of(row.variant), _states[row.state], bool(row.used), row.cases,
                            row.failed, row.worst, text_of(row.why)))

    name = ffi.new("char[]", c_text(op)) if op else ffi.NULL
    handles = ffi.new_handle(row), ffi.new_handle(progress)
    options = new_struct("clef_selftest_opts *", {
        "all": int(all), "op": name, "row": lib.clef_py_selftest_row, "user": handles[0],
        "progress": lib.clef_py_progress, "progress_user": handles[1]})
    n = ffi.new("int32_t *")
    with device._lock:
        call(lib.clef_selftest, device._pointer, options, n)
    return found


def tune(device: Device, graph: Graph | None = None, *, seconds: float = 0, again: bool = False,
         progress: Progress | None = None) -> None:
    """Measures the variants of a graph's products and attention, and keeps the results in the cache. None: the common
    shapes of language models."""
    handle = ffi.new_handle(progress)
    options = new_struct("clef_tune_opts *", {"seconds": seconds, "again": int(again), "progress": lib.clef_py_progress,
                                           "progress_user": handle})
    with device._lock:
        call(lib.clef_tune, device._pointer, graph._graph if graph else ffi.NULL, ffi.NULL, options)


def tune_clblast(device: Device, *, seconds: float = 0, progress: Progress | None = None) -> dict[str, Any]:
    """Tries parameters of CLBlast's kernels; returns gflops_before, gflops_after, params .."""
    handle = ffi.new_handle(progress)
    options = new_struct("clef_tune_opts *", {"seconds": seconds, "progress": lib.clef_py_progress,
                                           "progress_user": handle})
    out = ffi.new("clef_clblast_report *")
    with device._lock:
        call(lib.clef_tune_clblast, device._pointer, options, out)
    return fields_of(out[0])


def variants(device: Device) -> list[dict[str, Any]]:
    """Each variant with its state on the device: op, variant, state, key, values, us, best_us, why."""
    out, n = ffi.new("clef_variant_info **"), ffi.new("int32_t *")
    with device._lock:
        call(lib.clef_variants_list, device._pointer, out, n)
    try:
        return [{**fields_of(out[0][i]), "state": _variants[out[0][i].state]} for i in range(n[0])]
    finally:
        lib.clef_variants_free(out[0])
