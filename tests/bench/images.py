#!/usr/bin/env python3
"""Pictures per second of encoders with random weights in F32, clef and PyTorch in turn on the same cores.

usage: tests/bench/images.py [--clef CLEF] [--threads N] [--rounds N] [--pictures N] [--only NAME]
needs: numpy, PyTorch, transformers, safetensors

Both sides see the same pictures, which are not resized, in batches of 32. A figure is what twice as many pictures take longer, so that
starting and loading do not count; reading pictures does, on both sides. Beside the time that passes is that of the processors: on a
machine with other work, that is the one to compare."""
import argparse, json, os, subprocess, sys, tempfile, time
import numpy as np, torch, transformers as hf

SHAPES = dict(
    vit_b_16=lambda: hf.ViTModel(hf.ViTConfig(), add_pooling_layer=False),
    clip_b_32=lambda: hf.CLIPVisionModelWithProjection(hf.CLIPVisionConfig(hidden_size=768, intermediate_size=3072, num_hidden_layers=12,
                                                                           num_attention_heads=12, patch_size=32)))
PROCESSOR = dict(do_resize=False, do_center_crop=False, do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=[.5] * 3,
                 image_std=[.5] * 3, size=dict(height=224, width=224), image_processor_type="ViTImageProcessor")
BATCH = 32


def make(name, n, folder):
    torch.manual_seed(1)
    model = SHAPES[name]().eval()
    model.save_pretrained(folder)
    json.dump(PROCESSOR, open(folder + "/preprocessor_config.json", "w"))
    for i in range(n):
        with open(f"{folder}/{i}.ppm", "wb") as file:
            file.write(b"P6\n224 224\n255\n" + np.random.default_rng(i).integers(0, 256, (224, 224, 3), np.uint8).tobytes())
    return model


def read(path):
    rgb = np.frombuffer(open(path, "rb").read()[-224 * 224 * 3:], np.uint8).reshape(224, 224, 3)
    return ((rgb.astype(np.float32) / 255 - .5) / .5).transpose(2, 0, 1)


def theirs(model, paths):
    rows = []
    with torch.inference_mode():
        for i in range(0, len(paths), BATCH):
            seen = model(pixel_values=torch.from_numpy(np.stack([read(p) for p in paths[i:i + BATCH]])))
            rows.append(seen.image_embeds if hasattr(seen, "image_embeds") else seen.last_hidden_state[:, 0])
    return torch.cat(rows).numpy()


def ours(a, folder, paths):
    images = [word for path in paths for word in ("--image", path)]
    command = [a.clef, "embed", folder, *images, "--normalize", "no", "--npy", "-o", folder + "/out.npy", "-t", str(a.threads), "-q"]
    subprocess.run(command, check=True)
    return np.load(folder + "/out.npy")


def took(work):
    began = time.perf_counter(), sum(os.times()[:4])
    work()
    return np.array([time.perf_counter() - began[0], sum(os.times()[:4]) - began[1]])


def measure(a, name):
    with tempfile.TemporaryDirectory() as folder:
        model = make(name, 2 * a.pictures, folder)
        paths = [f"{folder}/{i}.ppm" for i in range(2 * a.pictures)]
        sides = [lambda p: ours(a, folder, p), lambda p: theirs(model, p)]
        x, y = (side(paths[:4]) for side in sides)
        cosine = float(((x * y).sum(1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)).min())
        best = np.full((2, 2), np.inf)
        sides[0](paths)
        for _ in range(a.rounds):
            for i, side in enumerate(sides):
                half, all_ = took(lambda: side(paths[:a.pictures])), took(lambda: side(paths))
                best[i] = np.minimum(best[i], np.maximum(all_ - half, 1e-9))
        rates, cpu = a.pictures / best[:, 0], 1000 * best[:, 1] / a.pictures
        print(f"{name}: clef {rates[0]:.1f} pictures/s, PyTorch {rates[1]:.1f}: {rates[0] / rates[1]:.2f} x; time of the processors "
              f"{cpu[0]:.0f} and {cpu[1]:.0f} ms: {cpu[1] / cpu[0]:.2f} x; cosine {cosine:.6f}", flush=True)
        return cosine > 0.9999


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--clef", default=root + "/build/clef")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--pictures", type=int, default=BATCH)
    p.add_argument("--only", choices=SHAPES)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    return 0 if all([measure(a, name) for name in ([a.only] if a.only else SHAPES)]) else 1


if __name__ == "__main__":
    sys.exit(main())
