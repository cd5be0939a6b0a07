"""Towers as llama.cpp's converter writes them (mmproj), beside their folders: the same ids after a picture. usage: towers.py CLEF CONVERTER FOLDERS

The file says nothing of some numbers; the folders get those of published models here. Prints a line `ok` or `FAIL` for each."""
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

clef, converter, folders = sys.argv[1:]
vendor = os.path.dirname(os.path.abspath(converter))
sys.path[:0] = [vendor, vendor + "/gguf-py"]
import conversion  # noqa: E402
import conversion.internvl  # noqa: E402
import gguf  # noqa: E402

logging.disable(logging.WARNING)
QWEN3 = {"min_pixels": None, "max_pixels": None, "size": {"shortest_edge": 65536, "longest_edge": 16777216}}
FAMILIES = {  # what is published: of preprocessor_config.json, and of vision_config; None: the key is away
    "idefics3": ({}, {}),
    "smolvlm": ({}, {}),
    "internvl": ({"min_patches": None, "max_patches": None}, {}),
    "qwen2_vl": ({"min_pixels": None, "max_pixels": None}, {}),
    "qwen2_5_vl": ({"min_pixels": None, "max_pixels": None}, {"window_size": 112}),
    "qwen3_vl": (QWEN3, {}),
    "qwen3_5": (QWEN3, {}),
}


def change(path, of_file, inside):
    config = json.loads(path.read_text())
    within = config["vision_config"] if inside else config
    within.update(of_file)
    for key in [k for k, v in within.items() if v is None]:
        del within[key]
    path.write_text(json.dumps(config))


def ids(prompt, picture, *model):
    r = subprocess.run([clef, "run", *model, "-p", prompt, "--image", picture, "-n", "16", "--ignore-eos", "--print-ids", "-q", "--exact",
                        "--temp", "0"], capture_output=True, text=True)
    return r.stdout.strip() or r.stderr.strip()[-300:]


def check(name, tmp):
    folder, tower, text, picture = Path(tmp) / name, tmp + "/tower.gguf", tmp + "/text.gguf", tmp + "/picture.ppm"
    shutil.copytree(os.path.join(folders, name), folder, copy_function=shutil.copyfile)
    folder.chmod(0o755)
    pixels, inside = FAMILIES[name]
    change(folder / "preprocessor_config.json", pixels, False)
    change(folder / "config.json", inside, True)
    arch = json.loads((folder / "config.json").read_text())["architectures"][0]
    cls = conversion.internvl.InternVisionModel if "InternVL" in arch else conversion.get_model_class(arch, mmproj=True)
    if "InternVL" in arch:  # the names that the converter knows
        weights = load_file(folder / "model.safetensors")
        save_file({"model." * k.startswith(("vision_tower.", "multi_modal_projector.")) + k: v for k, v in weights.items()},
                  folder / "model.safetensors")
    with torch.inference_mode():
        conversion_of = cls(folder, gguf.LlamaFileType.ALL_F32, Path(tower), use_temp_file=False, eager=True)
        conversion_of.tensor_map = gguf.get_tensor_name_map(gguf.MODEL_ARCH.MMPROJ, 8)  # also of what is numbered beyond a tiny tower's layers
        conversion_of.write()
    subprocess.run([clef, "convert", str(folder), text, "-q"], check=True)
    prompt = json.loads((folder / "expected.json").read_text())["prompts"]["one"]
    failed = 0
    for width, height in ((56, 84), (224, 140), (300, 200)):
        rgb = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        Path(picture).write_bytes(b"P6 %d %d 255\n" % (width, height) + rgb.tobytes())
        wanted, got = ids(prompt, picture, str(folder)), ids(prompt, picture, text, "--mmproj", tower)
        failed += wanted != got
        print("ok" if wanted == got else "FAIL", f"{name}, {width} x {height}:", got if wanted == got else f"expected {wanted}, got {got}", flush=True)
    return failed


failures = 0
for family in FAMILIES:
    with tempfile.TemporaryDirectory() as folder:
        try:
            failures += check(family, folder)
        except Exception as problem:
            print(f"FAIL {family}: {type(problem).__name__}: {str(problem)[:200]}")
            failures += 1
sys.exit(failures > 0)
