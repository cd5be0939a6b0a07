"""Writes the inputs that fuzzing starts with, a folder for each target, from model folders, pictures and sounds.

usage: seeds.py CLEF OUT FOLDER...    FOLDER: model folders; files with other ends than JSON and weights are taken as they are"""
import ctypes
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

CLEF, OUT, FOLDERS = sys.argv[1], pathlib.Path(sys.argv[2]), [pathlib.Path(p) for p in sys.argv[3:]]
SOURCE = pathlib.Path(__file__).resolve().parents[2]
NAMES = ["config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
         "model-00002-of-00002.safetensors", "quantize_config.json", "hf_quant_config.json", "modules.json", "1_Pooling/config.json",
         "2_Dense/config.json", "2_Dense/model.safetensors", "sentence_bert_config.json", "config_sentence_transformers.json",
         "preprocessor_config.json", "processor_config.json", "tokenizer.json", "tokenizer_config.json", "adapter/adapter_config.json",
         "adapter/adapter_model.safetensors", "model.gguf", "mmproj.gguf", "adapter.gguf"]  # of fuzz_folder.c
n_written = {}


def write(target, data):
    folder = OUT / target
    folder.mkdir(parents=True, exist_ok=True)
    n_written[target] = n_written.get(target, 0) + 1
    (folder / f"seed{n_written[target]:04d}").write_bytes(data)


def archive(files):
    """The form of fuzz_folder."""
    parts = [(NAMES.index(k), v if isinstance(v, bytes) else json.dumps(v, separators=(",", ":")).encode()) for k, v in files.items()]
    write("folder", b"".join(bytes([i]) + struct.pack("<I", len(v))[:3] + v for i, v in parts))


def header(path):
    with open(path, "rb") as f:
        return json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))


def part_of(tensors, n=0):
    """A header of these tensors alone."""
    out, at = {}, 0
    for name, t in tensors.items():
        size = t["data_offsets"][1] - t["data_offsets"][0]
        out[name] = {**t, "data_offsets": [at, at + size]}
        at += size
    return out


