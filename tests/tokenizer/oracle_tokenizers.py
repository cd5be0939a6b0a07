#!/usr/bin/env python3
"""Compares clef's tokenizers, id by id, with Hugging Face's tokenizers and with sentencepiece (both from PyPI).

    oracle_tokenizers.py LIBCLEF.so TOKENIZERS TEXTS [--random N] [--seed S] [--only NAME] [--fixture FILE] [--stages]

TOKENIZERS is a folder of folders (bert gpt2 llama2 t5 ...), TEXTS one of text files. Each text is compared line by line, in blocks of 64
lines and as a whole; then N random Unicode strings, of which --seed draws others. --fixture writes 500 cases of texts made here with their
expected ids as JSON. --stages compares each kind of normalizer, pre-tokenizer and decoder of a tokenizer.json instead, with vocabularies
made here.
A development tool: the product does not need it."""
import argparse, ctypes, json, os, random, sys, tempfile, time


class Error(ctypes.Structure):
    _fields_ = [("pad", ctypes.c_char * 4096)]


class Clef:
    def __init__(self, lib, path):
        self.lib, self.err, self.tok = lib, Error(), ctypes.c_void_p()
        if lib.clef_tokenizer_open(path.encode(), ctypes.byref(self.tok), ctypes.byref(self.err)):
            raise SystemExit(f"{path}: {self.err.pad if False else bytes(self.err)[:400]!r}")

    def encode(self, text, special=False):
        raw = text.encode("utf-8", "surrogatepass")
        ids, n = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_int32()
        status = self.lib.clef_tokenizer_encode(self.tok, raw, ctypes.c_size_t(len(raw)), 0 if special else 1, ctypes.byref(ids),
                                                ctypes.byref(n), ctypes.byref(self.err))
        if status:
            raise SystemExit(f"status {status}: {bytes(self.err)[:400]!r}")
        out = ids[:n.value]
        self.lib.clef_tokens_free(ids)
        return out

    def decode(self, ids):
        text, n = ctypes.c_void_p(), ctypes.c_size_t()
        array = (ctypes.c_int32 * len(ids))(*ids)
        if self.lib.clef_tokenizer_decode(self.tok, array, len(ids), ctypes.byref(text), ctypes.byref(n), ctypes.byref(self.err)):
            raise SystemExit(f"{bytes(self.err)[:400]!r}")
        out = ctypes.string_at(text, n.value).decode()
        self.lib.clef_text_free(text)
        return out


class HF:
    def __init__(self, tokenizer):
        self.t, self.controls = tokenizer, []

    def encode(self, text, special=False):
        return self.t.encode(text, add_special_tokens=special).ids

    def decode(self, ids):
        return self.t.decode(ids)


class SP:
    def __init__(self, path):
        import sentencepiece
        self.t = sentencepiece.SentencePieceProcessor(model_file=path)
        self.unk = self.t.unk_id()
        self.controls = [self.t.id_to_piece(i) for i in range(len(self.t)) if self.t.is_control(i) or self.t.is_unknown(i)]

    def encode(self, text, special=False):
        return self.t.encode(text)

    def decode(self, ids): # sentencepiece writes " \u2047 " for an unknown character; clef leaves special tokens out
        return self.t.decode([i for i in ids if i != self.unk])


def bert(vocab, lower):
    from tokenizers import BertWordPieceTokenizer
    return HF(BertWordPieceTokenizer(vocab, lowercase=lower)._tokenizer)


def byte_level(folder):
    from tokenizers import ByteLevelBPETokenizer
    t = ByteLevelBPETokenizer(folder + "/vocab.json", folder + "/merges.txt")._tokenizer
    return HF(t)


def tiktoken_of(folder):
    """GPT-2's vocabulary as tiktoken writes it: what r50k_base is."""
    import base64
    char = {c: b for b, c in byte_chars().items()}
    vocab = json.load(open(folder + "/vocab.json", encoding="utf-8"))
    path = os.path.join(tempfile.mkdtemp(), "r50k_base.tiktoken")
    with open(path, "w") as f:
        for token, rank in sorted(vocab.items(), key=lambda x: x[1]):
            if token != "<|endoftext|>":
                f.write(base64.b64encode(bytes(char[c] for c in token)).decode() + f" {rank}\n")
    return path


