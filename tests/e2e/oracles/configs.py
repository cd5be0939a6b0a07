"""Compares clef with transformers on mutated configurations. usage: configs.py CLEF [--n N] [--seed S] [--part K/N] [FAMILY...]

A tiny model of each family is made and saved, then its config.json is changed N times: keys are removed, made null, given other values,
written in the form of transformers 4, or are those of other families. A second model has the biases that the first has not. clef must give transformers' logits or refuse the folder; where
transformers cannot load it, or would begin new weights, nothing is compared. With CLEF_TEST_TURN=i/n each family runs unchanged, and with
every nth of the changes. Prints a line `ok` or `FAIL` for each family."""
import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import load_file, save_file
from turn import in_turn

MOST = 1e-4  # of the largest logit
V = 96
WIDE = dict(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
GROUPED = dict(WIDE, num_key_value_heads=2, max_position_embeddings=128)
STACKS = dict(vocab_size=V, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
              encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=1, decoder_start_token_id=2,
              eos_token_id=2, forced_eos_token_id=None)
LINEAR = dict(head_dim=16, num_hidden_layers=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
              linear_num_value_heads=4)
GATED_MOE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24)
T5_SIZES = dict(vocab_size=V, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0)
ROUTED = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=2, mamba_d_state=8, mamba_chunk_size=16)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16)
VISION = {"Qwen2VL": dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4),
          "Qwen3": dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4, out_hidden_size=32,
                        num_position_embeddings=16, deepstack_visual_indexes=[0]),
          "Mistral3": dict(model_type="pixtral", hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
                           head_dim=8, image_size=16, patch_size=8)}


def wrapped(**text):
    """A text model within one that also sees pictures."""
    return {"text_config": dict(GROUPED, **text)}


