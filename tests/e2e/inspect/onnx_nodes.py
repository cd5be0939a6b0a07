#!/usr/bin/env python3
"""Single-op cases of the ONNX standard, each turned into a clef graph in the text form and run by `clef eval`.

usage: onnx_nodes.py CLEF FOLDER [NAME-PART]     FOLDER holds onnx_node_cases.json and onnx_node_cases.safetensors
An error is relative: max |a - b| / max |b|, at most 1e-5. Prints a line a case, the cases that clef's ops cannot express with the
reason, and 'N passed, N failed, N skipped'. needs: numpy, safetensors
"""
import json, math, os, subprocess, sys, tempfile
import numpy as np
from safetensors.numpy import load_file, save_file

OPS = "Attention LayerNormalization RMSNormalization RotaryEmbedding Gelu Softmax LogSoftmax Gemm MatMul Gather Sigmoid Tanh".split()
TOL = 1e-5


class Text:
    """A graph under construction: lines of the text form."""

    def __init__(self, inputs):
        self.lines, self.inputs, self.count = ["clef-graph 1"], inputs, 0
        for name, x in inputs.items():
            self.lines.append(f"input {name} {'f32' if x.dtype == np.float32 else 'i32'} {self.dims(x.shape)}")

    @staticmethod
    def dims(shape):
        return "[" + ", ".join(map(str, shape)) + "]"

    def op(self, name, *inputs, shape=None, **attrs):
        self.count += 1
        out = f"v{self.count}"
        line = f"{out} = {name}({', '.join(i or '_' for i in inputs)})"
        for k, v in attrs.items():
            line += f" {k}={self.dims(v) if isinstance(v, (list, tuple)) else repr(v) if isinstance(v, float) else v}"
        self.lines.append(line + (f" : f32 {self.dims(shape)}" if shape is not None else ""))
        return out

    def const(self, x):
        self.count += 1
        kind = "f32" if x.dtype.kind == "f" else "i32"
        self.lines.append(f"const v{self.count} {kind} {self.dims(x.shape)} = " + ", ".join(str(v) for v in x.ravel().tolist()))
        return f"v{self.count}"

    def reshape(self, x, shape):
        return self.op("reshape", x, shape=shape)

    def output(self, name, x):
        self.lines.append(f"output {name} = {x}")


