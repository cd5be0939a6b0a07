"""Compares the kernel with clef's op on the same device. clef has checked that op against its formula."""
from pathlib import Path

import clef_cl as clef
import numpy as np
import pyopencl as cl
import pytest
from pyopencl.array import to_device

SOURCE = (Path(__file__).resolve().parents[1] / "kernels" / "rms_norm.cl").read_text()
EPS = 1e-5


def run_kernel(source, x, weight):
    queue = cl.CommandQueue(cl.Context([next(d for p in cl.get_platforms() for d in p.get_devices())]))
    program = cl.Program(queue.context, source).build()
    x, weight, y = (to_device(queue, array) for array in (x, weight, np.full_like(x, np.nan)))
    program.rms_norm(queue, (len(x) * 64,), (64,), np.int32(x.shape[1]), np.float32(EPS), x.data, weight.data, y.data)
    return y.get()


def run_clef(x, weight):
    graph = clef.Graph()
    graph.output("y", graph.rms_norm(graph.input("x", x.shape), graph.weight("weight", weight), eps=EPS))
    return graph.run(x=x)["y"]


@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (2, 64), (5, 65), (4, 1000)])
def test_rms_norm(shape):
    draw = np.random.default_rng(shape[1])
    x, weight = (draw.standard_normal(s).astype(np.float32) for s in (shape, shape[1]))
    np.testing.assert_allclose(run_kernel(SOURCE, x, weight), run_clef(x, weight), rtol=1e-5, atol=1e-6)


def test_a_broken_kernel_is_seen():
    x = np.ones((2, 65), np.float32)
    broken = SOURCE.replace("sum += x[row * n + i] * x[row * n + i]", "sum += x[row * n + i]  * 2")
    assert broken != SOURCE
    assert not np.allclose(run_kernel(broken, x, np.ones(65, np.float32)), run_clef(x, np.ones(65, np.float32)))