FAMILIES = {  # the class's name, and what its configuration is made of
    "gpt2": ("GPT2", dict(vocab_size=V, n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "gpt_bigcode": ("GPTBigCode", dict(vocab_size=V, n_positions=64, n_embd=32, n_layer=2, n_head=4)),
    "gpt_neo": ("GPTNeo", dict(vocab_size=V, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                               window_size=8, max_position_embeddings=64)),
    "mpt": ("Mpt", dict(vocab_size=V, d_model=32, n_layers=2, n_heads=4, max_seq_len=64)),
    "apertus": ("Apertus", dict(GROUPED)),
    "codegen": ("CodeGen", dict(vocab_size=V, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
    "biogpt": ("BioGpt", dict(WIDE, max_position_embeddings=64)),
    "xglm": ("XGLM", dict(vocab_size=V, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, max_position_embeddings=64)),
    "persimmon": ("Persimmon", dict(WIDE, max_position_embeddings=64)),
    "gptj": ("GPTJ", dict(vocab_size=V, n_positions=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4)),
    "llama": ("Llama", dict(GROUPED, rope_parameters=YARN)),
    "mistral": ("Mistral", dict(GROUPED, sliding_window=8)),
    "mixtral": ("Mixtral", dict(GROUPED, head_dim=8, num_local_experts=4)),
    "qwen2": ("Qwen2", dict(GROUPED, sliding_window=8, use_sliding_window=True, max_window_layers=1)),
    "qwen3": ("Qwen3", dict(GROUPED, head_dim=16)),
    "qwen3_moe": ("Qwen3Moe", dict(GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "gpt_oss": ("GptOss", dict(GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8)),
    "granite": ("Granite", dict(GROUPED, logits_scaling=2.0, attention_multiplier=0.1)),
    "smollm3": ("SmolLM3", dict(GROUPED, no_rope_layer_interval=2, pad_token_id=0)),
    "gpt_neox": ("GPTNeoX", dict(WIDE, max_position_embeddings=64)),
    "opt": ("OPT", dict(vocab_size=V, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64,
                        word_embed_proj_dim=32)),
    "bloom": ("Bloom", dict(vocab_size=V, hidden_size=32, n_layer=2, n_head=4)),
    "phi": ("Phi", dict(WIDE, max_position_embeddings=64)),
    "phi3": ("Phi3", dict(GROUPED, pad_token_id=0)),
    "stablelm": ("StableLm", dict(GROUPED)),
    "olmo2": ("Olmo2", dict(GROUPED, pad_token_id=0)),
    "starcoder2": ("Starcoder2", dict(GROUPED, sliding_window=8)),
    "cohere": ("Cohere", dict(GROUPED)),
    "gemma": ("Gemma", dict(GROUPED, head_dim=8)),
    "gemma2": ("Gemma2", dict(GROUPED, head_dim=8, sliding_window=8)),
    "gemma3": ("Gemma3Text", dict(GROUPED, head_dim=8, sliding_window=8, num_hidden_layers=3, layer_types=[
        "sliding_attention", "full_attention", "sliding_attention"])),
    "gemma3n": ("Gemma3nText", dict(GROUPED, head_dim=8, sliding_window=8, num_hidden_layers=4, layer_types=[
        "sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2, vocab_size_per_layer_input=V, hidden_size_per_layer_input=8,
        laurel_rank=4, altup_num_inputs=3, activation_sparsity_pattern=[0.8, 0.8, 0.0, 0.0])),
    "gemma4": ("Gemma4Text", dict(GROUPED, head_dim=8, global_head_dim=16, sliding_window=8, num_hidden_layers=3, layer_types=[
        "sliding_attention", "full_attention", "full_attention"], vocab_size_per_layer_input=V, hidden_size_per_layer_input=8,
        num_kv_shared_layers=0, enable_moe_block=False)),
    # two layers: with four, transformers' own float32 differs from its float64 by up to 2e-4 of the largest logit
    "qwen3_next": ("Qwen3Next", dict(GROUPED, **{**LINEAR, "num_hidden_layers": 2}, **GATED_MOE, layer_types=[
        "linear_attention", "full_attention"])),
    "qwen3_5": ("Qwen3_5Text", dict(GROUPED, **LINEAR)),
    "qwen3_5_moe": ("Qwen3_5MoeText", dict(GROUPED, **LINEAR, **GATED_MOE)),
    "mamba": ("Mamba", dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=8)),
    "falcon_mamba": ("FalconMamba", dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=8)),
    "jamba": ("Jamba", dict(GROUPED, num_hidden_layers=4, num_experts=4, attn_layer_period=3, attn_layer_offset=1, mamba_d_state=8)),
    "mamba2": ("Mamba2", dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_heads=8, head_dim=8, n_groups=2, state_size=8,
                              chunk_size=16)),
    "granitemoehybrid": ("GraniteMoeHybrid", dict(GROUPED, **MAMBA, num_local_experts=4, shared_intermediate_size=24, layer_types=[
        "mamba", "attention"])),
    "falcon_h1": ("FalconH1", dict(GROUPED, **MAMBA, mamba_d_ssm=64, head_dim=8, mamba_rms_norm=True, key_multiplier=0.7,
                                   ssm_multipliers=[0.9, 0.8, 1.1, 0.7, 1.2], mlp_multipliers=[0.8, 0.6], lm_head_multiplier=0.5)),
    "phimoe": ("Phimoe", dict(GROUPED, num_local_experts=4, pad_token_id=0)),
    "llama4": ("Llama4Text", dict(GROUPED, head_dim=8, num_local_experts=4, intermediate_size_mlp=40, num_hidden_layers=4,
                                  interleave_moe_layer_step=2, attention_chunk_size=8, floor_scale=8)),
    "mimo_v2_flash": ("MiMoV2Flash", dict(GROUPED, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=12,
                                          v_head_dim=8, num_hidden_layers=3, sliding_window=8,
                                          layer_types=["full_attention", "sliding_attention", "full_attention"])),
    "minimax": ("MiniMax", dict(GROUPED, num_hidden_layers=3, head_dim=8, block_size=8, num_local_experts=4, mlp_alpha_factor=1.2,
                                layer_types=["linear_attention", "full_attention", "linear_attention"], linear_attn_alpha_factor=1.3)),
    "diffllama": ("DiffLlama", dict(GROUPED)),
    "bamba": ("Bamba", dict(GROUPED, **MAMBA, attn_layer_indices=[1])),
    "nemotron_h": ("NemotronH", dict(GROUPED, head_dim=8, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, ssm_state_size=8,
                                     chunk_size=16, n_routed_experts=4, moe_intermediate_size=16, moe_shared_expert_intermediate_size=24,
                                     layers_block_type=["linear_attention", "moe", "full_attention", "mlp"])),
    "lfm2": ("Lfm2", dict(GROUPED, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], block_multiple_of=8)),
    "lfm2_moe": ("Lfm2Moe", dict(GROUPED, num_hidden_layers=3, layer_types=["conv", "full_attention", "conv"], num_experts=4,
                                 num_experts_per_tok=2, moe_intermediate_size=16, num_dense_layers=1)),
    "falcon": ("Falcon", dict(vocab_size=V, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                              new_decoder_architecture=True, alibi=False)),
    "deepseek_v2": ("DeepseekV2", dict(WIDE, max_position_embeddings=128, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
                                       moe_intermediate_size=16, n_shared_experts=1, kv_lora_rank=16, q_lora_rank=None, v_head_dim=8,
                                       qk_nope_head_dim=8, qk_rope_head_dim=8, first_k_dense_replace=1, topk_group=1)),
    "qwen2_moe": ("Qwen2Moe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                   shared_expert_intermediate_size=24)),
    "arcee": ("Arcee", dict(GROUPED)),
    "nemotron": ("Nemotron", dict(GROUPED)),
    "seed_oss": ("SeedOss", dict(GROUPED, head_dim=16)),
    "ernie4_5": ("Ernie4_5", dict(GROUPED, head_dim=16)),
    "helium": ("Helium", dict(GROUPED, head_dim=8)),
    "hunyuan_v1_dense": ("HunYuanDenseV1", dict(GROUPED, head_dim=16)),
    "glm": ("Glm", dict(GROUPED, head_dim=16, pad_token_id=0)),
    "glm4": ("Glm4", dict(GROUPED, head_dim=16, pad_token_id=0)),
    "exaone4": ("Exaone4", dict(GROUPED, head_dim=16, num_hidden_layers=4, sliding_window=8)),
    "granitemoe": ("GraniteMoe", dict(GROUPED, logits_scaling=2.0, attention_multiplier=0.1, num_local_experts=4)),
    "granitemoeshared": ("GraniteMoeShared", dict(GROUPED, num_local_experts=4, shared_intermediate_size=24)),
    "vaultgemma": ("VaultGemma", dict(GROUPED, head_dim=8, sliding_window=8)),
    "olmo": ("Olmo", dict(GROUPED, clip_qkv=1.0, pad_token_id=0)),
    "olmo3": ("Olmo3", dict(GROUPED, sliding_window=8, num_hidden_layers=4, pad_token_id=0)),
    "olmoe": ("Olmoe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, pad_token_id=0)),
    "cohere2": ("Cohere2", dict(GROUPED, sliding_window=8, num_hidden_layers=4)),
    "deepseek_v3": ("DeepseekV3", dict(WIDE, num_key_value_heads=4, max_position_embeddings=128, n_routed_experts=4, num_experts_per_tok=2, n_group=2,
                                       moe_intermediate_size=16, n_shared_experts=1, kv_lora_rank=16, q_lora_rank=None, v_head_dim=8,
                                       qk_nope_head_dim=8, qk_rope_head_dim=8, first_k_dense_replace=1, topk_group=1)),
    "glm4_moe_lite": ("Glm4MoeLite", dict(WIDE, num_key_value_heads=4, max_position_embeddings=128, n_routed_experts=4,
                                          num_experts_per_tok=2, moe_intermediate_size=16, kv_lora_rank=16, q_lora_rank=12,
                                          v_head_dim=8, qk_nope_head_dim=8, qk_rope_head_dim=8)),
    "minicpm3": ("MiniCPM3", dict(WIDE, num_key_value_heads=4, max_position_embeddings=128, kv_lora_rank=16, q_lora_rank=12,
                                  v_head_dim=8, qk_nope_head_dim=8, qk_rope_head_dim=8, dim_model_base=16)),
    "glm4_moe": ("Glm4Moe", dict(GROUPED, **ROUTED, head_dim=16, use_qk_norm=True)),
    "solar_open": ("SolarOpen", dict(GROUPED, **ROUTED, head_dim=16)),
    "dots1": ("Dots1", dict(GROUPED, **ROUTED, head_dim=16)),
    "minimax_m2": ("MiniMaxM2", dict(GROUPED, head_dim=16, num_local_experts=4, num_experts_per_tok=2)),
    "afmoe": ("Afmoe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=16, sliding_window=8,
                            num_hidden_layers=4, num_shared_experts=1)),
    "hunyuan_v1_moe": ("HunYuanMoEV1", dict(GROUPED, num_experts=4, moe_topk=2, head_dim=16)),
    "hy_v3": ("HYV3", dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=16)),
    "ernie4_5_moe": ("Ernie4_5_Moe", dict(GROUPED, moe_num_experts=4, moe_k=2, moe_intermediate_size=16)),
    "exaone_moe": ("ExaoneMoe", dict(GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, head_dim=16,
                                     sliding_window=8, num_hidden_layers=4)),
    "ministral3": ("Mistral3", wrapped(model_type="ministral3", head_dim=8, rope_parameters=dict(
        YARN, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1, max_position_embeddings=128))),
    "qwen2_vl": ("Qwen2VL", wrapped(rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[2, 1, 1]))),
    "qwen3_vl": ("Qwen3VL", wrapped(head_dim=16, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 2, 2]))),
    "qwen3_vl_moe": ("Qwen3VLMoe", wrapped(
        head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
        rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=[4, 2, 2]))),
    "bert": ("Bert", dict(WIDE, max_position_embeddings=64)),
    "roberta": ("Roberta", dict(WIDE, max_position_embeddings=66)),
    "electra": ("Electra", dict(WIDE, max_position_embeddings=64, embedding_size=16)),
    "mpnet": ("MPNet", dict(WIDE, max_position_embeddings=66)),
    "albert": ("Albert", dict(WIDE, max_position_embeddings=64, embedding_size=16)),
    "deberta_v2": ("DebertaV2", dict(WIDE, max_position_embeddings=64, relative_attention=True, position_buckets=8, share_att_key=True,
                                     pos_att_type=["p2c", "c2p"], norm_rel_ebd="layer_norm", position_biased_input=False)),
    "modernbert": ("ModernBert", dict(WIDE, max_position_embeddings=64, local_attention=8, pad_token_id=0)),
    "bart": ("Bart", dict(STACKS)),
    "mbart": ("MBart", dict(STACKS)),
    "m2m_100": ("M2M100", dict(STACKS)),
    "pegasus": ("Pegasus", dict(STACKS)),
    "blenderbot": ("Blenderbot", dict(STACKS)),
    "blenderbot_small": ("BlenderbotSmall", dict(STACKS)),
    "eurobert": ("EuroBert", dict(GROUPED, pad_token_id=0, mask_token_id=4)),
    "gte": ("Gte", dict(WIDE, max_position_embeddings=64)),
    "jina_embeddings_v3": ("JinaEmbeddingsV3", dict(WIDE, max_position_embeddings=64)),
    "roformer": ("RoFormer", dict(WIDE, max_position_embeddings=64, embedding_size=16)),
    "mt5": ("MT5", dict(T5_SIZES)),
    "umt5": ("UMT5", dict(T5_SIZES)),
    "t5": ("T5", dict(T5_SIZES)),
}
KINDS = {"Bert": "MaskedLM", "Bart": "Seq2SeqLM", "M2M100": "Seq2SeqLM", "T5": "Seq2SeqLM", "Roberta": "MaskedLM",
         "Electra": "MaskedLM", "MPNet": "MaskedLM", "DebertaV2": "MaskedLM", "Albert": "MaskedLM", "ModernBert": "MaskedLM", "MBart": "Seq2SeqLM",
         "Mistral3": "ImageTextToText", "Pegasus": "Seq2SeqLM", "Blenderbot": "Seq2SeqLM", "BlenderbotSmall": "Seq2SeqLM", "MT5": "Seq2SeqLM",
         "UMT5": "Seq2SeqLM", "EuroBert": "MaskedLM", "Gte": "MaskedLM", "JinaEmbeddingsV3": "MaskedLM", "RoFormer": "MaskedLM",
         "Qwen2VL": "ImageTextToText", "Qwen3VL": "ImageTextToText", "Qwen3VLMoe": "ImageTextToText"}
