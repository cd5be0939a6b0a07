"""Quantised folders beside PyTorch: the logits of exactly the weights that their formats mean, and these weights as `clef quantize` writes them, bit for bit.
usage: quantised.py CLEF FOLDER_OF_FOLDERS. Prints a line `ok` or `FAIL` for each."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(sys.path.pop(0))  # this folder has a gguf.py of its own
import gguf
import numpy as np
from safetensors.torch import load_file, save_file

NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def logits_error(clef, folder, tmp):
    expected = load_file(folder + "/expected.safetensors")
    save_file({"input_ids": expected["input_ids"]}, tmp + "/in.safetensors")
    subprocess.run([clef, "eval", folder, "--in", tmp + "/in.safetensors", "--out", tmp + "/out.safetensors", "--exact", "-q"], check=True)
    got, wanted = load_file(tmp + "/out.safetensors")["logits"], expected["logits"]
    return ((got - wanted).abs().max() / wanted.abs().max()).item()


def in_pairs(config, name, w):
    """Llama's rows of q and k as GGUF orders them."""
    if config["model_type"] != "llama" or name not in ("self_attn.q_proj", "self_attn.k_proj"):
        return w
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return np.ascontiguousarray(w.reshape(-1, 2, dim // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape))


def weights_that_differ(clef, folder, tmp):
    config = json.load(open(folder + "/config.json"))
    subprocess.run([clef, "quantize", folder, tmp + "/out.gguf", "f32", "-q"], check=True)
    written = {t.name: t.data for t in gguf.GGUFReader(tmp + "/out.gguf").tensors}
    bad = []
    for key, w in load_file(folder + "/dequantised.safetensors").items():
        _, _, layer, *name = key.split(".")[:5]
        name = ".".join(name)
        wanted = in_pairs(config, name, w.float().numpy())
        got = written[f"blk.{layer}.{NAMES[name]}.weight"]
        if got.shape != wanted.shape or got.tobytes() != wanted.tobytes():
            bad.append(key)
    return bad


def main(clef, folders):
    failed = 0
    for name in sorted(os.listdir(folders)):
        with tempfile.TemporaryDirectory() as tmp:
            error = logits_error(clef, os.path.join(folders, name), tmp)
            bad = [] if name == "mxfp4" else weights_that_differ(clef, os.path.join(folders, name), tmp)
        right = error <= 1e-4 and not bad
        failed += not right
        print(f"{'ok  ' if right else 'FAIL'} {name}: logits {error:.1e}, other weights: {bad}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
