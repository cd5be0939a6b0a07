"""How tokens are sampled: the options of a text, as C takes them."""
from __future__ import annotations

import operator
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._arrays import as_c_array
from ._native import c_text, call, ffi, lib, new_struct, text_of

# Where neither the caller nor the model's files say anything, as in `clef run`.
_defaults = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical": 1.0, "repeat_penalty": 1.0}


@dataclass
class Sampling:
    """The samplers of clef/sampler.h, which gives their formulas. None: what the model's files recommend, else the
    default of `clef run`: temperature 0.8, top_k 40, top_p 0.95, min_p 0.05. A temperature of 0 always takes the
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
        if not isinstance(self.logit_bias, Mapping):
            raise TypeError(f"logit_bias: expected a dict of ids and numbers, got {type(self.logit_bias).__name__}")
        biases = ffi.new("clef_logit_bias[]", [{"id": _id(i), "bias": b} for i, b in self.logit_bias.items()])
        options = new_struct("clef_sampler_opts *", {
            name: getattr(self, name)
            for name in ("repeat_last_n", "presence_penalty", "frequency_penalty", "top_n_sigma", "xtc_probability",
                         "xtc_threshold", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_last_n",
                         "mirostat", "mirostat_tau", "mirostat_eta")})
        for name, default in _defaults.items():
            value = self._value(model, name, default)
            setattr(options, name, value if isinstance(default, float) else _whole(name, value))
        if model is not None and self.repeat_penalty is None and self.repeat_last_n == 64:
            options.repeat_last_n = int(self._recommended(model, "repeat_last_n", 64))  # of the recommended penalty
        options.seed = random.getrandbits(64) if self.seed is None else _seed(self.seed)
        options.biases, options.n_biases = biases, len(self.logit_bias)
        samplers = tuple(self.samplers)
        if not samplers and model is not None and lib.clef_model_samplers(model) != ffi.NULL:
            samplers = tuple(text_of(lib.clef_model_samplers(model)).split(","))
        for i, name in enumerate(samplers):
            options.samplers[i] = _kind(name)
        return options, [biases]

    def _value(self, model: Any, name: str, default: float) -> float:
        own = getattr(self, name)
        if own is not None:
            if isinstance(own, (str, bytes)):
                raise TypeError(f"{name}: expected a number, got {own!r}")
            return float(own)
        return default if model is None else self._recommended(model, name, default)

    @staticmethod
    def _recommended(model: Any, name: str, default: float) -> float:
        reported = ffi.new("double *")
        return reported[0] if lib.clef_model_sampling(model, c_text(name), reported) else default


def _whole(name: str, value: float) -> int:
    """A number as int32."""
    if not (value == value and abs(value) < 2**31 and value == int(value)):
        raise ValueError(f"{name}: expected a whole number below 2^31, got {value}")
    return int(value)


def _seed(seed: Any) -> int:
    """A seed as uint64; negative ones wrap."""
    number = operator.index(seed)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"seed: expected a number of 64 bits, got {seed}")
    return number & 0xFFFFFFFFFFFFFFFF


def _id(id: Any) -> int:
    """A token's id, which JSON has as text."""
    try:
        return int(id) if isinstance(id, str) else operator.index(id)
    except (TypeError, ValueError):
        raise ValueError(f"logit_bias: expected ids of tokens, got {id!r}") from None


class Sampler:
    """Samples tokens from logits in a loop of one's own; generate() has one by itself.

        s = clef.Sampler(len(logits), temperature=0.7, seed=1)
        id = s.pick(logits)
        s.accept(id)                                         # for the penalties
    """

    def __init__(self, n_vocab: int, **sampling: Any) -> None:
        options, _keep = Sampling(**sampling).new_options(None)
        out = ffi.new("clef_sampler **")
        call(lib.clef_sampler_create, n_vocab, options, out)
        self.n_vocab = n_vocab
        self.on_device = bool(lib.clef_sampler_on_device(options))  # whether a session does so on the device
        self._sampler = ffi.gc(out[0], lib.clef_sampler_destroy)

    def accept(self, id: int) -> None:
        """Tells it of a token of the text, of the prompt too."""
        if not 0 <= id < self.n_vocab:
            raise ValueError(f"accept: expected an id below {self.n_vocab}, got {id}")
        lib.clef_sampler_accept(self._sampler, id)

    def _arrays(self, logits: Any, mask: Any) -> tuple[Any, Any, list[Any]]:
        array = as_c_array(logits, np.float32, "logits")
        if array.shape != (self.n_vocab,):
            raise ValueError(f"logits: expected the shape [{self.n_vocab}], got {list(array.shape)}")
        keep: list[Any] = [array]
        bits = ffi.NULL
        if mask is not None:
            allowed = np.asarray(mask, bool)
            if allowed.shape != (self.n_vocab,):
                raise ValueError(f"mask: expected the shape [{self.n_vocab}], got {list(allowed.shape)}")
            packed = np.packbits(allowed, bitorder="little")
            keep.append(np.concatenate([packed, np.zeros(-len(packed) % 4, np.uint8)]))
            bits = ffi.cast("const uint32_t *", ffi.from_buffer(keep[1]))
        return ffi.cast("const float *", ffi.from_buffer(array)), bits, keep

    def pick(self, logits: Any, mask: Any = None) -> int:
        """The next id, of logits [n_vocab]; mask: bool [n_vocab], which ids are allowed; one at least."""
        numbers, bits, _keep = self._arrays(logits, mask)
        if mask is None:
            return int(lib.clef_sampler_pick(self._sampler, numbers))
        found = int(lib.clef_sampler_pick_masked(self._sampler, numbers, bits))
        if found < 0:
            raise ValueError("mask: expected an id that is allowed, got none")
        return found

    def explain(self, logits: Any, mask: Any = None) -> dict[str, npt.NDArray[np.float64]]:
        """The probabilities before and after each sampler, float64 [n_vocab], by its name; the sample draws from the last
        one."""
        numbers, bits, _keep = self._arrays(logits, mask)
        found: dict[str, npt.NDArray[np.float64]] = {}

        def report(name: str, p: bytes) -> None:
            found[name] = np.frombuffer(p, np.float64)

        handle = ffi.new_handle(report)
        call(lib.clef_sampler_explain, self._sampler, numbers, bits, lib.clef_py_distribution, handle)
        return found


def sampler_names() -> list[str]:
    """The samplers, in their default order."""
    return [text_of(lib.clef_sampler_name(kind)) for kind in range(1, lib.CLEF_N_SAMPLERS)]


def _kind(name: str) -> int:
    for kind in range(1, lib.CLEF_N_SAMPLERS):
        if ffi.string(lib.clef_sampler_name(kind)).decode() == name:
            return kind
    raise ValueError(f"samplers: there is none called {name!r}")
