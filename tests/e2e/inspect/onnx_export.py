#!/usr/bin/env python3
"""Every model of a folder as ONNX: accepted by onnx.checker, and its logits by ONNX Runtime within 1e-4 of PyTorch's.

usage: onnx_export.py CLEF FOLDER [FAMILY ...]     FOLDER/FAMILY/expected.safetensors as ../shared/oracle/make_models.py writes it
Decoders run as Optimum runs them: two sequences of different lengths with padding on the left, first without past, then with the past that
came out, several tokens or one a step; and again in one step with --no-cache. An error is relative: max |a - b| / max |b|, where the attention
mask keeps. Where PyTorch's stored answers are those of a decoder that saw what comes (docs/models.md), `clef eval` takes its place. Prints a
line a check, then 'N passed, N failed'.
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


def open_model(path, family):
    """Checked by onnx.checker, and loaded by ONNX Runtime."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    domains = {n.domain for n in model.graph.node} | {o.domain for o in model.opset_import}
    line(domains == {""}, family, f"onnx.checker, {len(model.graph.node)} nodes of the standard's own ops")
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def compare(family, what, got, want, keep):
    got, want = got.astype(np.float64), want.astype(np.float64)
    if got.shape != want.shape:
        return line(False, family, f"{what}: logits {got.shape}, expected {want.shape}")
    e = np.abs(got - want)[keep].max() / np.abs(want)[keep].max()
    line(bool(e <= TOL), family, f"{what}, relative error {e:.2e}")


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
    folder = os.path.join(root, family)
    ref = load_file(os.path.join(folder, "expected.safetensors"))
    path = os.path.join(tmp, family + ".onnx")
    export(folder, path)
    want, whose = wanted_logits(family, ref, tmp)
    session = open_model(path, family)
    if "attention_mask" in ref:
        run_at_once(family, session, ref, want)
        return run_parts(family, ref, tmp) if "decoder_input_ids" in ref else None
    decoder = Decoder(session, ref, want)
    line(decoder.has_usual_inputs(), family, "inputs and outputs are named as in Optimum")
    steps = [(0, 5), (5, 24)] + [(t, t + 1) for t in range(24, decoder.ids.shape[1])]
    got = decoder.logits(session, steps)
    compare(family, f"{len(steps)} steps with past against {whose}", got, decoder.want, decoder.keep)
    if family == "llama":
        beside(family, tmp, decoder, steps, got)
    export(folder, path, "--no-cache")
    plain = open_model(path, family)
    line(all("past" not in i.name for i in plain.get_inputs()) and len(plain.get_outputs()) == 1, family, "--no-cache has no past")
    compare(family, "one step without past", decoder.logits(plain, [(0, decoder.ids.shape[1])]), decoder.want, decoder.keep)


def run_at_once(family, session, ref, want):
    """Encoders, and encoder-decoders whose target is known."""
    feeds = {i.name: ref.get(i.name, np.zeros_like(ref["input_ids"])).astype(np.int64) for i in session.get_inputs()}
    keep = np.ones(want.shape[:2], bool) if "decoder_input_ids" in ref else ref["attention_mask"].astype(bool)
    compare(family, "logits against PyTorch", session.run(["logits"], feeds)[0], want, keep)


def run_parts(family, ref, tmp):
    """An encoder-decoder as Optimum has it: the encoder's file, and a decoder's that is fed what the encoder gives."""
    ids, mask, target = (ref[k].astype(np.int64) for k in ("input_ids", "attention_mask", "decoder_input_ids"))
    paths = [os.path.join(tmp, name) for name in ("encoder.onnx", "decoder.onnx", "plain.onnx")]
    for path, flags in zip(paths, (["encoder"], ["decoder"], ["decoder", "--no-cache"])):
        export(os.path.join(root, family), path, "--part", *flags)
    encoder, decoder, plain = (open_model(path, family) for path in paths)
    hidden = encoder.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": mask})[0]
    compare(family, "the encoder against PyTorch", hidden, ref["encoder_last"], mask.astype(bool))
    source, every = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}, np.ones(target.shape, bool)
    n = target.shape[1]
    steps = [(0, 1), (1, 6)] + [(t, t + 1) for t in range(6, n)]
    got = run_steps(decoder, steps, lambda begin, end: {"input_ids": target[:, begin:end], **source})
    compare(family, f"the decoder in {len(steps)} steps with past", got, ref["logits"], every)
    compare(family, "the decoder without past", plain.run(["logits"], {"input_ids": target, **source})[0], ref["logits"], every)


