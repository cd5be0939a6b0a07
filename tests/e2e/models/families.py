#!/usr/bin/env python3
"""What a family needs beside its logits: pictures of its graph, quantised weights, adapters, ONNX, batches, training.

usage: families.py CLEF FOLDER...     FOLDER/expected.safetensors as ../shared/oracle/make_models.py writes it
For each folder
  graph     `clef graph` draws it
  quantise  a Q8_0 file, computed in f32, has the logits of that file read back as F32, and is near the folder
  lora      an adapter of every matrix that clef names writes what the merged file writes, and the merged file has the logits of a folder
            whose matrices NumPy has merged
  onnx      ONNX Runtime has the logits of the exported graph
  batch     prompts side by side with --repeatable, with cached prefixes, write what each writes alone
  train     two steps with adapters have losses that are numbers
A command may refuse in one line that has one of the known reasons. With CLEF_TEST_TURN=i/n every nth folder runs.
needs: numpy, safetensors, onnx, onnxruntime; without the last two, ONNX is left out
"""
import json, math, os, re, shutil, subprocess, sys, tempfile
import numpy as np
from safetensors.numpy import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../oracles"))
from turn import in_turn  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None
clef, *folders = sys.argv[1:]
passed = failed = 0

# Of vocabularies of 256 and more: every byte a token; characters with a score; letters and pieces of words.
LETTERS = [chr(c) for c in range(33, 127)]
TOKENIZERS = {
    "bytes, tokenizer.json": json.dumps({
        "added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False}, "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "merges": [], "vocab": {c: i for i, c in enumerate(LETTERS + [chr(c) for c in [*range(161, 173), *range(174, 324)]])}}}),
    "pieces, tokenizer.json": json.dumps({
        "added_tokens": [{"id": i, "content": t, "special": True} for i, t in enumerate(("<pad>", "</s>", "<unk>"))],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
        "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 2, "vocab": [[t, 0] for t in ("<pad>", "</s>", "<unk>")] + [[t, -2] for t in ["\u2581", *LETTERS]]}}),
    "words, vocab.txt": "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS)]) + "\n",
}
QUIET = ["-q", "--no-tune", "--no-proof"]
# Why a command may refuse a family; any other message is a failure.
REASONS = re.compile(r"(is|are) not supported|has no (export|gradient|mask token)|expected a tokenizer class that clef builds|"
                     r"expected a language model, got one of classes|the model stores this weight in parts|the new file would have")


class Refused(Exception):
    pass


def call(*args):
    r = subprocess.run([clef, *args], capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
    if r.returncode == 1 and len(r.stderr.strip().splitlines()) == 1 and r.stderr.startswith("clef: "):
        raise Refused(r.stderr.strip())
    if r.returncode:
        raise RuntimeError(f"{args[0]} exited {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


def error(a, b):
    keep = np.isfinite(b)
    return float("inf") if a.shape != b.shape else float(np.abs(a - b)[keep].max() / np.abs(b)[keep].max())


class Family:
    def __init__(self, folder, tmp):
        self.tmp, self.folder = tmp, folder
        self.name = os.path.basename(folder.rstrip("/"))
        self.ref = load_file(folder + "/expected.safetensors")
        names = ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids")
        self.inputs = {k: self.ref[k].astype(np.int32) for k in names if k in self.ref}
        self.writes = "greedy_ids" in self.ref
        self.output = "logits" if "logits" in self.ref else "hidden_last"
        with open(folder + "/config.json") as f:
            self.config = json.load(f)

    def eval(self, model, output=None):
        output = output or self.output
        paths = [f"{self.tmp}/{name}.safetensors" for name in ("in", "out")]
        save_file(self.inputs, paths[0])
        tap = [] if output == "logits" else ["--tap", output]
        call("eval", model, "--in", paths[0], "--out", paths[1], "--exact", *tap, *QUIET)
        return load_file(paths[1])[output].astype(np.float64)

    def ids(self, model, *more):
        prompt = self.ref["input_ids"][0] if "decoder_input_ids" in self.ref else self.ref["greedy_ids"][0][:16]
        return call("run", model, "--ids", ",".join(map(str, prompt)), "-n", "12", "--temp", "0", "--ignore-eos", "--print-ids", "--exact",
                    *QUIET, *more).strip()

    def graph(self):
        call("graph", self.folder, "-o", self.tmp + "/g.svg")
        with open(self.tmp + "/g.svg") as f:
            text = f.read()
        return "<svg" in text and text.rstrip().endswith("</svg>"), f"{len(text) // 1024} KiB"

    def quantise(self):
        files = [f"{self.tmp}/{name}.gguf" for name in ("q8_0", "back")]
        call("quantize", self.folder, files[0], "q8_0", "-q")
        call("quantize", files[0], files[1], "f32", "-q")
        plain, coded, back = self.eval(self.folder), self.eval(files[0]), self.eval(files[1])
        keep = np.isfinite(plain)
        exact, a, b = error(coded, back), coded[keep], plain[keep]
        cosine = float(a @ b / np.sqrt((a @ a) * (b @ b)))  # not the largest error: of experts with nearly equal scores others may be chosen
        return exact <= 1e-4 and cosine > 0.8, f"{exact:.0e} beside the values of its codes, cosine with the folder's {cosine:.3f}"

    def adapted(self):
        """Modules of the folder's matrices that clef accepts in an adapter, with two factors each."""
        weights = load_file(self.folder + "/model.safetensors")
        rng, factors = np.random.default_rng(3), {}
        for name, w in sorted(weights.items()):
            layer = re.search(r"\.\d+\.", name)
            if w.ndim != 2 or not layer or not name.endswith(".weight") or re.search(r"norm|embed|conv|relative|rel_|router|gate\.weight", name):
                continue
            rows, columns = w.shape[::-1] if self.is_transposed(name) else w.shape
            factors[name[:-len(".weight")]] = (rng.standard_normal((2, columns)).astype(np.float32) * 0.3,
                                               rng.standard_normal((rows, 2)).astype(np.float32) * 0.3)
        return weights, factors

    def is_transposed(self, name):
        return self.config.get("model_type") == "gpt2"

    def adapter(self, to, factors):
        os.makedirs(to, exist_ok=True)
        with open(to + "/adapter_config.json", "w") as f:
            json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 2, "bias": "none", "fan_in_fan_out": self.is_transposed("")}, f)
        tensors = {}
        for module, (a, b) in factors.items():
            tensors[f"base_model.model.{module}.lora_A.weight"], tensors[f"base_model.model.{module}.lora_B.weight"] = a, b
        save_file(tensors, to + "/adapter_model.safetensors", {"format": "pt"})

    def lora(self):
        weights, factors = self.adapted()
        left, why = [], ""
        while factors:  # what clef refuses by name is left out
            self.adapter(self.tmp + "/adapter", factors)
            try:
                call("lora", "merge", self.folder, self.tmp + "/adapter", self.tmp + "/merged.gguf", "--type", "f32", "-q")
                break
            except Refused as e:
                why = str(e)
                named = [m for m in factors if m in why]
                if not named:
                    raise
                kind = re.sub(r"\.\d+\.", ".N.", max(named, key=len))
                left.append(kind.rsplit(".", 1)[-1])
                factors = {m: f for m, f in factors.items() if re.sub(r"\.\d+\.", ".N.", m) != kind}
        if not factors:
            raise Refused(why)
        merged = dict(weights)
        for module, (a, b) in factors.items():
            step = (b @ a).T if self.is_transposed(module) else b @ a
            merged[module + ".weight"] = (weights[module + ".weight"].astype(np.float64) + step).astype(np.float32)
        shutil.copytree(self.folder, self.tmp + "/numpy", ignore=shutil.ignore_patterns("expected*", "model.safetensors"))
        os.chmod(self.tmp + "/numpy", 0o755)
        save_file(merged, self.tmp + "/numpy/model.safetensors", {"format": "pt"})
        far = error(self.eval(self.tmp + "/merged.gguf"), self.eval(self.tmp + "/numpy"))
        what = f"{len(factors)} matrices, merged {far:.0e}" + (f"; not {', '.join(left)}" if left else "")
        if not self.writes:
            return far <= 1e-4, what
        plain, beside, whole = self.ids(self.folder), self.ids(self.folder, "--lora", self.tmp + "/adapter"), self.ids(self.tmp + "/merged.gguf")
        return far <= 1e-4 and beside == whole, what + (", the same ids" if beside == whole else f", {beside} not {whole}") + \
            (" (unchanged)" if beside == plain else "")

    def onnx(self):
        if not onnxruntime:
            return True, "no onnxruntime"
        path, flags = self.tmp + "/g.onnx", ["--no-cache"] if self.writes and "decoder_input_ids" not in self.ref else []
        if "original_max_position_embeddings" in self.config:  # the frequencies that `clef eval` takes for so short a text
            flags += ["-c", str(self.config["original_max_position_embeddings"])]
        call("graph", self.folder, "--format", "onnx", "-o", path, *flags)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        b, t = self.inputs["input_ids"].shape
        known = {"attention_mask": np.ones((b, t)), "position_ids": np.tile(np.arange(t), (b, 1)), "token_type_ids": np.zeros((b, t)), **self.inputs}
        feeds = {i.name: known[i.name].astype(np.int64) for i in session.get_inputs()}
        got = session.run(["logits"], feeds)[0]
        want = self.eval(self.folder, "logits")
        keep = np.ones(want.shape[:2], bool)
        if want.ndim == 3 and "attention_mask" in self.inputs and "decoder_input_ids" not in self.inputs:
            keep = self.inputs["attention_mask"].astype(bool)
        far = error(got[keep] if want.ndim == 3 else got, want[keep] if want.ndim == 3 else want)
        return far <= 1e-4, f"{far:.0e}"

    def with_tokenizer(self):
        """The folder with the first tokenizer that its family takes."""
        to = self.tmp + "/spoken"
        if os.path.exists(to):
            return to
        shutil.copytree(self.folder, to, ignore=shutil.ignore_patterns("expected*"))
        os.chmod(to, 0o755)
        for name, text in TOKENIZERS.items():
            with open(f"{to}/{name.split()[-1]}", "w") as f:
                f.write(text)
            try:
                call("tokenize", to, "x")
                return to
            except Refused as e:
                why = str(e)
                os.unlink(f"{to}/{name.split()[-1]}")
        shutil.rmtree(to)
        raise Refused(why)

    def batch(self):
        if not self.writes:
            return True, "writes no text"
        to, prompts = self.with_tokenizer(), ["one two three four five", "one two three four six", "x", "one two three four five and more"]
        with open(self.tmp + "/prompts.txt", "w") as f:
            f.write("\n".join(prompts) + "\n")
        common = ["-n", "8", "--temp", "0.8", "--seed", "5", "--ignore-eos", "--repeatable", *QUIET]
        together = [json.loads(x)["ids"] for x in call("run", to, "--file", self.tmp + "/prompts.txt", "--max-seqs", "3", *common).splitlines()]
        alone = []
        for p in prompts:
            with open(self.tmp + "/one.txt", "w") as f:
                f.write(p + "\n")
            alone += [json.loads(x)["ids"] for x in call("run", to, "--file", self.tmp + "/one.txt", "--max-seqs", "1", *common).splitlines()]
        return together == alone and len(alone) == len(prompts), "the same ids" if together == alone else f"{together} not {alone}"

    def train(self):
        to = self.with_tokenizer()
        with open(self.tmp + "/lines.jsonl", "w") as f:
            for i in range(64):
                f.write(json.dumps({"source": f"{i} {i * 3 % 7}", "target": str(i)} if "decoder_input_ids" in self.ref else {"text": f"{i} and {i}"}) + "\n")
        call("train", to, "--data", self.tmp + "/lines.jsonl", "-o", self.tmp + "/trained", "--lora", "2", "-b", "2", "-c", "16", "-n", "2", "-q")
        with open(self.tmp + "/trained.train/log.jsonl") as f:
            losses = [e["loss"] for e in map(json.loads, f) if e["event"] == "step"]
        return len(losses) == 2 and all(map(math.isfinite, losses)), "losses " + ", ".join(f"{x:.3f}" for x in losses)


for number, folder in enumerate(folders):
    if not in_turn(number, len(folders)) or not os.path.exists(folder + "/expected.safetensors"):
        continue
    with tempfile.TemporaryDirectory() as tmp:
        family = Family(folder.rstrip("/"), tmp)
        try:
            call("graph", family.folder)
        except Refused as e:
            good = bool(REASONS.search(str(e)))
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAIL'} {family.name}: refused: {e}")
            continue
        for what in ("graph", "quantise", "lora", "onnx", "batch", "train"):
            try:
                good, said = getattr(family, what)()
            except Refused as e:
                good, said = bool(REASONS.search(str(e))), f"refused: {str(e).replace(family.tmp, '')}"
            except Exception as e:
                good, said = False, f"{type(e).__name__}: {str(e)[-300:]}"
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAIL'} {family.name}: {what}: {said}", flush=True)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
