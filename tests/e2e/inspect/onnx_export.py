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


# Graphs of what the models do not show: name, text, range of integer inputs.
SMALL = [
    ("slices", "symbol T <= 6\nsymbol S <= 9\ninput x f32 [2, S, 4]\ninput t f32 [2, T]\ninput y f32 [2, 9, 4]\na = slice(x) axis=1 start=-1 size=1\n"
     "b = slice(x) axis=2 start=-3 size=2\nc = slice(y) axis=1 size=T\nh = slice(y) axis=1 start=-6 size=T\ni = copy(h)\nd = copy(a)\ne = copy(b)\nf = copy(c)\noutput i\noutput d\noutput e\noutput f\n", 0),
    ("reductions", "input x f32 [3, 17]\na = argmax(x)\nb = topk(x) k=5\nc = reduce(x) kind=sum\nd = reduce(x) kind=max\ne = gather_elements(x, b)\n"
     "output a\noutput b\noutput c\noutput d\noutput e\n", 0),
    ("softmaxes", "input x f32 [2, 3, 5, 7]\ninput k i32 [2, 1, 1, 7]\ninput p i32 [2]\nconst m f32 [7] = 0, -inf, 1, -inf, 0, 2, -inf\n"
     "a = softmax(x, m) scale=2\nb = softmax(x, k, p) causal=1 window=3\nc = softmax(x) log=1 causal=1\nd = softmax(x, k) softcap=2\n"
     "output a\noutput b\noutput c\noutput d\n", 2),
    ("attention", "symbol T <= 5\ninput q f32 [2, 4, T, 8]\ninput k f32 [2, 2, 6, 8]\ninput v f32 [2, 2, 6, 5]\ninput p i32 [2]\nconst s f32 [4] = 1, 2, 0, -1\n"
     "a = attention(q, k, v, _, p, s) scale=0.3 causal=1\noutput a\n", 3),
    ("ropes", "symbol T <= 5\ninput x f32 [2, T, 3, 10]\ninput p i32 [2]\nconst f f32 [3] = 1, 0.3, 0.01\na = rope(x, f, p) pairing=interleaved\n"
     "b = rope(x, f) pairing=interleaved_to_halves scale=1.5\nc = rope(x, f, p)\noutput a\noutput b\noutput c\n", 40),
    ("gates", "input g f32 [3, 8]\ninput u f32 [3, 8]\na = swiglu(g, u)\nb = clamped_swiglu(g, u) alpha=1.7 limit=0.8\nc = rsqrt(d)\n"
     .replace("c = rsqrt(d)", "s = square(g)\nd = affine(s) scale=2 shift=1\nc = rsqrt(d)\ne = log(d)\nf = exp(g)") +
     "output a\noutput b\noutput c\noutput e\noutput f\n", 0),
    ("positions", "symbol T <= 5\ninput x f32 [11, 3]\ninput p i32 [1]\ninput t f32 [T]\na = relative_bias(x, p) queries=T keys=9\n"
     "b = positions(p) length=T\noutput a\noutput b\n", 7),
    ("products", "symbol T <= 5\ninput x f32 [2, 4, T, 8]\ninput y f32 [2, 2, 8, 3]\ninput z f32 [2, 1, 3, 8]\na = matmul(x, y) alpha=0.5\n"
     "b = matmul(x, z) transpose_b=1\noutput a\noutput b\n", 0),
]


def small(name, text, most, tmp):
    """What ONNX Runtime makes of a graph in the text form against `clef eval`."""
    paths = [os.path.join(tmp, f) for f in ("g.clef", "in.safetensors", "out.safetensors", "g.onnx")]
    with open(paths[0], "w") as f:
        f.write(text)
    export(paths[0], paths[3])
    onnx.checker.check_model(paths[3], full_check=True)
    session = onnxruntime.InferenceSession(paths[3], providers=["CPUExecutionProvider"])
    rng, feeds = np.random.default_rng(5), {}
    for i in session.get_inputs():
        dims = [d if isinstance(d, int) else 4 for d in i.shape]
        feeds[i.name] = rng.standard_normal(dims).astype(np.float32) if "float" in i.type else rng.integers(0, max(most, 1), dims).astype(np.int32)
    save_file(feeds, paths[1])
    subprocess.run([clef, "eval", paths[0], "--in", paths[1], "--out", paths[2]], check=True, capture_output=True)
    want, names = load_file(paths[2]), [o.name for o in session.get_outputs()]
    got = dict(zip(names, session.run(names, feeds)))
    worst = 0
    for key, w in want.items():
        a, b = got[key].astype(np.float64), w.astype(np.float64)
        same = a.shape == b.shape and np.array_equal(np.isfinite(a), np.isfinite(b))
        keep = np.isfinite(b)
        worst = max(worst, np.abs(a - b)[keep].max() / max(np.abs(b[keep]).max(), 1e-30) if same else np.inf)
    line(bool(worst <= 1e-5), f"graph of {name}", f"{len(want)} outputs, relative error {worst:.1e}")


for small_case in [] if wanted else SMALL:
    with tempfile.TemporaryDirectory() as folder:
        try:
            small(*small_case, folder)
        except Exception as e:
            line(False, small_case[0], str(e).replace("\n", " ")[-400:])
for name in wanted or sorted(d for d in os.listdir(root) if os.path.exists(os.path.join(root, d, "expected.safetensors"))):
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(name, folder)
        except Exception as e:
            line(False, name, str(e).replace("\n", " ")[-400:])
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
