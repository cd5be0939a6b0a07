"""Compares clef's rankings with those of sentence-transformers' CrossEncoder and of transformers. usage: rerank.py CLEF SEED

Makes tiny random rankers of several families, and 60 documents of 1 to 200 words, some of which have to be cut. Each is scored as a folder
and as the GGUF file that clef makes of it. Prints a line `ok` or `FAIL` for each."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as hf
from safetensors.numpy import load_file, save_file
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, pre_tokenizers, processors

WORDS = "the a cat dog house sea river old young red blue walks sees loves and or not in on under with it he she they we yes no .".split()
MOST = 1e-5
SHAPE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "max_position_embeddings": 130}
ONE = {"num_labels": 1, "initializer_range": 0.3}
QUESTION = (
    '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer '
    'can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the '
    "query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
)


def tokenizer(folder, marks, pair, length=None):
    """Words, with marks at the ids 0, 1, ..; `pair` is a template of tokenizers."""
    vocab = {w: i for i, w in enumerate([*marks, *WORDS])}
    t = Tokenizer(models.WordLevel(vocab, unk_token=marks[1]))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if pair:
        single = pair.split(" $B")[0]
        t.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=[(m, vocab[m]) for m in marks])
    fast = hf.PreTrainedTokenizerFast(
        tokenizer_object=t, model_input_names=["input_ids", "token_type_ids", "attention_mask"], pad_token=marks[0], unk_token=marks[1], **({"cls_token": marks[2], "sep_token": marks[3]} if pair else {}),
        **({"model_max_length": length} if length else {}))
    fast.save_pretrained(folder)
    return fast, len(vocab)


def make(folder, kind):
    bert = "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    if kind == "bert":
        _, n = tokenizer(folder, marks, bert)
        model = hf.BertForSequenceClassification(hf.BertConfig(vocab_size=n, **SHAPE, **ONE))
    elif kind == "bert, logits":
        _, n = tokenizer(folder, marks, bert, 100)
        model = hf.BertForSequenceClassification(
            hf.BertConfig(vocab_size=n, sentence_transformers={"activation_fn": "torch.nn.modules.linear.Identity"}, **SHAPE, **ONE))
    elif kind == "xlm-roberta":
        _, n = tokenizer(folder, ["<pad>", "<unk>", "<s>", "</s>"], "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0", 128)
        model = hf.XLMRobertaForSequenceClassification(
            hf.XLMRobertaConfig(vocab_size=n, pad_token_id=0, bos_token_id=2, eos_token_id=3, type_vocab_size=1, **SHAPE, **ONE))
    elif kind == "distilbert":
        _, n = tokenizer(folder, marks, "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0")
        model = hf.DistilBertForSequenceClassification(
            hf.DistilBertConfig(vocab_size=n, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=130, **ONE))
    elif kind == "electra":
        _, n = tokenizer(folder, marks, bert)
        model = hf.ElectraForSequenceClassification(hf.ElectraConfig(vocab_size=n, embedding_size=16, **SHAPE, **ONE))
    elif kind == "modernbert":
        _, n = tokenizer(folder, marks, "[CLS]:0 $A:0 [SEP]:0 $B:0 [SEP]:0")
        model = hf.ModernBertForSequenceClassification(
            hf.ModernBertConfig(vocab_size=n, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3, local_attention=16,
                                classifier_pooling="mean", **SHAPE, **ONE))
    else:
        fast, n = tokenizer(folder, ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>"], None)
        fast.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        fast.save_pretrained(folder)
        model = hf.Qwen3ForCausalLM(hf.Qwen3Config(vocab_size=n, head_dim=8, num_key_value_heads=2, initializer_range=0.3,
                                                   **{**SHAPE, "max_position_embeddings": 512}))
    model.eval().save_pretrained(folder)


def answers(folder, query, documents):
    """P(yes) beside no, by the question of the model card; tokens beyond 512 are cut at the document's end."""
    model, tok = hf.AutoModelForCausalLM.from_pretrained(folder).eval(), hf.AutoTokenizer.from_pretrained(folder)
    yes, no = tok.convert_tokens_to_ids(["yes", "no"])
    tail = tok(QUESTION.split("{document}")[1], add_special_tokens=False).input_ids
    scores = []
    for d in documents:
        head = tok(QUESTION.split("{document}")[0].replace("{query}", query) + d, add_special_tokens=False).input_ids
        with torch.no_grad():
            logits = model(torch.tensor([head[: 512 - len(tail)] + tail])).logits[0, -1]
        scores.append(torch.sigmoid(logits[yes] - logits[no]).item())
    return scores


def rankings(clef, model, query, file, n):
    out = subprocess.run([clef, "rerank", model, query, "--file", file, "--json", "--exact", "-q"], check=True, capture_output=True, text=True)
    scores = [None] * n
    for r in json.loads(out.stdout)["results"]:
        scores[r["index"]] = r["relevance_score"]
    return np.array(scores, float)


def padded(clef, folder, query, documents):
    """The greatest difference of the logits that `clef eval` gives of a padded batch."""
    tok, model = hf.AutoTokenizer.from_pretrained(folder), hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = tok([query] * len(documents), documents, padding=True, truncation=True, max_length=100, return_tensors="pt")
    with torch.no_grad():
        wanted = model(**batch).logits.numpy()
    given, out = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
    save_file({k: v.numpy().astype(np.int32) for k, v in batch.items()}, given)
    subprocess.run([clef, "eval", folder, "--in", given, "--out", out, "--exact", "-q"], check=True)
    return np.abs(load_file(out)["logits"] - wanted).max() / np.abs(wanted).max()


def main(clef, seed):
    rng = np.random.default_rng(int(seed))
    torch.manual_seed(int(seed))
    failed = 0
    for kind in ("bert", "bert, logits", "xlm-roberta", "distilbert", "electra", "modernbert", "qwen3"):
        with tempfile.TemporaryDirectory() as tmp:
            folder, file = os.path.join(tmp, "model"), os.path.join(tmp, "documents")
            os.makedirs(folder)
            make(folder, kind)
            query = " ".join(rng.choice(WORDS, 7))
            documents = [" ".join(rng.choice(WORDS, n)) for n in [1, 2, 200, *rng.integers(1, 200, 57)]]
            with open(file, "w") as f:
                f.write("\n".join(documents) + "\n")
            wanted = answers(folder, query, documents) if kind == "qwen3" else CrossEncoder(folder).predict([(query, d) for d in documents])
            if kind != "qwen3":
                error = padded(clef, folder, query, documents[:3])
                print(f"{'ok' if error <= MOST else 'FAIL'} {kind}: a padded batch's logits, relative error {error:.1e}")
                failed += not error <= MOST
            subprocess.run([clef, "convert", folder, os.path.join(tmp, "model.gguf"), "-q"], check=True)
            with open(os.path.join(tmp, "model.gguf"), "rb") as f:  # as llama.cpp's converter writes it: its own keys alone
                written = f.read()
            with open(os.path.join(tmp, "theirs.gguf"), "wb") as f:
                f.write(written.replace(b"libclef.classifier", b"another.classifier"))
            for form in ("model", "model.gguf") + ("theirs.gguf",) * (kind == "modernbert"):
                error = np.abs(np.array(wanted, float) - rankings(clef, os.path.join(tmp, form), query, file, len(documents))).max()
                good = error <= MOST * max(1, np.abs(wanted).max())
                print(f"{'ok' if good else 'FAIL'} {kind}, {form}: the greatest difference of {len(documents)} scores is {error:.1e}")
                failed += not good
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
