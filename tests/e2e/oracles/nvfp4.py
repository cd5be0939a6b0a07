"""Factors beside matrices in NVFP4 (`NAME.scale`), as llama.cpp's converter writes them: the same logits as of a file that has the products.
usage: nvfp4.py CLEF SEED. Prints a line `ok` or `FAIL` for a Llama and for experts."""
import os
import subprocess
import sys
import tempfile

sys.path.append(sys.path.pop(0))  # this folder has a gguf.py of its own
import gguf
import numpy as np
import torch
import transformers as hf

from logits import check, clef_logits, some_ids

SHAPE = {"vocab_size": 320, "hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "initializer_range": 0.3}
MODELS = {"llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SHAPE)),
          "experts": lambda: hf.Qwen3MoeForCausalLM(hf.Qwen3MoeConfig(
              **SHAPE, moe_intermediate_size=64, head_dim=32, num_experts=8, num_experts_per_tok=2, norm_topk_prob=True))}


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
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
