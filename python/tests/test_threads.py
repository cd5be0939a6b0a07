"""Threads, Ctrl-C, callbacks, the end of the process."""
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import clef_cl as clef

GREEDY = {"temperature": 0, "max_tokens": 20}


def heavy_graph():
    g = clef.Graph()
    x = y = g.input("x", (1024, 1024))
    for i in range(12):
        y = g.tanh(y @ x)
    g.output("y", y)
    return g


def test_the_gil_is_released(device):
    """While a graph runs for long, another thread goes on at almost its own speed."""
    with heavy_graph().plan(device) as plan:
        x = np.full((1024, 1024), 1e-3, np.float32)
        plan.run(x=x)
        ticks, is_over = [], threading.Event()

        def tick():
            while not is_over.is_set():
                ticks.append(time.perf_counter())
                time.sleep(0.002)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.5:
            plan.run(x=x)
        seconds = time.perf_counter() - begin
        is_over.set()
        thread.join()
    assert len(ticks) > 0.1 * seconds / 0.002
    assert max(np.diff(ticks)) < 0.5 * seconds


def test_two_models_at_once():
    """Two models on devices of their own, and one that two threads share, give what each gives alone."""
    with clef.Model() as a, clef.Model() as b:
        wanted = a.generate("ROMEO:", **GREEDY)
        got = []

        def work(model):
            for _ in range(3):
                got.append(model.generate("ROMEO:", **GREEDY))

        threads = [threading.Thread(target=work, args=(m,)) for m in (a, b, a)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == [wanted] * 9


def test_a_model_that_the_collector_closes_while_another_runs(device):
    with clef.Model(device=device) as a:
        wanted = a.generate("ROMEO:", **GREEDY)
        texts = []
        thread = threading.Thread(target=lambda: texts.extend(a.generate("ROMEO:", **GREEDY) for _ in range(20)))
        thread.start()
        for _ in range(5):
            model = clef.Model(device=device)
            model.tokenize("a")
            del model
        thread.join()
        assert texts == [wanted] * 20


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import clef_cl as clef

what = sys.argv[1]
if what == "build":
    device = clef.Device(cache_dir=sys.argv[2], prover="")
    model = clef.Model(device=device)
    work = lambda: model.logits([1, 2, 3])
elif what == "generate":
    model = clef.Model()
    model.generate("ROMEO:", max_tokens=3)
    work = lambda: [model.generate("ROMEO:", max_tokens=200, ignore_eos=True) for _ in range(1000)]
elif what == "train":
    model = clef.Model()
    open(sys.argv[2] + "/t.txt", "w").write("To be, or not to be.\\n" * 500)
    started = threading.Event()
    work = lambda: clef.train(model, sys.argv[2] + "/t.txt", max_steps=100000, n_tokens=64, lora_rank=2,
                              on_step=lambda row: started.set())
elif what == "embed":
    model = clef.Model(sys.argv[3])
    model.embed("word")
    texts = ["word " * 20] * 200000
    work = lambda: model.embed(texts, truncate=True)

def interrupt():
    if what == "train":
        started.wait()
    time.sleep(0.4)
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
try:
    work()
    print("no interrupt")
except KeyboardInterrupt:
    print("after", time.monotonic() - sent)
if what in ("generate", "build"):
    assert len(model.generate_ids("ROMEO:", max_tokens=3, temperature=0)) == 3  # the model still works
"""


@pytest.mark.parametrize("what", ["build", "generate", "train", "embed"])
def test_ctrl_c(what, tmp_path):
    from conftest import ROOT

    result = subprocess.run([sys.executable, "-c", INTERRUPTED, what, str(tmp_path),
                             str(ROOT / "tests/fixtures/tiny-bert")], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    word, seconds = result.stdout.split()[-2:]
    assert word == "after" and float(seconds) < 1, result.stdout


def test_exceptions_of_callbacks_come_through(tmp_path):
    class Own(Exception):
        pass

    def progress(what, done, total):
        raise Own(what)

    with clef.Device(cache_dir=str(tmp_path), prover="") as device:
        with clef.Model(device=device, progress=progress) as model:
            with pytest.raises(Own):
                model.logits([1, 2])


ENDINGS = {
    "a model that is open": "m = clef.Model(); m.generate('a', max_tokens=2)",
    "a stream that was not read": "m = clef.Model(); s = m.generate('a', stream=True); next(s)",
    "a cycle": "m = clef.Model(); m.me = m; m.tokenize('a'); g = m.graph()",
    "a daemon thread that computes": """
import threading, time
m = clef.Model(); m.generate('a', max_tokens=2)
def work():
    while True:
        m.generate('a', max_tokens=200, ignore_eos=True)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)""",
    "an open batch and a plan": """
m = clef.Model(); b = clef.Batch(m); b.add('a'); b.step()
g = clef.Graph(); g.output('y', g.relu(g.input('x', (2,)))); p = g.plan(m.device)""",
    "sys.exit in a callback": """
import sys
m = clef.Model(progress=lambda *a: sys.exit(0)); m.logits([1])""",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_the_process_ends_well(name):
    result = subprocess.run([sys.executable, "-X", "faulthandler", "-c", "import clef_cl as clef\n" + ENDINGS[name]],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr
