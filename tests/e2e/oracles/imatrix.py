"""Checks clef's importance matrices, what quantising makes of them, and divergences by their definitions. usage: imatrix.py CLEF SEED

Makes a tiny random Llama and a Mixtral. The sums of squares are computed with PyTorch, from the inputs of its matrices; the weighted errors
with NumPy. The Llama is also compared with itself after some noise. Prints a line `ok` or `FAIL` for each."""
import copy
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as hf
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "the a cat dog house sea river old young red blue walks sees loves and or not in on under with it he she they we yes no .".split()
SHAPE = {"hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 512,
         "max_position_embeddings": 128, "initializer_range": 0.2, "bos_token_id": 2, "eos_token_id": 3}
CHUNK, N_CHUNKS = 96, 3
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def make(folder, kind):
    marks = ["<pad>", "<unk>", "<s>", "</s>"]
    vocab = {w: i for i, w in enumerate([*marks, *WORDS])}
    t = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    fast.save_pretrained(folder)
    if kind == "llama":
        model = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=len(vocab), **SHAPE))
    else:
        model = hf.MixtralForCausalLM(hf.MixtralConfig(vocab_size=len(vocab), num_local_experts=4, num_experts_per_tok=2, **SHAPE))
    model.eval().save_pretrained(folder)
    return model, fast


def sums_of(model, ids):
    """{name in GGUF: (sums [matrices, columns], counts)} of the inputs of all matrices, by hooks."""
    found = {}

    def add(name, rows, expert=0, n=1):
        sums, counts = found.setdefault(name, (np.zeros((n, rows.shape[-1])), np.zeros(n)))
        rows = rows.reshape(-1, rows.shape[-1]).double().numpy()
        sums[expert] += (rows**2).sum(0)
        counts[expert] += len(rows)

    def experts_hook(layer):
        def hook(module, args):
            x, chosen = args[0].reshape(-1, args[0].shape[-1]), args[1].reshape(-1, args[1].shape[-1])
            n = module.gate_up_proj.shape[0]
            for e in range(n):
                rows = x[(chosen == e).any(-1)]
                gate, up = (rows @ module.gate_up_proj[e].T).chunk(2, dim=-1)
                for name in ("ffn_gate_exps", "ffn_up_exps"):
                    add(f"blk.{layer}.{name}.weight", rows, e, n)
                add(f"blk.{layer}.ffn_down_exps.weight", torch.nn.functional.silu(gate) * up, e, n)
        return hook

    for path, module in model.named_modules():
        parts = path.split(".")
        if parts[-1] == "experts":
            module.register_forward_pre_hook(experts_hook(int(parts[2])))
        elif isinstance(module, torch.nn.Linear) and ".".join(parts[3:]) in NAMES:
            name = f"blk.{parts[2]}.{NAMES['.'.join(parts[3:])]}.weight"
            module.register_forward_pre_hook(lambda _, args, name=name: add(name, args[0]))
    with torch.no_grad():
        for i in range(N_CHUNKS):
            model(torch.tensor([[2, *ids[i * CHUNK + 1 : (i + 1) * CHUNK]]]))
    return found


def tensors_of(path):
    return {t.name: t for t in GGUFReader(path).tensors}


def compare(file, wanted):
    """The greatest relative difference, and what is missing in the file."""
    got, worst = tensors_of(file), 0
    for name, (sums, counts) in wanted.items():
        a, b = got[name + ".in_sum2"].data.reshape(sums.shape), got[name + ".counts"].data.ravel()
        if not np.array_equal(b, counts):
            return np.inf
        worst = max(worst, (np.abs(a - sums) / (np.abs(sums).max(-1, keepdims=True) + 1e-30)).max())
    return worst


