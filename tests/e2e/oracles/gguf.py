"""Compares what clef and llama.cpp write and read as GGUF. usage: gguf.py CLEF CONVERTER FOLDER [FAMILY...]

Makes a tiny random model of each family in FOLDER. CONVERTER is llama.cpp's convert_hf_to_gguf.py. Prints a row for each family: the
relative error of clef's outputs beside its own for the folder, for
  others   the file of llama.cpp's converter
  own      clef's file
  bare     clef's file without clef's own keys
and whether the four give the same greedy tokens. Where the module llama_cpp is there, also llama.cpp's outputs for clef's file beside
those for the converter's, and beside clef's (llama). Where a model has GELU, they are compared with transformers' with llama.cpp's GELU, too,
which is a table from f16 to f16. With CLEF_TEST_TURN=i/n every nth family runs."""
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import sentencepiece
import tokenizers as tk
import torch
import transformers as hf
from safetensors.numpy import load_file, save_file
from turn import in_turn

clef, converter, folder, *wanted = sys.argv[1:]
vendor = os.path.dirname(os.path.abspath(converter))
sys.path[:0] = [vendor, vendor + "/gguf-py"]
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion import base  # noqa: E402

logging.disable(logging.WARNING)
hf.logging.set_verbosity_error()
V, MOST, N = 320, 1e-5, 40
TEXT = Path(__file__).resolve().parents[3].joinpath("docs/ARCHITECTURE.md").read_text(encoding="utf-8")
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LONG = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1 + 0.1 * i for i in range(8)],
        "long_factor": [1 + 0.5 * i for i in range(8)], "original_max_position_embeddings": 64}


def sizes(**more):
    return {"vocab_size": V, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, **more}


def encoder(**more):
    return {"vocab_size": V, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
            "max_position_embeddings": 130, **more}


def rope(kind, **more):
    return sizes(rope_parameters={"rope_theta": 10000.0, "rope_type": kind, **more})


T5 = {"vocab_size": V, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}
MOE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 48}
LINEAR = {"num_hidden_layers": 4, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 6, "linear_key_head_dim": 16,
          "linear_value_head_dim": 16, "shared_expert_intermediate_size": 40}
