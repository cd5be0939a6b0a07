"""Training of graphs and of models."""
import gc
import json

import numpy as np
import pytest

import clef_cl as clef


def line_graph():
    g = clef.Graph()
    x, y = g.input("x", (64, 2)), g.input("y", (64, 1))
    e = g.square(g.linear(x, g.weight("w", np.zeros((1, 2), np.float32)), g.weight("b", np.zeros(1, np.float32))) - y)
    g.output("loss", g.affine(g.reshape(g.sum(e, axes=[0, 1]), ()), 1 / 64))
    return g


def batch(rng):
    x = rng.random((64, 2)) * 2 - 1
    return {"x": x, "y": 2 * x[:, :1] - 3 * x[:, 1:] + 0.5}


def test_trainer_finds_a_line(device):
    rng = np.random.default_rng(0)
    t = clef.Trainer(line_graph(), device=device, lr=0.05, weight_decay=0)
    for _ in range(200):
        t.step(**batch(rng))
    assert t.history[0]["loss"] > 1 and t.history[-1]["loss"] < 1e-4 and t.n_steps == 200
    assert np.abs(t.parameters["w"] - [[2, -3]]).max() < 0.01 and abs(t.parameters["b"][0] - 0.5) < 0.01
    assert t.history._repr_svg_().startswith("<svg")
    t.set_parameter("b", [1.5])
    assert t.parameter("b").tolist() == [1.5] and t.evaluate(**batch(rng)) > 0.5
    t.close()
    with pytest.raises(ValueError, match="closed"):
        t.step(**batch(rng))


def test_sgd_step_is_numpys(device):
    rng = np.random.default_rng(1)
    given = batch(rng)
    t = clef.Trainer(line_graph(), device=device, kind="sgd", lr=0.1, betas=(0, 0), weight_decay=0, clip=0)
    t.step(**given)
    gradient = -2 / 64 * given["y"].T @ given["x"]
    assert np.abs(t.parameters["w"] + 0.1 * gradient).max() < 1e-5
    t.close()


def test_trains_chooses(device):
    t = clef.Trainer(line_graph(), device=device, trains=lambda name: name == "b", lr=0.1)
    t.step(**batch(np.random.default_rng(2)))
    assert list(t.parameters) == ["b"]
    t.close()


def test_a_callback_that_raises(device):
    def trains(name):
        raise RuntimeError("from the callback")

    with pytest.raises(RuntimeError, match="from the callback"):
        clef.Trainer(line_graph(), device=device, trains=trains)


def test_errors(device):
    with pytest.raises(clef.NotFound, match="nothing"):
        clef.Trainer(line_graph(), "nothing", device=device)
    with pytest.raises(ValueError, match="kind"):
        clef.Trainer(line_graph(), device=device, kind="adam")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("To be, or not to be, that is the question.\nROMEO: hello there my friend.\n" * 100)
    return path


def test_dataset(demo, text):
    with clef.Dataset(text, demo, n_tokens=16) as data:
        rows = data.rows(0, 2)
        assert rows["input_ids"].shape == (2, 16)
        assert (rows["labels"][0, :-1] == rows["input_ids"][0, 1:])[rows["labels"][0, :-1] >= 0].all()
        assert data.info["training"]["n_tokens"] > data.info["validation"]["n_tokens"] > 0
        assert len(data.info["fingerprint"]) == 64 and data.n_steps(1, 4) > 1


def test_train_an_adapter(device, text, tmp_path):
    options = {"n_tokens": 32, "n_rows": 4, "lora_rank": 4, "lr": 1e-2, "seed": 1}
    with clef.Model(device=device) as model:
        ids = model.tokenize("ROMEO:")
        before = model.logits(ids)
        history = clef.train(model, text, max_steps=10, out=tmp_path / "adapter", checkpoints=tmp_path / "ck",
                             **options)
        assert history[-1]["loss"] < history[0]["loss"] and history[-1]["validation_loss"] > 0
        published = model.logits(ids)
        assert np.abs(published - before).max() > 0.1
        with clef.Model(device=device, lora=tmp_path / "adapter") as other:
            assert np.abs(other.logits(ids) - published).max() < 0.05
        adapter = clef.Adapter(tmp_path / "adapter", model)
        assert all(down.shape[0] == up.shape[0] == 4 for down, up in adapter.targets.values())
    assert clef.has_checkpoint(tmp_path / "ck")
    with clef.Model(device=device) as model:
        more = clef.train(model, text, max_steps=12, checkpoints=tmp_path / "ck", resume=True, publish=False, **options)
        assert [row["step"] for row in more] == [11, 12]
        with pytest.raises(clef.ArgumentError, match="other options"):
            clef.train(model, text, max_steps=12, checkpoints=tmp_path / "ck", resume=True, **{**options, "seed": 2})


def test_on_step_can_end_it_or_raise(device, text):
    with clef.Model(device=device) as model:
        options = {"n_tokens": 32, "n_rows": 2, "lora_rank": 2, "validation": 0, "publish": False}
        assert len(clef.train(model, text, max_steps=9, on_step=lambda row: row["step"] == 2, **options)) == 2

        def raises(row):
            raise KeyError("own")

        with pytest.raises(KeyError, match="own"):
            clef.train(model, text, max_steps=9, on_step=raises, **options)
        assert len(model.generate_ids("ROMEO:", max_tokens=3, temperature=0)) == 3


