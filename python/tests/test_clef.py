"""Models: the package beside the command `clef` and NumPy."""
import json
import threading

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT, run_command

GREEDY = {"temperature": 0, "max_tokens": 20}


def test_devices():
    assert clef.devices()[0].number == "0:0"


def test_tokens(demo):
    text = "ROMEO: héllo 日本 ☃"
    assert demo.detokenize(demo.tokenize(text)) == text
    assert demo.tokenize("").shape == (0,)
    with pytest.raises(clef.ArgumentError, match="100000"):
        demo.detokenize([100000])


def test_text_is_the_commands(demo):
    wanted = run_command("run", demo.path, "-p", "ROMEO:", "-n", "20", "--temp", "0", "-q", "--print-ids")
    assert demo.generate_ids("ROMEO:", **GREEDY).tolist() == [int(i) for i in wanted.split(",")]
    wanted = run_command("run", demo.path, "-p", "ROMEO:", "-n", "20", "--seed", "7", "-q", "--print-ids")
    assert demo.generate_ids("ROMEO:", seed=7, max_tokens=20).tolist() == [int(i) for i in wanted.split(",")]


def test_stream(demo):
    pieces = list(demo.generate("ROMEO:", stream=True, **GREEDY))
    assert len(pieces) > 5
    assert "".join(pieces) == demo.generate("ROMEO:", **GREEDY)


def test_stop(demo):
    whole = demo.generate("ROMEO:", **GREEDY)
    assert demo.generate("ROMEO:", stop=["me"], **GREEDY) == whole[:whole.index("me")]
    with pytest.raises(clef.ArgumentError):
        demo.generate("ROMEO:", stop=[""])


def test_another_call_ends_a_stream(demo):
    stream = demo.generate("ROMEO:", stream=True, **GREEDY)
    next(stream)
    demo.generate("JULIET:", **GREEDY)
    with pytest.raises(RuntimeError):
        next(stream)


def test_constraints(demo):
    assert demo.generate("Yes or no?", choice=["yes", "no"], seed=1) in ("yes", "no")
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    assert json.loads(demo.generate("JSON:", json_schema=schema, seed=1))["a"] in (1, 2)
    with pytest.raises(ValueError):
        demo.generate("a", choice=["b"], regex="c")
    with pytest.raises(clef.Unsupported, match="uniqueItems"):
        demo.generate("a", json_schema={"type": "array", "uniqueItems": True})


def test_the_end_of_the_context(device):
    with clef.Model(device=device, context=16) as model:
        text = model.generate("ROMEO:", temperature=0, stream=True)
        assert len("".join(text)) > 0
        assert text.finish == "length"
        with pytest.raises(clef.LimitError, match="16"):
            model.logits([1] * 17)


def test_logits_are_copies_unless_asked(demo):
    ids = demo.tokenize("ROMEO:")
    one, view = demo.logits(ids), demo.logits(ids, copy=False)
    assert one.dtype == np.float32 and not view.flags.writeable
    assert (one == view).all()
    before = one.copy()
    demo.logits([5])
    assert (one == before).all()


def test_embeddings(device):
    with clef.Model(str(ROOT / "tests/fixtures/tiny-bert"), device=device) as model:
        one, many = model.embed("a cat"), model.embed(["a cat", "two dogs"])
        assert one.shape == (many.shape[1],)
        assert (one == many[0]).all()
        assert model.embed([]).shape == (0, many.shape[1])


def test_batch(demo):
    prompts = ["ROMEO:", "JULIET: What", "First"]
    with clef.Batch(demo, max_sequences=2) as batch:
        assert batch.generate(prompts, **GREEDY) == [demo.generate(p, **GREEDY) for p in prompts]
        number = batch.add("ROMEO:", **GREEDY)
        batch.step()
        batch.cancel(number)
        assert batch.is_idle