MAMBA = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_chunk_size": 16}
# name: (class, configuration, tokenizer)
FAMILIES = {
    "gpt2": ("GPT2LMHead", {"vocab_size": V, "n_positions": 128, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_ctx": 128}, "bpe"),
    "llama": ("LlamaForCausalLM", sizes(tie_word_embeddings=True), "sp"),
    "llama-linear": ("LlamaForCausalLM", rope("linear", factor=2.0), "sp"),
    "llama-yarn": ("LlamaForCausalLM", sizes(rope_parameters=YARN), "sp"),
    "llama-yarn-factor": ("LlamaForCausalLM", sizes(rope_parameters={**YARN, "attention_factor": 1.5}), "sp"),
    "llama3": ("LlamaForCausalLM", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                        original_max_position_embeddings=64), "sp"),
    "mistral": ("MistralForCausalLM", sizes(sliding_window=None), "sp"),
    "mixtral": ("MixtralForCausalLM", sizes(**MOE), "sp"),
    "qwen2": ("Qwen2ForCausalLM", sizes(), "bpe"),
    "qwen3": ("Qwen3ForCausalLM", sizes(head_dim=32), "bpe"),
    "qwen3-yarn": ("Qwen3ForCausalLM", sizes(head_dim=16, rope_parameters=YARN), "bpe"),
    "qwen3moe": ("Qwen3MoeForCausalLM", sizes(head_dim=16, norm_topk_prob=True, **MOE), "bpe"),
    "qwen3next": ("Qwen3NextForCausalLM", sizes(**LINEAR, **MOE), "bpe"),
    "qwen35": ("Qwen3_5ForCausalLM", sizes(**LINEAR), "bpe"),
    "qwen35moe": ("Qwen3_5MoeForCausalLM", sizes(**LINEAR, **MOE), "bpe"),
    "mamba": ("MambaForCausalLM", {"vocab_size": V, "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "bos_token_id": 1,
                                   "eos_token_id": 2}, "bpe"),
    "jamba": ("JambaForCausalLM", sizes(num_hidden_layers=4, num_experts=4, attn_layer_period=4, attn_layer_offset=2), "sp"),
    "mamba2": ("Mamba2ForCausalLM", {"vocab_size": V, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 8, "head_dim": 16,
                                     "n_groups": 2, "state_size": 16, "chunk_size": 16, "bos_token_id": 1, "eos_token_id": 2}, "bpe"),
    "granitehybrid": ("GraniteMoeHybridForCausalLM", sizes(
        **MAMBA, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=48, embedding_multiplier=12.0,
        attention_multiplier=0.02, residual_multiplier=0.22, logits_scaling=8.0, layer_types=["mamba", "attention"]), "bpe"),
    "falcon-h1": ("FalconH1ForCausalLM", sizes(
        **MAMBA, mamba_d_ssm=128, head_dim=16, mamba_rms_norm=True, mamba_norm_before_gate=False, key_multiplier=0.7,
        attention_in_multiplier=1.1, attention_out_multiplier=0.9, embedding_multiplier=2.0, lm_head_multiplier=0.5, ssm_in_multiplier=1.2,
        ssm_out_multiplier=0.6, ssm_multipliers=[0.9, 0.8, 1.1, 0.7, 1.2], mlp_multipliers=[0.8, 0.6]), "bpe"),
    "llama4": ("Llama4ForCausalLM", sizes(head_dim=16, intermediate_size_mlp=80, num_hidden_layers=4, interleave_moe_layer_step=2,
                                          num_local_experts=4, num_experts_per_tok=1), "bpe"),
    "nemotron_h_moe": ("NemotronHForCausalLM", sizes(
        head_dim=16, mamba_num_heads=8, mamba_head_dim=16, n_groups=2, ssm_state_size=16, chunk_size=16, n_routed_experts=4,
        moe_intermediate_size=48, moe_shared_expert_intermediate_size=40, layers_block_type=[
            "linear_attention", "moe", "full_attention", "moe"]), "bpe"),
    "lfm2": ("Lfm2ForCausalLM", sizes(layer_types=["conv", "full_attention"], block_multiple_of=16), "bpe"),
    "lfm2moe": ("Lfm2MoeForCausalLM", sizes(layer_types=["conv", "full_attention"], num_dense_layers=1, **MOE), "bpe"),
    "gpt-oss": ("GptOssForCausalLM", sizes(head_dim=16, sliding_window=16, num_hidden_layers=4,
                                           rope_parameters={**YARN, "truncate": False}, **MOE), "bpe"),
    "deepseek2": ("DeepseekV2ForCausalLM", sizes(
        num_hidden_layers=3, num_key_value_heads=4, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2,
        moe_intermediate_size=48, kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, head_dim=8,
        first_k_dense_replace=1), "bpe"),
    "granite": ("GraniteForCausalLM", sizes(embedding_multiplier=12.0, attention_multiplier=0.02, residual_multiplier=0.22,
                                            logits_scaling=8.0), "bpe"),
    "granite4-dense": ("GraniteMoeHybridForCausalLM", sizes(
        num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=96, layer_types=["attention"] * 2,
        position_embedding_type="rope", mamba_n_heads=8, mamba_d_head=16, attention_multiplier=0.1, logits_scaling=4.0), "bpe"),
    "smollm3": ("SmolLM3ForCausalLM", sizes(num_hidden_layers=4), "bpe"),
    "gptneox": ("GPTNeoXForCausalLM", {**encoder(), "rotary_pct": 0.25, "use_parallel_residual": True}, "bpe"),
    "bloom": ("BloomForCausalLM", {"vocab_size": V, "hidden_size": 64, "n_layer": 2, "n_head": 4, "seq_length": 256}, "bpe"),
    "falcon": ("FalconForCausalLM", {"vocab_size": V, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                                     "new_decoder_architecture": True, "num_kv_heads": 2, "alibi": False, "bias": False}, "bpe"),
    "phi": ("PhiForCausalLM", sizes(intermediate_size=256, num_key_value_heads=4), "bpe"),
    "phi3": ("Phi3ForCausalLM", sizes(), "sp"),
    "phi3-longrope": ("Phi3ForCausalLM", sizes(rope_parameters=LONG, original_max_position_embeddings=64), "sp"),
    "stablelm": ("StableLmForCausalLM", sizes(use_qkv_bias=True), "bpe"),
    "olmo2": ("Olmo2ForCausalLM", sizes(), "bpe"),
    "olmo3": ("Olmo3ForCausalLM", sizes(num_hidden_layers=4, sliding_window=16), "bpe"),
    "arcee": ("ArceeForCausalLM", sizes(), "sp"),
    "seed_oss": ("SeedOssForCausalLM", sizes(head_dim=16), "bpe"),
    "ernie4_5": ("Ernie4_5ForCausalLM", sizes(head_dim=16), "sp"),
    "nemotron": ("NemotronForCausalLM", sizes(), "sp"),
    "apertus": ("ApertusForCausalLM", sizes(), "bpe"),
    "deepseek3": ("DeepseekV3ForCausalLM", sizes(
        num_hidden_layers=3, num_key_value_heads=4, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, n_group=4, topk_group=2,
        moe_intermediate_size=48, kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=16, head_dim=8,
        first_k_dense_replace=1), "bpe"),
    "granitemoe": ("GraniteMoeForCausalLM", sizes(num_local_experts=4, num_experts_per_tok=2), "bpe"),
    "qwen2moe": ("Qwen2MoeForCausalLM", sizes(shared_expert_intermediate_size=40, **MOE), "bpe"),
    "hunyuan": ("HunYuanDenseV1ForCausalLM", sizes(head_dim=16), "bpe"),
    "starcoder2": ("Starcoder2ForCausalLM", sizes(use_bias=True, sliding_window=None), "bpe"),
    "cohere": ("CohereForCausalLM", sizes(logit_scale=0.0625), "bpe"),
    "gemma": ("GemmaForCausalLM", sizes(head_dim=24), "sp"),
    "gemma2": ("Gemma2ForCausalLM", sizes(head_dim=24, query_pre_attn_scalar=24, sliding_window=16, num_hidden_layers=4), "sp"),
    "gemma3": ("Gemma3ForCausalLM", sizes(head_dim=32, query_pre_attn_scalar=32, sliding_window=16, num_hidden_layers=7), "sp"),
    "gemma3n": ("Gemma3nForCausalLM", sizes(
        head_dim=16, sliding_window=16, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2,
        vocab_size_per_layer_input=V, hidden_size_per_layer_input=16, laurel_rank=64, altup_num_inputs=4,
        activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0]), "sp"),
    "gemma4": ("Gemma4ForCausalLM", sizes(
        head_dim=16, global_head_dim=32, sliding_window=16, num_hidden_layers=6, vocab_size_per_layer_input=V,
        hidden_size_per_layer_input=16, num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 3), "bytes"),
    "bert": ("BertModel", encoder(), "wordpiece"),
    "bert-3-types": ("BertModel", encoder(type_vocab_size=3), "wordpiece"),
    "roberta": ("RobertaModel", encoder(type_vocab_size=1, pad_token_id=1), "bpe"),
    "xlm-roberta": ("XLMRobertaModel", encoder(type_vocab_size=1, pad_token_id=1), "xlmr"),
    "distilbert": ("DistilBertModel", {"vocab_size": V, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128,
                                       "max_position_embeddings": 128}, "wordpiece"),
    "t5": ("T5ForConditionalGeneration", T5, "t5"),
    "t5-gated": ("T5ForConditionalGeneration", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, "t5"),
}
MOST_GELU = 5e-4  # where rounding to f16 meets another last bit of f32: also between the same GELU in f32 and in f64
MOST_OTHER_GELU = 2e-3  # clef computes GELU in f32
MOST_LINEAR = 3e-5  # linear attention in f32: clef's, llama.cpp's and PyTorch's are each up to 2e-5 from PyTorch's in f64
N_PROMPT, N_GREEDY = 8, 64
# llama.cpp does not divide the logits of T5, where rounding grows most; rounds the limits of YaRN's ramp where gpt-oss does not; has a
# context of at least 256 positions, for which longrope has its other list; has no least step in the scan of Nemotron-H
NOT_AS_CLEF = {"t5", "t5-gated", "gpt-oss", "phi3-longrope", "nemotron_h_moe"}
NOT_OPENED = {"gemma3n"}  # llama.cpp expects 256 inputs a layer, and layers that share keys and values from the 20th on
# the converter writes the factor under a key that llama.cpp does not read; no key where nothing is capped, which llama.cpp caps at 30; and
# none for sigmoids as scores of experts, which llama.cpp takes for a softmax
OTHERS_DIFFER = {"llama-yarn-factor", "gemma4", "deepseek3"}


