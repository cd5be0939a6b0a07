"""What is said in a sound: Model.transcribe()."""
from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

import numpy as np
import numpy.typing as npt

from ._arrays import as_array, whole
from ._native import c_text, call, ffi, lib, new_struct, path_bytes, text_of

if TYPE_CHECKING:
    from .model import Model

Sound = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, "npt.ArrayLike"]
_RATE: int = lib.CLEF_SPEECH_RATE
_MOST_CHANNELS = 64


@dataclass(frozen=True)
class Word:
    """A word with the space before it, and when it is said, in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Segment:
    """A part of the text: what the model writes between two timestamps, in seconds."""

    start: float
    end: float
    text: str
    ids: list[int]  # with timestamps
    words: list[Word]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float


@dataclass(frozen=True)
class Transcript:
    """What is said in a sound. `language` is a code, `duration` in seconds."""

    text: str
    language: str
    duration: float
    segments: list[Segment]

    def __str__(self) -> str:
        return self.text


def _mono(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Samples of one channel from -1 to 1. Channels are the second axis, as in files."""
    if array.dtype.kind not in "fiu":
        raise TypeError(f"sound: expected samples that are numbers, got {array.dtype}")
    if array.ndim not in (1, 2) or (array.ndim == 2 and not 1 <= array.shape[1] <= min(_MOST_CHANNELS, len(array))):
        raise ValueError(f"sound: expected samples [n], or [n, channels] with at most {_MOST_CHANNELS} channels, "
                         f"got {list(array.shape)}")
    if array.dtype.kind == "f":
        scaled = array.astype(np.float64, copy=False)
    else:
        half = float(2 ** (8 * array.dtype.itemsize - 1))
        scaled = (array.astype(np.float64) - (half if array.dtype.kind == "u" else 0.0)) / half
    if scaled.ndim == 2:
        scaled = scaled.mean(axis=1)
    return np.ascontiguousarray(scaled, np.float32)


def _wav(samples: npt.NDArray[np.float32], rate: int) -> bytes:
    """A WAV file of floats: the library then makes another rate of it."""
    n = samples.nbytes
    return (struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + n, b"WAVE", b"fmt ", 16, 3, 1, rate, 4 * rate, 4, 32, b"data", n)
            + samples.tobytes())


def _decoded(data: Any, name: str) -> npt.NDArray[np.float32]:
    out, view = ffi.new("clef_sound *"), ffi.from_buffer(data)
    call(lib.clef_sound_read, view, len(view), c_text(name), new_struct("clef_sound_opts *", {"rate": _RATE}), out)
    try:
        return np.frombuffer(ffi.buffer(out.samples, 4 * out.n), np.float32).copy()
    finally:
        lib.clef_sound_finish(out)


def read_sound(sound: Sound, rate: int | None) -> npt.NDArray[np.float32]:
    """A sound as samples at 16 kHz."""
    if isinstance(sound, (str, os.PathLike, bytes, bytearray, memoryview)) and rate is not None:
        raise TypeError("rate: expected it with an array alone; a file says its own")
    if isinstance(sound, (bytes, bytearray, memoryview)):
        return _decoded(sound, "sound")
    if isinstance(sound, (str, os.PathLike)):
        out = ffi.new("clef_sound *")
        call(lib.clef_sound_open, path_bytes(sound), new_struct("clef_sound_opts *", {"rate": _RATE}), out)
        try:
            return np.frombuffer(ffi.buffer(out.samples, 4 * out.n), np.float32).copy()
        finally:
            lib.clef_sound_finish(out)
    if rate is None:
        raise TypeError("rate: expected samples a second beside an array, got nothing")
    samples, rate = _mono(as_array(sound, "sound")), whole("rate", rate, 1)
    return samples if rate == _RATE else _decoded(_wav(samples, rate), "sound")


def _segment(g: Any) -> Segment:
    words = [Word(text_of(g.words[i].text), g.words[i].start, g.words[i].end) for i in range(g.n_words)]
    return Segment(g.start, g.end, text_of(g.text), [g.ids[i] for i in range(g.n_ids)], words, g.temperature,
                   g.avg_logprob, g.compression_ratio, g.no_speech_prob)


def transcribe(model: Model, transcriber: Any, samples: npt.NDArray[np.float32], language: str | None, prompt: str | None,
               temperatures: Sequence[float] | None, options: dict[str, Any]) -> Transcript:
    """Runs it; the model's lock is held."""
    texts = [ffi.new("char[]", c_text(text)) if text is not None else ffi.NULL for text in (language, prompt)]
    tries = ffi.new("float[]", list(temperatures)) if temperatures is not None else ffi.NULL
    struct_ = new_struct("clef_transcribe_opts *", {
        **options, "language": texts[0], "prompt": texts[1], "temperatures": tries,
        "n_temperatures": len(temperatures) if temperatures is not None else 0,
        "progress": lib.clef_py_progress, "progress_user": model._progress})
    out = ffi.new("clef_transcript *")
    call(lib.clef_transcribe, transcriber, ffi.cast("float *", ffi.from_buffer(samples)), len(samples), struct_, out)
    try:
        segments = [_segment(out.segments[i]) for i in range(out.n_segments)]
        return Transcript(text_of(out.text).strip(), text_of(out.language), out.duration, segments)
    finally:
        lib.clef_transcript_finish(out)