def heads(t, name, x, n):
    """[B, T, n * D] -> [B, n, T, D]; a 4-d input has this form already."""
    if x.ndim == 4:
        return name, x.shape
    B, T, width = x.shape
    return t.op("permute", t.reshape(name, (B, T, n, width // n)), axes=[0, 2, 1, 3]), (B, n, T, width // n)


def attention(t, case, i):
    a, outs = case["attrs"], case["node_outputs"] + [""] * 4
    q, (B, H, T, D) = heads(t, "Q", i["Q"], a.get("q_num_heads"))
    k, (_, Hk, S, _) = heads(t, "K", i["K"], a.get("kv_num_heads"))
    v, (_, _, _, E) = heads(t, "V", i["V"], a.get("kv_num_heads"))
    past = 0
    if "past_key" in i:
        past = i["past_key"].shape[2]
        k, v, S = t.op("concat", "past_key", k, axis=2), t.op("concat", "past_value", v, axis=2), S + past
    for name, x in ((outs[1], k), (outs[2], v)):
        if name:
            t.output(name, x)
    scores = t.op("matmul", q, k, transpose_b=1, alpha=float(a.get("scale", 1 / math.sqrt(D))))
    at = np.full(B, past)
    if "nonpad_kv_seqlen" in i:
        n = i["nonpad_kv_seqlen"]
        at = n - T
        keep = np.arange(S)[None, :] < n[:, None]
        scores = t.op("add", scores, t.const(np.where(keep, 0.0, -np.inf).reshape(B, 1, 1, S)))
    mask = "attn_mask" if "attn_mask" in i else None
    if outs[3] and a.get("qk_matmul_output_mode") == 2:
        biased = t.op("add", scores, mask)
        if a.get("is_causal"):
            row = np.arange(T)[:, None] + past
            biased = t.op("add", biased, t.const(np.where(np.arange(S)[None, :] <= row, 0.0, -np.inf)))
        t.output(outs[3], biased)
    p = t.op("softmax", scores, mask, t.const(at), causal=a.get("is_causal", 0), softcap=float(a.get("softcap", 0)))
    if outs[3] and a.get("qk_matmul_output_mode") == 3:
        t.output(outs[3], p)
    y = t.op("matmul", p, v)
    if i["Q"].ndim == 3:
        y = t.reshape(t.op("permute", y, axes=[0, 2, 1, 3]), (B, T, H * E))
    t.output(outs[0], y)


def normalization(t, case, i):
    a, x = case["attrs"], i["X"]
    axis, eps = a.get("axis", -1) % x.ndim, float(a.get("epsilon", 1e-5))
    n = math.prod(x.shape[axis:])
    rows = t.reshape("X", (x.size // n, n))
    w = t.reshape("W", (n,))
    outs = case["node_outputs"]
    if case["op"] == "RMSNormalization":
        y = t.op("rms_norm", rows, w, eps=eps)
    else:
        y = t.op("layer_norm", rows, w, t.reshape("B", (n,)), eps=eps)
        small = x.shape[:axis] + (1,) * (x.ndim - axis)
        mean = t.op("reduce", rows, kind="mean")
        var = t.op("reduce", t.op("square", t.op("sub", rows, mean)), kind="mean")
        for name, z in zip(outs[1:], (mean, t.op("rsqrt", t.op("affine", var, scale=1.0, shift=eps)))):
            t.output(name, t.reshape(z, small))
    t.output(outs[0], t.reshape(y, x.shape))


def rotary(t, case, i):
    x = i["input"]
    B, H, S, D = x.shape if x.ndim == 4 else (x.shape[0], case["attrs"]["num_heads"], x.shape[1], x.shape[2] // case["attrs"]["num_heads"])
    r = case["attrs"].get("rotary_embedding_dim", 0) or D
    v = "input" if x.ndim == 4 else t.op("permute", t.reshape("input", (B, S, H, D)), axes=[0, 2, 1, 3])
    cos, sin = ("cos_cache", "sin_cache")
    if "position_ids" in i:
        cos, sin = (t.op("gather", c, "position_ids") for c in (cos, sin))
    cos, sin = (t.reshape(c, (B, 1, S, r // 2)) for c in (cos, sin))
    x1, x2 = (t.op("slice", v, axis=3, start=s, size=r // 2) for s in (0, r // 2))
    real = t.op("sub", t.op("mul", x1, cos), t.op("mul", x2, sin))
    imag = t.op("add", t.op("mul", x1, sin), t.op("mul", x2, cos))
    y = t.op("concat", real, imag, axis=3)
    if r < D:
        y = t.op("concat", y, t.op("slice", v, axis=3, start=r, size=D - r), axis=3)
    if x.ndim == 3:
        y = t.reshape(t.op("permute", y, axes=[0, 2, 1, 3]), x.shape)
    t.output("output", y)


def softmax(t, case, i):
    x = i["x"]
    axis = case["attrs"].get("axis", -1) % x.ndim
    order = [d for d in range(x.ndim) if d != axis] + [axis]
    y = t.op("softmax", t.op("permute", "x", axes=order), log=int(case["op"] == "LogSoftmax"))
    t.output("y", t.op("permute", y, axes=[order.index(d) for d in range(x.ndim)]))


def gemm(t, case, i):
    a = case["attrs"]
    y = t.op("matmul", "a", "b", transpose_a=a.get("transA", 0), transpose_b=a.get("transB", 0), alpha=float(a.get("alpha", 1.0)))
    if "c" in i:
        y = t.op("add", y, t.op("affine", "c", scale=float(a.get("beta", 1.0))))
    t.output("y", y)


def matmul(t, case, i):
    t.output("c", t.op("matmul", "a", "b"))


def elementwise(t, case, i):
    name = {"Sigmoid": "sigmoid", "Tanh": "tanh", "Gelu": "gelu_tanh" if case["attrs"].get("approximate") == "tanh" else "gelu"}
    t.output(case["node_outputs"][0], t.op(name[case["op"]], case["node_inputs"][0]))


BUILD = {"Attention": attention, "LayerNormalization": normalization, "RMSNormalization": normalization, "RotaryEmbedding": rotary,
         "Softmax": softmax, "LogSoftmax": softmax, "Gemm": gemm, "MatMul": matmul, "Gelu": elementwise, "Sigmoid": elementwise,
         "Tanh": elementwise,
         "Gather": lambda t, c, i: t.output("y", t.op("gather", "data", "indices", axis=c["attrs"].get("axis", 0)))}


def error(got, want):
    if got.shape != want.shape:
        return f"shape {got.shape}, wanted {want.shape}"
    finite = np.isfinite(want)
    if not np.array_equal(got[~finite], want[~finite]):
        return "infinities differ"
    e = np.abs(got[finite].astype(np.float64) - want[finite]).max(initial=0) / max(np.abs(want[finite]).max(initial=0), 1e-30)
    return None if e <= TOL or not finite.any() else f"relative error {e:.2e}"


def run(clef, case, tensors, tmp):
    inputs = {d["name"]: tensors[d["key"]] for d in case["inputs"]}
    t = Text(inputs)
    BUILD[case["op"]](t, case, inputs)
    paths = [os.path.join(tmp, f) for f in ("graph.clef", "in.safetensors", "out.safetensors")]
    with open(paths[0], "w") as f:
        f.write("\n".join(t.lines) + "\n")
    save_file({k: np.ascontiguousarray(x) for k, x in inputs.items()}, paths[1])
    r = subprocess.run([clef, "eval", paths[0], "--in", paths[1], "--out", paths[2]], capture_output=True, text=True, timeout=120)
    if r.returncode:
        return f"exit {r.returncode}: {r.stderr.strip()[-300:]}"
    got = load_file(paths[2])
    for d in case["outputs"]:
        if d["name"] not in got:
            return f"{d['name']} is not among the outputs"
        e = error(got[d["name"]], tensors[d["key"]].astype(np.float32).reshape(d["shape"]))
        if e:
            return f"{d['name']}: {e}"
    return None


def main():
    clef, folder = sys.argv[1:3]
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    with open(os.path.join(folder, "onnx_node_cases.json")) as f:
        cases = [c for c in json.load(f) if c["op"] in OPS and part in c["case"]]
    tensors = load_file(os.path.join(folder, "onnx_node_cases.safetensors"))
    passed = failed = skipped = 0
    for case in cases:
        if any(d["dtype"] == 10 for d in case["inputs"]):
            print(f"skip {case['case']}: float16 inputs; the cases here are those in float32")
            skipped += 1
            continue
        mine = {d["key"]: tensors[case["case"] + "/" + d["key"]] for d in case["inputs"] + case["outputs"]}
        with tempfile.TemporaryDirectory() as tmp:
            why = run(clef, case, mine, tmp)
        passed += why is None
        failed += why is not None
        print(f"FAIL {case['case']}: {why}" if why else f"ok {case['case']}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(failed > 0)


main()