def spread(model):
    with torch.no_grad():
        for name, w in model.named_parameters():
            if w.dim() >= 2:
                w.normal_(0, 1.6 / w.shape[-1] ** 0.5)
            elif "norm" in name.lower() or "ln" in name.lower():
                w.add_(torch.randn_like(w) * 0.1)
            else:
                w.copy_(torch.randn_like(w) * 0.1)
    return model.float().eval()


# ---- tokenizers: the converter needs one

def fast(to, model, trainer, special, **parts):
    t = tk.Tokenizer(model)
    for part, value in parts.items():
        setattr(t, part, value)
    t.train_from_iterator([TEXT], trainer)
    hf.PreTrainedTokenizerFast(tokenizer_object=t, **special).save_pretrained(to)


MARKS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>"}
BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}


def bpe(to):
    fast(to, tk.models.BPE(), tk.trainers.BpeTrainer(vocab_size=V, show_progress=False, special_tokens=list(MARKS.values()),
                                                     initial_alphabet=tk.pre_tokenizers.ByteLevel.alphabet()), MARKS,
         pre_tokenizer=tk.pre_tokenizers.ByteLevel(add_prefix_space=False), decoder=tk.decoders.ByteLevel())


def bytes_bpe(to):
    names = list(MARKS.values()) + [f"<0x{i:02X}>" for i in range(256)]
    fast(to, tk.models.BPE(byte_fallback=True, unk_token="<unk>"),
         tk.trainers.BpeTrainer(vocab_size=V, show_progress=False, special_tokens=names, limit_alphabet=20), MARKS,
         normalizer=tk.normalizers.Replace(" ", "\u2581"),
         decoder=tk.decoders.Sequence([tk.decoders.Replace("\u2581", " "), tk.decoders.ByteFallback(), tk.decoders.Fuse()]))