def pairs(root):
    """(name, path for clef, function that makes the oracle)"""
    from tokenizers import Tokenizer
    for kind in ("uncased", "cased"):
        path = f"{root}/bert/bert-base-{kind}-vocab.txt"
        yield f"bert-{kind}", path, lambda path=path, kind=kind: bert(path, kind == "uncased")
    for name in ("gpt-neox", "gpt2", "roberta", "t5"):
        path = f"{root}/{name}/tokenizer.json"
        yield name, path, lambda path=path: HF(Tokenizer.from_file(path))
    yield "gpt2-vocab", f"{root}/gpt2/vocab.json", lambda: HF(Tokenizer.from_file(f"{root}/gpt2/tokenizer.json"))
    yield "gpt2-tiktoken", tiktoken_of(f"{root}/gpt2"), lambda: HF(Tokenizer.from_file(f"{root}/gpt2/tokenizer.json"))
    yield "roberta-vocab", f"{root}/roberta/vocab.json", lambda: HF(Tokenizer.from_file(f"{root}/roberta/tokenizer.json"))
    models = [f"{root}/llama2/tokenizer.model", f"{root}/mistral/tokenizer.model.v1", f"{root}/mistral/tokenizer.model.v3",
              f"{root}/t5/spiece.model"]
    models += sorted(f"{root}/sentencepiece/{f}" for f in os.listdir(f"{root}/sentencepiece") if f.endswith(".model"))
    for path in models:
        yield "sp:" + os.path.relpath(path, root), path, lambda path=path: SP(path)


