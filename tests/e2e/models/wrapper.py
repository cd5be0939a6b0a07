"""Writes a tiny random Llama as a folder, and in folders of models that see pictures: wrapper.py OUT

OUT/plain is the Llama itself, OUT/whole another one, of which OUT/partial leaves out the sizes that its class has by itself. OUT/0, OUT/1 ... have it as a text_config, with its tensors under the prefixes that such models have, and a
tower for pictures. OUT/in.safetensors has input_ids. needs: numpy safetensors"""
import json
import os
import sys

import numpy as np
from safetensors.numpy import save_file

out = sys.argv[1]
D, FF, HEADS, KV, VOCAB, LAYERS = 32, 48, 4, 2, 96, 2
CONFIG = {"model_type": "llama", "hidden_size": D, "intermediate_size": FF, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV, "max_position_embeddings": 64, "vocab_size": VOCAB, "rms_norm_eps": 1e-5}
SHAPES = {"input_layernorm": (D,), "post_attention_layernorm": (D,), "self_attn.q_proj": (D, D), "self_attn.k_proj": (D // 2, D),
          "self_attn.v_proj": (D // 2, D), "self_attn.o_proj": (D, D), "mlp.gate_proj": (FF, D), "mlp.up_proj": (FF, D),
          "mlp.down_proj": (D, FF)}
TOWER = {"visual.patch_embed.weight": (8, 3, 2, 4, 4)}  # a video's kernel has five dims
# prefix of the text model, of its output matrix, of the tower
FORMS = [("model.language_model.", "", "model."), ("language_model.model.", "language_model.", "vision_tower."),
         ("model.text_model.", "", "model."), ("model.", "", "")]

rng = np.random.default_rng(5)
weights = {f"layers.{i}.{k}.weight": rng.normal(0, 0.3, s).astype(np.float32) for i in range(LAYERS) for k, s in SHAPES.items()}
weights["embed_tokens.weight"] = rng.normal(0, 1, (VOCAB, D)).astype(np.float32)
weights["norm.weight"] = rng.normal(1, 0.1, D).astype(np.float32)
head = rng.normal(0, 0.3, (VOCAB, D)).astype(np.float32)


def write(name, config, tensors):
    os.makedirs(f"{out}/{name}")
    with open(f"{out}/{name}/config.json", "w") as f:
        json.dump(config, f)
    save_file(tensors, f"{out}/{name}/model.safetensors")


write("plain", {**CONFIG, "tie_word_embeddings": False}, {**{"model." + k: v for k, v in weights.items()}, "lm_head.weight": head})
for i, (text, before_head, tower) in enumerate(FORMS):
    write(str(i), {"architectures": ["OtherForConditionalGeneration"], "model_type": "other", "text_config": CONFIG, "vision_config": {}},
          {**{text + k: v for k, v in weights.items()}, before_head + "lm_head.weight": head,
           **{tower + k: np.zeros(s, np.float32) for k, s in TOWER.items()}})
write("tied", {"model_type": "mistral3", "text_config": CONFIG}, {"language_model.model." + k: v for k, v in weights.items()})
write("strange", {"model_type": "other", "text_config": CONFIG},
      {**{"model.language_model." + k: v for k, v in weights.items()}, "lm_head.weight": head,
       "model.language_model.layers.0.strange.weight": head})
WIDE = 64
wide = {f"model.layers.{i}.{k}.weight": rng.normal(0, 0.3, [WIDE if n in (D, D // 2) else n for n in s]).astype(np.float32)
        for i in range(LAYERS) for k, s in SHAPES.items()}
wide["model.embed_tokens.weight"] = rng.normal(0, 1, (VOCAB, WIDE)).astype(np.float32)
wide["model.norm.weight"] = rng.normal(1, 0.1, WIDE).astype(np.float32)
wide["lm_head.weight"] = rng.normal(0, 0.3, (VOCAB, WIDE)).astype(np.float32)
given = {**CONFIG, "hidden_size": WIDE, "tie_word_embeddings": False}
given.pop("num_key_value_heads")
write("whole", {**given, "num_attention_heads": 32, "max_position_embeddings": 2048}, wide)
partial = {k: v for k, v in given.items() if k not in ("num_attention_heads", "max_position_embeddings")}
write("partial", {"model_type": "other", "text_config": partial}, wide)
save_file({"input_ids": rng.integers(0, VOCAB, (1, 24)).astype(np.int32)}, out + "/in.safetensors")
