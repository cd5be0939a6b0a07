#!/usr/bin/env python3
"""Compares tokenizers of `clef tokenize --train` with those of Hugging Face's BpeTrainer on the same files: vocabulary, ids and merges.

    tokenize_train.py CLEF [TEXTS]

TEXTS is a folder of text files; texts made here are compared without it, too."""
import json, os, random, subprocess, sys, tempfile
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

END = ["<|endoftext|>"]
failures = passed = 0


def wanted(files, size, least, special):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.train(files, trainers.BpeTrainer(vocab_size=size, min_frequency=least, special_tokens=special, show_progress=False,
                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return json.loads(tok.to_str())


def got(clef, folder, files, size, least, special):
    flags = [x for s in special for x in ("--special", s)]
    subprocess.run([clef, "tokenize", "--train", str(size), "--min-frequency", str(least), "-o", folder, "-q", *flags, "--", *files], check=True)
    with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as f:
        return json.load(f)


def difference(a, b):
    for i, (x, y) in enumerate(zip(a["model"]["merges"], b["model"]["merges"])):
        if list(x) != y:
            return f"merge {i}: expected {x}, got {y}"
    if len(a["model"]["merges"]) != len(b["model"]["merges"]):
        return f"expected {len(a['model']['merges'])} merges, got {len(b['model']['merges'])}"
    if a["model"]["vocab"] != b["model"]["vocab"]:
        return "other ids"
    if [(t["id"], t["content"]) for t in a["added_tokens"]] != [(t["id"], t["content"]) for t in b["added_tokens"]]:
        return "other special tokens"


def compare(clef, tmp, name, files, size, least=0, special=END):
    global failures, passed
    why = difference(wanted(files, size, least, special), got(clef, os.path.join(tmp, "out"), files, size, least, special))
    if why:
        failures += 1
        print(f"FAIL {name}, {size} tokens, at least {least}: {why}")
    else:
        passed += 1
        print(f"ok {name}, {size} tokens, at least {least}")


def made(tmp):
    """Texts with a rare shape: (name, file)."""
    draw = random.Random(15)
    texts = {
        "nothing": "", "line ends": "\n" * 50, "Windows' line ends": "a b\r\nc d\r\n" * 40, "Mac's line ends": "a b\rc d\r" * 40,
        "spaces": "  a   b    c\t\td\u00a0\u3000e \n" * 30, "runs of a letter": "aaaaaaaa aaa aaaaaaaaaaaaaaa aa\n" * 9, "zero bytes": "a\0b\0 \0\0\n" * 9,
        "a byte order mark": "\ufeffabc abc\n" * 5, "short forms": "don't I'll we've you're I'm he'd it's DON'T 'S ''s don\u2019t\n" * 7,
        "other separators": "a\u0085b\u2028c\u2029d\x0be\x0cf\x1cg\x1dh\x1ei\x1fj\u180ek\u200bl\n" * 5,
        "numbers": "1234 \u00b2\u00b3 \u2167 \u0663\u0664 \u00bd 12.5 \U0001d7d8\n" * 8, "a special token": "a<|endoftext|>b <|endoftext|>\n" * 20,
        "letters of Unicode 16": "a\u1c89b \ua7cb\ua7da c\U00010d50 \U000105c0\n" * 9,
    }
    for k in range(12):
        letters = ("ab", "abc ", "a bcd\u00e9\u65e5\u672c 'sS\u00a0\u2003!?",
                   "".join(chr(draw.choice((draw.randrange(32, 0x250), draw.randrange(0x300, 0xd800), draw.randrange(0xe000, 0x20000))))
                           for _ in range(40)) + "  \n\r")[k % 4]
        texts[f"random characters {k}"] = "".join(draw.choice(letters) for _ in range(draw.choice((10, 100, 3000))))
    for i, (name, text) in enumerate(texts.items()):
        path = os.path.join(tmp, f"made{i}.txt")
        with open(path, "wb") as f:
            f.write(text.encode())
        yield name, path


def main():
    clef, texts = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as tmp:
        for name, path in made(tmp):
            for size, least in ((300, 0), (600, 2)):
                compare(clef, tmp, name, [path], size, least)
        path = os.path.join(tmp, "hello.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("hello hello hallo\n" * 4)
        for special in (["<pad>", "<s>", "</s>"], ["hello"], ["h", "<x>"], ["<x>", "<x>", "<y>"], ["\u00e9", "\u0120"], [" a b "]):
            compare(clef, tmp, f"special tokens {special}", [path], 300, 0, special)
        compare(clef, tmp, "several files", [path, os.path.join(tmp, "made0.txt"), path], 300)
        names = sorted(n for n in os.listdir(texts) if n.endswith(".txt") and n != "SOURCE.txt") if os.path.isdir(texts) else []
        for name in names:
            compare(clef, tmp, name, [os.path.join(texts, name)], 1024)
            compare(clef, tmp, name, [os.path.join(texts, name)], 16384, 2)
    print(f"{passed} passed, {failures} failed")
    sys.exit(failures > 0)


main()
