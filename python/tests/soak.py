#!/usr/bin/env python3
"""Runs the package for long, and watches the memory of the process.

usage: soak.py [--calls N] [--models N] [--callbacks N] [--threads N]
Each part prints the memory at its begin and end, and fails if it grew by more than --growth MiB. Under AddressSanitizer
(docs/python.md) memory is not judged, since freed memory is kept there: --growth 100000.
"""
import argparse
import ctypes
import gc
import os
import sys
import threading
import time

import numpy as np

import clef_cl as clef


def resident():
    """MiB of the process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def calls(n):
    """n calls of all kinds on one model and one graph."""
    g = clef.Graph()
    g.output("y", g.softmax(g.input("x", (clef.sym("T", 4), 8))))
    x = np.ones((3, 8), np.float32)
    with clef.Model() as model, g.plan(model.device) as plan:
        tokenizer = model.tokenizer
        kinds = [lambda: model.tokenize("ROMEO: hello"), lambda: model.detokenize([26, 293, 274]),
                 lambda: tokenizer.token(300), lambda: plan.run(x=x), lambda: model.logits([1, 2]),
                 lambda: model.logits([1, 2], copy=False), lambda: model.generate("A", max_tokens=2, seed=1),
                 lambda: model.hparams, lambda: model.cached_ids, refuse(model)]
        weights = [40, 30, 20, 4, 1, 1, 1, 1, 1, 1]
        for kind in kinds:
            kind()
        order = np.random.default_rng(0).choice(len(kinds), size=1000, p=np.array(weights) / sum(weights))
        yield
        for i in range(n):
            kinds[order[i % 1000]]()
            if (i + 1) % 50000 == 0:
                print(f"calls: {i + 1} of {n}, {resident():.1f} MiB", flush=True)


def refuse(model):
    def call():
        try:
            model.detokenize([10**6])
        except clef.ArgumentError:
            return
        raise AssertionError("an id outside the vocabulary was taken")

    return call


def models(n):
    """A model is opened, used and closed n times; half of them only by the collector."""
    def once(i):
        model = clef.Model()
        assert model.generate("ROMEO:", max_tokens=2)
        model.logits([1, 2])
        if i % 2:
            model.close()

    for i in range(6):
        once(i)
    gc.collect()
    yield
    for i in range(n):
        once(i)
        if i % 10 == 9:
            gc.collect()


def callbacks(n):
    """Exceptions in callbacks, n times."""
    class Own(Exception):
        pass

    def progress(what, done, total):
        raise Own

    def once():
        with clef.Model(device=device, progress=progress) as model:
            try:
                model.logits([1, 2])
            except Own:
                return
            raise AssertionError("the exception of the callback was lost")

    with clef.Device() as device:
        for _ in range(3):
            once()
        yield
        for _ in range(n):
            once()


def threads(n):
    """A thread that generates is ended by KeyboardInterrupt, n times; the model works afterwards."""
    with clef.Model() as model:
        wanted = model.generate("ROMEO:", temperature=0, max_tokens=5)

        def work(started):
            try:
                while True:
                    started.set()
                    model.generate("ROMEO:", max_tokens=100, ignore_eos=True)
            except KeyboardInterrupt:
                pass

        def once():
            started = threading.Event()
            thread = threading.Thread(target=work, args=(started,))
            thread.start()
            started.wait()
            time.sleep(0.01)
            while thread.is_alive():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident),
                                                           ctypes.py_object(KeyboardInterrupt))
                thread.join(0.5)
            assert model.generate("ROMEO:", temperature=0, max_tokens=5) == wanted

        for _ in range(3):
            once()
        yield
        for _ in range(n):
            once()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("calls", 1000000), ("models", 200), ("callbacks", 200), ("threads", 100)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--growth", type=float, default=16, help="MiB that a part may grow by")
    options = parser.parse_args()
    passed = failed = 0
    for part in (calls, models, callbacks, threads):
        n = getattr(options, part.__name__)
        if not n:
            continue
        steps = part(n)
        next(steps)  # warm
        gc.collect()
        before, begin = resident(), time.perf_counter()
        for _ in steps:
            pass
        gc.collect()
        after = resident()
        has_failed = after - before > options.growth
        failed += has_failed
        passed += not has_failed
        seconds = time.perf_counter() - begin
        print(f"{part.__name__}: {n} in {seconds:.1f} s, {before:.1f} MiB at first, {after:.1f} MiB at the end: "
              f"{'grew too much' if has_failed else 'passed'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
