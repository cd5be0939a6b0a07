"""Wrong inputs are exceptions that say what was expected: no crash, and nothing is cut off silently."""
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT

REFUSED = (ValueError, TypeError, LookupError, OverflowError, clef.Error)
NAN, INF, HUGE = float("nan"), float("inf"), 10**30
TWO = {"max_tokens": 2}


@pytest.fixture(scope="module")
def bert(device):
    with clef.Model(ROOT / "tests/fixtures/tiny-bert", device=device) as model:
        yield model


NO_IDS = [None, 1, "", "ab", b"ab", {"a": 1}, [None], ["a"], [1.5], [NAN], [[1]], np.zeros((2, 2), int), [-1], [10**6],
          [2**31], [2**63], [HUGE], np.array([1 + 2j]), object()]


@pytest.mark.parametrize("ids", NO_IDS, ids=repr)
def test_ids(demo, ids):
    calls = [demo.logits, demo.feed, demo.evaluate]
    if not isinstance(ids, str):
        calls += [lambda ids: demo.generate(ids, **TWO), lambda ids: demo.generate_ids(ids, **TWO), demo.detokenize,
                  demo.tokenizer.decode, demo.attention, demo.tokenize, lambda ids: clef.Batch(demo).add(ids)]
    for call in calls:
        if call in (demo.evaluate,) and not isinstance(ids, (str, bytes)) and np.array_equal(ids, [[1]]):
            continue  # one row
        if call in (demo.evaluate,) and isinstance(ids, (int, np.ndarray)) and not np.iscomplexobj(ids):
            continue  # as [[1]], and two rows
        if call == demo.tokenize and isinstance(ids, bytes):
            continue
        with pytest.raises(REFUSED):
            call(ids)


@pytest.mark.parametrize("ids, match", [
    ([10**6], "vocabulary"), ([1.5], "ids: expected integers"), ([2**31], "ids: expected numbers that fit int32"),
    ([[1]], "ids: expected a list of integers"), ([], "0 tokens")])
def test_sentences(demo, ids, match):
    with pytest.raises(REFUSED, match=match):
        demo.logits(ids)


def test_views_that_are_not_dense(demo):
    ids = np.arange(40).reshape(4, 10)
    wanted = demo.logits(ids[:, 3].tolist())
    for given in (ids[:, 3], ids[::-1, 3][::-1], ids.astype(np.int64, order="F")[:, 3], ids.astype(np.uint8)[:, 3],
                  ids.astype(">i4")[:, 3]):
        assert (demo.logits(given) == wanted).all()


@pytest.mark.parametrize("name, value", [
    *(("temperature", v) for v in (NAN, INF, -1, -0.5, 1e40, "1", [], True and -1)),
    *(("top_p", v) for v in (NAN, 1.5, -1, "x")), *(("min_p", v) for v in (NAN, 2, -1)),
    *(("top_k", v) for v in (NAN, 1.5, -1, INF, HUGE, 2**31, "40", [])),
    *(("typical", v) for v in (NAN, -1)), *(("repeat_penalty", v) for v in (NAN, -1, INF)),
    *(("repeat_last_n", v) for v in (1.5, np.float32(1.5), HUGE, None, "x")),
    *(("presence_penalty", v) for v in (NAN, INF, 1000, None)), *(("mirostat", v) for v in (1, -1, 1.5)),
    *(("seed", v) for v in (1.5, 2**64, -HUGE, "1")), *(("xtc_probability", v) for v in (NAN, -1, 2)),
    *(("samplers", v) for v in (("none",), ("top_k", "top_k"), 1, ("top_k",) * 99)),
    *(("logit_bias", v) for v in (None, [1], {"a": 1}, {10**6: 1}, {-1: 1}, {1: "x"}, {1.5: 1}, {HUGE: 1})),
    *(("max_tokens", v) for v in (-1, 1.5, "3", None, 2**31, HUGE)),
    *(("stop", v) for v in ([""], [1], 1, ["a\0b"])), ("unknown", 1),
    *(("regex", v) for v in ("(", 1, "a\0(")), *(("grammar", v) for v in ("", 1)),
    *(("choice", v) for v in ([], [1], 1)),
    *(("json_schema", v) for v in (1, "{", {"type": "nothing"}, {"minimum": HUGE, "type": 1}))], ids=repr)
def test_options_of_texts(demo, name, value):
    with pytest.raises(REFUSED):
        demo.generate("a", **{**TWO, name: value})
    if name not in ("stop", "regex", "grammar", "choice", "json_schema"):
        with clef.Batch(demo) as batch, pytest.raises(REFUSED):
            batch.generate(["a"], **{**TWO, name: value})


def test_messages_name_the_option(demo):
    for name, value in (("max_tokens", 1.5), ("top_k", 1.5), ("seed", HUGE), ("repeat_last_n", "x")):
        with pytest.raises(REFUSED, match=name):
            demo.generate("a", **{name: value})


@pytest.mark.parametrize("options", [
    {"context": -1}, {"context": HUGE}, {"context": "x"}, {"context": 10**9}, {"n_beams": -1}, {"n_beams": 10**9},
    {"kv_type": None}, {"lora": "/nowhere"}, {"lora_scale": NAN}, {"path": 1}, {"path": "a\0b"}, {"path": ""},
    {"path": Path("/x\0y")}, {"path": b"\xff"}, {"device": 3.5}, {"device": None}, {"path": "/"}], ids=repr)
def test_options_of_models(device, options):
    with pytest.raises((*REFUSED, OSError, AttributeError)):
        with clef.Model(**{"device": device, **options}) as model:
            model.logits([1])


@pytest.mark.parametrize("options", [
    {"max_sequences": -1}, {"max_sequences": 1.5}, {"max_sequences": HUGE}, {"context": -1}, {"context": 10**9},
    {"ngram_max": -1}, {"draft_tokens": -1}, {"kv_type": "f64"}, {"kv_type": None}], ids=repr)
def test_options_of_batches(demo, options):
    with pytest.raises(REFUSED):
        clef.Batch(demo, **options)


def test_a_batch_names_the_prompt_and_forgets_the_others(demo):
    greedy = {"temperature": 0, "max_tokens": 3}
    with clef.Batch(demo) as batch:
        with pytest.raises(clef.Error, match="prompt 1: .*vocabulary"):
            batch.generate(["ROMEO:", [10**6], "JULIET:"], **greedy)
        assert batch.is_idle
        with pytest.raises(TypeError, match="a list of texts"):
            batch.generate("ROMEO:")
        with pytest.raises(REFUSED):
            batch.generate([[]])
        assert batch.generate([]) == []
        number = batch.add("JULIET:", **greedy)
        assert batch.generate(["ROMEO:"], **greedy) == [demo.generate("ROMEO:", **greedy)]
        tokens = list(batch)
        assert {token.text for token in tokens} == {number}
        assert "".join(token.piece for token in tokens) == demo.generate("JULIET:", **greedy)


def test_a_failed_text_is_reported(demo, monkeypatch):
    """No text can fail without a guide, which a batch has none of here: so the step's answer is made."""
    with clef.Batch(demo) as batch:
        step = batch._step

        def fails():
            return [clef.Token(t.text, t.id, "", "failed", 0.0) if t.finish and t.text == texts[1] else t
                    for t in step()]

        texts = {}
        add = batch.add

        def counts(prompt, **options):
            number = add(prompt, **options)
            texts[len(texts)] = number
            return number

        monkeypatch.setattr(batch, "add", counts)
        monkeypatch.setattr(batch, "_step", fails)
        with pytest.raises(clef.Error, match="prompts 1: no token"):
            batch.generate(["a", "b", "c"], max_tokens=2, ignore_eos=True)


