"""Towers as llama.cpp's converter writes them (mmproj), beside their folders: the same ids after a picture. usage: towers.py CLEF CONVERTER FOLDERS

The file says nothing of some numbers; the folders get those of published models here. Pixtral and the mixtures of experts, which have no folder
there, are random ones, which PyTorch runs too. Prints a line `ok` or `FAIL` for each."""
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
    "qwen3_vl_moe": (QWEN3, {}),
    "qwen3_5_moe": (QWEN3, {}),
}
MARKS = "[IMG]", "[IMG_BREAK]", "[IMG_END]"  # of Pixtral
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


def spread(model):
    with torch.no_grad():
        for name, w in model.named_parameters():
            w.normal_(0, 1.2 / (w.shape[-1] if "experts" in name else w[0].numel()) ** 0.5) if w.dim() > 1 else w.add_(0.1 * torch.randn_like(w))
    return model.float().eval()


def greedy(model, given, **of_picture):
    with torch.inference_mode():
        out = model.generate(input_ids=torch.tensor([given]), **of_picture, max_new_tokens=16, min_new_tokens=16, do_sample=False)
    return ",".join(map(str, out[0, len(given):].tolist()))


def random_pixtral(name, folder):
    """A tiny Pixtral ("pixtral") or Mistral Small 3.1 ("mistral3"), with the tokenizer of LLaVA's folder. Returns PyTorch's ids for a prompt and a
    picture that is not resized."""
    merge = 1 + (name == "mistral3")
    tokenizer = hf.AutoTokenizer.from_pretrained(os.path.join(folders, "llava"))
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    sizes = dict(num_hidden_layers=3, num_attention_heads=4)
    vision = hf.PixtralVisionConfig(hidden_size=32, intermediate_size=48, image_size=96, patch_size=8, hidden_act=("silu", "gelu")[merge - 1], **sizes)
    text = dict(model_type=("llama", "mistral")[merge - 1], hidden_size=64, intermediate_size=96, num_key_value_heads=2, head_dim=16,
                vocab_size=len(tokenizer), rms_norm_eps=1e-5, **sizes)
    own = dict(vision_config=vision, text_config=text, image_token_index=tokenizer.convert_tokens_to_ids(MARKS[0]), vision_feature_layer=-1)
    if merge == 1:
        model = spread(hf.LlavaForConditionalGeneration(hf.LlavaConfig(vision_feature_select_strategy="full", **own)))
    else:
        model = spread(hf.Mistral3ForConditionalGeneration(hf.Mistral3Config(spatial_merge_size=merge, **own)))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "PixtralImageProcessor", "size": {"longest_edge": 96}, "patch_size": {"height": 8 * merge, "width": 8 * merge},
        "image_mean": MEAN, "image_std": STD}))

    def ids_of(prompt, rgb):
        height, width = rgb.shape[0] // (8 * merge), rgb.shape[1] // (8 * merge)
        given = tokenizer(prompt.replace(MARKS[0], MARKS[1].join([MARKS[0] * width] * height) + MARKS[2])).input_ids
        pixels = torch.tensor((rgb / 255 - MEAN) / STD).permute(2, 0, 1)[None].float()
        return greedy(model, given, pixel_values=pixels, image_sizes=torch.tensor([rgb.shape[:2]]))

    return ids_of, f"Look at {MARKS[0]} and say", (96, 48)


def random_mixture(name, folder):
    """As random_pixtral(), for a mixture of experts with a tower of Qwen, by the folder of the dense model."""
    config = json.loads((folder / "config.json").read_text())
    config["text_config"].update(model_type=name + "_text", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=48,
                                 shared_expert_intermediate_size=40)
    del config["architectures"]
    cls = {"qwen3_vl_moe": hf.Qwen3VLMoeForConditionalGeneration, "qwen3_5_moe": hf.Qwen3_5MoeForConditionalGeneration}[name]
    model = spread(cls(cls.config_class.from_dict({**config, "model_type": name})))
    model.save_pretrained(folder)
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    pixels = json.loads((folder / "preprocessor_config.json").read_text())
    patch, token = config["vision_config"]["patch_size"], tokenizer.convert_ids_to_tokens(config["image_token_id"])

    def ids_of(prompt, rgb):
        height, width = rgb.shape[0] // patch, rgb.shape[1] // patch
        given = tokenizer(prompt.replace(token, token * (height * width // 4))).input_ids
        frame = ((rgb / 255 - pixels["image_mean"]) / pixels["image_std"]).transpose(2, 0, 1).astype(np.float32)
        patches = np.stack([frame, frame]).reshape(1, 2, 3, height // 2, 2, patch, width // 2, 2, patch).transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
        kinds = torch.tensor([[int(i == config["image_token_id"]) for i in given]])
        return greedy(model, given, pixel_values=torch.tensor(patches.reshape(height * width, -1)), mm_token_type_ids=kinds,
                      image_grid_thw=torch.tensor([[1, height, width]]))

    return ids_of, (288, 256)


def check(name, tmp):
    folder, tower, text, picture = Path(tmp) / name, tmp + "/tower.gguf", tmp + "/text.gguf", tmp + "/picture.ppm"
    sizes, ids_of = [(56, 84), (224, 140), (300, 200)], None
    torch.manual_seed(7)
    if name in FAMILIES:
        dense = name.removesuffix("_moe")
        shutil.copytree(os.path.join(folders, dense), folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
        pixels, inside = FAMILIES[name]
        change(folder / "preprocessor_config.json", pixels, False)
        change(folder / "config.json", inside, True)
        prompt = json.loads((folder / "expected.json").read_text())["prompts"]["one"]
        if name != dense:
            ids_of, own = random_mixture(name, folder)
    else:
        ids_of, prompt, own = random_pixtral(name, folder)
    sizes += [own] if ids_of else []
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
    for width, height in sizes:
        rgb = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
        Path(picture).write_bytes(b"P6 %d %d 255\n" % (width, height) + rgb.tobytes())
        wanted, got = ids(prompt, picture, str(folder)), ids(prompt, picture, text, "--mmproj", tower)
        if ids_of and (width, height) == own:
            wanted = ids_of(prompt, rgb)
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