def wordpiece(to):
    fast(to, tk.models.WordPiece(unk_token="[UNK]"), tk.trainers.WordPieceTrainer(
        vocab_size=V, show_progress=False, special_tokens=list(BERT.values()), limit_alphabet=60), BERT,
         normalizer=tk.normalizers.BertNormalizer(), pre_tokenizer=tk.pre_tokenizers.BertPreTokenizer(),
         post_processor=tk.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2)))


def sentence(to, file, kind, size, **more):
    text = os.path.join(to, "text.txt")
    Path(text).write_text(TEXT, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=to + "/sp", vocab_size=size, model_type=kind, minloglevel=2,
                                             hard_vocab_limit=False, character_coverage=0.99, **more)
    os.rename(to + "/sp.model", os.path.join(to, file))


TOKENIZERS = {
    "bpe": bpe, "bytes": bytes_bpe, "wordpiece": wordpiece,
    # llama.cpp expects this token of models with Phi-3 in their names
    "sp": lambda to: sentence(to, "tokenizer.model", "bpe", V, byte_fallback=True, user_defined_symbols=["<|endoftext|>"]),
    "xlmr": lambda to: sentence(to, "sentencepiece.bpe.model", "unigram", V - 2),
    "t5": lambda to: sentence(to, "spiece.model", "unigram", V, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)}
base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"  # the tokenizers are none that it knows


# ---- models