def test_trainings_one_after_another(device, text):
    """Each training goes on from the last one; the model has what was published last, whichever trainer is closed."""
    options = {"n_tokens": 16, "n_rows": 2, "validation": 0, "lr": 1e-2, "seed": 1}
    with clef.Model(device=device) as model:
        ids = model.tokenize("ROMEO:")
        own = model.logits(ids)
        seen = [own]
        for more in ({}, {"lora_rank": 2}, {"lora_rank": 2}, {}):
            clef.train(model, text, max_steps=2, **options, **more)
            gc.collect()
            assert len(model.generate_ids(ids, max_tokens=3, ignore_eos=True)) == 3
            seen.append(model.logits(ids))
            assert np.isfinite(seen[-1]).all() and np.abs(seen[-1] - seen[-2]).max() > 1e-3
        model._published.close()
        assert (model.logits(ids) == own).all()


@pytest.mark.parametrize("first, ranks", [(0, (0, 2)), (1, (0, 2)), (0, (2, 0)), (1, (2, 0)), (0, (0, 0)), (1, (2, 2))])
def test_trainers_are_closed_in_any_order(device, text, first, ranks):
    with clef.Model(device=device) as model, clef.Dataset(text, model, n_tokens=16) as data:
        ids = model.tokenize("ROMEO:")
        own = model.logits(ids)
        trainers, published = [], []
        for rank in ranks:
            trainers.append(clef.ModelTrainer(model, n_tokens=16, n_rows=2, lr=1e-2, lora_rank=rank))
            for i in range(2):
                trainers[-1].step(data.rows(i, 2))
            trainers[-1].publish()
            published.append(model.logits(ids))
            batch = clef.Batch(model)
        assert np.abs(published[0] - published[1]).max() > 1e-3
        trainers[first].close()
        assert (model.logits(ids) == (own if first == 1 else published[1])).all()
        trainers[1 - first].publish()
        assert (model.logits(ids) == published[1 - first]).all()
        trainers[1 - first].close()
        assert (model.logits(ids) == own).all() and model.generate(ids, max_tokens=3) is not None
        assert len(batch.generate(["ROMEO:"], max_tokens=3)) == 1
    for trainer in trainers:
        with pytest.raises(clef.ClosedError):
            trainer.publish()


def test_new_model_and_tokenizer(device, text, tmp_path):
    reported = []
    tokenizer = clef.Tokenizer.train([text], tmp_path / "tokenizer", n_vocab=300, special=["<|endoftext|>", "<|x|>"],
                                     progress=lambda *what: reported.append(what))
    assert len(tokenizer) <= 300 and tokenizer.decode(tokenizer.encode("To be, hé 日")) == "To be, hé 日"
    assert len(tokenizer.encode("To be, or not to be")) < len("To be, or not to be")
    assert tokenizer.is_special(tokenizer.find("<|x|>")) and tokenizer.find("no such token") is None
    with pytest.raises(clef.Error, match="n_vocab|token"):
        clef.Tokenizer.train([text], tmp_path / "small", n_vocab=3)
    assert "llama" in clef.new_model_types()
    config = {"model_type": "llama", "vocab_size": len(tokenizer), "hidden_size": 32, "intermediate_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    for seed in (1, 2):
        clef.new_model(tmp_path / "config.json", tmp_path / "tokenizer", tmp_path / f"new{seed}", seed=seed)
    with clef.Model(tmp_path / "new1", device=device) as one, clef.Model(tmp_path / "new2", device=device) as two:
        assert one.hparams["n_layers"] == 2 and np.isfinite(one.logits([1, 2])).all()
        assert np.abs(one.logits([1]) - two.logits([1])).max() > 0
        history = clef.train(one, text, max_steps=3, n_tokens=16, n_rows=2, validation=0, out=tmp_path / "trained")
        assert history[-1]["loss"] < history[0]["loss"]
        assert len(one.generate_ids("To", max_tokens=2, ignore_eos=True)) == 2
    (tmp_path / "full").write_text("a file")
    with pytest.raises(clef.Error, match="full"):
        clef.new_model(tmp_path / "config.json", tmp_path / "tokenizer", tmp_path / "full")


def test_save(device, tmp_path):
    with clef.Model(device=device) as model:
        name = next(name for name, tensor in model.tensors().items() if len(tensor["shape"]) == 2)
        weight = model.tensor(name)
        changed = weight + np.float32(1)
        path = tmp_path / "saved"
        model.save(tmp_path / "saved.gguf", {})
        with clef.Model(tmp_path / "saved.gguf", device=device) as other:
            assert np.abs(other.logits([1, 2]) - model.logits([1, 2])).max() < 1e-2
        model.save(path, {name: changed})
        with clef.Model(path, device=device) as other:
            assert np.abs(other.tensor(name) - changed).max() < 1e-2
            same = {n for n in model.tensors() if n != name and (other.tensor(n) == model.tensor(n)).all()}
            assert len(same) == len(model.tensors()) - 1
            assert np.abs(other.logits([1, 2]) - model.logits([1, 2])).max() > 0
        with pytest.raises(KeyError, match="nothing"):
            model.save(path, {"nothing": weight})
        with pytest.raises(ValueError, match="expected .* numbers"):
            model.save(tmp_path / "wrong.gguf", {name: weight[:1]})
        assert not (tmp_path / "wrong.gguf").exists()
        with pytest.raises(ValueError, match="dtype"):
            model.save(path, {}, dtype="float8")
