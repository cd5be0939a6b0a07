"""Compares clef's logits with transformers'. usage: logits.py CLEF FOLDER [MODEL...]

FOLDER is opened by transformers, in f32 with eager attention; each MODEL (FOLDER itself without any) by clef, with the same 64 random
ids. Prints a line `ok` or `FAIL` for each. Other tests import it."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

MOST = 1e-5  # of the largest logit


def some_ids(n_vocab, n=64, seed=0):
    return np.random.default_rng(seed).integers(0, n_vocab, (1, n), dtype=np.int32)


def reference(folder, ids, auto=transformers.AutoModelForCausalLM):
    """transformers' logits, [1, n, n_vocab]."""
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.from_numpy(ids).long()).logits.numpy()


def clef_logits(clef, model, ids):
    with tempfile.TemporaryDirectory() as folder:
        given, out = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        save_file({"input_ids": ids}, given)
        subprocess.run([clef, "eval", model, "--in", given, "--out", out, "--exact", "-q"], check=True)
        return load_file(out)["logits"]


def check(name, wanted, got, most=MOST):
    """Prints the line; 0 where the greatest difference is at most `most` of the greatest value, else 1."""
    if wanted.shape != got.shape:
        print(f"FAIL {name}: expected the shape {wanted.shape}, got {got.shape}")
        return 1
    error = np.abs(wanted - got).max() / np.abs(wanted).max()
    good = error <= most  # a NaN is not
    print(f"{'ok' if good else 'FAIL'} {name}: relative error {error:.1e}")
    return not good


def main(clef, folder, *models):
    ids = some_ids(transformers.AutoConfig.from_pretrained(folder).get_text_config().vocab_size)
    wanted = reference(folder, ids)
    failed = sum(check(os.path.basename(m), wanted, clef_logits(clef, m, ids)) for m in models or (folder,))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