def make(name, cls, config, tokenizer, seed):
    to = os.path.join(folder, name)
    torch.manual_seed(seed)
    kind = getattr(hf, cls + "Model" if cls.endswith("LMHead") else cls)
    config = kind.config_class(**config)
    model = spread(kind._from_config(config, attn_implementation="eager"))
    model.save_pretrained(to)
    TOKENIZERS[tokenizer](to)
    return to, model


def convert_as_others(name, to, config):
    """llama.cpp's converter, in this process, since it has no flag for these tokenizers."""
    hp = {**base.ModelBase.load_hparams(Path(to), False), **{k: v for k, v in config.items() if k in ("n_ctx", "rotary_pct",
                                                                                                  "use_parallel_residual")}}
    if "layer_types" in hp and "Granite" in hp["architectures"][0]:  # the converter knows the names of transformers 4
        hp["layer_types"] = [t.replace("full_attention", "attention") for t in hp["layer_types"]]
    out = f"{to}.others.gguf"
    cls = conversion.get_model_class(hp["architectures"][0])
    cls.no_mtp = True  # the models have no layers that predict further tokens
    with torch.inference_mode():
        cls(Path(to), gguf.LlamaFileType.ALL_F32, Path(out), use_temp_file=False, eager=True, hparams=hp).write()
    return out


def drop_own_keys(path, to):
    r = gguf.GGUFReader(path)
    w = gguf.GGUFWriter(to, r.fields["general.architecture"].contents())
    for key, f in r.fields.items():
        if not key.startswith(("GGUF.", "libclef.")) and key != "general.architecture":
            w.add_key_value(key, f.contents(), f.types[0], f.types[-1] if f.types[0] == gguf.GGUFValueType.ARRAY else None)
    for t in r.tensors:
        w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- outputs

