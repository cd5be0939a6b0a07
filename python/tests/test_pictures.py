"""Model.classify(image=) and Model.embed(image=): as the command says, for files, bytes and arrays."""
import json

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT, run_command

FIXTURES = ROOT / "tests/fixtures"
PICTURE = FIXTURES / "pictures/harsh.ppm"


def array_of(path):
    """A PPM: its bytes [height, width, 3]."""
    _, width, height, _ = path.read_bytes().split(maxsplit=4)[:4]
    n = 3 * int(width) * int(height)
    return np.frombuffer(path.read_bytes()[-n:], np.uint8).reshape(int(height), int(width), 3)


def said_of(name, *flags):
    return json.loads(run_command("classify", FIXTURES / name, "-i", PICTURE, "--json", "-q", *flags))


def test_pictures(device):
    with clef.Model(FIXTURES / "tiny-vit", device=device) as model:
        want = {c["label"]: c["score"] for c in said_of("tiny-vit")}
        for image in (PICTURE, str(PICTURE), PICTURE.read_bytes(), array_of(PICTURE)):
            got = model.classify(image=image)
            assert {c["label"]: pytest.approx(c["score"], abs=1e-5) for c in got} == want
            assert [c["score"] for c in got] == sorted((c["score"] for c in got), reverse=True)
        vector = np.array(run_command("embed", FIXTURES / "tiny-vit", "-i", PICTURE, "-q").split(), np.float32)
        assert np.abs(model.embed(image=array_of(PICTURE)) - vector).max() < 1e-5
        for wrong in (np.zeros((2, 2, 4), np.uint8), np.zeros((2, 2, 3)), np.zeros((0, 2), np.uint8)):
            with pytest.raises(ValueError, match="image: expected"):
                model.embed(image=wrong)
        with pytest.raises(TypeError, match="text: expected none beside image"):
            model.classify("a", image=PICTURE)
        with pytest.raises(clef.Unsupported, match="compares pictures with texts"):
            model.classify(image=PICTURE, classes=["a"])


def test_classes_by_their_names(device):
    with clef.Model(FIXTURES / "tiny-clip", device=device) as model:
        want = {c["label"]: c["score"] for c in said_of("tiny-clip", "--classes", "a cat,a dog,the sea")}
        got = model.classify(image=PICTURE, classes=["a cat", "a dog", "the sea"])
        assert {c["label"]: pytest.approx(c["score"], abs=1e-5) for c in got} == want
