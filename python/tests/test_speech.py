"""Model.transcribe(): files, bytes and arrays say the same as the command."""
import json
import struct

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT, run_command

SOUND = ROOT / "tests/fixtures/speech/short.wav"
FLAC = ROOT / "tests/fixtures/speech/sine.flac"


@pytest.fixture(scope="module")
def whisper(device):
    with clef.Model(ROOT / "tests/fixtures/whisper", device=device, exact=True) as model:
        yield model


def samples_of(path):
    """A WAV of 16 bits: its numbers and its rate."""
    data = path.read_bytes()
    channels, rate = struct.unpack_from("<HI", data, 22)
    assert data[36:40] == b"data" and struct.unpack_from("<H", data, 34) == (16,)
    return np.frombuffer(data[44:], np.int16).reshape(-1, channels), rate


def test_transcribe(whisper):
    said = json.loads(run_command("transcribe", whisper.path, SOUND, "-l", "en", "-q", "--exact", "--temperature", "0", "-w",
                                  "--format", "json"))
    got = whisper.transcribe(SOUND, language="en", temperatures=[0], words=True)
    assert [s.ids for s in got.segments] == [s["tokens"] for s in said["segments"]] != []
    assert [round(w.start, 2) for s in got.segments for w in s.words] == [w["start"] for s in said["segments"] for w in s["words"]]
    assert got.language == "en" and abs(got.duration - said["duration"]) < 1e-6 and str(got) == got.text
    assert whisper.transcribe(SOUND, language="en", temperatures=[0]).text != "" == whisper.transcribe(np.zeros(100), 16000).text


def test_what_a_sound_is(whisper):
    options = {"language": "en", "temperatures": [0], "timestamps": True}
    said = whisper.transcribe(SOUND, **options)
    numbers, rate = samples_of(SOUND)
    for sound in (str(SOUND), SOUND.read_bytes(), memoryview(SOUND.read_bytes())):
        assert whisper.transcribe(sound, **options) == said
    for array in (numbers, numbers.astype(np.float64) / 32768, numbers[:, 0], np.repeat(numbers, 2, axis=1)):
        got = whisper.transcribe(array, rate, **options)
        assert [s.ids for s in got.segments] == [s.ids for s in said.segments]
    assert abs(whisper.transcribe(FLAC, **options).duration - 1) < 0.7


def test_refused(whisper, demo):
    for error, sound, more in ((TypeError, np.zeros(99), {}), (TypeError, SOUND, {"rate": 8000}), (ValueError, np.zeros((2, 99)), {"rate": 8000}),
                               (ValueError, np.zeros(99), {"rate": 0}), (clef.FormatError, b"abc", {}), (clef.IOFailed, "no such file", {}),
                               (clef.ArgumentError, np.full(999, np.nan), {"rate": 16000}), (TypeError, np.array(["a"]), {"rate": 16000}),
                               (clef.ArgumentError, SOUND, {"language": "tlh"}), (clef.ArgumentError, SOUND, {"temperatures": [3]}),
                               (clef.ArgumentError, SOUND, {"temperatures": []}), (ValueError, SOUND, {"max_tokens": -1})):
        with pytest.raises(error):
            whisper.transcribe(sound, **more)
    with pytest.raises(clef.Unsupported):
        demo.transcribe(SOUND)
