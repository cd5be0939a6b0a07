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
import transformers as hf
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
MARKS = "[IMG]", "[IMG_BREAK]", "[IMG_END]"  # of Pixtral, for which there is no folder
MEAN, STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]


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


def random_pixtral(name, folder):
    """A tiny Pixtral ("pixtral") or Mistral Small 3.1 ("mistral3"), with the tokenizer of LLaVA's folder."""
    torch.manual_seed(7)
    merge = 1 + (name == "mistral3")
    tokenizer = hf.AutoTokenizer.from_pretrained(os.path.join(folders, "llava"))
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    sizes = dict(num_hidden_layers=3, num_attention_heads=4)
    vision = hf.PixtralVisionConfig(hidden_size=32, intermediate_size=48, image_size=96, patch_size=8, hidden_act=("silu", "gelu")[merge - 1], **sizes)
    text = dict(model_type=("llama", "mistral")[merge - 1], hidden_size=64, intermediate_size=96, num_key_value_heads=2, head_dim=16,
                vocab_size=len(tokenizer), rms_norm_eps=1e-5, **sizes)
    own = dict(vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids(MARKS[0]), vision_feature_layer=-1)
    if merge == 1:
        model = hf.LlavaForConditionalGeneration(hf.LlavaConfig(vision_feature_select_strategy="full", **own))
    else:
        model = hf.Mistral3ForConditionalGeneration(hf.Mistral3Config(spatial_merge_size=merge, **own))
    with torch.no_grad():
        for w in model.parameters():
            w.normal_(0, 1.2 / w[0].numel() ** 0.5) if w.dim() > 1 else w.add_(0.1 * torch.randn_like(w))
    model.float().eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 96}, "patch_size": {"height": 8 * merge, "width": 8 * merge},
        "image_mean": MEAN, "image_std": STD}))
    return model, tokenizer, merge * 8


def torch_ids(model, tokenizer, side, prompt, rgb):
    """For a picture whose sides are whole squares of patches, so that it is not resized."""
    height, width = rgb.shape[0] // side, rgb.shape[1] // side
    given = torch.tensor([tokenizer(prompt.replace(MARKS[0], MARKS[1].join([MARKS[0] * width] * height) + MARKS[2])).input_ids])
    pixels = torch.tensor((rgb / 255 - MEAN) / STD).permute(2, 0, 1)[None].float()
    with torch.inference_mode():
        out = model.generate(input_ids=given, pixel_values=pixels, image_sizes=torch.tensor([rgb.shape[:2]]), max_new_tokens=16,
                             min_new_tokens=16, do_sample=False)
    return ",".join(map(str, out[0, given.shape[1]:].tolist()))


def check(name, tmp):
    folder, tower, text, picture = Path(tmp) / name, tmp + "/tower.gguf", tmp + "/text.gguf", tmp + "/picture.ppm"
    made = None
    if name in FAMILIES:
        shutil.copytree(os.path.join(folders, name), folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        pixels, inside = FAMILIES[name]
        change(folder / "preprocessor_config.json", pixels, False)
        change(folder / "config.json", inside, True)
        prompt = json.loads((folder / "expected.json").read_text())["prompts"]["one"]
    else:
        made, prompt = random_pixtral(name, folder), f"Look at {MARKS[0]} and say"
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
    failed = 0
    for width, height in ((56, 84), (224, 140), (300, 200), (96, 48)):
        rgb = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        Path(picture).write_bytes(b"P6 %d %d 255\n" % (width, height) + rgb.tobytes())
        wanted, got = ids(prompt, picture, str(folder)), ids(prompt, picture, text, "--mmproj", tower)
        wanted = torch_ids(*made, prompt, rgb) if made and height == 48 else wanted
        failed += wanted != got
        print("ok" if wanted == got else "FAIL", f"{name}, {width} x {height}:", got if wanted == got else f"expected {wanted}, got {got}", flush=True)
    return failed


failures = 0
for family in (*FAMILIES, "pixtral", "mistral3"):
    with tempfile.TemporaryDirectory() as folder:
        try:
            failures += check(family, folder)
        except Exception as problem:
            print(f"FAIL {family}: {type(problem).__name__}: {str(problem)[:200]}")
            failures += 1
sys.exit(failures > 0)
