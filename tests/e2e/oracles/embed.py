"""Compares clef's embeddings with those of sentence-transformers. usage: embed.py CLEF SEED

Makes tiny random embedders of several families and 40 texts of 1 to 520 words. Each is embedded by its folder and by the GGUF file that clef
makes of it: with and without a prompt, with fewer dimensions, and in fewer bits. Prints a line `ok` or `FAIL` for each."""
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
import transformers as hf
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from sentence_transformers.util.quantization import quantize_embeddings
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "the a cat dog house sea river old young red blue walks sees loves and or not in on under with it he she they we query: passage: .".split()
LEAST = 0.99999
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "initializer_range": 0.3}
DECODER = {"head_dim": 8, "num_key_value_heads": 2, "max_position_embeddings": 520}
PROMPTS = {"query": "query: ", "document": "passage: the "}
# name: model, pooling, modules behind it, side of the padding, default prompt
KINDS = {
    "bert, mean": ("bert", "mean", ["unit"], "right", None),
    "xlm-roberta, cls": ("xlm-roberta", "cls", [], "right", "query"),
    "bert, a dense layer": ("bert", "mean", ["tanh"], "right", None),
    "qwen3, last, padded on the left": ("qwen3", "lasttoken", ["unit"], "left", "query"),
    "qwen3, last, padded on the right": ("qwen3", "lasttoken", ["unit"], "right", None),
    "embeddinggemma": ("gemma", "mean", ["up", "down", "unit"], "right", "document"),
}


def tokenizer(folder, marks, form, side):
    vocab = {w: i for i, w in enumerate([*marks, *WORDS])}
    t = Tokenizer(models.WordLevel(vocab, unk_token=marks[1]))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.post_processor = processors.TemplateProcessing(single=form, special_tokens=[(m, vocab[m]) for m in marks])
    hf.PreTrainedTokenizerFast(tokenizer_object=t, pad_token=marks[0], unk_token=marks[1], bos_token=marks[2], eos_token=marks[3], padding_side=side,
                               model_max_length=512).save_pretrained(folder)
    return len(vocab)


