"""Compares the graph with the same formula in NumPy, and a whole model with the text that it is known to write."""
import clef_cl as clef
import numpy as np
import pytest

from model import EPS, WIDTH, build, weights


def reference(x, w):
    x = x.astype(np.float64)
    n = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS) * w["norm"]
    q, k, v = (n @ w[name] for name in "qkv")
    e = np.exp(q @ k.T / np.sqrt(WIDTH))
    return x + e / e.sum(axis=1, keepdims=True) @ v @ w["o"]


@pytest.fixture(scope="module")
def graph():
    return build(weights())


@pytest.mark.parametrize("n_tokens", [1, 2, 7, 64])
def test_block(graph, n_tokens):
    x = np.random.default_rng(n_tokens).standard_normal((n_tokens, WIDTH)).astype(np.float32)
    y = graph.run(x=x)["y"]
    assert y.shape == x.shape
    np.testing.assert_allclose(y, reference(x, weights()), atol=2e-5)


def test_a_wrong_weight_is_seen(graph):
    x = np.random.default_rng(0).standard_normal((5, WIDTH)).astype(np.float32)
    assert np.abs(graph.run(x=x)["y"] - reference(x, weights(seed=2))).max() > 1e-2


def test_text():
    """The likeliest tokens after a prompt. clef.Model() is the bundled model; put clef.Model("my-model.gguf") here."""
    model = clef.Model()
    assert model.generate_ids("ROMEO:", max_tokens=8, temperature=0).tolist() == [199, 41, 452, 305, 76, 474, 294, 319]