def write_old(path, found):
    with open(path, "wb") as f:
        f.write(struct.pack("<i", len(found)))
        for name, (sums, counts) in found.items():
            means = (np.asarray(sums, np.float32) / np.asarray(counts, np.float32)[:, None]).astype(np.float32).ravel()
            f.write(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", 1, means.size) + means.tobytes())
        f.write(struct.pack("<ii", N_CHUNKS, 4) + b"text")


def weighted_error(exact, coded, importance, by_size):
    """The sum of the errors, each with its weight by ggml-quants.c."""
    x, y = exact.reshape(-1, exact.shape[-1]), coded.reshape(-1, exact.shape[-1])
    w = np.repeat(importance, len(x) // len(importance), 0)
    if by_size:
        n = 256
        blocks = x.reshape(len(x), -1, n)
        w = w * np.sqrt(2 * (blocks**2).mean(-1, keepdims=True) + blocks**2).reshape(x.shape)
    return float((w * (x - y) ** 2).sum())


def divergence(base, model, ids):
    """What `clef perplexity --kl` prints, in double."""
    kl, change, same, nats = [], [], [], []
    for i in range(len(ids) // CHUNK):
        chunk = torch.tensor([[2, *ids[i * CHUNK + 1 : (i + 1) * CHUNK]]])
        with torch.no_grad():
            p, q = (torch.log_softmax(m(chunk).logits[0].double(), -1).numpy() for m in (base, model))
        for t in range(CHUNK // 2, CHUNK - 1):
            target, b = int(chunk[0, t + 1]), np.maximum(p[t], p[t].max() - 16)  # the file cuts what is less
            kl.append((np.exp(b) * (b - q[t]))[b > -16].sum())
            change.append(np.exp(q[t, target]) - np.exp(b[target]))
            same.append(b.argmax() == q[t].argmax())
            nats.append(-b[target])
    return {"kl": np.mean(kl), "kl_maximum": np.max(kl), "kl_median": np.median(kl), "kl_90": np.quantile(kl, 0.9), "kl_1": np.quantile(kl, 0.01),
            "same_top": np.mean(same), "p_change": np.mean(change), "p_change_root": np.sqrt(np.mean(np.square(change))), "base_value": np.exp(np.mean(nats))}


def main(clef, seed):
    rng = np.random.default_rng(int(seed))
    torch.manual_seed(int(seed))
    failed = 0

    def report(good, text):
        nonlocal failed
        print(f"{'ok' if good else 'FAIL'} {text}")
        failed += not good

    for kind in ("llama", "mixtral"):
        with tempfile.TemporaryDirectory() as tmp:
            def at(name):
                return os.path.join(tmp, name)

            def run(*args):
                subprocess.run([clef, *args, "-q"], check=True)

            model, tokenizer = make(at("model"), kind)
            scale = torch.tensor(rng.lognormal(0, 1.5, 256), dtype=torch.float32)  # some columns count much more than others
            with torch.no_grad():
                for layer in model.model.layers:
                    layer.input_layernorm.weight.copy_(scale)
                    layer.post_attention_layernorm.weight.copy_(scale.flip(0))
            model.save_pretrained(at("model"))
            text = " ".join(rng.choice(WORDS, CHUNK * N_CHUNKS + 20))
            with open(at("text"), "w") as f:
                f.write(text)
            run("convert", at("model"), at("f32.gguf"))
            forms = ("model", "f32.gguf") if kind == "llama" else ("model",)
            for form in forms:
                run("imatrix", at(form), at("text"), "-c", str(CHUNK), "-o", at(form + ".imatrix"), "--exact")
            wanted = sums_of(model, tokenizer(text).input_ids)
            for form in forms:
                error = compare(at(form + ".imatrix"), wanted)
                report(error < 1e-4, f"{kind}, {form}: the greatest relative difference of the sums of {len(wanted)} matrices is {error:.1e}")
            if kind == "llama":
                subprocess.run([clef, "perplexity", at("model"), at("text"), "-c", str(CHUNK), "--save-logits", at("base"), "--exact", "-q"], check=True,
                               stdout=subprocess.DEVNULL)
                other = copy.deepcopy(model)
                with torch.no_grad():
                    for w in other.parameters():
                        w.add_(torch.randn_like(w) * w.abs().mean() * 0.1)
                os.makedirs(at("other"))
                tokenizer.save_pretrained(at("other"))
                other.save_pretrained(at("other"))
                out = subprocess.run([clef, "perplexity", at("other"), at("text"), "--kl", at("base"), "--json", "--exact", "-q"], check=True,
                                     capture_output=True, text=True).stdout
                known, shown = divergence(model, other, tokenizer(text).input_ids), json.loads(out)
                for key, x in known.items():
                    report(abs(shown[key] - x) <= 1e-3 * abs(x) + 1e-5, f"divergence, {key}: {shown[key]:.6f}, by its definition {x:.6f}")
                out = subprocess.run([clef, "perplexity", at("model"), at("text"), "--kl", at("base"), "--json", "--exact", "-q"], check=True,
                                     capture_output=True, text=True).stdout
                shown = json.loads(out)
                report(shown["same_top"] == 1 and abs(shown["kl"]) < 1e-6, f"the model beside itself: {shown['kl']:.1e}")
            got = tensors_of(at("model.imatrix"))
            found = {n: (got[n + ".in_sum2"].data.reshape(wanted[n][0].shape), got[n + ".counts"].data.ravel()) for n in wanted}
            found = {n: (s, c) for n, (s, c) in found.items() if (c > 0).all()}
            write_old(at("old.dat"), found)
            exact = tensors_of(at("f32.gguf"))
            for dtype in ("q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "iq3_s") if kind == "llama" else ("q4_k",):
                plain, weighed, old = (at(f"{form}.{dtype}.gguf") for form in ("plain", "weighed", "old"))
                run("quantize", at("f32.gguf"), plain, dtype)
                run("quantize", at("f32.gguf"), weighed, dtype, "--imatrix", at("model.imatrix"))
                before, after = tensors_of(plain), tensors_of(weighed)
                errors = [0.0, 0.0]
                for name, (sums, counts) in found.items():
                    importance = sums / counts[:, None]
                    x = exact[name].data.astype(np.float64)
                    for i, t in enumerate((before[name], after[name])):
                        y = dequantize(t.data, t.tensor_type).reshape(x.shape)
                        errors[i] += weighted_error(x, y, importance, dtype not in ("q3_k", "q6_k"))
                report(errors[1] < 0.97 * errors[0], f"{kind}, {dtype}: the weighted error is {errors[1] / errors[0]:.3f} of that without importance")
                if dtype != "q4_k":
                    continue
                run("quantize", at("model"), old, dtype, "--imatrix", at("old.dat"))
                again = tensors_of(old)
                same = all(np.array_equal(after[n].data, again[n].data) for n in found)
                report(same, f"{kind}, {dtype}: the old form of the file and the folder give the same matrices")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
