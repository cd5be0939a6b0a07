"""Arrays that go in and out: NumPy, DLPack, buffers, views."""
import array

import numpy as np
import pytest

import clef_cl as clef


class OnlyDLPack:
    """An array of another library: it speaks DLPack and nothing else."""

    def __init__(self, data):
        self._data = data

    def __dlpack__(self, **options):
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._data.__dlpack_device__()


class OnAGpu(OnlyDLPack):
    def __dlpack_device__(self):
        return (2, 0)


@pytest.fixture(scope="module")
def double(device):
    g = clef.Graph()
    g.output("y", g.input("x", (clef.sym("T", 8), 2)) * 2)
    return g.plan(device)


@pytest.mark.parametrize("make", [np.asarray, OnlyDLPack, lambda x: x.tolist(), lambda x: memoryview(x),
                                  np.asfortranarray, lambda x: x.astype(np.float64), lambda x: np.repeat(x, 2, 0)[::2]])
def test_inputs(double, make):
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert (double.run(x=make(x))["y"] == 2 * x).all()


def test_a_buffer_without_numpy(double):
    flat = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 2))
    assert double.run(x=flat)["y"].tolist() == [[2, 4], [6, 8]]


def test_what_is_refused(double, device):
    with pytest.raises(ValueError, match="x: expected an array in the host's memory"):
        double.run(x=OnAGpu(np.zeros((1, 2), np.float32)))
    with pytest.raises(ValueError, match="x: expected numbers, got complex"):
        double.run(x=np.zeros((1, 2), np.complex64))
    g = clef.Graph()
    g.output("y", g.gather(np.eye(3), g.input("i", (1,), "int32")))
    assert g.run(device, i=np.array([2]))["y"].tolist() == [[0, 0, 1]]
    with pytest.raises(ValueError, match="i: expected numbers that fit int32"):
        g.run(device, i=np.array([2**40]))
    with pytest.raises(ValueError, match="i: expected integers"):
        g.run(device, i=np.array([1.5]))


def test_outputs_speak_dlpack(double, demo):
    y = double.run(x=np.ones((1, 2)))["y"]
    assert (np.from_dlpack(y) == y).all()
    assert (np.from_dlpack(demo.logits([1])) == demo.logits([1])).all()


def test_torch(double, demo, needs):
    torch = needs("torch")
    x = torch.ones(2, 2, requires_grad=True)
    y = torch.from_dlpack(double.run(x=x)["y"])
    assert y.tolist() == [[2, 2], [2, 2]]
    g = clef.Graph()
    g.output("y", g.input("x", (1, 2)) @ g.weight("w", torch.eye(2)))
    assert g.run(double.device, x=torch.tensor([[3.0, 4.0]]))["y"].tolist() == [[3, 4]]
    logits = torch.from_dlpack(demo.logits(torch.tensor([1, 2])))
    assert logits.shape == (demo.hparams["n_vocab"],)


def test_views_last_until_the_next_call(demo):
    view = demo.logits([1, 2, 3], copy=False)
    with pytest.raises(ValueError):
        view[0] = 0
    with pytest.raises(ValueError):
        view.flags.writeable = True
    before, address = view.copy(), view.__array_interface__["data"][0]
    other = demo.logits([7, 8], copy=False)
    assert other.__array_interface__["data"][0] == address  # the session's own memory
    assert (view == other).all() and not (view == before).all()
    assert (demo.logits([1, 2, 3]) == before).all()


@pytest.mark.parametrize("dtype, tolerance", [("float16", 1e-3), ("bfloat16", 1e-2), ("q8_0", 2e-2), ("q4_0", 0.3)])
def test_weights_of_other_dtypes(device, dtype, tolerance):
    rng = np.random.default_rng(0)
    w, x = rng.standard_normal((4, 64), np.float32), rng.standard_normal((2, 64), np.float32)
    g = clef.Graph()
    g.output("y", g.linear(g.input("x", x.shape), g.weight("w", w, dtype)))
    decoded = clef.decode(clef.encode(w, dtype), dtype).reshape(w.shape)
    assert np.abs(decoded - w).max() < tolerance * 3
    with g.plan(device, exact=True) as plan:
        assert np.abs(plan.run(x=x)["y"] - x @ decoded.T).max() < 1e-4