@pytest.mark.parametrize("make", [
    lambda g, x: g.input("y", 3), lambda g, x: g.input("y", (1.5,)), lambda g, x: g.input("y", (0,)),
    lambda g, x: g.input("y", (-1,)), lambda g, x: g.input("y", (HUGE,)), lambda g, x: g.input("y", "ab"),
    lambda g, x: g.input("y", (1,) * 9), lambda g, x: g.input("y", (np.float32(1.5),)),
    lambda g, x: g.input("y", (Fraction(3, 2),)), lambda g, x: g.input("y", (2,), "float99"),
    lambda g, x: g.input(None, (2,)), lambda g, x: g.input("a\0b", (2,)),
    lambda g, x: g.input("y", (clef.sym("T", 0),)),
    lambda g, x: g.input("y", (clef.sym("T", HUGE),)), lambda g, x: g.input("y", (clef.sym("T") * -1,)),
    lambda g, x: g.constant(None), lambda g, x: g.constant([HUGE]), lambda g, x: g.constant("a"),
    lambda g, x: g.constant(np.ones((1,) * 9)), lambda g, x: g.weight("w", [1j]), lambda g, x: g.weight("w", None),
    lambda g, x: g.weight("w", np.ones(5), "q8_0"), lambda g, x: g.weight("w", np.ones(32), "q99"),
    lambda g, x: g.sum(x, axes=[5]), lambda g, x: g.sum(x, axes=[HUGE]), lambda g, x: g.sum(x, axes=[None]),
    lambda g, x: g.permute(x, (1j, 0)), lambda g, x: g.permute(x, (np.complex64(1), 0)), lambda g, x: g.permute(x, ()),
    lambda g, x: g.topk(x, 0), lambda g, x: g.topk(x, np.float32(1.5)), lambda g, x: g.topk(x, -1),
    lambda g, x: g.slice(x, 1, 9, 2), lambda g, x: g.slice(x, HUGE, 0, 1), lambda g, x: g.pad(x, 0, -1, 0),
    lambda g, x: g.concat(x, x, axis=7), lambda g, x: g.reshape(x, (7,)), lambda g, x: g.output("y", None),
    lambda g, x: g.softmax(x, "mask"), lambda g, x: x + "a", lambda g, x: g["nothing"],
    lambda g, x: g.gradients(x, [x]),
    lambda g, x: g.set_bound("none", 2), lambda g, x: g.set_bound("T", -1), lambda g, x: g.optimize("nothing"),
    lambda g, x: clef.Graph.parse("no graph"), lambda g, x: clef.Graph.parse(None), lambda g, x: g.plan("no device"),
    lambda g, x: clef.encode([1.0] * 31, "q8_0"), lambda g, x: clef.decode(b"abc", "q8_0"),
    lambda g, x: clef.decode(None, "q8_0"), lambda g, x: clef.encode([1.0], None)])
def test_graphs(make):
    g = clef.Graph()
    with pytest.raises((*REFUSED, MemoryError)):
        make(g, g.input("x", (2, 4)))


def test_plans(device):
    g = clef.Graph()
    g.output("y", g.relu(g.input("x", (clef.sym("T", 4), 2))))
    with g.plan(device) as plan:
        for wrong in (None, "a", 1, [], [1], [[1, 2, 3]], np.ones((5, 2)), np.ones((0, 2)), [[1j, 2]], [["a", "b"]],
                      np.ones((2, 2, 1)), object()):
            with pytest.raises(REFUSED):
                plan.run(x=wrong)
        for symbols in ({"T": 0}, {"T": 5}, {"T": HUGE}, {"T": 1.5}, {"U": 1}, {"T\0": 1}):
            with pytest.raises(REFUSED):
                plan.bind(**symbols)
        assert np.isnan(plan.run(x=[[NAN, 1]])["y"][0, 0]) or plan.run(x=[[NAN, 1]])["y"][0, 1] == 1


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_text("To be, or not to be.\n" * 50)
    return path