def gguf_header(path):
    """The bytes before the tensors' data."""
    data, at = path.read_bytes(), 24
    n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def value(kind, at):
        if kind == 8:
            return at + 8 + struct.unpack_from("<Q", data, at)[0]
        if kind != 9:
            return at + sizes[kind]
        of, n = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(n if of == 8 else 0):
            at = value(8, at)
        return at if of == 8 else at + n * sizes[of]

    for _ in range(n_keys):
        at = value(8, at)
        at = value(struct.unpack_from("<I", data, at)[0], at + 4)
    for _ in range(n_tensors):
        at = value(8, at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 12
    return data[:(at + 31) // 32 * 32]


def adapter(tensors):
    """A header with A and B for the first matrices of a model."""
    out, at = {}, 0
    for name, t in [(k, t) for k, t in tensors.items() if len(t["shape"]) == 2 and "_proj" in k][:3]:
        for end, shape in (("A", [2, t["shape"][1]]), ("B", [t["shape"][0], 2])):
            size = 4 * shape[0] * shape[1]
            out[f"base_model.model.{name[:-7]}.lora_{end}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            at += size
    return out


def model(folder, scratch):
    files = {name: json.loads((folder / name).read_text()) for name in NAMES if name.endswith(".json") and (folder / name).is_file()}
    config, tensors = files["config.json"], header(folder / "model.safetensors")
    tensors.pop("__metadata__", None)
    if len(json.dumps(files.get("tokenizer.json"))) > 20000:
        files.pop("tokenizer.json")
    write("config", json.dumps({**config, **files.get("generation_config.json", {})}).encode())
    if "preprocessor_config.json" in files:
        text = json.dumps(files["preprocessor_config.json"])
        for numbers in (text, re.sub(r"\b[1-9]\d{2,3}\b", lambda n: str(int(n[0]) // 8), text)):  # few pixels are quick
            write("processor", b"\x40\x51" + numbers.encode())
    archive({**files, "model.safetensors": tensors})
    half = sorted(tensors)[:len(tensors) // 2]
    shards = [part_of({k: tensors[k] for k in tensors if (k in half) == first}) for first in (True, False)]
    archive({**files, "model.safetensors.index.json": {"metadata": {"total_size": 1}, "weight_map": {k: NAMES[4 + (k not in half)] for k in tensors}},
             NAMES[4]: shards[0], NAMES[5]: shards[1], "adapter/adapter_config.json": {"peft_type": "LORA", "r": 2, "lora_alpha": 4,
             "target_modules": ["q_proj", "k_proj"], "bias": "none", "rank_pattern": {"q_proj": 2}, "use_rslora": False}, "adapter/adapter_model.safetensors": adapter(tensors)})
    small = json.dumps(part_of(dict(list(tensors.items())[:6]))).encode()
    write("safetensors", struct.pack("<Q", len(small)) + small + bytes(min(4096, max(t["data_offsets"][1] for t in tensors.values()))))
    path = scratch / "m.gguf"
    if subprocess.run([CLEF, "convert", str(folder), str(path), "-q", "--no-tokenizer"], capture_output=True).returncode == 0:
        data = gguf_header(path)
        write("gguf", data)
        write("gguf_split", b"\x80\x80" + data)
        archive({"model.gguf": data})


def embedders(base):
    """Folders as sentence-transformers writes them."""
    files = {"config.json": json.loads((base / "config.json").read_text()), "model.safetensors": header(base / "model.safetensors")}
    d = files["config.json"]["hidden_size"]
    files["model.safetensors"].pop("__metadata__", None)
    kind = "sentence_transformers.models."
    modules = [{"idx": i, "name": str(i), "path": p, "type": kind + t} for i, (p, t) in
               enumerate([("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize")])]
    dense = {"linear.weight": {"dtype": "F32", "shape": [16, d], "data_offsets": [0, 64 * d]}, "linear.bias": {"dtype": "F32", "shape": [16], "data_offsets": [64 * d, 64 * d + 64]}}
    for mode in ("mean_tokens", "cls_token", "lasttoken"):
        archive({**files, "modules.json": modules, "1_Pooling/config.json": {"word_embedding_dimension": d, f"pooling_mode_{mode}": True, "include_prompt": True},
                 "2_Dense/config.json": {"in_features": d, "out_features": 16, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"},
                 "2_Dense/model.safetensors": dense, "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": False},
                 "config_sentence_transformers.json": {"prompts": {"query": "q: ", "document": "d: "}, "default_prompt_name": "query", "similarity_fn_name": "cosine"},
                 "tokenizer_config.json": {"model_max_length": 9, "do_lower_case": True}})
    archive({**files, "config_sentence_transformers.json": {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.activation.Sigmoid"}})


def sounds():
    """Short sounds in the forms that libsndfile writes."""
    sf = ctypes.CDLL("libsndfile.so.1")
    sf.sf_open.restype = ctypes.c_void_p
    kinds = [(0x010000, range(1, 0x24)), (0x020000, range(1, 0x12)), (0x030000, range(1, 0x33)), (0x170000, [2, 3]), (0x180000, [1, 2, 3, 6, 7]), (0x200000, [0x60, 0x64]),
             (0x130000, [2, 3, 6]), (0x220000, [2, 6]), (0x0B0000, [2, 3])]  # WAV, AIFF, AU, FLAC, CAF, Ogg, WAVEX, RF64, W64
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "s"
        for major, minors in kinds:
            for minor in minors:
                info = (ctypes.c_int64 * 4)()
                ctypes.memmove(info, struct.pack("<qiiiii", 0, 48000 if minor == 0x64 else 16000, 1 + minor % 2, major | minor, 0, 0), 28)
                file = sf.sf_open(str(path).encode(), 0x20, info)
                if file:
                    sf.sf_write_short(ctypes.c_void_p(file), (ctypes.c_short * 600)(*[(i * 977) % 9000 for i in range(600)]), ctypes.c_int64(600))
                    sf.sf_close(ctypes.c_void_p(file))
                    write("sound", path.read_bytes())


def main():
    with tempfile.TemporaryDirectory() as scratch:
        for folder in FOLDERS:
            if (folder / "config.json").is_file() and (folder / "model.safetensors").is_file():
                model(folder, pathlib.Path(scratch))
            for path in folder.rglob("*"):
                kind = {".png": "picture", ".jpg": "picture", ".webp": "picture", ".ppm": "picture", ".wav": "sound", ".flac": "sound", ".mp3": "sound"}.get(path.suffix)
                if kind and path.stat().st_size < 1 << 14:
                    write(kind, path.read_bytes())
    embedders(SOURCE / "tests" / "fixtures" / "tiny-bert")
    for values in json.loads((SOURCE / "tests" / "fixtures" / "adapters.json").read_text())["configs"]:
        write("config", values["config"].encode())
    sounds()
    sys.path.insert(0, str(SOURCE / "tests" / "fuzz"))
    import fuzz_serve
    for body in fuzz_serve.SEEDS:
        write("body", json.dumps(body).encode())
    print(n_written)


main()
