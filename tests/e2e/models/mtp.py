"""Writes a tiny random model with a layer that predicts further tokens: mtp.py FAMILY FOLDER [SEED]

FAMILY is qwen3_5, qwen3_5_moe, glm4_moe or deepseek_v3. FOLDER gets the model under the names of its published folders, in.safetensors (the
tokens and hidden states that the layer reads, input_ids and hidden), text.safetensors (the text itself, input_ids) and expected.safetensors:
hidden, the model's last hidden states; logits and next_hidden, what the layer gives. transformers has no such layer: it is made of one more
decoder layer, by the formula of arXiv:2412.19437 and of vLLM: fc [norm(embedding of the next token); norm(hidden state)], the layer, a
norm, the model's own output matrix. needs: torch transformers
"""
import json
import sys

import torch
import transformers as hf
from safetensors.torch import load_file, save_file

family, folder, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1
VOCAB, D, LAYERS, T = 96, 48, 3, 40
common = dict(vocab_size=VOCAB, hidden_size=D, intermediate_size=64, num_hidden_layers=LAYERS + 1, num_attention_heads=4,
              max_position_embeddings=256, initializer_range=0.2, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
linear = dict(head_dim=16, num_key_value_heads=2, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
              linear_value_head_dim=8, layer_types=["linear_attention"] * 2 + ["full_attention"] * 2)
experts = dict(moe_intermediate_size=24, num_experts_per_tok=2)
routed = dict(experts, n_routed_experts=6, n_shared_experts=1, n_group=2, topk_group=1, norm_topk_prob=True, routed_scaling_factor=1.5,
              first_k_dense_replace=1)
FAMILIES = {
    "qwen3_5": (hf.Qwen3_5ForCausalLM, hf.Qwen3_5TextConfig, linear),
    "qwen3_5_moe": (hf.Qwen3_5MoeForCausalLM, hf.Qwen3_5MoeTextConfig,
                    dict(linear, **experts, num_experts=6, shared_expert_intermediate_size=24)),
    "glm4_moe": (hf.Glm4MoeForCausalLM, hf.Glm4MoeConfig, dict(routed, head_dim=16, num_key_value_heads=2, use_qk_norm=True)),
    "deepseek_v3": (hf.DeepseekV3ForCausalLM, hf.DeepseekV3Config,
                    dict(routed, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=8,
                         v_head_dim=16)),
}
cls, config_class, sizes = FAMILIES[family]
is_qwen = family.startswith("qwen")
torch.manual_seed(seed)
config = config_class(**common, **sizes)
config._attn_implementation = "eager"
model = cls(config).eval().float()
center = 0.0 if is_qwen else 1.0  # Qwen's norms multiply by 1 + weight
with torch.no_grad():
    for name, x in [*model.named_parameters(), *model.named_buffers()]:
        if "linear_attn.norm" in name:
            x.copy_(1 + 0.3 * torch.randn_like(x))
        elif "norm" in name:
            x.copy_(center + 0.3 * torch.randn_like(x))
        elif name.endswith("e_score_correction_bias"):
            x.copy_(0.1 * torch.randn_like(x))
further = {k: center + 0.3 * torch.randn(D) for k in ("enorm", "hnorm", "shared_head.norm")}
further["eh_proj"] = 0.2 * torch.randn(D, 2 * D)

ids = torch.randint(3, VOCAB, (1, T + 1))
layers = model.model.layers
layer = layers[LAYERS]
eps = config.rms_norm_eps


def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (weight + 1 - center)


with torch.no_grad():
    del model.model.layers[LAYERS]
    model.config.num_hidden_layers = LAYERS
    hidden = model.model(ids[:, :T], use_cache=False).last_hidden_state
    embedded = model.model.embed_tokens(ids[:, 1:])
    x = torch.cat([norm(embedded, further["enorm"]), norm(hidden, further["hnorm"])], -1) @ further["eh_proj"].T
    places = torch.arange(T)[None]
    mask = torch.full((T, T), float("-inf")).triu(1)[None, None]
    x = layer(x, attention_mask=mask, position_ids=places, position_embeddings=model.model.rotary_emb(x, places), use_cache=False)
    x = x[0] if isinstance(x, tuple) else x
    x = norm(x, further["shared_head.norm"])
    logits = model.lm_head(x)
model.model.layers.append(layer)  # its weights are saved in the published form
model.config.num_hidden_layers = LAYERS + 1
model.save_pretrained(folder)

stored = load_file(folder + "/model.safetensors")
names = {"enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "shared_head.norm": "mtp.norm", "eh_proj": "mtp.fc"}
of_layer = f"model.layers.{LAYERS}."
out = {"mtp.layers.0." + k[len(of_layer):] if is_qwen and k.startswith(of_layer) else k: v for k, v in stored.items()}
out.update({(names[k] if is_qwen else of_layer + k) + ".weight": v.contiguous() for k, v in further.items()})
save_file(out, folder + "/model.safetensors", {"format": "pt"})
with open(folder + "/config.json") as f:
    saved = json.load(f)
saved["num_hidden_layers"] = LAYERS
if is_qwen:
    saved["mtp_num_hidden_layers"] = 1
    saved["layer_types"] = saved["layer_types"][:LAYERS]
else:
    saved["num_nextn_predict_layers"] = 1
with open(folder + "/config.json", "w") as f:
    json.dump(saved, f)
save_file({"input_ids": ids[:, :T].int().contiguous()}, folder + "/text.safetensors")
save_file({"input_ids": ids[:, 1:].int().contiguous(), "hidden": hidden.contiguous()}, folder + "/in.safetensors")
save_file({"hidden": hidden.contiguous(), "logits": logits.contiguous(), "next_hidden": x.contiguous()}, folder + "/expected.safetensors")
