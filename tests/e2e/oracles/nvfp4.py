"""Factors beside matrices in NVFP4: the same logits as of a model that has the products. Of `NAME.scale` in GGUF, as llama.cpp's converter writes
it, and of `NAME.weight_scale_2` in a folder, as modelopt does; the folder also as `clef quantize` writes it.
usage: nvfp4.py CLEF SEED. Prints a line `ok` or `FAIL` for each."""
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(sys.path.pop(0))  # this folder has a gguf.py of its own
import gguf
import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from logits import check, clef_logits, some_ids

SHAPE = {"vocab_size": 320, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "initializer_range": 0.3}
MODELS = {"llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SHAPE)),
          "experts": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
              **SHAPE, moe_intermediate_size=64, head_dim=32, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True)),
          "fused rows": lambda: hf.GraniteMoeHybridForCausalLM(hf.GraniteMoeHybridConfig(
              **SHAPE, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=192, attention_multiplier=0.1, layer_types=["attention"] * 2,
              mamba_n_heads=8, mamba_d_head=32, mamba_d_state=16, mamba_n_groups=2))}
KEPT = ("norm", "embed", "lm_head", "conv", "mlp.gate.")  # parts of the names of what stays as it is
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def write(source, to, scales, apply):
    """A copy of `source`, with factors beside its matrices, or with their products."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(to, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            writer.add_key_value(key, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for t in reader.tensors:
        if t.tensor_type != gguf.GGMLQuantizationType.NVFP4 or t.name == "token_embd.weight":
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
            continue
        scale = scales.setdefault(t.name, np.random.default_rng(len(scales)).uniform(0.5, 2, 8 if "_exps" in t.name else 1).astype(np.float32))
        if apply:
            x = gguf.quants.dequantize(t.data, t.tensor_type)
            writer.add_tensor(t.name, (x * (scale.reshape(-1, 1, 1) if x.ndim == 3 else scale)).astype(np.float32))
        else:
            writer.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
            writer.add_tensor(t.name.replace(".weight", ".scale"), scale)
            writer.add_tensor(t.name.replace(".weight", ".input_scale"), np.ones_like(scale))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_folders(source, stored, products):
    """Random numbers in NVFP4 in place of the matrices of `source`, and the same as plain floats."""
    config = json.load(open(source + "/config.json"))
    parts, plain = {}, {}
    for name, w in load_file(source + "/model.safetensors").items():
        if w.dim() != 2 or not name.endswith(".weight") or any(k in name for k in KEPT):
            parts[name] = plain[name] = w
            continue
        codes = torch.randint(0, 16, w.shape, dtype=torch.uint8)
        scales = (0.5 + torch.rand(w.shape[0], w.shape[1] // 16)).to(torch.float8_e4m3fn)
        factor = (0.2 + torch.rand(())) / w.shape[1] ** 0.5
        parts.update({name: codes[:, 0::2] | codes[:, 1::2] << 4, name + "_scale": scales, name + "_scale_2": factor})
        signed = E2M1[codes.int() & 7] * (1 - 2 * (codes.int() >> 3))
        plain[name] = signed * (scales.float() * factor).repeat_interleave(16, 1)
    for folder, tensors, more in ((stored, parts, {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}), (products, plain, {})):
        os.mkdir(folder)
        json.dump(config | more, open(folder + "/config.json", "w"))
        save_file({k: v.contiguous() for k, v in tensors.items()}, folder + "/model.safetensors")


def main(clef, seed):
    failed = 0
    for name, make in MODELS.items():
        torch.manual_seed(int(seed))
        with tempfile.TemporaryDirectory() as tmp:
            folder, file, beside, products = (os.path.join(tmp, n) for n in ("model", "a.gguf", "b.gguf", "c.gguf"))
            make().save_pretrained(folder)
            subprocess.run([clef, "quantize", folder, file, "nvfp4", "-q"], check=True)
            scales = {}
            write(file, beside, scales, 0)
            write(file, products, scales, 1)
            ids = some_ids(320)
            failed += check(f"{name}: factors beside NVFP4", clef_logits(clef, products, ids), clef_logits(clef, beside, ids), 2e-5)
            write_folders(folder, tmp + "/stored", tmp + "/plain")
            subprocess.run([clef, "quantize", tmp + "/stored", tmp + "/f32.gguf", "f32", "-q"], check=True)
            wanted = clef_logits(clef, tmp + "/plain", ids)
            failed += check(f"{name}: a folder", wanted, clef_logits(clef, tmp + "/stored", ids), 2e-5)
            failed += check(f"{name}: a folder as f32", wanted, clef_logits(clef, tmp + "/f32.gguf", ids), 2e-5)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
