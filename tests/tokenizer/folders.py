#!/usr/bin/env python3
"""Makes folders of tokenizer files and compares clef's ids and texts of them with transformers' AutoTokenizer (5.24).

    folders.py LIBCLEF.so [--folders N] [--seed S] [--one SEED] [--fixture FILE]

Each folder has one file with a small vocabulary (tokenizer.json with stages of all kinds, SentencePiece's, vocab.json with merges.txt, or
vocab.txt), a class, and some of: added tokens and special tokens in the files beside it, settings that override. clef gives the same, or
refuses the folder. --one shows one folder. --fixture writes folders with their right answers, for test_token_folders.c."""
import argparse, base64, collections, ctypes, json, logging, os, random, struct, sys, tempfile, warnings, zlib

META = "\u2581"
WORDS = "the a hello world Hello user 's 12 123 é ä 中 文 ab abc aaa aa low lower new est re do dog . , ! ' <x> 't UPPER </s>".split()
TEXTS = ["", "Hello world", "  two  spaces ", "<|im_start|>user<|im_end|>", " <s> the </s> dog", "low\n\nnew\t.", "é Ä e\u0301 İ ß",
         "中文 aaa aaaa", "don't I'm 12 1,000.5", "a<mask>b <mask> [MASK] [CLS]", "foo [X] new word<tool>newword", "\u0001\u200b\ufeff\u00a0x",
         "😀 \u0301", "<|endoftext|>the<|endoftext|> x", "▁the ▁ _the", "UPPER Lower xab ab", "<extra_id_0> <img><aud> <|user|>",
         "the , dog ! do n't . ?", "<0x41><unk> \r\n x"]
NEW = ["<|im_start|>", "<|im_end|>", "<tool>", "[X]", "new word", "Ünï", "foo", "<|end|>", "ab", "the", "<img>", "▁<PRE>", "<extra_id_0>", "<s>"]
# A charsmap with ten rules: A, \u00C9, \uFB01, U+3000, \u00BD, "ab", U+200B, \u4E2D, e with U+0301, and U+00A0 become others.
CHARSMAP = base64.b64encode(zlib.decompress(base64.b64decode(
    "eNod03mwjlUYAPDHh6GZy4z/iHQxdpGlQpZk37c22XLrErJGKdtnxr5TXULRTGMphhQuRcutLFFK2dcsJVT2ffl93pnf+5zzznPes0ee8OSKBgUi8kUkMx6KSBO350/EmL"
    "wRBZUX5U1lRDI3k6p6lUvElAKpdpFMjkhEMjMiOzsRK+QV8m15WiI2joz77R9QLyKxMEV5EF1EMR6mOCXooYdSYklKk7kqd5QVy1CeclSkAo9QiSpUxpDiUapTjceowRM8"
    "Ti1q8iS1qUsd6lOPBjxFQ56mMY1oShOa04yWtKA1rWhLG9rTjo504Fme4XmeoxMv0JkX6UoXutPt/twjXuJlMlJz5xV60ZPevEpf+tCP1xhAfwYxkNcZzFCG8CZv8BbDGM"
    "7b2JoYwWhGMSa1kXy3NCLHeRinPJYJjGcSE5nCZKYxlRlMZxYzeYfZvMe7zCGL95nLfObxAQtYyId8xCL+zI44virihM37WH0Ji1mGocWnfMIKlrOS/yzkZ6Jm8TmrWcMX"
    "rGMt6/Hr+JINbOQrvmYT3/INOak14Ae+ZzM/spUt/MQ2drCdX/iZX9nJLn7jD35nD7vZx14OsJ9DHOQIhznGUY6n1oCTnOAvTnGavznDP5zjbGru/Mt5/uciF7jMJa5yhe"
    "tc4yY3uM0t7nIndYvTo2qVao5hz97OSc6yOJU1IT3uATnVmT8="))).decode()
