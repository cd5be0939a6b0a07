#!/usr/bin/env python3
"""Every model of a folder as ONNX: accepted by onnx.checker, and its logits by ONNX Runtime within 1e-4 of PyTorch's.

usage: onnx_export.py CLEF FOLDER [FAMILY ...]     FOLDER/FAMILY/expected.safetensors as ../shared/oracle/make_models.py writes it
An error is relative: max |a - b| / max |b|, where the attention mask keeps. Where PyTorch's stored answers are those of a decoder that saw
what comes (docs/models.md), `clef eval` takes its place. Prints a line a check, then 'N passed, N failed'.
needs: numpy, safetensors, onnx, onnxruntime
"""
import os, subprocess, sys, tempfile
import numpy as np
import onnx, onnxruntime
from safetensors.numpy import load_file, save_file

TOL = 1e-4
clef, root, wanted = sys.argv[1], sys.argv[2], sys.argv[3:]
passed = failed = 0


def line(ok, family, what):
    global passed, failed
    passed += ok
    failed += not ok
    print(f"{'ok' if ok else 'FAIL'} {family}: {what}", flush=True)


def feeds_of(session, ref):
    """The oracle's inputs; zeros for positions and for the KV cache, which are at their beginning."""
    B, T = ref["input_ids"].shape
    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
    feeds = {}
    for i in session.get_inputs():
        if i.name in ref:
            feeds[i.name] = ref[i.name].astype(types[i.type])
        elif i.name == "attention_mask":
            feeds[i.name] = np.ones((B, T), np.int32)
        elif i.name == "pos":
            feeds[i.name] = np.zeros(B, np.int32)
        elif i.name == "S":  # where no input has the cache's visible length
            feeds[i.name] = np.array([T], np.int64)
        else:
            feeds[i.name] = np.zeros(i.shape, types[i.type])
    return feeds


def export(folder, path, *flags):
    r = subprocess.run([clef, "graph", folder, "--format", "onnx", "-o", path, *flags], capture_output=True, text=True, timeout=120)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[-300:]}")


def wanted_logits(family, ref, tmp):
    """PyTorch's, unless its decoder was not causal."""
    if "greedy_ids" not in ref or "attention_0" not in ref or np.triu(ref["attention_0"], 1).max() == 0:
        return ref["logits"], "PyTorch"
    paths = [os.path.join(tmp, name) for name in ("in.safetensors", "out.safetensors")]
    save_file({"input_ids": ref["input_ids"]}, paths[0])
    subprocess.run([clef, "eval", os.path.join(root, family), "--in", paths[0], "--out", paths[1]], check=True, capture_output=True)
    return load_file(paths[1])["logits"], "clef eval"


def run(family, tmp):
    ref = load_file(os.path.join(root, family, "expected.safetensors"))
    B, T = ref["input_ids"].shape
    path = os.path.join(tmp, family + ".onnx")
    flags = ["-c", str(T), "--sequences", str(B)]
    export(os.path.join(root, family), path, *flags)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    domains = {n.domain for n in model.graph.node} | {o.domain for o in model.opset_import}
    line(domains == {""}, family, f"onnx.checker, {len(model.graph.node)} nodes of the standard's own ops")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feeds = feeds_of(session, ref)
    logits = session.run(["logits"], feeds)[0].astype(np.float64)
    want, whose = wanted_logits(family, ref, tmp)
    want = want.astype(np.float64)
    keep = np.ones(want.shape[:2], bool)
    if "attention_mask" in ref and "decoder_input_ids" not in ref:
        keep = ref["attention_mask"].astype(bool)
    if logits.shape != want.shape:
        return line(False, family, f"logits {logits.shape}, wanted {want.shape}")
    e = np.abs(logits - want)[keep].max() / np.abs(want)[keep].max()
    line(bool(e <= TOL), family, f"logits against {whose}, relative error {e:.2e}")
    if family == "llama":
        two_steps(family, session, feeds, want)
        beside(family, tmp, flags, feeds, logits)


def two_steps(family, session, feeds, want):
    """The cache that comes out goes in again: half of the tokens, then the rest."""
    names = [o.name for o in session.get_outputs()]
    half = feeds["input_ids"].shape[1] // 2
    got = []
    for begin, end in ((0, half), (half, 2 * half)):
        step = {**feeds, "input_ids": feeds["input_ids"][:, begin:end], "attention_mask": feeds["attention_mask"][:, :end],
                "pos": np.full_like(feeds["pos"], begin)}
        out = dict(zip(names, session.run(names, step)))
        got.append(out["logits"])
        feeds = {**feeds, **{k[:-4]: v for k, v in out.items() if k.endswith(".out")}}
    got = np.concatenate(got, 1)
    e = np.abs(got - want[:, :2 * half]).max() / np.abs(want).max()
    line(bool(e <= TOL), family, f"two steps with the cache, relative error {e:.2e}")


def beside(family, tmp, flags, feeds, logits):
    path = os.path.join(tmp, "beside.onnx")
    export(os.path.join(root, family), path, "--weights", "beside", *flags)
    onnx.checker.check_model(path)
    got = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(["logits"], feeds)[0]
    small = os.path.getsize(path) < os.path.getsize(path + ".data")
    line(small and np.array_equal(got.astype(np.float64), logits), family, "weights beside the file give the same logits")


for name in wanted or sorted(d for d in os.listdir(root) if os.path.exists(os.path.join(root, d, "expected.safetensors"))):
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(name, folder)
        except Exception as e:
            line(False, name, str(e).replace("\n", " ")[-400:])
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