def transformer(folder, kind, side):
    marks = ["<pad>", "<unk>", "<s>", "</s>"]
    n = tokenizer(folder, marks, "<s> $A </s>" if kind != "qwen3" else "$A </s>", side)
    torch.set_num_threads(2)
    ends = {"vocab_size": n, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if kind == "bert":
        model = hf.BertModel(hf.BertConfig(vocab_size=n, max_position_embeddings=520, **SHAPE))
    elif kind == "xlm-roberta":
        model = hf.XLMRobertaModel(hf.XLMRobertaConfig(type_vocab_size=1, max_position_embeddings=522, **ends, **SHAPE))
    elif kind == "qwen3":
        model = hf.Qwen3Model(hf.Qwen3Config(**ends, **SHAPE, **DECODER))
    else:
        model = hf.Gemma3TextModel(hf.Gemma3TextConfig(use_bidirectional_attention=True, sliding_window=64, query_pre_attn_scalar=8,
                                                       layer_types=["sliding_attention", "full_attention"], **ends, **SHAPE, **DECODER))
    model.eval().save_pretrained(folder)


def make(tmp, base, pooling, behind, side, default):
    inner, folder = os.path.join(tmp, "inner"), os.path.join(tmp, "model")
    os.makedirs(inner)
    transformer(inner, base, side)
    modules = {
        "unit": lambda: Normalize(),
        "tanh": lambda: Dense(32, 24, activation_function=torch.nn.Tanh()),
        "up": lambda: Dense(32, 64, bias=False, activation_function=torch.nn.Identity()),
        "down": lambda: Dense(64, 32, bias=False, activation_function=torch.nn.Identity()),
    }
    whole = SentenceTransformer(modules=[Transformer(inner), Pooling(32, pooling_mode=pooling), *(modules[m]() for m in behind)], prompts=PROMPTS,
                                default_prompt_name=default, device="cpu")
    whole.save(folder)
    return SentenceTransformer(folder, device="cpu"), folder


def vectors(clef, model, file, *flags):
    out = file + ".npy"
    subprocess.run([clef, "embed", model, "--file", file, "--npy", "-o", out, "--truncate", "--exact", "-q", *flags], check=True)
    return np.load(out)


def least_cosine(a, b):
    return ((a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min() if a.shape == b.shape else -1


def tokens_of(clef, tmp, report):
    """bge-m3's sparse weights and vectors of tokens, by FlagEmbedding's definitions."""
    folder = os.path.join(tmp, "m3")
    os.makedirs(folder)
    transformer(folder, "xlm-roberta", "right")
    layers = {"sparse_linear": torch.nn.Linear(32, 1), "colbert_linear": torch.nn.Linear(32, 24)}
    for name, layer in layers.items():
        torch.save(layer.state_dict(), os.path.join(folder, name + ".pt"))
    text = " ".join([*WORDS, "zzz", *WORDS[::-1]])
    command = [clef, "embed", folder, text, "--exact", "-q", "--kind"]
    refused = subprocess.run([*command, "sparse"], capture_output=True, text=True)
    report(refused.returncode == 1 and "sparse_linear.pt" in refused.stderr and "save_file" in refused.stderr, "bge-m3: pickles are refused by name")
    for name, layer in layers.items():
        save_file({k: v.contiguous() for k, v in layer.state_dict().items()}, os.path.join(folder, name + ".safetensors"))
    tok, model = hf.AutoTokenizer.from_pretrained(folder), hf.AutoModel.from_pretrained(folder).eval()
    ids = tok(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        x = model(ids).last_hidden_state[0]
        weights = torch.relu(layers["sparse_linear"](x))[:, 0].tolist()
        vectors = torch.nn.functional.normalize(layers["colbert_linear"](x[1:]), dim=-1).numpy()
    wanted = {}
    for i, w in zip(ids[0].tolist(), weights):
        if w > 0 and i not in (0, 1, 2, 3):
            wanted[str(i)] = max(w, wanted.get(str(i), 0))
    got = json.loads(subprocess.run([*command, "sparse"], check=True, capture_output=True, text=True).stdout)
    report(got.keys() == wanted.keys() and all(abs(got[i] - wanted[i]) < 1e-5 for i in wanted) and len(wanted) > 0,
           f"bge-m3: the weights of {len(wanted)} tokens")
    got = np.array(json.loads(subprocess.run([*command, "multi"], check=True, capture_output=True, text=True).stdout))
    report(got.shape == vectors.shape and np.abs(got - vectors).max() < 1e-5, f"bge-m3: {len(vectors)} vectors of tokens")


def main(clef, seed):
    rng = np.random.default_rng(int(seed))
    torch.manual_seed(int(seed))
    warnings.simplefilter("ignore")
    failed = 0

    def report(good, text):
        nonlocal failed
        print(f"{'ok' if good else 'FAIL'} {text}")
        failed += not good

    with tempfile.TemporaryDirectory() as tmp:
        tokens_of(clef, tmp, report)
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as tmp:
            peer, folder = make(tmp, *kind)
            texts = [" ".join(rng.choice(WORDS, n)) for n in [1, 2, 509, 510, 520, *rng.integers(1, 100, 35)]]
            file, gguf = os.path.join(tmp, "texts"), os.path.join(tmp, "model.gguf")
            with open(file, "w") as f:
                f.write("\n".join(texts) + "\n")
            subprocess.run([clef, "convert", folder, gguf, "-q"], check=True)
            for form, prompt in ((folder, None), (gguf, "document"), (gguf, None)):
                flags = [] if prompt is None else ["--prompt-name", prompt]
                got = vectors(clef, form, file, *flags)
                cosine = least_cosine(got, peer.encode(texts, prompt_name=prompt))
                report(cosine >= LEAST, f"{name}, {os.path.basename(form)}, prompt {prompt}: the least cosine of {len(texts)} is {cosine:.7f}")
            wanted = peer.encode(texts, truncate_dim=16)
            got = vectors(clef, folder, file, "--dimensions", "16")
            cosine, norms = least_cosine(got, wanted), np.linalg.norm(got, axis=1)
            unit = "unit" not in kind[2] or np.abs(norms - 1).max() < 1e-5
            report(cosine >= LEAST and unit, f"{name}, 16 dimensions: the least cosine of {len(texts)} is {cosine:.7f}")
            if name != "embeddinggemma":
                continue
            got = vectors(clef, folder, file)
            for form in ("int8", "uint8", "binary", "ubinary"):
                packed = vectors(clef, folder, file, "--precision", form)
                wanted = quantize_embeddings(got, form)
                report(packed.dtype == wanted.dtype and np.array_equal(packed, wanted), f"{name}, {form}: the same numbers")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
