#!/usr/bin/env python3
"""`clef attention` against PyTorch's attention weights of layer 0 (and cross-attention): within 1e-4, rows sum to 1, masked cells exactly 0.

usage: attention.py CLEF FOLDER FAMILY ...     FOLDER/FAMILY/expected.safetensors as ../shared/oracle/make_models.py writes it
needs: numpy, safetensors
"""
import json, os, subprocess, sys, tempfile
import numpy as np
from safetensors.numpy import load_file, save_file

clef, root, families = sys.argv[1], sys.argv[2], sys.argv[3:]
passed = failed = 0


def line(ok, what):
    global passed, failed
    passed += bool(ok)
    failed += not ok
    print(f"{'ok' if ok else 'FAIL'} {what}", flush=True)


def run(*args):
    r = subprocess.run([clef, "attention", *args], capture_output=True, text=True, timeout=120)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


def check(family, tmp):
    folder = os.path.join(root, family)
    ref = load_file(os.path.join(folder, "expected.safetensors"))
    cross = "cross_attention_0" in ref
    want = ref["cross_attention_0" if cross else "attention_0"]
    for b in range(len(ref["input_ids"])):
        inputs = {k: ref[k][b:b + 1] for k in ("input_ids", "attention_mask", "decoder_input_ids") if k in ref}
        save_file(inputs, tmp + "/in.safetensors")
        flags = ["--in", tmp + "/in.safetensors", "--layer", "0", "--kind", "cross" if cross else "self", "-q"]
        run(folder, *flags, "-o", tmp + "/a.npy")
        got = np.load(tmp + "/a.npy")
        T, S = want.shape[2:]
        if got.shape != (1, *want.shape[1:]):
            return line(False, f"{family}: shape {got.shape}, wanted {(1, *want.shape[1:])}")
        keys = inputs["attention_mask"][0].astype(bool) if "attention_mask" in inputs else np.ones(S, bool)
        queries = np.ones(T, bool) if cross else keys
        e = np.abs(got[0] - want[b])[:, queries].max()
        sums = np.abs(got[0].sum(-1) - 1)[:, queries].max()
        masked = np.broadcast_to(~keys, (T, S))
        if "greedy_ids" in ref and not cross:
            masked = masked | np.triu(np.ones((T, S), bool), 1)
        zero = np.all(got[0][:, masked] == 0) and np.any(masked) == (not np.all(got[0] != 0))
        line(e <= 1e-4 and sums <= 1e-5 and zero,
             f"{family} sequence {b}: difference {e:.1e}, rows sum to 1 within {sums:.1e}, {int(masked.sum())} masked cells {'are 0' if zero else 'are not 0'}")
    # The same numbers in JSON, and summaries that follow from them.
    run(folder, *flags, "-o", tmp + "/a.json")
    m = json.load(open(tmp + "/a.json"))["maps"][0]
    p = got[0].astype(np.float64)
    same = all(np.array_equal(np.array(h["weights"], np.float32), got[0][i]) for i, h in enumerate(m["heads"]))
    kept = p[:, queries]
    entropy = -(kept * np.log(np.where(kept > 0, kept, 1))).sum(-1).mean(-1)
    distance = (kept * np.abs(np.arange(T)[queries][:, None] - np.arange(S)[None])).sum(-1).mean(-1)
    facts = np.array([[h["entropy"], h["first"], h["distance"]] for h in m["heads"]])
    mine = np.stack([entropy, kept[..., 0].mean(-1), distance * (not cross)], -1)
    line(same and np.allclose(facts, mine, atol=1e-5), f"{family}: JSON has the same weights; entropy, distance and first token")


with tempfile.TemporaryDirectory() as folder:
    for name in families:
        try:
            check(name, folder)
        except Exception as e:
            line(False, f"{name}: {str(e)[-300:]}")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