FIXED = ("use_expert_bias",)  # always true: clef refuses other models by name
ACTIVATIONS = ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "quick_gelu"]
SCALINGS = [dict(factor=2.0, rope_type="linear"), dict(factor=2.0, rope_type="dynamic"), YARN, dict(YARN, truncate=False),
            dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
            dict(rope_type="yarn", factor=None), dict(rope_type="foo")]


def spread(model):
    """Weights so wide that a wrong scale or mask shows in the logits."""
    with torch.no_grad():
        for name, w in model.named_parameters():
            if w.requires_grad and w.dim() > 1:
                w.normal_(0, 1.6 / w.shape[-1] ** 0.5)
            elif w.requires_grad:
                w.add_(torch.randn_like(w) * 0.1)
    return model.float().eval()


def others(value):
    """Other values of the same kind, and one of another."""
    if isinstance(value, bool):
        return [not value, 1]
    if isinstance(value, int):
        return [value + 1, value * 2, 0, 7, str(value)]  # 7 is among the inputs, too
    if isinstance(value, float):
        return [value * 2, value / 3 or 0.5, str(value)]
    if isinstance(value, str):
        return ACTIVATIONS if value in ACTIVATIONS else [value + "x", 3]
    if isinstance(value, list):
        return [value[:-1], value[::-1], ["full_attention"] * len(value)]
    return [1, True, 0.5, 8]


