"""Classes and masks, quantised files, checks and tuning, paths of pathlib."""
import json

import numpy as np
import pytest

import clef_cl as clef

from conftest import ROOT, run_command


@pytest.fixture(scope="module")
def bert(device):
    with clef.Model(ROOT / "tests/fixtures/tiny-bert", device=device) as model:
        yield model


def test_classify(bert):
    classes = bert.classify("two dogs")
    assert {c["label"] for c in classes} == {"bad", "so so", "good"}
    assert abs(sum(c["score"] for c in classes) - 1) < 1e-5
    assert [c["score"] for c in classes] == sorted((c["score"] for c in classes), reverse=True)
    reported = run_command("classify", bert.path, "two dogs")
    assert classes[0]["label"] in reported
    assert bert.classify("two dogs", "a cat") != classes
    with pytest.raises(clef.Error):
        bert.classify("word " * 500)


def test_fill_mask(bert):
    found = bert.fill_mask("a [MASK] and a [MASK]", top=3)
    assert [len(tokens) for tokens in found] == [3, 3]
    assert found[0][0]["score"] >= found[0][1]["score"] > 0
    assert all(bert.detokenize([t["token"]]) == t["text"] for t in found[0])
    everything = bert.fill_mask("a [MASK]", top=10**6)[0]
    assert len(everything) == bert.hparams["n_vocab"] and abs(sum(t["score"] for t in everything) - 1) < 1e-6
    with pytest.raises(ValueError, match="no mask token"):
        bert.fill_mask("a cat")


def test_a_decoder_has_no_classes(demo):
    for call in (demo.classify, demo.fill_mask):
        with pytest.raises(clef.Error):
            call("a")


def test_quantize(demo, device, tmp_path):
    reported = []
    assert {"q8_0", "q4_0"} <= set(clef.quantize_types())
    path = tmp_path / "small.gguf"
    demo.quantize(path, "q8_0", note=reported.append, progress=lambda what, done, total: reported.append(what) and None)
    with clef.Model(path, device=device) as small:
        dtypes = {tensor["dtype"] for tensor in small.tensors().values()}
        assert "q8_0" in dtypes and small.metadata["general.architecture"] == small.hparams["arch"]
        ids = demo.tokenize("ROMEO:")
        assert (small.tokenize("ROMEO:") == ids).all()
        a, b = small.logits(ids), demo.logits(ids)
        assert 0 < np.abs(a - b).max() < 0.1 * np.abs(b).max()
        n_tensors = len(small.tensors())
    keys, n = clef.files.gguf_metadata(path)
    assert n == n_tensors and "general.architecture" in keys
    with pytest.raises(ValueError, match="type: expected one of"):
        demo.quantize(path, "q99")

    def stops(what, done, total):
        return True

    with pytest.raises(clef.Cancelled):
        demo.quantize(tmp_path / "stopped.gguf", "q8_0", progress=stops)
    assert not (tmp_path / "stopped.gguf").exists()


def test_selftest(device):
    results = clef.check.selftest(device, "softmax")
    assert results and all(r.op == "softmax" and r.state in ("passed", "unfit") for r in results)
    assert any(r.state == "passed" and r.cases > 0 and 0 <= r.worst <= 1 and not r.failed for r in results)
    with pytest.raises(clef.NotFound, match="nothing"):
        clef.check.selftest(device, "nothing")
    with pytest.raises(clef.Cancelled):
        clef.check.selftest(device, "softmax", progress=lambda *what: True)


def test_tune(tmp_path):
    with clef.Device(cache_dir=tmp_path, prover="") as device:
        g = clef.Graph()
        g.output("y", g.input("x", (4, 64)) @ g.weight("w", np.ones((64, 32), np.float32)))
        clef.check.tune(device, g, seconds=0.01)
        rows = clef.check.variants(device)
        assert {row["state"] for row in rows} <= {"chosen", "slower", "failed", "untimed", "unfit", "by_order"}
        assert any(row["op"] == "matmul" for row in rows)
        assert (g.run(device, x=np.ones((4, 64)))["y"] == 64).all()
        with pytest.raises(clef.Cancelled):
            clef.check.tune(device, g, again=True, progress=lambda *what: True)


def test_paths_of_pathlib(demo, tmp_path):
    """Each function that takes a path takes a Path."""
    cache = tmp_path / "cache"
    with clef.Device(cache_dir=cache, prover="") as device, clef.Model(device=device) as model:
        assert model.generate("ROMEO:", temperature=0, max_tokens=3) == demo.generate("ROMEO:", temperature=0,
                                                                                       max_tokens=3)
    entries = clef.cache.entries(cache, verify=True)
    assert entries and not any(entry.is_damaged for entry in entries)
    assert clef.cache.set_aside(cache) == [] and clef.cache.forget_aside(cache) == 0
    assert clef.cache.clear(["program"], cache) > 0
    assert not [entry for entry in clef.cache.entries(cache) if entry.kind == "program"]
    (tmp_path / "mine.jinja").write_text("{% for m in messages %}<{{ m.content }}>{% endfor %}")
    messages = [{"role": "user", "content": "Hello"}]
    assert clef.Template(name=tmp_path / "mine.jinja").render(messages) == "<Hello>"
    assert demo.apply_template(messages, template=tmp_path / "mine.jinja") == "<Hello>"
    with pytest.raises(clef.Error, match="template"):
        clef.Template(ROOT / "tests/fixtures/tiny-bert")
    (tmp_path / "t.txt").write_text("To be, or not to be.\n" * 50)
    with clef.Tokenizer.train(tmp_path / "t.txt", tmp_path / "tokenizer", n_vocab=270) and clef.Dataset(
            tmp_path / "t.txt", tmp_path / "tokenizer", n_tokens=8, cache_dir=cache, validation=0) as data:
        assert data.rows(0, 1)["input_ids"].shape == (1, 8)
    clef.files.save_file({"a": np.ones(2, np.float32)}, tmp_path / "a.safetensors")
    assert json.dumps(clef.files.load_file(tmp_path / "a.safetensors")["a"].tolist()) == "[1.0, 1.0]"
    demo.logits([1, 2, 3])
    demo.save_session(tmp_path / "s.session")
    demo.load_session(tmp_path / "s.session")
    assert demo.cached_ids.tolist() == [1, 2, 3]