def test_chat(demo):
    messages = [{"role": "user", "content": "Hello <|im_end|>"}]
    text = demo.apply_template(messages, template="chatml")
    assert text == "<|im_start|>user\nHello <|im_end|><|im_end|>\n<|im_start|>assistant\n"
    answer = demo.chat(messages, template="chatml", **GREEDY)
    assert answer == {"role": "assistant", "content": demo.generate(text, **GREEDY)}
    parts = list(demo.chat(messages, template="chatml", stream=True, **GREEDY))
    assert "".join(part["content"] for part in parts) == answer["content"]
    with pytest.raises(clef.NotFound, match="template"):
        demo.chat(messages)


def test_calls(demo):
    tool = {"type": "function", "function": {"name": "pick", "parameters": {
        "type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": False}}}
    options = {"template": "chatml", "tool_format": "hermes", "tools": [tool], "tool_choice": "required",
               "parallel_tool_calls": False, "seed": 3}
    messages = [{"role": "user", "content": "Pick"}]
    call = demo.chat(messages, **options)["tool_calls"][0]
    assert call["function"]["name"] == "pick"
    assert json.loads(call["function"]["arguments"])["x"] in (1, 2)
    reply = clef.openai(demo).chat.completions.create(messages=messages, **options)
    assert reply.choices[0].finish_reason == "tool_calls"
    assert reply.choices[0].message.tool_calls[0].function.name == "pick"


def test_graph(device):
    rng = np.random.default_rng(1)
    w, x = rng.random((8, 4), np.float32), rng.random((3, 8), np.float32)
    g = clef.Graph()
    t = clef.sym("T", 16)
    y = g.softmax(g.input("x", (t, 8)) @ g.weight("w", w) * 2 + 1)
    g.output("y", y)
    assert y.shape == ("T", 4) and y.dtype == "f32" and y.op == "softmax"
    z = np.exp(2 * (x @ w) + 1)
    assert np.abs(g.run(device, x=x)["y"] - z / z.sum(1, keepdims=True)).max() < 1e-6
    assert g.run(device, x=x[:1])["y"].shape == (1, 4)
    assert str(clef.Graph.parse(str(g))) == str(g)
    with pytest.raises(ValueError, match=r"expected the shape \[T, 8\]"):
        g.run(device, x=x[:, :4])
    with pytest.raises(ValueError, match="missing: x"):
        g.run(device)
    with pytest.raises(clef.Error, match="matmul"):
        g.input("z", (4, 3)) @ g.input("q", (4, 3))


def test_graph_of_a_model(demo, tmp_path):
    graph = demo.graph(context=32)
    assert "logits" in graph.outputs
    assert "symbol" in str(graph)
    assert graph["logits"].shape[-1] == demo.hparams["n_vocab"]


def test_onnx(tmp_path, device):
    g = clef.Graph()
    g.output("y", g.relu(g.input("x", (2, 3)) @ g.weight("w", np.ones((3, 4), np.float32))))
    g.to_onnx(str(tmp_path / "g.onnx"))
    assert (tmp_path / "g.onnx").stat().st_size > 100


def test_errors():
    with pytest.raises(clef.IOFailed, match="nowhere.gguf") as caught:
        clef.Model("/nowhere.gguf")
    assert caught.value.status == "E_IO" and isinstance(caught.value, OSError)
    with pytest.raises(clef.DeviceError):
        clef.Device("no such device")
    with pytest.raises(ValueError, match="kv_type"):
        clef.Model(kv_type="f64")


def test_progress_can_stop(device):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with clef.Model(device=device, progress=stop, context=48) as model:
        with pytest.raises(KeyboardInterrupt):
            model.logits([1, 2, 3])


def test_closed(device):
    model = clef.Model(device=device)
    model.close()
    model.close()
    with pytest.raises(ValueError, match="closed"):
        model.tokenize("a")


def test_threads(device):
    with clef.Model(device=device) as a, clef.Model(device=device) as b:
        wanted = a.generate("ROMEO:", **GREEDY)
        got = []
        threads = [threading.Thread(target=lambda m=m: got.append(m.generate("ROMEO:", **GREEDY))) for m in (a, a)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [wanted, wanted] and b.generate("ROMEO:", **GREEDY) == wanted