def mutate(config, foreign, rnd):
    """A changed copy, and how it was changed."""
    c = copy.deepcopy(config)
    if "text_config" in c:
        c["text_config"], change = mutate(c["text_config"], foreign, rnd)
        return c, change
    how, rope = rnd.randrange(6), c.get("rope_parameters")
    key = rnd.choice([k for k in c if k not in ("model_type", "architectures")])
    if how == 0:
        del c[key]
        return c, f"without {key}"
    if how == 1:
        c[key] = None
        return c, f"{key} null"
    if how == 2:
        c[key] = rnd.choice(others(c[key]))
        return c, f"{key} = {c[key]}"
    if how == 3 and isinstance(rope, dict):
        inner = rnd.choice([r for r in rope.values() if isinstance(r, dict)] or [rope])
        inner.update(rnd.choice(SCALINGS + [{"partial_rotary_factor": 0.5}, {"rope_theta": 777.0}, {"zzz": 1}]))
        return c, f"rope_parameters {rope}"
    if how == 4 and isinstance(rope, dict):  # as transformers 4 writes it
        del c["rope_parameters"]
        full = rope.get("full_attention", rope)
        c["rope_theta"] = rnd.choice([full["rope_theta"], 5000.0])
        c["rope_local_base_freq"] = rope.get("sliding_attention", {}).get("rope_theta")
        c["rope_scaling"] = rnd.choice([None, *SCALINGS])
        if rnd.random() < 0.5 and "layer_types" in c:
            del c["layer_types"]
            c["sliding_window_pattern"] = rnd.choice([2, 3])
        return c, f"rope_scaling {c['rope_scaling']}, layer_types {c.get('layer_types')}"
    key = rnd.choice(sorted(foreign))
    c[key] = rnd.choice([foreign[key], *others(foreign[key])])
    return c, f"{key} = {c[key]}, another family's"


