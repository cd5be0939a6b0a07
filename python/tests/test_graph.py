"""Graphs: ops beside NumPy, gradients, states, errors, what notebooks show."""
import numpy as np
import pytest

import clef_cl as clef

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


OPS = {
    "affine": (lambda g, x: g.affine(x, 2, 1), lambda x: 2 * x + 1),
    "concat": (lambda g, x: g.concat(x, x, axis=1), lambda x: np.concatenate([x, x], 1)),
    "copy": (lambda g, x: g.copy(g.permute(x, (1, 0))), lambda x: x.T),
    "cast": (lambda g, x: g.copy(g.cast(x, "float16")), lambda x: x.astype(np.float16).astype(np.float32)),
    "pad": (lambda g, x: g.pad(x, 0, 1, 2), lambda x: np.pad(x, ((1, 2), (0, 0)))),
    "slice": (lambda g, x: g.slice(x, 1, -2, 2), lambda x: x[:, -2:]),
    "sum": (lambda g, x: g.sum(x), lambda x: x.sum(1, keepdims=True)),
    "sum of axes": (lambda g, x: g.sum(x, axes=[0, -1]), lambda x: x.sum(keepdims=True)),
    "expand": (lambda g, x: g.expand(g.max(x), x), lambda x: np.broadcast_to(x.max(1, keepdims=True), x.shape)),
    "log_sum_exp": (lambda g, x: g.log_sum_exp(x), lambda x: np.log(np.exp(x).sum(1))),
    "log softmax": (lambda g, x: g.softmax(x, log=True), lambda x: np.log(softmax(x))),
    "gather_elements": (lambda g, x: g.gather_elements(x, np.array([[1], [0], [5], [2]])),
                        lambda x: np.take_along_axis(x, np.array([[1], [0], [5], [2]]), 1)),
    "topk": (lambda g, x: g.topk(x, 2), lambda x: np.argsort(-x, 1)[:, :2]),
    "array left": (lambda g, x: np.ones((2, 4), np.float32) @ x, lambda x: np.ones((2, 4)) @ x),
    "number left": (lambda g, x: 1 - 2 / (x + 5), lambda x: 1 - 2 / (x + 5)),
    "swiglu": (lambda g, x: g.swiglu(x, x), lambda x: x * x / (1 + np.exp(-x))),
    "cross_entropy": (lambda g, x: g.cross_entropy(x, np.array([0, 5, -1, 2])),
                      lambda x: np.where([1, 1, 0, 1], np.log(np.exp(x).sum(1)) - x[range(4), [0, 5, 0, 2]], 0)),
}


@pytest.mark.parametrize("name", OPS)
def test_ops_are_numpys(name, device):
    make, wanted = OPS[name]
    g = clef.Graph()
    g.output("y", make(g, g.input("x", X.shape)))
    assert np.abs(g.run(device, x=X)["y"] - wanted(X)).max() < 1e-5


def test_without_outputs_the_last_values_are_the_results(device):
    g = clef.Graph()
    x = g.input("x", (clef.sym("T", 8), 6))
    y = g.softmax(x @ np.ones((6, 2), np.float32))
    assert list(g.run(device, x=X).values())[0].shape == (4, 2)
    assert y.inputs[0].op == "matmul" and g.symbols == {"T": 8} and list(g.inputs) == ["x"]


def test_gradients(device):
    g = clef.Graph()
    x, w = g.input("x", (4, 6)), g.weight("w", np.ones((6, 1), np.float32))
    loss = g.reshape(g.sum(g.square(x @ w), axes=[0]), ())
    gradient = g.gradients(loss, [w])[0]
    g.output("gradient", gradient)
    assert np.abs(g.run(device, x=X)["gradient"] - X.T @ (2 * X.sum(1, keepdims=True))).max() < 1e-4


def test_states(device):
    g = clef.Graph()
    total = g.state("total", (2,))
    g.output("y", g.accumulate(total, g.input("x", (2,)), np.ones(1, np.float32)))
    with g.plan(device) as plan:
        assert [plan.run(x=[1, 2])["y"].tolist() for _ in range(2)] == [[1, 2], [2, 4]]
        plan.reset()
        assert plan.run(x=[1, 2])["y"].tolist() == [1, 2]


