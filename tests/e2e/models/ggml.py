"""Writes the Whisper of a folder as a file of whisper.cpp, from the format's facts; and a folder with what both can say.
usage: ggml.py FOLDER TYPE FILE COPY    TYPE: f32, f16, q8_0, q5_0, q5_1, q4_0

whisper.cpp stores no list of ids that are never written, and no heads for the times of words. So the copy has those of OpenAI's code,
and the weights as they are after rounding."""
import json, os, re, struct, sys

folder, kind, file, copy = sys.argv[1:5]
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q5_0": 6, "q5_1": 7, "q8_0": 8}
FTYPES = {"f32": 0, "f16": 1, "q4_0": 2002, "q5_0": 2008, "q5_1": 2009, "q8_0": 2007}


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def quantise(x, how):
    """A block of 32 numbers: its bytes, and what they stand for."""
    top = max(x, key=abs)
    if how == "q8_0":
        d = half(abs(top) / 127)
        q = [max(-127, min(127, round(v / d))) if d else 0 for v in x]
        return struct.pack("<e32b", d, *q), [d * v for v in q]
    bits, low = (4 if how == "q4_0" else 5), 0.0
    if how == "q5_1":
        low = half(min(x))
        d = half((max(x) - low) / 31)
        q = [max(0, min(31, round((v - low) / d))) if d else 0 for v in x]
        got = [d * v + low for v in q]
    else:
        middle = 1 << bits - 1
        d = half(-top / middle)
        q = [max(0, min(2 * middle - 1, round(v / d) + middle)) if d else middle for v in x]
        got = [d * (v - middle) for v in q]
    out = struct.pack("<e", d) + (struct.pack("<e", low) if how == "q5_1" else b"")
    if bits == 5:
        out += struct.pack("<I", sum((v >> 4) << i for i, v in enumerate(q)))
    return out + bytes((q[i] & 15) | (q[i + 16] & 15) << 4 for i in range(16)), got


def stored(x, how):
    if how == "f32":
        return struct.pack(f"<{len(x)}f", *x), x
    if how == "f16":
        data = struct.pack(f"<{len(x)}e", *x)
        return data, list(struct.unpack(f"<{len(x)}e", data))
    blocks = [quantise(x[i:i + 32], how) for i in range(0, len(x), 32)]
    return b"".join(b for b, _ in blocks), [v for _, got in blocks for v in got]


def read_weights():
    with open(os.path.join(folder, "model.safetensors"), "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), f.read()
    for name, t in head.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            size, letter = {"F32": (4, "f"), "F16": (2, "e")}[t["dtype"]]
            yield name, t["shape"], list(struct.unpack(f"<{(end - begin) // size}{letter}", data[begin:end]))


def openai(name):
    for pattern, new in ((r"^model\.", ""), (r"layers\.", "blocks."), (r"encoder_attn_layer_norm", "cross_attn_ln"), (r"encoder_attn\.", "cross_attn."),
                         (r"self_attn_layer_norm", "attn_ln"), (r"self_attn\.", "attn."), (r"q_proj", "query"), (r"k_proj", "key"), (r"v_proj", "value"),
                         (r"out_proj", "out"), (r"final_layer_norm", "mlp_ln"), (r"fc1", "mlp.0"), (r"fc2", "mlp.2"), (r"^encoder\.layer_norm", "encoder.ln_post"),
                         (r"^decoder\.layer_norm", "decoder.ln"), (r"embed_positions\.weight", "positional_embedding"), (r"embed_tokens", "token_embedding")):
        name = re.sub(pattern, new, name)
    return name


def tokens():
    """The texts before <|endoftext|> as bytes. GPT-2 writes each byte as a letter."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)}
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        vocab = json.load(f)["model"]["vocab"]
    return [bytes(letters[c] for c in text) for text, _ in sorted(vocab.items(), key=lambda item: item[1]) if not text.startswith("<|")]


with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
    c = json.load(f)
words = tokens()
n = len(words)
head = [c["vocab_size"], c["max_source_positions"], c["d_model"], c["encoder_attention_heads"], c["encoder_layers"], c["max_target_positions"], c["d_model"],
        c["decoder_attention_heads"], c["decoder_layers"], c["num_mel_bins"], FTYPES[kind]]
weights, position = [], 0
with open(file, "wb") as f:
    f.write(struct.pack("<I11i", 0x67676d6c, *head) + struct.pack("<2i", c["num_mel_bins"], 201) + bytes(4 * c["num_mel_bins"] * 201))
    f.write(struct.pack("<i", n) + b"".join(struct.pack("<I", len(w)) + w for w in words))
    for name, shape, x in read_weights():
        if "proj_out" in name:
            continue
        new = openai(name)
        is_matrix = len(shape) > 1 and "positional" not in new
        how = "f32" if not is_matrix else "f16" if "conv" in new and kind != "f32" else kind
        data, got = stored(x, how)
        dims = [shape[0], 1] if "conv" in new and len(shape) == 1 else shape
        f.write(struct.pack("<3i", len(dims), len(new), TYPES[how]) + struct.pack(f"<{len(dims)}i", *reversed(dims)) + new.encode() + data)
        weights.append((name, shape, struct.pack(f"<{len(got)}f", *got)))

os.makedirs(copy, exist_ok=True)
table = {}
for name, shape, data in weights:
    table[name] = {"dtype": "F32", "shape": shape, "data_offsets": [position, position + len(data)]}
    position += len(data)
with open(os.path.join(copy, "model.safetensors"), "wb") as f:
    text = json.dumps(table).encode()
    f.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in weights))
signs = [*"\"#()*+/:;<=>@[\\]^_`{|}~「」『』", "<<", ">>", "<<<", ">>>", "--", "---", "-(", "-[", "('", '("', "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪", "♪♪♪"]
never = {words.index(s.encode()) for s in [" -", " '", *signs, *(" " + s for s in signs)] if s.encode() in words}
for note in (p + s for s in "♩♪♫♬♭♮♯" for p in ("", " ")):
    never.add(max((i for i, w in enumerate(words) if w and note.encode().startswith(w)), key=lambda i: len(words[i])))
last = c["vocab_size"] - 1501
never |= {n + 1, last - 6, last - 5, last - 4, last - 3, last - 2}
with open(os.path.join(folder, "generation_config.json"), encoding="utf-8") as f:
    g = json.load(f)
g.pop("alignment_heads", None)
g |= {"suppress_tokens": sorted(never), "max_initial_timestamp_index": 50, "max_length": c["max_target_positions"],
      "begin_suppress_tokens": [words.index(b" "), n]}
for name, value in (("config.json", c), ("generation_config.json", g)):
    with open(os.path.join(copy, name), "w", encoding="utf-8") as f:
        json.dump(value, f)
for name in ("tokenizer.json", "tokenizer_config.json"):
    with open(os.path.join(folder, name), "rb") as a, open(os.path.join(copy, name), "wb") as b:
        b.write(a.read())