@pytest.mark.parametrize("options", [
    {"files": None}, {"files": []}, {"files": "/nowhere"}, {"files": [None]}, {"files": "a\0b"}, {"n_tokens": 0},
    {"n_tokens": -1}, {"n_tokens": 1.5}, {"n_tokens": 2**31}, {"validation": -1}, {"validation": NAN},
    {"validation": 1}, {"validation": "/nowhere"}, {"mask_rate": NAN}, {"seed": -1}, {"seed": 2**64},
    {"packing": "x"}, {"objective": "x"}, {"documents": None}, {"tokenizer": None}, {"tokenizer": "/nowhere"}],
    ids=repr)
def test_datasets(demo, text, options):
    with pytest.raises((*REFUSED, OSError)):
        clef.Dataset(**{"files": text, "tokenizer": demo, "n_tokens": 8, **options})


def test_rows_of_datasets(demo, text):
    with clef.Dataset([text], demo, n_tokens=8) as data:
        for wrong in ((-1, 1), (0, -1), (0, HUGE), (HUGE, 1), (None, 1), (0, 1, "x"), (1.5, 1)):
            with pytest.raises((*REFUSED, MemoryError)):
                data.rows(*wrong)
        for wrong in ((NAN, 1), (1, 0), (-1, 1), (1, -1), (INF, 1), (HUGE, 1), (1, HUGE)):
            with pytest.raises(REFUSED):
                data.n_steps(*wrong)


@pytest.mark.parametrize("options", [
    {"lr": NAN}, {"lr": -1}, {"lr": "x"}, {"clip": NAN}, {"clip": -1}, {"warmup": -1}, {"steps": -1}, {"steps": 1.5},
    {"betas": 1}, {"betas": (1, 2)}, {"betas": (NAN, 0)}, {"dropout": NAN}, {"dropout": 1}, {"lora_rank": -1},
    {"lora_rank": HUGE}, {"n_tokens": -1}, {"n_tokens": 10**6}, {"n_rows": -1}, {"n_parts": 1.5}, {"schedule": "x"},
    {"compute": None}, {"lora_targets": ["nothing"]}, {"weight_decay": INF}, {"unknown": 1}], ids=repr)
def test_trainers(demo, options):
    with pytest.raises(REFUSED):
        clef.ModelTrainer(demo, **{"n_tokens": 8, "n_rows": 1, "lora_rank": 1, **options})


def test_rows_of_trainers(demo, text):
    """Arrays that are too short were read beyond their ends."""
    trainer = clef.ModelTrainer(demo, n_tokens=8, n_rows=2, lora_rank=1)
    with clef.Dataset(text, demo, n_tokens=8) as data:
        good = data.rows(0, 2)
    for name in good:
        for wrong in (None, [], 1, np.zeros((2, 4), int), np.zeros(16, int), np.zeros((1, 8), int), np.zeros((2, 8)),
                      np.zeros((3, 8), int), np.full((2, 8), "a")):
            for call in (trainer.step, trainer.evaluate):
                with pytest.raises(REFUSED, match="expected"):
                    call({**good, name: wrong})
    for wrong in ({}, None, {"labels": good["labels"]}, {"input_ids": good["input_ids"]}, {**good, "more": [1]},
                  {**good, "input_ids": good["input_ids"] + 10**6}, {**good, "labels": good["labels"] + 10**6}):
        with pytest.raises(REFUSED):
            trainer.step(wrong)
    for wrong in (-1, 1.5, "x", HUGE):
        with pytest.raises(REFUSED, match="n_steps"):
            trainer.n_steps = wrong
    assert trainer.step(good)["is_finite"]
    trainer.close()


