"""Writes a tiny random Gemma 4 with experts: gemma4.py FOLDER FILE.gguf

FOLDER gets the model as a Hugging Face folder, with transformers' answers in expected.safetensors (input_ids, logits, greedy_ids) and the
input_ids alone in in.safetensors.
FILE.gguf gets the same weights under the names and keys that llama.cpp's converter writes. Full layers have other heads than those with
a window, their values are their keys', and each layer has a dense feed-forward beside the experts. needs: torch transformers gguf
"""
import sys

import gguf
import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file

folder, path = sys.argv[1], sys.argv[2]
SEED, VOCAB, LAYERS, FULL = 7, 256, 6, 5  # layer FULL sees everything
HEADS, KV, KV_FULL, DIM, DIM_FULL, WINDOW = 4, 4, 2, 16, 32, 16

config = hf.Gemma4TextConfig(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
    num_key_value_heads=KV, head_dim=DIM, global_head_dim=DIM_FULL, num_global_key_value_heads=KV_FULL,
    attention_k_eq_v=True, sliding_window=WINDOW, max_position_embeddings=256, vocab_size_per_layer_input=VOCAB,
    hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=8, top_k_experts=3, moe_intermediate_size=32,
    final_logit_softcapping=30.0, initializer_range=0.2)

torch.manual_seed(SEED)
model = hf.Gemma4ForCausalLM(config).eval().float()
with torch.no_grad():
    for name, x in [*model.named_parameters(), *model.named_buffers()]:
        if "norm" in name or name.endswith(("router.scale", "per_expert_scale", "layer_scalar")):
            x.copy_(1 + 0.3 * torch.randn_like(x))  # ones would hide a weight that is not read
    ids = torch.randint(3, VOCAB, (2, 40))
    logits = model(ids).logits
    greedy = model.generate(ids[:1, :16], max_new_tokens=24, do_sample=False, eos_token_id=None, pad_token_id=0)
model.save_pretrained(folder)
save_file({"input_ids": ids.int()}, folder + "/in.safetensors")
save_file({"input_ids": ids.int(), "logits": logits.contiguous(), "greedy_ids": greedy.int()},
          folder + "/expected.safetensors")

w = gguf.GGUFWriter(path, "gemma4")
w.add_block_count(LAYERS)
w.add_context_length(256)
w.add_embedding_length(64)
w.add_feed_forward_length(96)
w.add_vocab_size(VOCAB)
w.add_head_count(HEADS)
w.add_head_count_kv([KV_FULL if i == FULL else KV for i in range(LAYERS)])
w.add_key_length(DIM_FULL)
w.add_value_length(DIM_FULL)
w.add_key_length_swa(DIM)
w.add_value_length_swa(DIM)
w.add_rope_dimension_count(DIM_FULL)
w.add_rope_dimension_count_swa(DIM)
w.add_rope_freq_base(1000000.0)
w.add_rope_freq_base_swa(10000.0)
w.add_layer_norm_rms_eps(1e-6)
w.add_sliding_window(WINDOW)
w.add_sliding_window_pattern([i != FULL for i in range(LAYERS)])
w.add_shared_kv_layers(0)
w.add_embedding_length_per_layer_input(0)
w.add_final_logit_softcapping(30.0)
w.add_expert_count(8)
w.add_expert_used_count(3)
w.add_expert_feed_forward_length(32)
w.add_tokenizer_model("no_vocab")

# The names of gguf-py's table, but for the scales that llama.cpp's converter names itself.
names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GEMMA4, LAYERS)
own = {".router.scale": "ffn_gate_inp.scale", ".router.per_expert_scale": "ffn_down_exps.scale",
       ".layer_scalar": "layer_output_scale.weight", ".experts.gate_up_proj": "ffn_gate_up_exps.weight",
       ".experts.down_proj": "ffn_down_exps.weight"}
for name, x in model.state_dict().items():
    if name == "lm_head.weight":  # tied
        continue
    end = next((e for e in own if name.endswith(e)), None)
    to = f"blk.{name.split('.')[2]}.{own[end]}" if end else names.get_name(name, try_suffixes=(".weight",))
    w.add_tensor(to, x.float().numpy())
rotated = int(0.25 * DIM_FULL / 2)  # pairs; a divisor of 1e30 keeps the others as they are
w.add_tensor("rope_freqs.weight", np.array([1.0] * rotated + [1e30] * (DIM_FULL // 2 - rotated), np.float32))
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_tensors_to_file()
w.close()