def byte_chars():
    """What stands for each byte in a byte-level vocabulary."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    char = {b: chr(b) for b in shown}
    char.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
    return char


def stages():
    """(name, Tokenizer) for each normalizer, which a vocabulary of bytes shows, and each pre-tokenizer, whose pieces get a space"""
    from tokenizers import Tokenizer, models, normalizers as N, pre_tokenizers as P, decoders as D, Regex
    vocab = {c: b for b, c in byte_chars().items()}
    show = P.ByteLevel(add_prefix_space=True, use_regex=False)

    def make(normalizer=None, pre=None):
        t = Tokenizer(models.BPE(vocab=vocab, merges=[]))
        if normalizer:
            t.normalizer = normalizer
        t.pre_tokenizer = P.Sequence([pre, show]) if pre else P.ByteLevel(add_prefix_space=False, use_regex=False)
        t.decoder = D.ByteLevel()
        return t

    for n in (N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.Strip(), N.Strip(left=False), N.StripAccents(), N.Nmt(),
              N.BertNormalizer(), N.BertNormalizer(clean_text=False, lowercase=False, strip_accents=True),
              N.BertNormalizer(handle_chinese_chars=False, strip_accents=False), N.Replace(Regex("\\s+"), "_"), N.Replace(" ", "\u2581"),
              N.Prepend("x"), N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()])):
        yield repr(n), make(n)
    for p in (P.BertPreTokenizer(), P.Whitespace(), P.WhitespaceSplit(), P.Digits(), P.Digits(individual_digits=True),
              P.CharDelimiterSplit("."), P.FixedLength(length=3), P.Metaspace(), P.Metaspace(prepend_scheme="first"),
              P.Metaspace(prepend_scheme="never", split=False),
              *(P.Punctuation(b) for b in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous")),
              *(P.Split(Regex("\\w+|[^\\w\\s]+"), b) for b in ("isolated", "removed", "merged_with_previous", "merged_with_next")),
              P.Split(Regex("\\p{L}+|\\p{N}{1,3}"), "isolated", invert=True), P.Split(Regex("\\p{Lu}|\\p{M}+|\\p{P}"), "isolated"),
              P.Split(Regex("\\p{S}|\\p{Han}+|\\d"), "contiguous"), P.ByteLevel(add_prefix_space=False),
              P.Split(Regex("\\d{1,3}(?=(?:\\d{3})*\\b)"), "isolated"), P.Split(Regex("(?=(\\d{3})+(?!\\d))"), "isolated"),
              P.Split(Regex("\\b"), "isolated"), P.Split(Regex(".\\B"), "isolated")):
        yield repr(p), make(pre=p)


def decoders():
    """(name, Tokenizer) for each decoder, over words that it changes"""
    from tokenizers import Tokenizer, models, decoders as D
    words = ["a", "the", "The", "x1", "##ing", "##s", "ing</w>", "s</w>", "b</w>", "\u2581the", "\u2581", "\u2581\u2581a", "a\u2581",
             "<0xE4>", "<0xB8>", "<0xAD>", "<0x41>", "<0xFF>", ".", ",", "!", "?", "'", "n't",
             "do", "not", "'s", "'m", "'ve", "'re", "|", "<pad>",
             "\u0120a", "\u010a", "\u00e4\u00b8\u0143", "\u00e9", " ", " a", "aa ", "-", "\u4e2d", "e\u0301"]
    for d in (None, D.WordPiece(), D.WordPiece(prefix="##", cleanup=False), D.BPEDecoder(), D.BPEDecoder(suffix="s</w>"), D.CTC(),
              D.CTC(cleanup=False), D.Metaspace(), D.Metaspace(prepend_scheme="never"), D.ByteFallback(), D.ByteLevel(), D.Fuse(),
              D.Strip(content="a", left=1, right=0), D.Replace("a", "bc"),
              D.Sequence([D.Replace("\u2581", " "), D.ByteFallback(), D.Fuse(), D.Strip(content=" ", left=1, right=0)]),
              D.Sequence([D.ByteFallback(), D.Metaspace()])):
        t = Tokenizer(models.WordLevel(vocab={w: i for i, w in enumerate(words)}, unk_token="a"))
        if d:
            t.decoder = d
        yield repr(d), t


def compare_decoders(lib, n, rng):
    bad_total = 0
    for name, theirs in decoders():
        path = os.path.join(tempfile.mkdtemp(), "tokenizer.json")
        theirs.save(path)
        ours, bad = Clef(lib, path), 0
        for _ in range(n):
            ids = [rng.randrange(theirs.get_vocab_size()) for _ in range(rng.randrange(8))]
            if "\ufffd" in theirs.decode(ids): # ByteFallback writes one for each byte of a run with a bad one, which no stream can
                continue
            if ours.decode(ids) != theirs.decode(ids):
                bad += 1
                if bad <= 3:
                    print(f"  {[theirs.id_to_token(i) for i in ids]}\n  {ours.decode(ids)!r}\n  {theirs.decode(ids)!r}")
        bad_total += bad
        print(f"{bad:6d} of {n} differ: decoder {name[:100]}", flush=True)
    return bad_total


def compare_stages(lib, strings):
    bad_total = 0
    for name, theirs in stages():
        path = os.path.join(tempfile.mkdtemp(), "tokenizer.json")
        theirs.save(path)
        ours, bad = Clef(lib, path), 0
        for text in strings:
            want = theirs.encode(text, add_special_tokens=False).ids
            if ours.encode(text) != want or ours.decode(want) != theirs.decode(want):
                bad += 1
                if bad == 1:
                    print(f"  {text!r}\n  {bytes(ours.encode(text))}\n  {bytes(want)}\n  {ours.decode(want)!r}\n  {theirs.decode(want)!r}")
        bad_total += bad
        print(f"{bad:6d} of {len(strings)} differ: {name[:100]}", flush=True)
    return bad_total


POOLS = [(0x20, 0x7E)] * 6 + [(0xA0, 0x24F)] * 3 + [(0x300, 0x36F), (0x370, 0x52F), (0x590, 0x6FF), (0x900, 0xDFF), (0xE00, 0xFFF),
        (0x1100, 0x11FF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x3000, 0x30FF), (0x3200, 0x33FF), (0x4E00, 0x9FFF),
        (0xAC00, 0xD7A3), (0xF900, 0xFFFF), (0x1F300, 0x1FAFF), (0x1D400, 0x1D7FF), (0x20000, 0x323AF), (0x80, 0xFFFF), (0x80, 0x10FFFF)]


def random_text(rng):
    out = []
    for _ in range(rng.randrange(1, 12)):
        low, high = rng.choice(POOLS)
        for _ in range(rng.randrange(1, 8)):
            c = rng.randint(low, high)
            if not 0xD800 <= c < 0xE000:
                out.append(chr(c))
        out.append(rng.choice(["", "", " ", " ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "'s", "123", "\u200d", "."]))
    return "".join(out)


SPACES = [chr(c) for c in (*range(9, 14), *range(28, 32), 32, 32, 32, 0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x2010), 0x2028, 0x2029,
                           0x202F, 0x205F, 0x2060, 0x2581, 0x3000, 0xFEFF)]
CONTROLS = [chr(c) for c in (*range(32), *range(127, 160), 0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x202A, 0x202F),
                             *range(0x2066, 0x2070), *range(0xFFF9, 0x10000), 0xE000, 0xFDD0, 0x1FFFF, 0x10FFFF, 0x61, 0x20)]
JOINED = ["\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f3f4\u200d\u2620\ufe0f", "\U0001f1ee\U0001f1f9",
          "1\ufe0f\u20e3", "\u270c\U0001f3fd", "\U0001f926\U0001f3fc\u200d\u2642\ufe0f", "\u2764\ufe0f\u200d\U0001f525", "\u200d",
          "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\ufe0e", "\ufe0f", "\U0001f3ff", "a", " "]
MARKED = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "[CLS]", "[SEP]", "[MASK]", "[UNK]", "[PAD]", "<|endoftext|>", "<|padding|>",
          "<extra_id_0>", "<extra_id_42>", "<0x0A>", "[INST]", "[/INST]", "\u2581", "##ing", "\u0120", "<|", "|>", "<mask", "[MASK"]
WORDS = ["don't", "I'LL", "we've", "\u2019s", "it\u2019s", "e.g.", "...", "--", "3.14", "1,000,000", "0x7f", "foo_bar", "HTTPServer", "a",
         "\u0130stanbul", "stra\xdfe", "\u03a3\u03a3", "\u01c5", "\ufb01n", "\xbd", "x\xb2", "\u0663\u0664", "caf\xe9", "\uac00\ub098",
         "\u65e5\u672c\u8a9e", "\u30c6\uff9e", "\u0e17\u0e35\u0e48"]


def odd_text(rng):
    """Runs, marks upon marks, joined emoji, controls, every space, the text of special tokens and parts of it; now and then long."""
    def some(pool, least, most):
        return "".join(rng.choice(pool) for _ in range(rng.randint(least, most)))

    def stacked():
        return "".join(some("aeioun AEIOUN\u1100\u3042\u0627\u05d0\u0915", 1, 1) + some(marks(), 0, 6) for _ in range(rng.randint(1, 10)))

    def run():
        unit = rng.choice(["a", "0", " ", ".", "\n", chr(rng.randint(0x21, 0xD7FF)), some(SPACES, 1, 2), some(WORDS, 1, 2)])
        return unit * rng.randint(2, 300)

    def spaced():
        return "".join(some(WORDS + MARKED, 1, 1) + some(SPACES, 1, 2) for _ in range(rng.randint(1, 10)))

    kinds = [stacked, run, spaced, lambda: some(CONTROLS, 1, 12), lambda: some(JOINED, 1, 8),
             lambda: some(MARKED * 3 + SPACES + WORDS, 1, 10), lambda: some(WORDS + [" "] * 20, 1, 20), lambda: random_text(rng)]
    return "".join(rng.choice(kinds)() for _ in range(60 if rng.random() < 0.02 else rng.choice((1, 1, 1, 2, 3))))


TEXTS = ["", " ", "\n", "Hello, world!", "  two  spaces ", "it's we'll I'VE", "tab\tand\r\nlines\n\n\n end",
         "x=3.14159*(y+20000)//7;", "na\xefve caf\xe9 e\u0301a\u0323\u0307",
         "\u5df4\u9ece \u3053\u3093\u306b\u3061\u306f \uac00\u1100\u1161",
         "\U0001f999\U0001f468\u200d\U0001f469\u200d\U0001f467 \u270c\U0001f3fd", "<s>[CLS] </s><|endoftext|><unk>",
         "\u2581a\u2581 b", "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947",
         "\ufb01\u2460\uff21\u33c2 \xbd\xb2", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "----------======",
         "\xa0\u3000\u2009\u200b|", "snake_case camelCase HTTPServer2", "\ufffd\x00\x07\x85"]


def write_fixture(root, path, rng):
    """{file under TOKENIZERS: [[text, ids, decoded where it is not the text], ...]}, 500 cases in all"""
    fixture, oracles = {}, [(file, make) for name, file, make in pairs(root) if file.startswith(root)]
    for i, (file, make) in enumerate(oracles):
        theirs, cases = make(), fixture.setdefault(os.path.relpath(file, root), [])
        texts = [t for t in TEXTS if "<s>" not in t or not isinstance(theirs, SP)] # sentencepiece reads no control pieces in a text
        while len(cases) < 500 // len(oracles) + (i < 500 % len(oracles)):
            text = texts[len(cases)] if len(cases) < len(texts) else random_text(rng)[:24]
            ids = theirs.encode(text)
            back = theirs.decode(ids)
            cases.append([text, ids] if back == text else [text, ids, back])
    with open(path, "w") as f:
        rows = [",\n  ".join(json.dumps(c, separators=(",", ":")) for c in cases) for cases in fixture.values()]
        f.write("{\n" + ",\n".join(f" {json.dumps(k)}: [\n  {r}]" for k, r in zip(fixture, rows)) + "\n}\n")


def marks():
    import unicodedata
    global MARKS
    if not MARKS:
        MARKS = ["a", "e", "\u1100", "\u1161", "\u3042"] * 100 + [chr(c) for c in range(0x110000) if unicodedata.combining(chr(c))]
    return MARKS


MARKS = []


def main():
    p = argparse.ArgumentParser()
    p.add_argument("lib"), p.add_argument("tokenizers"), p.add_argument("texts")
    p.add_argument("--random", type=int, default=10000), p.add_argument("--seed", type=int, default=1)
    p.add_argument("--stages", action="store_true")
    p.add_argument("--only"), p.add_argument("--fixture"), p.add_argument("--show", type=int, default=3)
    a = p.parse_args()
    lib = ctypes.CDLL(a.lib)
    rng = random.Random(a.seed)
    strings = [random_text(rng) if i % 2 else odd_text(rng) for i in range(a.random)]
    if a.fixture:
        return write_fixture(a.tokenizers, a.fixture, rng)
    if a.stages:
        strings += ["".join(rng.choice("0123456789\u0663\u00bd ab.,_") for _ in range(20)) for _ in range(a.random // 10)]
        strings += ["".join(rng.choice(marks()) for _ in range(8)) for _ in range(a.random)]
        return compare_decoders(lib, a.random, rng) + compare_stages(lib, strings) > 0
    files = {f: open(f"{a.texts}/{f}", encoding="utf-8", newline="").read() for f in sorted(os.listdir(a.texts)) if f.endswith(".txt")}
    lines = [line for text in files.values() for line in text.split("\n")]
    blocks = ["\n".join(lines[i:i + 64]) for i in range(0, len(lines), 64)]
    bad_total = 0
    for name, path, make in pairs(a.tokenizers):
        if a.only and a.only not in name:
            continue
        ours, theirs = Clef(lib, path), make()
        bad = bad_text = shown = 0
        drawn = [text for text in strings if not any(c in text for c in theirs.controls)] # sentencepiece reads no control pieces in a text
        cases = [(text, False) for text in lines + blocks + drawn]
        if isinstance(theirs, HF):
            cases += [(text, True) for text in drawn] # with what the post-processor puts around a text
        for text, special in cases:
            mine, want = ours.encode(text, special), theirs.encode(text, special)
            if mine != want:
                bad += 1
                if shown < a.show:
                    shown += 1
                    at = next((i for i, (x, y) in enumerate(zip(mine, want)) if x != y), min(len(mine), len(want)))
                    print(f"  {name}: {text[:60]!r} at id {at}: {mine[at:at + 6]} wanted {want[at:at + 6]}"
                          f" {[hex(ord(c)) for c in text][:30] if len(text) < 60 else ''}")
        whole = "\n".join(files.values())
        start = time.time()
        mine = ours.encode(whole)
        seconds = time.time() - start
        same = mine == theirs.encode(whole)
        texts = lines[:3000] + drawn[:1000]
        for text in texts:
            want = theirs.encode(text)
            if theirs.decode(want) != ours.decode(want):
                bad_text += 1
                if bad_text <= 1:
                    print(f"  {name}: decode {ours.decode(want)[:80]!r} wanted {theirs.decode(want)[:80]!r}")
        bad_total += bad + bad_text + (not same)
        print(f"{name:45s} {bad:6d} of {len(cases)} differ, whole text {'same' if same else 'DIFFERS'}, "
              f"{bad_text} of {len(texts)} decoded texts differ, {len(whole.encode()) / seconds / 1e6:.1f} MB/s", flush=True)
    return bad_total > 0


if __name__ == "__main__":
    sys.exit(main())
