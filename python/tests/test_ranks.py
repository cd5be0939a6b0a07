"""Several ranks: a model on two processes that mpirun starts, what fails there, and the graphs of ranks."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from conftest import ROOT

import clef_cl as clef

BUILD = Path(os.environ.get("CLEF_BUILD", ROOT / "build"))
MODULE = Path(os.environ.get("CLEF_MPI", BUILD / "libclef_mpi.so"))
SHAPE = ROOT / "examples" / "shapes" / "llama-8b.json"
needs_mpi = [pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun"),
             pytest.mark.skipif(not MODULE.exists(), reason="no libclef_mpi.so")]
needs_shape = pytest.mark.skipif(not SHAPE.exists(), reason="no examples beside the tests")


def on_ranks(folder, script, n=2):
    """What a script writes on n ranks."""
    path = folder / "script.py"
    path.write_text(script)
    env = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "CLEF_TUNE": "0",
           "CLEF_RANK_TIMEOUT": "60", "CLEF_RANK_START": "800",  # for a machine that is busy
           "CLEF_MPI": str(MODULE), "PYTHONPATH": str(Path(clef.__file__).parents[1])}
    return subprocess.run(["mpirun", "-n", str(n), "--oversubscribe", "--bind-to", "none", sys.executable, str(path)],
                          capture_output=True, text=True, env=env, timeout=900, stdin=subprocess.DEVNULL)


def led_by(work, options=""):
    """A script whose rank 0 does `work` with `ranks`."""
    lines = "\n".join(f"        {line}" for line in work.splitlines())
    return (f"import numpy as np\nimport clef_cl as clef\nwith clef.Ranks({options}) as ranks:\n    if ranks.rank:\n"
            f"        ranks.follow()\n    else:\n{lines}\n")


class TestOnTwoRanks:
    pytestmark = needs_mpi

    @pytest.mark.parametrize("options", ["", "stages=2", "wire='f16'"])
    def test_they_write_what_one_process_writes(self, options, tmp_path, demo):
        ran = on_ranks(tmp_path, led_by(
            "m = clef.Model(ranks=ranks)\n"
            "print(ranks.n, ranks.width, ranks.stages, len(ranks.hosts), ranks.node, clef.ranks_started())\n"
            "print(m.generate('ROMEO:', max_tokens=24, temperature=0))", options))
        assert ran.returncode == 0, ran.stderr
        layout = "1 2" if "stages" in options else "2 1"
        assert ran.stdout == f"2 {layout} 2 0 2\n{demo.generate('ROMEO:', max_tokens=24, temperature=0)}\n"

    def test_the_example_of_the_guide_runs(self, tmp_path, demo):
        guide = ROOT / "docs" / "python.md"
        if not guide.exists():
            pytest.skip("no docs beside the tests")
        section = guide.read_text().split("## Several ranks")[1]
        example = re.search(r"```python\n(.*?)```", section, re.S).group(1)
        assert '"model.gguf"' in example
        script = example.replace('"model.gguf"', repr(demo.path)).replace("=50", "=20, temperature=0")
        ran = on_ranks(tmp_path, script)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.strip() == demo.generate("Once upon a time", max_tokens=20, temperature=0).strip()

    def test_all_that_a_model_does(self, tmp_path, demo):
        ran = on_ranks(tmp_path, led_by(
            "m = clef.Model(ranks=ranks)\n"
            "np.save('logits', m.logits([5, 6, 7]))\n"
            "np.save('evaluated', m.evaluate([5, 6, 7], taps=['attention_0'])['attention_0'])\n"
            "with clef.Batch(clef.Model(ranks=ranks)) as batch:\n"
            "    texts = batch.generate(['ROMEO:', 'The king'], max_tokens=8, temperature=0)\n"
            "    print([text.strip() for text in texts])\n"
            "g = clef.Graph()\n"
            "g.output('y', g.softmax(g.input('x', (2, 4))))\n"
            "print(g.run(ranks.lead(), x=np.zeros((2, 4)))['y'][0].tolist())\n"
            "g = clef.Graph()\n"
            "g.output('y', g.input('x', (2, 4)) @ g.weight('w', np.zeros((4, 2), np.float32)))\n"
            "try:\n"
            "    g.plan(ranks.lead())\n"
            "except ValueError as error:\n"
            "    print(error)\n").replace("np.save('", f"np.save('{tmp_path}/"))
        assert ran.returncode == 0, ran.stderr
        with clef.Batch(demo) as batch:
            texts = [text.strip() for text in batch.generate(["ROMEO:", "The king"], max_tokens=8, temperature=0)]
        wrote = ran.stdout.splitlines()
        assert wrote[0] == str(texts) and wrote[1] == "[0.25, 0.25, 0.25, 0.25]"
        assert wrote[2].startswith("plan: the other ranks cannot open w: ")
        assert np.abs(np.load(tmp_path / "logits.npy") - demo.logits([5, 6, 7])).max() < 1e-2
        wanted = demo.evaluate([5, 6, 7], taps=["attention_0"])["attention_0"]
        assert np.abs(np.load(tmp_path / "evaluated.npy") - wanted).max() < 1e-3

    def test_an_adapter(self, tmp_path, device, demo):
        weight = next(name for name in demo.tensors() if name.endswith("0.attn.c_attn.weight"))
        n_in, n_out = demo.tensors()[weight]["shape"]
        rng = np.random.default_rng(1)
        clef.save_adapter(demo, tmp_path / "adapter", {weight: (rng.standard_normal((2, n_in), np.float32),
                                                                rng.standard_normal((n_out, 2), np.float32) / 8)})
        with clef.Model(device=device, lora=tmp_path / "adapter") as model:
            wanted = model.logits([5, 6, 7])
        assert np.abs(wanted - demo.logits([5, 6, 7])).max() > 0.1
        ran = on_ranks(tmp_path, led_by(f"m = clef.Model(lora='{tmp_path}/adapter', ranks=ranks)\n"
                                        f"np.save('{tmp_path}/logits', m.logits([5, 6, 7]))"))
        assert ran.returncode == 0, ran.stderr
        assert np.abs(np.load(tmp_path / "logits.npy") - wanted).max() < 1e-2

    def test_measuring(self, tmp_path):
        ran = on_ranks(tmp_path, "import clef_cl as clef\nwith clef.Ranks() as ranks:\n"
                                 "    row, = ranks.measure([1024])\n"
                                 f"    open(f'{tmp_path}/{{ranks.rank}}', 'w').write(repr(row))\n")
        assert ran.returncode == 0, ran.stderr
        first, second = (eval((tmp_path / name).read_text()) for name in "01")
        assert first == second and first.pop("n_bytes") == 1024
        assert set(first) == {"all_reduce f32", "all_reduce f16", "all_reduce q8", "all_gather", "broadcast", "send"}
        assert all(0 < times["least"] <= times["median"] for times in first.values())

    @pytest.mark.parametrize("script, says", [
        (led_by("clef.Model('/nonexistent', ranks=ranks)"), "IOFailed: /nonexistent: cannot open"),
        (led_by("m = clef.Model(ranks=ranks)\nm.generate('ROMEO:', max_tokens=2)\nraise KeyError('own')"),
         "KeyError: 'own'"),
        # Both ranks have the error. The launcher ends the other one as soon as one has ended, which may be before it has said so.
        (led_by("clef.Model(device='77:0', ranks=ranks)"), 'no OpenCL device "77:0"'),
        (led_by("clef.Model(ranks=ranks)").replace("ranks.follow()", "raise KeyError('of rank 1')"),
         "KeyError: 'of rank 1'"),
        (led_by("clef.Model(ranks=ranks)").replace("ranks.follow()", "pass"), "rank 1 on .*: it left without follow"),
        (led_by("ranks.abort('enough')"), "enough"),
        (led_by("pass", "width=3"), "2 ranks were started"),
        (led_by("clef.Model(ranks=ranks)").replace("ranks.follow()", "clef.Model(ranks=ranks)"),
         "rank 1 cannot lead: rank 0 does"),
    ], ids=["model", "exception", "device", "follower", "no follower", "abort", "width", "two leaders"])
    def test_a_failure_ends_all_ranks(self, script, says, tmp_path):
        ran = on_ranks(tmp_path, script)
        assert ran.returncode != 0 and re.search(says, ran.stderr), ran.stderr


def test_one_process_is_one_rank(demo):
    with clef.Ranks() as ranks:
        assert (ranks.rank, ranks.n, ranks.width, ranks.stages, clef.ranks_started()) == (0, 1, 1, 1, 1)
        model = clef.Model(ranks=ranks)
        assert model.generate("ROMEO:", max_tokens=4, temperature=0) == demo.generate("ROMEO:", max_tokens=4,
                                                                                      temperature=0)
        assert clef.Model(ranks=ranks).device is model.device is ranks.lead()
        with pytest.raises(clef.ArgumentError, match="expected the device that the ranks have"):
            ranks.lead("another")
        for wrong in (ranks.follow, ranks.measure):
            with pytest.raises(clef.ArgumentError):
                wrong()
    for closed in (lambda: model.generate("x"), ranks.lead):
        with pytest.raises(clef.ClosedError):
            closed()


@pytest.mark.parametrize("options", [{"width": 2}, {"stages": 2}, {"width": 0}, {"width": 1.5}, {"wire": "f8"}, {"wire": None}], ids=str)
def test_options_that_do_not_fit(options):
    with pytest.raises((ValueError, TypeError)):
        clef.Ranks(**options)


# ---- graphs ------------------------------------------------------------------------------------------------


def test_graphs_of_ranks(demo):
    g = demo.graph()
    whole, parts = g.count(), [g.of_rank(rank, 2, 2) for rank in range(4)]
    assert whole["n_launches"] > 0 and whole["flops"] > 0 and g.exchanges() == []
    assert max(part.count()["weight_bytes"] for part in parts) < whole["weight_bytes"]
    assert g.count(rows=1)["flops"] < g.count(rows=8)["flops"]
    sends, receives = ([e for e in part.exchanges(rows=1) if e["op"] == op] for part, op in
                       ((parts[0], "send"), (parts[2], "receive")))
    assert [e["peer"] for e in sends] == [2] and [e["peer"] for e in receives][:1] == [0]
    assert sends[0]["n_bytes"] == receives[0]["n_bytes"] > 0
    assert {e["op"] for e in parts[0].exchanges()} >= {"all_reduce", "send"}
    assert all(e["peer"] == -1 for e in parts[0].exchanges() if e["op"] == "all_reduce")
    assert clef.Graph.parse(str(parts[1])).exchanges() == parts[1].exchanges()


def test_ranks_side_by_side(demo):
    g = demo.graph()
    dot = g.ranks_dot(2, 2)
    assert all(f"subgraph rank{i}" in dot for i in range(4))
    assert len(g.ranks_dot(2, 2, expand=[0])) > len(dot)
    assert len(g.ranks_dot(2, 2, expand=None)) > len(g.ranks_dot(2, 2, expand=[0]))


@pytest.mark.parametrize("wrong", [lambda g: g.of_rank(0, 7), lambda g: g.of_rank(2, 2), lambda g: g.of_rank(-1, 2),
                                   lambda g: g.ranks_dot(0), lambda g: g.ranks_dot(2, expand=[999]),
                                   lambda g: g.exchanges(rows=-1),
                                   lambda g: g.count(keys=-1)], ids=range(7))
def test_layouts_that_do_not_fit(wrong, demo):
    with pytest.raises((clef.Error, ValueError)):
        wrong(demo.graph())


@needs_shape
def test_a_shape_without_weights():
    with clef.Shape(SHAPE, dtype="q4_k") as shape:
        g = shape.graph(context=4096, kv_type="f16")
        assert shape.hparams["n_layers"] == 32 and not shape.is_encoder
        assert 4e9 < g.count()["weight_bytes"] < 5e9
        assert g.count()["state_bytes"] == 2 * g.of_rank(1, 2).count()["state_bytes"]
        with pytest.raises(clef.Unsupported, match="without weights"):
            g.plan()
    with pytest.raises(clef.ClosedError):
        shape.graph()
    for wrong in ({"path": "/nonexistent"}, {"path": SHAPE, "dtype": "f12"}):
        with pytest.raises((OSError, ValueError)):
            clef.Shape(**wrong)
