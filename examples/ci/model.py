"""The model of this project: one pre-norm block of a transformer without attention masks, for any number of tokens."""
import clef_cl as clef
import numpy as np

WIDTH = 32
EPS = 1e-6


def weights(seed=1):
    draw = np.random.default_rng(seed)
    return {name: (draw.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH)).astype(np.float32) for name in "qkvo"} | {
        "norm": draw.uniform(0.5, 1.5, WIDTH).astype(np.float32)}


def build(w):
    """x [T, WIDTH] -> x + softmax(q k^T / sqrt(WIDTH)) v o, of the normalised x."""
    g = clef.Graph()
    x = g.input("x", (clef.sym("T", 64), WIDTH))
    n = g.rms_norm(x, g.weight("norm", w["norm"]), eps=EPS)
    q, k, v = (n @ g.weight(name, w[name]) for name in "qkv")
    scores = g.matmul(q, k, transpose_b=True)
    mixed = g.softmax(scores, scale=WIDTH ** -0.5) @ v
    g.output("y", x + mixed @ g.weight("o", w["o"]))
    return g
