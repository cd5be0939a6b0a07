"""What is used after it, its model or its device was closed raises ClosedError; views hold their model."""
import gc
import subprocess
import sys

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT

GREEDY = {"temperature": 0, "max_tokens": 4}


@pytest.fixture
def model(device):
    with clef.Model(device=device) as model:
        yield model


USES = {
    "tokenizer": lambda m, t: [lambda: t.encode("a"), lambda: t.decode([1]), lambda: t.token(1), lambda: len(t),
                               lambda: t.find("a"), lambda: t.is_special(0), lambda: t.special],
    "properties": lambda m, t: [lambda: m.is_encoder, lambda: m.is_encoder_decoder, lambda: m.hparams, lambda: m.stats,
                                lambda: m.metadata, lambda: m.sampling, lambda: m.tensors(), lambda: m.tokenizer,
                                lambda: m.cached_ids, lambda: m.source_ids, lambda: m.step_graph()],
    "calls": lambda m, t: [lambda: m.generate("a"), lambda: m.logits([1]), lambda: m.feed([1]), lambda: m.keep(0),
                           lambda: m.embed("a"), lambda: m.graph(), lambda: m.attention("a"), lambda: m.tokenize("a"),
                           lambda: m.chat([{"role": "user", "content": "a"}], template="chatml"), lambda: m.profile(),
                           lambda: m.evaluate([1]), lambda: clef.Batch(m), lambda: m.save("x", {})],
}


@pytest.mark.parametrize("name", USES)
def test_a_closed_model(model, name):
    calls = USES[name](model, model.tokenizer)
    model.close()
    for call in calls:
        with pytest.raises(clef.ClosedError, match="closed"):
            call()


def test_constraints_of_a_closed_model(model):
    c = clef.Constraint(regex="a+", tokenizer=model.tokenizer)
    assert c.mask().any()
    model.close()
    for call in (c.mask, lambda: c.accept(1), lambda: c.matches("a"), c.reset):
        with pytest.raises(clef.ClosedError):
            call()


def test_batches_go_before_their_model_and_draft(device, model):
    batch = clef.Batch(model)
    batch.add("ROMEO:")
    with clef.Model(device=device) as draft:
        other = clef.Batch(model, draft=draft, draft_tokens=2)
        assert other.generate(["ROMEO:"], **GREEDY) == [model.generate("ROMEO:", **GREEDY)]
    with pytest.raises(clef.ClosedError, match="the batch"):
        other.add("a")
    assert len(batch.step()) < 2
    model.close()
    for call in (batch.step, lambda: batch.add("a"), lambda: batch.stats, lambda: batch.cancel(1),
                 lambda: batch.warnings, lambda: batch.step_graph):
        with pytest.raises(clef.ClosedError):
            call()


def test_a_closed_batch(model):
    batch = clef.Batch(model)
    batch.close()
    batch.close()
    for call in (batch.step, lambda: batch.add("a"), lambda: batch.stats, lambda: batch.generate(["a"])):
        with pytest.raises(clef.ClosedError, match="the batch was closed"):
            call()


def test_graphs_and_plans_of_a_closed_model(device, model):
    graph = model.graph(context=8, batch=8, all_logits=True, optimize=None)
    with clef.Device() as another:
        plan, elsewhere = graph.plan(device), graph.plan(another)
        inputs = {name: np.zeros([1 if isinstance(n, str) else n for n in value.shape], np.int32)
                  for name, value in graph.inputs.items()}
        assert plan.run(**inputs)["logits"].shape == elsewhere.run(**inputs)["logits"].shape
        step = model.step_graph()
        model.close()
        for call in (lambda: plan.run(**inputs), lambda: elsewhere.run(**inputs), lambda: graph.plan(device),
                     lambda: step.plan(device), graph.to_onnx, lambda: graph.run(device, **inputs), plan.launches):
            with pytest.raises(clef.ClosedError):
                call()
    assert "logits" in graph.outputs and str(graph) and str(step)  # a graph itself lives on


def test_a_stream_of_a_closed_model(model):
    stream = model.generate("ROMEO:", stream=True, **GREEDY)
    next(stream)
    model.close()
    for call in (lambda: next(stream), stream.run):
        with pytest.raises(clef.ClosedError):
            call()


def test_a_closed_device():
    device = clef.Device()
    model, g = clef.Model(device=device), clef.Graph()
    g.output("y", g.relu(g.input("x", (2,))))
    plan, trainer = g.plan(device), clef.ModelTrainer(model, n_tokens=8, n_rows=1, lora_rank=1)
    device.close()
    device.close()
    for call in (lambda: device.info, lambda: device.n_plans, device.measure, lambda: model.logits([1]),
                 lambda: plan.run(x=[1, 2]), lambda: g.plan(device), lambda: trainer.parameters, trainer.publish,
                 lambda: clef.Model(device=device).logits([1]), lambda: clef.check.variants(device)):
        with pytest.raises(clef.ClosedError):
            call()
    assert repr(device) == "<clef.Device closed>"


def test_a_closed_dataset(model, tmp_path):
    (tmp_path / "t.txt").write_text("To be, or not to be.\n" * 50)
    data = clef.Dataset(tmp_path / "t.txt", model, n_tokens=8)
    model.close()
    assert data.rows(0, 1)["input_ids"].shape == (1, 8)
    data.close()
    with pytest.raises(clef.ClosedError):
        data.rows(0, 1)


VIEW = """
import gc
import clef_cl as clef
views = []
for i in range(3):
    m = clef.Model()
    copy = m.logits([1, 2, 3])
    m.keep(0)
    view = (m.logits if i % 2 else m.feed)([1, 2, 3], copy=False)
    half = view[len(view) // 2 :]
    del m, view
    gc.collect()
    junk = [bytearray(n) for n in (1 << 12, 1 << 16, 4 * len(copy)) for _ in range(50)]
    assert (half == copy[len(copy) // 2 :]).all()
    views.append(half)
assert all((v == views[0]).all() for v in views)
"""


def test_a_view_holds_its_model():
    result = subprocess.run([sys.executable, "-X", "faulthandler", "-c", VIEW], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_model_goes_with_its_last_view(device):
    view = clef.Model(device=device).logits([1], copy=False)
    gc.collect()
    alive = sum(user.alive for user in device._users)
    assert view.shape == (len(view),) and alive > 0
    del view
    gc.collect()
    assert sum(user.alive for user in device._users) == alive - 1


def test_encoders_too(device):
    model = clef.Model(ROOT / "tests/fixtures/tiny-bert", device=device)
    s = clef.SentenceTransformer(model)
    model.close()
    for call in (lambda: s.encode("a"), lambda: model.fill_mask("a [MASK]"), lambda: model.classify("a"),
                 lambda: clef.openai(model).embeddings.create(input="a"), lambda: s.max_seq_length):
        with pytest.raises(clef.ClosedError):
            call()