def reference(auto, folder, inputs, dtype=torch.float32):
    """transformers' logits, or why there are none."""
    try:
        model, info = auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
        if info["missing_keys"] or info["mismatched_keys"]:
            return "new weights"
        with torch.no_grad():
            return model.eval()(**{k: torch.from_numpy(v).long() for k, v in inputs.items()}).logits.numpy()
    except Exception as e:  # of any class: the folder is wrong
        return str(e)


def clef_logits(clef, folder, given):
    """clef's logits; None: refused, or an encoder whose head is not whole."""
    out = os.path.join(folder, "out.npy.safetensors")
    done = subprocess.run([clef, "eval", folder, "--in", given, "--out", out, "-q", "--no-tune"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"clef exits with {done.returncode}: {done.stderr}")
    return load_file(out).get("logits") if done.returncode == 0 else None


def flipped_biases(config):
    """The keys that say which biases there are, each the other way."""
    own = getattr(config, "text_config", None) or config
    return {k: not v for k, v in own.to_dict().items() if "bias" in k and isinstance(v, bool) and k not in FIXED}


def compare(clef, auto, folder, given, inputs):
    """The relative error of clef's logits; None where clef refuses the folder; or why transformers has none. Errors of rounding grow in
    models of random weights, so where float32 differs by more than MOST, float64 decides: transformers may have the larger error."""
    wanted, got = reference(auto, folder, inputs), clef_logits(clef, folder, given)
    if got is None or isinstance(wanted, str) or not np.isfinite(wanted).all():
        return None if got is None else str(wanted)
    error = np.abs(wanted - got).max() / np.abs(wanted).max()
    if error > MOST:
        with torch.random.fork_rng():
            exact = reference(auto, folder, inputs, torch.float64)
        if not isinstance(exact, str):
            error = np.abs(exact - got).max() / np.abs(exact).max()
    return error


def check_family(clef, name, n, seed, foreign, root):
    model_class, sizes = FAMILIES[name]
    auto = getattr(hf, "AutoModelFor" + KINDS.get(model_class, "CausalLM"))
    torch.manual_seed(seed)
    if "text_config" in sizes:
        vision = next(v for k, v in VISION.items() if model_class.startswith(k))
        sizes = dict(sizes, vision_config=vision, tie_word_embeddings=False)
    rnd, folder, bad, same = random.Random(f"{name}{seed}"), os.path.join(root, name), [], 0
    n_run = 0
    numbers = np.random.default_rng(seed)
    inputs = {"input_ids": numbers.integers(5, V, (2, 32), dtype=np.int32)}
    if auto is hf.AutoModelForSeq2SeqLM:
        inputs["decoder_input_ids"] = numbers.integers(5, V, (2, 12), dtype=np.int32)
    given = os.path.join(root, "in.safetensors")
    save_file(inputs, given)
    of_class = getattr(hf, model_class + "Config")(**sizes)
    biases = flipped_biases(of_class)
    spread(auto.from_config(of_class)).save_pretrained(folder)
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    first = [(config, "nothing")] + [(dict(config, **{k: not v}), f"own {k} = {not v}") for k, v in config.items() if isinstance(v, bool)]
    for i in range(n):
        changed, how = first[i] if i < len(first) else mutate(config, foreign, rnd)
        if i > 0 and not in_turn(i, n):
            continue
        n_run += 1
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(changed, file)
        error = compare(clef, auto, folder, given, inputs)
        if error is None or isinstance(error, str):
            if i == 0:
                bad.append(f"{how}: {error or 'clef refuses it'}")
            continue
        same += error <= MOST
        if not error <= MOST:
            bad.append(f"{how}: relative error {error:.1e}")
    if biases:
        for key, value in biases.items():
            setattr(getattr(of_class, "text_config", None) or of_class, key, value)
        spread(auto.from_config(of_class)).save_pretrained(folder)
        error = compare(clef, auto, folder, given, inputs)
        is_right = error is not None and not isinstance(error, str) and error <= MOST
        n_run += 1
        same += is_right
        if not is_right:
            bad.append(f"a model with {biases}: {error or 'clef refuses it'}")
    print(f"{'FAIL' if bad else 'ok'} {name}: {same} of {n_run} have transformers' logits, {len(bad)} others: {'; '.join(bad)}", flush=True)
    return bool(bad)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("clef")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", default="1/1", help="every Nth family, from the Kth")
    a = parser.parse_args()
    part, parts = map(int, a.part.split("/"))
    hf.logging.set_verbosity(50)
    hf.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    foreign = {"clip_qkv": 2.0, "logit_scale": 0.5, "is_causal": False, "attention_bias": True, "mlp_bias": True, "head_dim": 16,
               "partial_rotary_factor": 0.5, "use_bidirectional_attention": True, "scale_attn_weights": False, "zzz": 1}
    for model_class, sizes in FAMILIES.values():
        if "text_config" in sizes:
            continue
        foreign.update({k: v for k, v in getattr(hf, model_class + "Config")(**sizes).to_dict().items() if v is not None})
    for key in ("model_type", "architectures", "transformers_version", "dtype", "rope_parameters", "vocab_size"):
        foreign.pop(key, None)
    with tempfile.TemporaryDirectory() as root:
        return sum([check_family(a.clef, f, a.n, a.seed, foreign, root)
                    for f in (a.families or list(FAMILIES))[part - 1::parts]]) > 0


if __name__ == "__main__":
    sys.exit(main())