def run_steps(session, steps, feeds_of):
    """The logits of all steps, from .. to; what comes out as present is the next step's past_key_values."""
    names = [o.name for o in session.get_outputs()]
    sizes = {"batch_size": 2, "past_sequence_length": 0}
    past = {i.name: np.zeros([sizes.get(d, d) for d in i.shape], np.float32) for i in session.get_inputs() if "past" in i.name}
    got = []
    for begin, end in steps:
        out = dict(zip(names, session.run(names, {**feeds_of(begin, end), **past})))
        got.append(out["logits"])
        past = {"past_key_values" + k[len("present"):]: v for k, v in out.items() if k.startswith("present")}
    return np.concatenate(got, 1)


class Decoder:
    """Two sequences, of which the second is shorter and padded on the left."""

    PAD = 7

    def __init__(self, session, ref, want):
        self.inputs = {i.name: i for i in session.get_inputs()}
        self.outputs = {o.name: o for o in session.get_outputs()}
        self.ids, self.want = ref["input_ids"].astype(np.int64).copy(), want.copy()
        self.ids[1, self.PAD:], self.ids[1, :self.PAD] = self.ids[1, :-self.PAD].copy(), 0
        self.want[1, self.PAD:] = want[1, :-self.PAD]
        self.keep = np.ones(self.ids.shape, bool)
        self.keep[1, :self.PAD] = False
        self.mask = self.keep.astype(np.int64)
        self.positions = np.where(self.keep, np.cumsum(self.mask, 1) - 1, 1)

    def has_usual_inputs(self):
        """I64 ids and masks; each past has a present of its kind; all of free lengths."""
        def shape(tensor, past=None):
            return [past if past and d == "total_sequence_length" else d for d in tensor.shape]

        ids = [self.inputs.get(k) for k in ("input_ids", "attention_mask", "position_ids")]
        right = all(i is None or i.type == "tensor(int64)" for i in ids) and None not in ids[:2]
        right = right and ids[0].shape == ["batch_size", "sequence_length"] and ids[1].shape == ["batch_size", "total_sequence_length"]
        past = [k for k in self.inputs if k.startswith("past_key_values.")]
        for k in past:
            present = self.outputs["present" + k[len("past_key_values"):]]
            right = right and shape(present, "past_sequence_length") == self.inputs[k].shape and self.inputs[k].shape[0] == "batch_size"
        known = len(past) + sum(i is not None for i in ids)
        return bool(past) and right and known == len(self.inputs) and len(past) + 1 == len(self.outputs)

    def logits(self, session, steps):
        def feeds_of(begin, end):
            feeds = {"input_ids": self.ids[:, begin:end], "attention_mask": self.mask[:, :end], "position_ids": self.positions[:, begin:end]}
            return {k: v for k, v in feeds.items() if k in self.inputs}

        return run_steps(session, steps, feeds_of)


def beside(family, tmp, decoder, steps, logits):
    path = os.path.join(tmp, "beside.onnx")
    export(os.path.join(root, family), path, "--weights", "beside")
    onnx.checker.check_model(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    small = os.path.getsize(path) < os.path.getsize(path + ".data")
    line(small and np.array_equal(decoder.logits(session, steps), logits), family, "weights beside the file give the same logits")


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
    ("vectors", "symbol T <= 5\ninput x f32 [2, T, 8]\ninput y f32 [2, 8, 3]\ninput v f32 [8]\na = matmul(x, v)\nb = matmul(v, y) alpha=2\n"
     "c = matmul(v, v)\nd = matmul(v, x) transpose_b=1\noutput a\noutput b\noutput c\noutput d\n", 0),
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
        worst = max(worst, np.abs(a[keep] - b[keep]).max() / max(np.abs(b[keep]).max(), 1e-30) if same else np.inf)
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