def by_clef(model, inputs, output):
    with tempfile.TemporaryDirectory() as t:
        save_file(inputs, t + "/in.safetensors")
        r = subprocess.run([clef, "eval", model, "--in", t + "/in.safetensors", "--out", t + "/out.safetensors", "-q", "--no-tune",
                            *(["--tap", output] if output != "logits" else [])], capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError(r.stderr.strip().splitlines()[-1][-160:])
        return load_file(t + "/out.safetensors")[output]


def by_llama(model, inputs, output):
    with tempfile.TemporaryDirectory() as t:
        np.savez(t + "/in.npz", **inputs)
        r = subprocess.run([sys.executable, str(Path(__file__).with_name("llama_logits.py")), model, t + "/in.npz", t + "/out.npy", output],
                           capture_output=True, text=True)
        if r.returncode:
            raise RuntimeError((r.stderr.strip() or "llama.cpp failed").splitlines()[-1][-160:])
        return np.load(t + "/out.npy")


def llama_gelu(x):
    """Of llama.cpp's CPU backend: GGML_GELU_FP16 in ggml-cpu/vec.h."""
    y = torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()
    return torch.where(x <= -10, torch.zeros_like(x), torch.where(x >= 10, x, y))


class LlamaGelu(torch.nn.Module):
    def forward(self, x):
        return llama_gelu(x)


def by_transformers(model, inputs, output):
    """None where the model has no GELU."""
    found = [(m, name) for m in model.modules() for name, part in m.named_children() if "gelu" in type(part).__name__.lower()]
    for m, name in found:
        setattr(m, name, LlamaGelu())
    if not found:
        return None
    with torch.no_grad():
        out = model(**{k: torch.from_numpy(v).long() for k, v in inputs.items()})
    return (out.logits if output == "logits" else out.last_hidden_state).numpy()


def greedy(model, ids):
    r = subprocess.run([clef, "run", model, "--ids", ",".join(map(str, ids)), "-n", str(N_GREEDY), "--temp", "0", "--ignore-eos",
                        "--print-ids", "--kv-type", "f32", "--no-tune", "-q"], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip().splitlines()[-1][-160:])
    return [int(x) for x in r.stdout.split(",")]


def same_greedy(to, ids, has_llama):
    """Whether all files give the folder's tokens; those of llama.cpp differ first where its two best logits are as near as it is to clef."""
    sampled = greedy(to, ids)
    if any(greedy(f"{to}.{kind}.gguf", ids) != sampled for kind in ("others", "own", "bare")):
        return "differs", False
    if not has_llama:
        return "same", True
    inputs = {"input_ids": np.array([ids + sampled[:-1]], np.int32)}
    mine, theirs = (f(to + ".own.gguf", inputs, "logits")[0, len(ids) - 1:] for f in (by_clef, by_llama))
    n = next((i for i in range(N_GREEDY) if theirs[i].argmax() != sampled[i]), N_GREEDY)
    if n == N_GREEDY:
        return "same", True
    gap, far = theirs[n].max() - theirs[n][sampled[n]], np.abs(mine[n] - theirs[n]).max()
    return f"{n} as llama.cpp, its next two are {gap:.0e} apart, clef is {far:.0e} away", gap <= 2 * far


def error(a, b):
    return float("nan") if a.shape != b.shape else float(np.abs(a - b).max() / np.abs(a).max())


def row(name, seed):
    cls, config, tokenizer = FAMILIES[name]
    to, model = make(name, cls, config, tokenizer, seed)
    output = "hidden_last" if cls.endswith("BertModel") or cls.endswith("RobertaModel") else "logits"
    inputs = {"input_ids": np.random.default_rng(seed).integers(5, V, (1, N), dtype=np.int32)}
    if "Conditional" in cls:
        inputs["decoder_input_ids"] = np.concatenate([[[0]], inputs["input_ids"][:, :12]], 1).astype(np.int32)
    wanted = by_clef(to, inputs, output)
    cells, good = {}, True
    subprocess.run([clef, "convert", to, to + ".own.gguf", "-q"], check=True)
    drop_own_keys(to + ".own.gguf", to + ".bare.gguf")
    convert_as_others(name, to, config)
    for kind in ("others", "own", "bare"):
        try:
            e = error(wanted, by_clef(f"{to}.{kind}.gguf", inputs, output))
            cells[kind], good = f"{e:.0e}", good and e <= MOST
        except RuntimeError as problem:
            cells[kind], good = str(problem), False
    has_llama = HAS_LLAMA and name not in NOT_OPENED
    if has_llama:
        try:
            own, others = by_llama(to + ".own.gguf", inputs, output), by_llama(to + ".others.gguf", inputs, output)
            near, most = error(wanted, own), MOST_LINEAR if "linear_num_key_heads" in config else MOST
            cells["llama"] = f"{error(others, own):.0e}, beside clef {near:.0e}"
            with_gelu = by_transformers(model, inputs, output)
            if with_gelu is not None:
                good = good and (name in NOT_AS_CLEF or near <= MOST_OTHER_GELU)
                near, most = error(with_gelu, own), MOST_GELU
                cells["llama"] += f", beside its GELU {near:.0e}"
            good = good and (name in NOT_AS_CLEF or near <= most)
            good = good and (name in OTHERS_DIFFER or error(others, own) <= MOST)
        except RuntimeError as problem:
            cells["llama"] = str(problem)
            good = False
    if output == "logits":
        try:
            cells["greedy"], fine = same_greedy(to, inputs["input_ids"][0, :N_PROMPT].tolist(), has_llama and "Conditional" not in cls)
            good = good and (fine or name in NOT_AS_CLEF)
        except RuntimeError as problem:
            cells["greedy"], good = str(problem), False
    print(f"{'ok  ' if good else 'FAIL'} {name:18} " + "  ".join(f"{k} {v}" for k, v in cells.items()), flush=True)
    return good


try:
    import llama_cpp  # noqa: F401
    HAS_LLAMA = True
except ImportError:
    HAS_LLAMA = False
    print("skip: llama.cpp's outputs: no module llama_cpp (tools/oracles llama)")
os.makedirs(folder, exist_ok=True)
results = []
for i, family in enumerate(wanted or FAMILIES):
    if not in_turn(i, len(wanted or FAMILIES)):
        continue
    try:
        results.append(row(family, 11 + i))
    except Exception as problem:  # a family that the packages do not have is a failure, too
        print(f"FAIL {family:18} {type(problem).__name__}: {str(problem)[:200]}", flush=True)
        results.append(False)
sys.exit(not all(results))