def test_scopes_and_names():
    g = clef.Graph()
    with g.scope("layer0"):
        y = g.relu(g.input("x", (2,))).named("h")
    assert y.name == "layer0.h" and "layer0.h" in y.text
    assert g.diff(g.copy_graph()) == ""


@pytest.mark.parametrize("make, match", [
    (lambda g, x: x @ x, "matmul"), (lambda g, x: g.softmax(x, np.ones((3, 3), np.float32)), "softmax"),
    (lambda g, x: g.reshape(x, (5, 5)), "reshape"), (lambda g, x: g.layer_norm(x, np.ones(3)), "layer_norm"),
    (lambda g, x: g.concat(x, np.ones((2, 2)), axis=0), "concat"), (lambda g, x: g.topk(x, 100), "topk"),
    (lambda g, x: g.permute(x, (0, 0)), "permute")])
def test_errors_name_the_op(make, match):
    g = clef.Graph()
    with pytest.raises(clef.Error, match=match):
        make(g, g.input("x", (4, 6)))


def test_values_of_another_graph():
    a, b = clef.Graph(), clef.Graph()
    with pytest.raises(ValueError, match="another"):
        a.relu(b.input("x", (1,)))


def test_onnx_is_bytes(device):
    g = clef.Graph()
    g.output("y", g.relu(g.input("x", (1, 2)) @ g.weight("w", np.ones((2, 2), np.float32))))
    assert g.to_onnx().startswith(b"\x08")


def test_profile():
    with clef.Device(profile=True) as device:
        g = clef.Graph()
        g.output("y", g.softmax(g.input("x", (64, 64)) @ np.ones((64, 64), np.float32)))
        with g.plan(device) as plan:
            plan.run(x=np.ones((64, 64)))
            profile = plan.profile()
            assert {launch["op"] for launch in profile} >= {"softmax"}
            assert profile.total_us > 0 and profile.by_op()["softmax"]["launches"] == 1
            assert "softmax" in profile._repr_html_()
            assert plan.stats["n_launches"] == len(plan.launches()) == len(profile)


def test_notebooks(demo):
    graph = demo.graph(context=16)
    assert "softmax" in graph._repr_html_() or "attention" in graph._repr_html_()
    svg = graph._repr_svg_()
    assert svg is None or svg.startswith("<svg")
    attention = demo.attention("ROMEO: hello")
    n = len(attention.tokens)
    assert attention.weights.shape[2:] == (n, n)
    assert np.abs(attention.weights.sum(-1) - 1).max() < 1e-5
    assert attention._repr_html_().count("<svg") == attention.weights.shape[0] * attention.weights.shape[1]


def test_evaluate_is_logits(demo):
    ids = demo.tokenize("ROMEO: hello")
    found = demo.evaluate(ids)["logits"]
    assert found.shape == (1, len(ids), demo.hparams["n_vocab"])
    assert np.abs(found[0, -1] - demo.logits(ids)).max() < 1e-3


def test_a_changed_graph_is_compiled_anew(device):
    g = clef.Graph()
    g.output("y", g.relu(g.input("x", (clef.sym("T", 8), 2))))
    assert g.run(device, x=np.ones((8, 2)))["y"].shape == (8, 2)
    g.set_bound("T", 4)
    assert g.run(device, x=np.ones((4, 2)))["y"].shape == (4, 2)
    with pytest.raises(clef.Error, match="8"):
        g.run(device, x=np.ones((8, 2)))
    g.fix_symbols()
    with pytest.raises(ValueError, match=r"expected the shape \[4, 2\]"):
        g.run(device, x=np.ones((3, 2)))
    g["x"].named("z")
    assert g.run(device, z=np.ones((4, 2)))["y"].sum() == 8
    kept = len(g._plans)
    g.optimize()
    assert kept == 1 and not g._plans
    assert g.run(device, z=-np.ones((4, 2)))["y"].sum() == 0
