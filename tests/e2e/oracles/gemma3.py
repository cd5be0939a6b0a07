"""A real file beside llama.cpp: gemma3.py CLEF FILE TEXT FOLDER

FILE is a model with quantised weights, TEXT a file with enough for the windows. llama.cpp rounds the activations of products with
such weights to 8 bits, which clef does not with --exact; so llama.cpp also reads the same weights as f32. Compares tokens, the
perplexity of 8 windows, logits, and 64 greedy tokens, which may differ first where llama.cpp's two best logits are no farther apart
than it rounds."""
import json
import os
import subprocess
import sys

sys.path.append(sys.path.pop(0))  # gguf is the package, not the script beside this one
import gguf  # noqa: E402
import numpy as np  # noqa: E402
from llama import Llama  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

clef, path, text, folder = sys.argv[1:]
plain = os.path.join(folder, "f32.gguf")
WINDOW, N_WINDOWS, N = 512, 8, 64
PROMPT = "The old lighthouse keeper climbed the stairs and"
failed = 0


def check(good, *words):
    global failed
    failed += not good
    print("ok  " if good else "FAIL", *words, flush=True)


def by_clef(*words):
    return subprocess.run([clef, *words, "--exact", "-q"], check=True, capture_output=True, text=True).stdout


def unequal_weights():
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    return [t.name for t in gguf.GGUFReader(plain).tensors if not np.array_equal(
        t.data.ravel(), gguf.quants.dequantize(stored[t.name].data, stored[t.name].tensor_type).ravel())]


def perplexity(model, ids):
    """As llama.cpp's own: each window begins with BOS, and its second half counts."""
    losses = []
    for k in range(N_WINDOWS):
        window = [ids[0], *ids[k * WINDOW + 1:(k + 1) * WINDOW]]
        model.forget()
        model.run(window, wanted=range(WINDOW // 2, WINDOW - 1))
        for i in range(WINDOW // 2, WINDOW - 1):
            x = model.logits(i)
            losses.append(np.log(np.exp(x - x.max()).sum(dtype=np.float64)) + x.max() - x[window[i + 1]])
    return np.exp(np.mean(losses))


def greedy(model, ids):
    """N tokens and, for each, the logits it was sampled from."""
    model.forget()
    out, rows, step = [], [], ids
    for n in range(N):
        model.run(step, wanted=[len(step) - 1], first=len(ids) + n - len(step) if n else 0)
        rows.append(model.logits(len(step) - 1).copy())
        out.append(int(rows[-1].argmax()))
        step = out[-1:]
    return out, np.array(rows)


def forced(model, ids, first):
    model.forget()
    model.run(ids, wanted=range(first, len(ids)))
    return np.array([model.logits(i).copy() for i in range(first, len(ids))])


def logits_by_clef(ids, first):
    given, out = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    save_file({"input_ids": np.array([ids], np.int32)}, given)
    by_clef("eval", path, "--in", given, "--out", out)
    return load_file(out)["logits"][0, first:]


subprocess.run([clef, "quantize", path, plain, "f32", "-q"], check=True)
other = unequal_weights()
check(not other, "the weights as f32 are gguf's", *other[:4])
quantised, same = Llama(path, WINDOW, n_threads_batch=2), Llama(plain, WINDOW, n_threads_batch=2)

words = open(text, encoding="utf-8").read()
while len(quantised.tokens(words)) >= (N_WINDOWS + 1) * WINDOW:
    words = words[:len(words) * 19 // 20]
with open(os.path.join(folder, "text"), "w", encoding="utf-8") as f:
    f.write(words)
ids = quantised.tokens(words)
check(json.loads(subprocess.run([clef, "tokenize", path, "-"], input=words, check=True, capture_output=True, text=True).stdout) == ids,
      f"{len(ids)} tokens, which hold {sum(138 <= x <= 167 for x in ids)} runs of spaces")
mine = json.loads(by_clef("perplexity", path, f.name, "--score", "half", "-c", str(WINDOW), "--json"))
check(mine["windows"] == N_WINDOWS, f"{mine['windows']} windows, of {N_WINDOWS}")
for name, model, most in (("llama.cpp's", quantised, 1e-2), ("llama.cpp's with f32", same, 1e-3)):
    theirs = perplexity(model, ids)
    check(abs(mine["value"] / theirs - 1) <= most, f"perplexity {mine['value']:.4f}, {name} {theirs:.4f}")

prompt = quantised.tokens(PROMPT)
mine = [int(x) for x in by_clef("run", path, "-p", PROMPT, "-n", str(N), "--temp", "0", "--ignore-eos", "--print-ids").split(",")]
first = len(prompt) - 1
rows = logits_by_clef(prompt + mine[:-1], first)
exact, rounded = (forced(m, prompt + mine[:-1], first) for m in (same, quantised))
far = np.abs(rows - exact).max()
check(far <= 1e-3 * np.abs(rows).max(), f"logits beside llama.cpp's with f32: {far:.1e} of {np.abs(rows).max():.0f}")
rounding = np.abs(rounded - exact).max(-1)
for name, model, most in (("llama.cpp's", quantised, rounding), ("llama.cpp's with f32", same, np.full(N, far))):
    theirs, sampled = greedy(model, prompt)
    n = next((i for i in range(N) if mine[i] != theirs[i]), N)
    gap = 0 if n == N else sampled[n][theirs[n]] - sampled[n][mine[n]]
    check(n == N or gap <= 2 * most[n], f"{n} of {N} greedy tokens as {name}"
          + ("" if n == N else f"; then its two best are {gap:.3f} apart, its rounding is {most[n]:.3f}"))
sys.exit(failed > 0)
