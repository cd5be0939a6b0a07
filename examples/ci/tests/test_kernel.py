"""Compares the kernel with clef's op on the same device. clef has checked that op against its formula."""
from pathlib import Path

import clef_cl as clef
import numpy as np
import pyopencl as cl
import pytest

SOURCE = Path(__file__).resolve().parents[1] / "kernels" / "rms_norm.cl"
EPS = 1e-5


def run_kernel(source, x, weight):
    device = next(d for p in cl.get_platforms() for d in p.get_devices())
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, source).build()
    read = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    x_buffer, weight_buffer = (cl.Buffer(context, read, hostbuf=array) for array in (x, weight))
    y = np.full_like(x, np.nan)
    y_buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=y)
    program.rms_norm(queue, (len(x) * 64,), (64,), np.int32(x.shape[1]), np.float32(EPS), x_buffer, weight_buffer, y_buffer)
    cl.enqueue_copy(queue, y, y_buffer)
    return y


def run_clef(x, weight):
    g = clef.Graph()
    g.output("y", g.rms_norm(g.input("x", x.shape), g.weight("weight", weight), eps=EPS))
    return g.run(x=x)["y"]


@pytest.mark.parametrize("shape", [(1, 1), (3, 63), (2, 64), (5, 65), (4, 1000)])
def test_rms_norm(shape):
    draw = np.random.default_rng(shape[1])
    x = draw.standard_normal(shape).astype(np.float32)
    weight = draw.uniform(0.5, 1.5, shape[1]).astype(np.float32)
    np.testing.assert_allclose(run_kernel(SOURCE.read_text(), x, weight), run_clef(x, weight), rtol=1e-5, atol=1e-6)


def test_a_broken_kernel_is_seen():
    x = np.ones((2, 65), np.float32)
    broken = SOURCE.read_text().replace("sum += x[row * n + i] * x[row * n + i]", "sum += x[row * n + i]  * 2")
    assert broken != SOURCE.read_text()
    assert not np.allclose(run_kernel(broken, x, np.ones(65, np.float32)), run_clef(x, np.ones(65, np.float32)))
