"""How tokens are picked: the options of a text, as C takes them."""
from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._native import ffi, lib, utf8

# Where neither the caller nor the model's files say anything, as in `clef run`.
_defaults = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical": 1.0, "repeat_penalty": 1.0}


@dataclass
class Sampling:
    """The samplers of clef/sampler.h, which gives their formulas. None: what the model's files recommend, else the
    default of `clef run`: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05. A temperature of 0 always picks the
    likeliest token. Without a seed, every text has another one."""

    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    repeat_penalty: float | None = None
    repeat_last_n: int = 64
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_last_n: int = -1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    samplers: tuple[str, ...] = ()
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    def new_options(self, model: Any) -> tuple[Any, list[Any]]:
        """A clef_sampler_opts, and what it points to, which must live as long."""
        biases = ffi.new("clef_logit_bias[]", [{"id": i, "bias": b} for i, b in self.logit_bias.items()])
        options = ffi.new("clef_sampler_opts *", {
            name: getattr(self, name)
            for name in ("repeat_last_n", "presence_penalty", "frequency_penalty", "top_n_sigma", "xtc_probability",
                         "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_last_n",
                         "mirostat", "mirostat_tau", "mirostat_eta")})
        for name, default in _defaults.items():
            setattr(options, name, type(default)(self._value(model, name, default)))
        options.seed = random.getrandbits(64) if self.seed is None else self.seed & 0xFFFFFFFFFFFFFFFF
        options.biases, options.n_biases = biases, len(self.logit_bias)
        for i, name in enumerate(self.samplers):
            options.samplers[i] = _kind(name)
        return options, [biases]

    def _value(self, model: Any, name: str, default: float) -> float:
        own = getattr(self, name)
        told = ffi.new("double *")
        if own is not None:
            return own
        return told[0] if lib.clef_model_sampling(model, utf8(name), told) else default


def _kind(name: str) -> int:
    for kind in range(1, lib.CLEF_N_SAMPLERS):
        if ffi.string(lib.clef_sampler_name(kind)).decode() == name:
            return kind
    raise ValueError(f"samplers: there is none called {name!r}")