SPECIAL = {
    "llama": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
    "gpt2": {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"},
    "bert": {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"},
    "roberta": {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>", "cls_token": "<s>",
                "sep_token": "</s>"},
    "gemma": {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>", "mask_token": "<mask>"},
    "t5": {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
    "mbart": {"cls_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask>", "sep_token": "</s>"},
    "pegasus": {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "mask_token": "<mask_2>"},
    "albert": {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"},
}
# class, kind of vocabulary, special tokens, model_type
CLASSES = [
    ("LlamaTokenizer", "meta", "llama", "llama"), ("LlamaTokenizerFast", "meta", "llama", None), ("CodeLlamaTokenizer", "meta", "llama", "llama"),
    ("GPT2Tokenizer", "byte", "gpt2", "gpt2"), ("CodeGenTokenizer", "byte", "gpt2", "phi"), ("Qwen2Tokenizer", "byte", "gpt2", "qwen2"),
    ("Qwen2TokenizerFast", "byte", "gpt2", "qwen3"), ("Qwen3_5Tokenizer", "byte", "gpt2", "qwen3_5"),
    ("GPTNeoXTokenizerFast", "byte", "gpt2", "gpt_neox"), ("CohereTokenizerFast", "byte", "gpt2", "cohere"),
    ("RobertaTokenizer", "byte", "roberta", "roberta"), ("BartTokenizer", "byte", "roberta", "bart"),
    ("BlenderbotTokenizer", "byte", "roberta", "blenderbot"), ("BertTokenizer", "words", "bert", "bert"),
    ("DistilBertTokenizer", "words", "bert", "distilbert"), ("ElectraTokenizerFast", "words", "bert", "electra"),
    ("MPNetTokenizer", "words", "roberta", "mpnet"), ("T5Tokenizer", "pieces", "t5", "t5"),
    ("XLMRobertaTokenizer", "pieces", "roberta", "xlm-roberta"), ("AlbertTokenizer", "pieces", "albert", "albert"),
    ("NllbTokenizer", "meta", "roberta", "m2m_100"), ("NllbTokenizerFast", "meta", "roberta", "nllb-moe"),
    ("MBartTokenizer", "pieces", "roberta", "mbart"), ("MBart50TokenizerFast", "pieces", "mbart", "mbart"),
    ("PegasusTokenizer", "pieces", "pegasus", "pegasus"), ("CamembertTokenizer", "pieces", "roberta", "camembert"),
    ("WhisperTokenizer", "byte", "gpt2", "whisper"),
    ("GemmaTokenizer", "meta", "gemma", "gemma2"), ("LlamaTokenizerFast", "meta", "llama", "mistral"),
    ("LlamaTokenizer", "meta", "llama", "phi3"), ("LlamaTokenizer", "byte", "gpt2", "llama"), ("NoSuchTokenizer", "byte", "gpt2", "gpt2"),
    (None, "byte", "gpt2", "qwen2"), (None, "meta", "llama", "llama"), (None, "words", "bert", "bert"),
    *(("PreTrainedTokenizerFast", kind, special, model) for kind, special in
      (("byte", "gpt2"), ("meta", "llama"), ("words", "bert"), ("pieces", "t5"), ("table", "bert")) for model in (None, "llama", "mistral"))]

# Further tokens of a class's vocabulary, and settings that only it has.
FURTHER = {"Nllb": ["eng_Latn", "fra_Latn", "deu_Latn"], "MBart": ["en_XX", "de_DE", "fr_XX"], "Pegasus": ["<mask_1>", "<unk_2>", "<unk_7>"],
           "Whisper": ["<|startoftranscript|>", "<|notimestamps|>", "<|transcribe|>", "<|translate|>", "<|en|>"],
           "Camembert": ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]}
SETTINGS = {"src_lang": [None, "fra_Latn", "de_DE", "fr_XX"], "tgt_lang": ["fra_Latn"], "legacy_behaviour": [True, False], "offset": [103, 9],
            "mask_token_sent": [None, "<mask_1>"], "task": [None, "transcribe", "translate"], "predict_timestamps": [True, False]}


def byte_chars():
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    char = {b: chr(b) for b in shown}
    char.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)})
    return char


CHARS = byte_chars()


class Maker:
    """One folder, made from a seed."""

    def __init__(self, seed, folder):
        self.rng, self.folder, self.config = random.Random(seed), folder, {}
        os.makedirs(folder, exist_ok=True)

    def chance(self, p):
        return self.rng.random() < p

    def write(self, name, value):
        with open(f"{self.folder}/{name}", "wb") as f:
            f.write(value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)).encode())

    # ---- vocabularies

    def bpe(self, kind, special):
        words = [[CHARS[b] for b in w.encode()] for w in [" " + w for w in WORDS] + WORDS] if kind == "byte" else \
            [list(w) for w in [META + w for w in WORDS] + WORDS]
        symbols = sorted({s for w in words for s in w} | {CHARS[b] for b in b" \n\t<>|_[]"} if kind == "byte" else {s for w in words for s in w})
        if kind == "meta" and self.chance(.5):
            symbols = self.rng.sample(symbols, 25) + [META]
        if kind == "meta" and self.chance(.5):
            symbols += [f"<0x{b:02X}>" for b in (10, 13, 32, *range(60, 80), 0xC3, 0xA9, 0xE4, 0xB8, 0xAD)]
        words, merges = [[s for s in w if s in symbols] for w in words], []
        for _ in range(self.rng.choice([5, 20, 40])):
            count = collections.Counter(p for w in words for p in zip(w, w[1:]))
            if not count:
                break
            merges.append(self.rng.choice([p for p in count if count[p] >= max(count.values()) - 1]))
            for w in words:
                for i in range(len(w) - 2, -1, -1):
                    if i + 1 < len(w) and (w[i], w[i + 1]) == merges[-1]:
                        w[i:i + 2] = [w[i] + w[i + 1]]
        order = [list(dict.fromkeys(special)), symbols + [a + b for a, b in merges]]
        order = order if self.chance(.6) else order[::-1]
        return {t: i for i, t in enumerate(dict.fromkeys(order[0] + order[1]))}, merges

    def pieces(self, special):
        chars = sorted({c for w in WORDS for c in w})
        texts = [*special, META, *self.rng.sample(chars, 20), *(META + w for w in WORDS if self.chance(.6)), *(w for w in WORDS if self.chance(.4))]
        return [[t, 0.0 if t in special else -round(self.rng.uniform(1, 12), 3)] for t in dict.fromkeys(texts)]

    def words(self, special):
        texts = [*special, *(w.lower() if self.chance(.7) else w for w in WORDS), *("##" + w[i:].lower() for w in WORDS for i in range(1, len(w)))]
        return {t: i for i, t in enumerate(dict.fromkeys([*texts, *"abcdehlonw", *("##" + c for c in "abcdehlonw")]))}

    def model(self, kind, special):
        unk = next((t for t in ("<unk>", "[UNK]", "<|endoftext|>") if t in special), None)
        if kind in ("byte", "meta"):
            vocab, merges = self.bpe(kind, special)
            return {"type": "BPE", "dropout": None, "unk_token": self.rng.choice([unk, None]), "continuing_subword_prefix": None,
                    "end_of_word_suffix": None, "fuse_unk": self.chance(.5), "byte_fallback": kind == "meta" and self.chance(.6),
                    "ignore_merges": self.chance(.3), "vocab": vocab, "merges": [list(m) for m in merges] if self.chance(.5) else [" ".join(m) for m in merges]}, vocab
        if kind == "pieces":
            pieces = self.pieces(special)
            ids = {t: i for i, (t, _) in enumerate(pieces)}
            return {"type": "Unigram", "unk_id": ids[unk], "byte_fallback": self.chance(.2), "vocab": pieces}, ids
        vocab = self.words(special)
        if kind == "table":
            return {"type": "WordLevel", "vocab": vocab, "unk_token": unk}, vocab
        return {"type": "WordPiece", "unk_token": unk, "continuing_subword_prefix": "##", "max_input_chars_per_word": self.rng.choice([100, 8]),
                "vocab": vocab}, vocab

    # ---- stages

    def normalizer(self, inner=False):
        flag = lambda: self.chance(.5)
        if not inner and flag():
            return {"type": "Sequence", "normalizers": [self.normalizer(True) for _ in range(self.rng.randint(0, 3))]}
        return self.rng.choice([
            *({"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")),
            {"type": "Strip", "strip_left": flag(), "strip_right": flag()}, {"type": "Precompiled", "precompiled_charsmap": CHARSMAP},
            {"type": "Replace", "pattern": self.rng.choice([{"String": " "}, {"Regex": " {2,}"}, {"Regex": "\\s+"}, {"String": "a"}, {"Regex": "[aeiou]\\b"},
                                                            {"Regex": "^\\s+|\\s+$"}, {"Regex": "\\p{Lu}"}, {"Regex": "\\d{2,3}|l+(?=o)"}]),
             "content": self.rng.choice([META, "_", " ", "x", "", " the "])}, {"type": "ByteLevel"} if not inner else {"type": "NFC"}, {"type": "Prepend", "prepend": self.rng.choice([META, " ", "x"])},
            {"type": "BertNormalizer", "clean_text": flag(), "handle_chinese_chars": flag(), "strip_accents": self.rng.choice([None, True, False]),
             "lowercase": flag()}])

    def byte_level(self):
        return {"type": "ByteLevel", "add_prefix_space": self.chance(.3), "trim_offsets": self.chance(.5), "use_regex": self.chance(.6)}

    def pretokenizer(self, kind, inner=False):
        behavior = self.rng.choice(["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
        if not inner and kind == "byte":
            stages = [self.pretokenizer(kind, True) for _ in range(self.rng.randint(0, 2))] + [self.byte_level()]
            return stages[0] if len(stages) == 1 else {"type": "Sequence", "pretokenizers": stages}
        if not inner and self.chance(.3):
            return {"type": "Sequence", "pretokenizers": [self.pretokenizer(kind, True) for _ in range(self.rng.randint(0, 3))]}
        return self.rng.choice([
            *({"type": t} for t in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "UnicodeScripts")), {"type": "Digits", "individual_digits": self.chance(.5)},
            {"type": "Punctuation", "behavior": behavior}, {"type": "CharDelimiterSplit", "delimiter": self.rng.choice("a_. ")},
            {"type": "Metaspace", "replacement": self.rng.choice([META, META, "_"]), "prepend_scheme": self.rng.choice(["always", "first", "never"]),
             "split": self.chance(.5)}, {"type": "FixedLength", "length": self.rng.choice([1, 3, 5])},
            {"type": "Split", "pattern": self.rng.choice([{"Regex": "\\w+|[^\\w\\s]+"}, {"String": " "}, {"Regex": "\\p{N}{1,3}"}, {"String": "ab"},
                                                          {"Regex": "(?<=a)b|[^\\S\\n]+"}, {"Regex": "\\s+(?!\\S)|\\s"}, {"Regex": "(?i:the|do)|."},
                                                          {"Regex": "'s|'t| ?\\p{L}+| ?\\p{N}+"}]),
             "behavior": behavior, "invert": self.chance(.3)}])

    def decoder(self, kind):
        usual = {"byte": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                 "words": {"type": "WordPiece", "prefix": "##", "cleanup": self.chance(.5)},
                 "table": None}.get(kind, {"type": "Metaspace", "replacement": META, "prepend_scheme": self.rng.choice(["always", "first", "never"]),
                                           "split": True})
        spaces = {"type": "Replace", "pattern": {"String": META}, "content": " "}
        return usual if self.chance(.6) else self.rng.choice([
            None, {"type": "BPEDecoder", "suffix": "</w>"}, {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
            {"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "Strip", "content": " ", "start": 1, "stop": self.rng.randint(0, 1)}, spaces,
            {"type": "Sequence", "decoders": [spaces, {"type": "ByteFallback"}, {"type": "Fuse"},
                                              {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}])

    def post(self, ids, first, last):
        if self.chance(.2):
            return {"type": "Sequence", "processors": [p for p in (self.one_post(ids, first, last) for _ in range(self.rng.randint(1, 2))) if p]}
        return self.one_post(ids, first, last)

    def one_post(self, ids, first, last):
        token = lambda t: {"SpecialToken": {"id": t, "type_id": 0}}
        a, b = {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
        table = {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in (first, last)}
        template = lambda x, y: {"type": "TemplateProcessing", "single": [*x, a, *y], "pair": [*x, a, *y, *x, b, *y], "special_tokens": table}
        typed = {"type": "TemplateProcessing", "single": [token(first), {"Sequence": {"id": "A", "type_id": 1}}],
                 "pair": [b, token(last), a, token(first), {"SpecialToken": {"id": last, "type_id": 1}}], "special_tokens": table}
        ends = {"sep": [last, ids[last]], "cls": [first, ids[first]]}
        return self.rng.choice([None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
                                typed, template([token(first)], []), template([], [token(last)]), template([token(first)], [token(last)]),
                                {"type": "BertProcessing", **ends}, {"type": "RobertaProcessing", **ends, "trim_offsets": True, "add_prefix_space": False}])

    # ---- what is beside

    def options(self, content, special=None):
        special = self.chance(.5) if special is None else special
        return {"content": content, "single_word": self.chance(.15), "lstrip": self.chance(.25), "rstrip": self.chance(.25),
                "normalized": not special if self.chance(.6) else self.chance(.5), "special": special}

    def some(self, token, special):
        return token if self.chance(.6) else {"__type": "AddedToken", **self.options(token, special)}

    def beside(self, special, n, added=()):
        new, how = self.rng.sample(NEW, self.rng.randint(1, 3)), self.rng.choice("decoder added list dict older map both named none".split())
        if how in ("decoder", "both"):
            self.config["added_tokens_decoder"] = {str(t["id"]): {k: v for k, v in t.items() if k != "id"} for t in added if self.chance(.8)} | {
                str(n + i): self.options(t) for i, t in enumerate(new)}
        if how in ("added", "map"):
            self.write("added_tokens.json", {t: n + i for i, t in enumerate(new)})
        if how in ("list", "both"):
            self.config["extra_special_tokens"] = [self.some(t, self.chance(.7)) for t in new]
        if how == "dict":
            self.config["extra_special_tokens"] = {f"{name}_token": t for name, t in zip(("image", "audio", "video"), new)}
        if how == "older":
            self.config["additional_special_tokens"] = [self.some(t, True) for t in new]
        if how == "map":
            self.write("special_tokens_map.json", {k: v if self.chance(.5) else self.options(v, True) for k, v in special.items() if self.chance(.7)} |
                       ({"additional_special_tokens": new[:1]} if self.chance(.5) else {}))
        if how == "named":
            self.config |= {"image_token": "<img>", "audio_token": {"__type": "AddedToken", **self.options("<aud>")}}
        return how

    def settings(self, name, special, model_type):
        for role, token in special.items():
            if self.chance(.7):
                self.config[role] = self.some(token, self.chance(.7))
        for key in ("add_prefix_space", "legacy", "do_lower_case", "tokenize_chinese_chars", "strip_accents", "add_bos_token", "add_eos_token",
                    "clean_up_tokenization_spaces", "keep_accents"):
            if self.chance(.25):
                self.config[key] = self.chance(.5)
        if name:
            self.config["tokenizer_class"] = name
        if model_type:
            self.write("config.json", {"model_type": model_type})

    # ---- folders

    def json_folder(self):
        name, kind, special, model_type = self.rng.choice(CLASSES)
        special, free = SPECIAL[special], self.chance(.6) or name in (None, "PreTrainedTokenizerFast")
        further = next((texts for start, texts in FURTHER.items() if (name or "").startswith(start)), [])
        further = [t for t in further if self.chance(.9)]
        for key, values in SETTINGS.items() if further else ():
            if self.chance(.2):
                self.config[key] = self.rng.choice(values)
        model, ids = self.model(kind, [*special.values(), *further])
        added = [{"id": ids[t], **self.options(t, True)} for t in dict.fromkeys([*special.values(), *further])]
        if self.chance(.4):
            added += [{"id": len(ids) + i, **self.options(t)} for i, t in enumerate(t for t in self.rng.sample(NEW, 2) if t not in ids)]
        added.sort(key=lambda t: t["id"])
        first = special.get("bos_token") or special.get("cls_token") or list(special.values())[0]
        last = special.get("eos_token") or special.get("sep_token")
        usual = {"byte": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                 "words": {"type": "BertPreTokenizer"}}.get(kind, {"type": "Metaspace", "replacement": META, "prepend_scheme": "always", "split": True})
        self.settings(name, special, model_type)
        how = self.beside(special, max(len(ids), added[-1]["id"] + 1), added)
        self.write("tokenizer.json", {
            "version": "1.0", "added_tokens": added,
            "truncation": {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0} if self.chance(.15) else None,
            "padding": {"strategy": self.rng.choice(["BatchLongest", {"Fixed": 9}]), "direction": "Left", "pad_to_multiple_of": None, "pad_id": 0,
                        "pad_type_id": 0, "pad_token": next(iter(ids))} if self.chance(.15) else None,
            "normalizer": self.normalizer() if free and self.chance(.6) else None, "pre_tokenizer": self.pretokenizer(kind) if free else usual,
            "post_processor": self.post(ids, first, last), "decoder": self.decoder(kind), "model": model})
        if self.chance(.95):
            self.write("tokenizer_config.json", self.config)
        return f"tokenizer.json, {name}, {kind}, {model_type}, {how}"

    def spm_file(self, unigram, special):
        def number(n):
            return bytes([n & 127 | 128]) + number(n >> 7) if n > 127 else bytes([n])

        def field(n, value):
            return number(n << 3) + number(value) if isinstance(value, int) else number(n << 3 | 2) + number(len(value)) + value

        pieces = [(t, 0.0, 2 if t == special["unk_token"] else 3) for t in dict.fromkeys(special.values())]
        fallback = self.chance(.5)
        pieces += [(f"<0x{b:02X}>", 0.0, 6) for b in range(256) if fallback]
        pieces += [(t, 0.0, 4) for t in self.rng.sample(["<|user|>", "[X]", "foo", "\t"], 2) if self.chance(.2)]
        texts = [t for t, _ in self.pieces([])] if unigram else sorted((t for t in self.bpe("meta", [])[0] if not t.startswith("<0x")), key=lambda t: -len(t))
        pieces += [(t, -self.rng.uniform(1, 12) if unigram else -float(i), 5 if self.chance(.03) else 1) for i, t in enumerate(texts)]
        unique = list({p[0]: p for p in reversed(pieces)}.values())[::-1]
        ids = {t: i for i, (t, _, _) in enumerate(unique)}
        data = b"".join(field(1, field(1, t.encode()) + b"\x15" + struct.pack("<f", score) + field(3, kind)) for t, score, kind in unique)
        id_of = lambda role: ids.get(special.get(role), 2**64 - 1)
        trainer = field(3, 1 if unigram else 2) + field(35, int(fallback)) + field(40, ids[special["unk_token"]]) + field(41, id_of("bos_token")) + \
            field(42, id_of("eos_token")) + field(43, 2**64 - 1)
        rules = field(3, int(self.chance(.75))) + field(4, int(self.chance(.5)))
        rules += field(2, base64.b64decode(CHARSMAP)) if self.chance(.4) else b""
        return data + field(2, trainer) + field(3, rules), len(unique)

    def spm_folder(self):
        unigram = self.chance(.45)
        name, model_type, special = self.rng.choice(
            [("T5Tokenizer", "t5", "t5"), ("XLMRobertaTokenizer", "xlm-roberta", "llama"), ("AlbertTokenizer", "albert", "albert"), (None, None, "llama"),
             ("PreTrainedTokenizerFast", "llama", "llama"), (None, "llama", "llama")] if unigram else
            [("LlamaTokenizer", "llama", "llama"), ("LlamaTokenizer", None, "llama"), ("LlamaTokenizer", "mistral", "llama"),
             ("LlamaTokenizer", "phi3", "llama"), ("CodeLlamaTokenizer", "llama", "llama"), ("GemmaTokenizer", "gemma", "gemma"), (None, None, "llama"),
             (None, "llama", "llama"), ("PreTrainedTokenizerFast", "llama", "llama")])
        data, n = self.spm_file(unigram, SPECIAL[special])
        self.write({"T5Tokenizer": "spiece.model", "AlbertTokenizer": "spiece.model", "XLMRobertaTokenizer": "sentencepiece.bpe.model"}.get(
            name, "tokenizer.model"), data)
        self.settings(name, SPECIAL[special], model_type)
        if name == "T5Tokenizer":
            self.config["extra_ids"] = self.rng.choice([0, 3])
        how = self.beside(SPECIAL[special], n)
        if name or self.chance(.5):
            self.write("tokenizer_config.json", self.config)
        return f"SentencePiece's {'Unigram' if unigram else 'BPE'}, {name}, {model_type}, {how}"

    def plain_folder(self):
        kind = self.rng.choice(["byte", "words"])
        name, kind, special, model_type = self.rng.choice([c for c in CLASSES if c[1] == kind and c[0] and c[0][:2] not in ("Pr", "No", "Ll")])
        if kind == "byte":
            vocab, merges = self.bpe("byte", SPECIAL[special].values())
            self.write("vocab.json", vocab)
            self.write("merges.txt", self.rng.choice(["#version: 0.2\n", ""]) + "".join(" ".join(m) + "\n" for m in merges))
        else:
            vocab = self.words(SPECIAL[special].values())
            self.write("vocab.txt", "".join(t + "\n" for t in vocab))
        self.settings(name, SPECIAL[special], model_type)
        how = self.beside(SPECIAL[special], len(vocab))
        self.write("tokenizer_config.json", self.config)
        return f"{'vocab.json' if kind == 'byte' else 'vocab.txt'}, {name}, {model_type}, {how}"

    def make(self):
        return self.rng.choice([self.json_folder] * 5 + [self.spm_folder] * 3 + [self.plain_folder] * 2)()


# ---- comparing

class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("code", ctypes.c_int), ("text", ctypes.c_char * 4088)]


class Encoded(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("types", ctypes.POINTER(ctypes.c_int32)), ("n", ctypes.c_int32), ("n_cut", ctypes.c_int32)]


class Refused(Exception):
    pass


class Clef:
    def __init__(self, lib, path):
        self.lib, self.err, self.tok = lib, Error(), ctypes.c_void_p()
        self.need(lib.clef_tokenizer_open(path.encode(), ctypes.byref(self.tok), ctypes.byref(self.err)))

    def need(self, status):
        if status:
            raise Refused(bytes(self.err.text).split(b"\0")[0].decode(errors="replace"))

    def encode(self, text, special):
        raw, ids, n = text.encode(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_int32()
        self.need(self.lib.clef_tokenizer_encode(self.tok, raw, ctypes.c_size_t(len(raw)), 0 if special else 1, ctypes.byref(ids), ctypes.byref(n),
                                                 ctypes.byref(self.err)))
        out = ids[:n.value]
        self.lib.clef_tokens_free(ids)
        return out

    def decode(self, ids):
        text, n, array = ctypes.c_void_p(), ctypes.c_size_t(), (ctypes.c_int32 * max(1, len(ids)))(*ids)
        self.need(self.lib.clef_tokenizer_decode(self.tok, array, len(ids), ctypes.byref(text), ctypes.byref(n), ctypes.byref(self.err)))
        out = ctypes.string_at(text, n.value).decode()
        self.lib.clef_text_free(text)
        return out

    def pair(self, a, b):
        a, b, out = a.encode(), b.encode(), Encoded()
        self.need(self.lib.clef_tokenizer_encode_pair(self.tok, a, ctypes.c_size_t(len(a)), b, ctypes.c_size_t(len(b)), None, ctypes.byref(out),
                                                      ctypes.byref(self.err)))
        ids = out.ids[:out.n]
        self.lib.clef_encoded_finish(ctypes.byref(out))
        return ids

    def close(self):
        self.lib.clef_tokenizer_close(self.tok)


def quietly(call):
    """The result of a call to transformers; None where it fails, a panic of its library included."""
    try:
        return call()
    except BaseException as why:
        if isinstance(why, KeyboardInterrupt):
            raise
        return None


def texts_of(seed):
    rng = random.Random(f"texts {seed}")
    parts = WORDS + NEW + [" ", "  ", "\n", "é", "中", "😀", "▁", "A"]
    return TEXTS + ["".join(rng.choice(parts) + rng.choice(["", " ", ""]) for _ in range(rng.randint(1, 12))) for _ in range(5)]


def answers(tok, seed):
    """[text, ids, ids with special tokens, their text]; None for what transformers cannot do"""
    for text in texts_of(seed):
        plain, around = (quietly(lambda: tok(text, add_special_tokens=special).input_ids) for special in (False, True))
        yield text, plain, around, None if around is None else quietly(lambda: tok.decode(around, skip_special_tokens=True))


def difference(clef, right):
    text, plain, around, back = right
    for special, ids in ((False, plain), (True, around)):
        if ids is not None and clef.encode(text, special) != ids:
            return f"{text!r}{' with special tokens' if special else ''}: expected {ids}, got {clef.encode(text, special)}"
    if back is not None and clef.decode(around) != back:
        return f"{around}: expected {back!r}, got {clef.decode(around)!r}"


def other_uses(clef, tok, seed):
    """What differs in pairs of texts and in the text of ids in any order, but for bytes that are not UTF-8."""
    rng, texts = random.Random(f"uses {seed}"), texts_of(seed)
    for _ in range(4):
        a, b = rng.choice(texts), rng.choice(texts[1:])
        right = quietly(lambda: tok(a, b).input_ids)
        if right is not None and clef.pair(a, b) != right:
            return f"{a!r} and {b!r}: expected {right}, got {clef.pair(a, b)}"
        ids = [rng.randrange(len(tok)) for _ in range(rng.randint(1, 8))]
        back = quietly(lambda: tok.decode(ids, skip_special_tokens=True)) if all(quietly(lambda: tok.convert_ids_to_tokens(i)) for i in ids) else None
        if back is not None and "\ufffd" not in back and clef.decode(ids) != back:
            return f"{ids}: expected {back!r}, got {clef.decode(ids)!r}"


def compare(lib, seed, folder):
    """(what the folder is, "same", "refused", "no oracle" or "other", why)"""
    from transformers import AutoTokenizer
    what = Maker(seed, folder).make()
    tok = quietly(lambda: AutoTokenizer.from_pretrained(folder))
    if tok is None:
        return what, "no oracle", ""
    try:
        clef = Clef(lib, folder)
    except Refused as why:
        return what, "refused", str(why).replace(folder, "FOLDER")
    why = next(filter(None, (difference(clef, right) for right in answers(tok, seed))), None) or other_uses(clef, tok, seed)
    clef.close()
    return what, "other" if why else "same", why or ""


def write_fixture(lib, first, n, path):
    from transformers import AutoTokenizer
    cases, seed = [], first
    while len(cases) < n:
        with tempfile.TemporaryDirectory() as top:
            folder = top + "/folder"
            what, result, _ = compare(lib, seed, folder)
            files = {name: open(f"{folder}/{name}", "rb").read() for name in sorted(os.listdir(folder))}
            size = sum(map(len, files.values()))
            kinds = sum(c["what"].split(", ")[1] == what.split(", ")[1] for c in cases)
            if result == "same" and size < 6000 and kinds < 1:
                tok = AutoTokenizer.from_pretrained(folder)
                good = [list(a) for a in answers(tok, seed) if None not in a and a[0]]
                cases.append({"what": what, "files": {k: base64.b64encode(v).decode() if k.endswith(".model") else v.decode() for k, v in files.items()},
                              "cases": random.Random(seed).sample(good, min(6, len(good)))})
        seed += 1
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in cases) + "\n]\n")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("lib")
    options.add_argument("--folders", type=int, default=120)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--one", type=int)
    options.add_argument("--fixture")
    o = options.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical", "RUST_BACKTRACE": "0"}
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    import transformers
    if not transformers.__version__.startswith("5.24."):
        print(f"skipped: transformers {transformers.__version__}, expected 5.24")
        return 0
    lib, count, reasons = ctypes.CDLL(os.path.abspath(o.lib)), collections.Counter(), collections.Counter()
    if o.fixture:
        write_fixture(lib, o.seed, o.folders, o.fixture)
        return 0
    for seed in [o.one] if o.one is not None else range(o.seed, o.seed + o.folders):
        with tempfile.TemporaryDirectory() as top:
            what, result, why = compare(lib, seed, top + "/folder")
        count[result] += 1
        if result == "other" or o.one is not None:
            print(f"folder {seed} ({what}): {result} {why}")
        if result == "refused":
            reasons[why[:120]] += 1
    print(f"{o.folders} folders: {count['same']} the same, {count['refused']} refused, {count['no oracle']} that transformers refuses, "
          f"{count['other']} other")
    for why, n in reasons.most_common(8) if o.folders > 200 else []:
        print(f"  {n} refused: {why}")
    return count["other"] > 0


if __name__ == "__main__":
    sys.exit(main())
