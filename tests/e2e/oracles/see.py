#!/usr/bin/env python3
"""Tiny random encoders of pictures: `clef attention --image` beside output_attentions of transformers (1e-5), and the vectors of `clef embed`
(1e-4). Sizes and pictures are drawn.

usage: see.py CLEF SEED
"""
import json, os, random, subprocess, sys, tempfile
import numpy as np, torch, transformers as hf

clef, seed = sys.argv[1], int(sys.argv[2])
rnd, failed = random.Random(seed), 0
torch.manual_seed(seed)
os.environ.update(CLEF_TUNE="0", CLEF_PROOF="0")


def line(ok, what):
    global failed
    failed += not ok
    print("ok" if ok else "FAIL", what, flush=True)


def run(*args):
    r = subprocess.run([clef, *args, "-q"], capture_output=True, text=True, timeout=300)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


# Weights that make heads differ.
def spread(model):
    with torch.no_grad():
        for name, w in model.named_parameters():
            w.normal_(0, 1.2 / max(1, w[0].numel()) ** .5 if w.dim() > 1 else .1)
            if "norm" in name and name.endswith("weight") or "lambda" in name:
                w.add_(1)
    return model.float().eval()


def sizes(patch):
    heads = rnd.choice((1, 2, 3))
    d = heads * rnd.choice((8, 16, 20))
    return dict(hidden_size=d, num_attention_heads=heads, num_hidden_layers=rnd.choice((1, 2, 3)), intermediate_size=rnd.choice((24, 40)),
                image_size=patch * rnd.randint(2, 5), patch_size=patch)


def models():
    patch = rnd.choice((4, 6, 8))
    yield hf.ViTModel(hf.ViTConfig(**sizes(patch)))
    yield hf.DeiTModel(hf.DeiTConfig(**sizes(patch)))
    yield hf.Dinov2Model(hf.Dinov2Config(**sizes(patch)))
    yield hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(num_register_tokens=rnd.randint(1, 4), **sizes(patch)))
    yield hf.DINOv3ViTModel(hf.DINOv3ViTConfig(num_register_tokens=rnd.randint(0, 4), **sizes(patch)))
    yield hf.CLIPVisionModel(hf.CLIPVisionConfig(**sizes(patch)))
    yield hf.SiglipVisionModel(hf.SiglipVisionConfig(**sizes(patch)))


# What SigLIP's pooling query sees: nn.MultiheadAttention does not say it.
def pooling(model, hidden):
    head = model.head if hasattr(model, "head") else model.vision_model.head
    probe = head.probe.expand(hidden.shape[0], -1, -1)
    return head.attention(probe, hidden, hidden, need_weights=True, average_attn_weights=False)[1].numpy()


def check(model, tmp):
    name, config = type(model).__name__, model.config
    model = spread(model)
    model.set_attn_implementation("eager")
    folder = tempfile.mkdtemp(dir=tmp)
    model.save_pretrained(folder)
    path, picture, side = os.path.join(folder, "out"), os.path.join(tmp, "picture.ppm"), config.image_size
    json.dump(dict(image_processor_type="ViTImageProcessor", size=dict(height=side, width=side)),
              open(os.path.join(folder, "preprocessor_config.json"), "w"))
    rgb = np.random.default_rng(rnd.getrandbits(32)).integers(0, 256, (side, side, 3)).astype(np.uint8)
    open(picture, "wb").write(b"P6 %d %d 255\n" % (side, side) + rgb.tobytes())
    pixels = torch.tensor(((rgb / 255).astype(np.float32) - np.float32(.5)) / np.float32(.5)).permute(2, 0, 1)[None]
    with torch.no_grad():
        r = model(pixel_values=pixels, output_attentions=True)
    run("attention", folder, "--image", picture, "-o", path + ".npy")
    got, want = np.load(path + ".npy"), np.stack([a[0].numpy() for a in r.attentions])
    e = np.abs(got - want).max() if got.shape == want.shape else np.inf
    line(e <= 1e-5, f"{name}: attention {want.shape} within {e:.1e}")
    if "Siglip" in name:
        run("attention", folder, "--image", picture, "--kind", "pool", "-o", path + ".npy")
        with torch.no_grad():
            e = np.abs(np.load(path + ".npy")[0] - pooling(model, r.last_hidden_state)[0]).max()
        line(e <= 1e-5, f"{name}: its pooling query within {e:.1e}")
    vector = np.array(run("embed", folder, "--image", picture).split(), np.float32)
    e = np.abs(vector - r.pooler_output[0].numpy()).max()
    line(e <= 1e-4, f"{name}: its vector within {e:.1e}")
    mean = np.array(run("embed", folder, "--image", picture, "--pooling", "mean").split(), np.float32)
    n = (config.image_size // config.patch_size) ** 2
    e = np.abs(mean - r.last_hidden_state[0, -n:].mean(0).numpy()).max()
    line(e <= 1e-4, f"{name}: the mean of its patches within {e:.1e}")


with tempfile.TemporaryDirectory() as folder:
    for model in models():
        try:
            check(model, folder)
        except Exception as e:
            line(False, f"{type(model).__name__}: {str(e)[-300:]}")
sys.exit(failed > 0)
