"""random_model.py FOLDER: writes a small model with random weights in halves, for timings: a Llama of two layers, whose matrices are
as large as those of a model of 1.1 billion parameters. What the weights say does not matter to their speed."""

import json
import os
import random
import struct
import sys

HIDDEN, INNER, HEADS, SHARED_HEADS, LAYERS, VOCABULARY = 2048, 5632, 32, 4, 2, 32000
PERIOD = 1 << 20  # halves, after which the weights repeat
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": SHARED_HEADS,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "torch_dtype": "float16",
}


def shapes():
    shared = HIDDEN // HEADS * SHARED_HEADS
    out = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        out |= {
            f"model.layers.{i}.input_layernorm.weight": (HIDDEN,),
            f"model.layers.{i}.post_attention_layernorm.weight": (HIDDEN,),
            f"model.layers.{i}.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
            f"model.layers.{i}.self_attn.k_proj.weight": (shared, HIDDEN),
            f"model.layers.{i}.self_attn.v_proj.weight": (shared, HIDDEN),
            f"model.layers.{i}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
            f"model.layers.{i}.mlp.gate_proj.weight": (INNER, HIDDEN),
            f"model.layers.{i}.mlp.up_proj.weight": (INNER, HIDDEN),
            f"model.layers.{i}.mlp.down_proj.weight": (HIDDEN, INNER),
        }
    return out


def halves():
    """Random halves of both signs, 0.0156 to 0.0312 in size: of each, the sign and the fraction are random."""
    bits = int.from_bytes(random.Random(1).randbytes(2 * PERIOD), "little")
    mask, exponent = (int.from_bytes(struct.pack("<H", x) * PERIOD, "little") for x in (0x83FF, 0x2400))
    return (bits & mask | exponent).to_bytes(2 * PERIOD, "little")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(CONFIG, file)
    header, at = {}, 0
    for name, shape in shapes().items():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = halves()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        while at:
            file.write(block[:at])
            at -= min(at, len(block))


if __name__ == "__main__":
    main()