def test_inputs_of_trainers(device):
    g = clef.Graph()
    x = g.input("x", (clef.sym("T", 4), 2))
    e = g.square(g.linear(x, g.weight("w", np.zeros((1, 2), np.float32))))
    g.fix_symbols().output("loss", g.reshape(g.sum(e, axes=[0, 1]), ()))
    trainer = clef.Trainer(g, device=device)
    for wrong in (None, [], np.zeros((4, 3)), np.zeros(8), np.zeros((2, 4)), np.zeros((3, 2)), "x",
                  np.zeros((4, 2), complex)):
        with pytest.raises(REFUSED):
            trainer.step(x=wrong)
    with pytest.raises(ValueError, match=r"x: expected the shape \[4, 2\], got \[8\]"):
        trainer.step(x=np.zeros(8))
    assert trainer.step(x=np.ones((4, 2)))["is_finite"]
    trainer.close()


@pytest.mark.parametrize("call", [
    lambda b: b.embed(None), lambda b: b.embed(1), lambda b: b.embed(b"a"), lambda b: b.embed([None]),
    lambda b: b.embed([1.5]), lambda b: b.embed({"a": 1}), lambda b: b.embed([["a"]]), lambda b: b.embed([[10**6]]),
    lambda b: b.embed(["a", [1]]), lambda b: b.embed([[]]), lambda b: b.embed("word " * 500),
    lambda b: b.embed("a", pooling="x"), lambda b: b.classify(None), lambda b: b.classify("a", 1),
    lambda b: b.fill_mask("a"), lambda b: b.fill_mask(None), lambda b: b.fill_mask("[MASK]", top=0),
    lambda b: b.fill_mask("[MASK]", top=-1), lambda b: b.fill_mask("[MASK]", top=1.5), lambda b: b.tokenizer.token(-1),
    lambda b: b.tokenizer.token(10**6), lambda b: b.tokenizer.token(1.5), lambda b: b.tokenizer.token(HUGE),
    lambda b: b.tokenizer.is_special("a"), lambda b: b.tokenizer.find(1), lambda b: b.attention("a", layers=[]),
    lambda b: b.attention("a", layers=[99]), lambda b: b.attention("a", layers=[-1]), lambda b: b.graph(context=-1),
    lambda b: b.graph(batch=HUGE), lambda b: b.graph(taps=["nothing"]), lambda b: b.tensor("nothing"),
    lambda b: b.quantize("/tmp/never.gguf", "q99"), lambda b: clef.Sampler(0), lambda b: clef.Sampler(-1),
    lambda b: clef.Sampler(4).pick([1, 2]), lambda b: clef.Sampler(4).pick([1, 2, 3, 4], [False] * 4),
    lambda b: clef.Sampler(4).accept(4), lambda b: clef.Sampler(4).accept(HUGE), lambda b: clef.Sampler(4).accept(1.5),
    lambda b: clef.Device("no device"), lambda b: clef.Device(threads=-1), lambda b: clef.Device(shares=[1, 2]),
    lambda b: clef.Device(experts_on="no device"), lambda b: clef.Device(shares=["a"]),
    lambda b: clef.files.save_file({"a": [1j]}, "/tmp/never.safetensors"),
    lambda b: clef.cache.clear(["nothing"]), lambda b: clef.Constraint(regex="a").mask(),
    lambda b: clef.Constraint(regex="a", tokenizer=b.tokenizer).accept(10**6),
    lambda b: clef.Constraint(regex="a", tokenizer=b.tokenizer).accept(1.5),
    lambda b: clef.Constraint(regex="a", tokenizer=b.tokenizer, ends=[10**6]), lambda b: clef.Constraint(),
    lambda b: clef.Template(name="a\0b"), lambda b: clef.Template.parse("{% if %}"),
    lambda b: clef.Tokenizer.train([], "/tmp/never", n_vocab=300)])
def test_the_rest(bert, call):
    with pytest.raises((*REFUSED, OSError)):
        call(bert)
