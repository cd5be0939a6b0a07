#!/usr/bin/env python3
"""A DINOv2-small inside an ONNX file, beside ONNX Runtime: its vectors, the rows of its patches and its attention weights.

usage: focus.py CLEF FILE.onnx     the encoder's names are those of transformers, after "backbone."
needs: numpy, safetensors, onnx, onnxruntime
"""
import json, subprocess, sys, tempfile
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper
from safetensors.numpy import save_file

clef, source = sys.argv[1:3]
failed = 0
PROCESSOR = dict(do_resize=True, do_center_crop=False, do_rescale=True, rescale_factor=1 / 255, do_normalize=True,
                image_mean=[.485, .456, .406], image_std=[.229, .224, .225], resample=3, image_processor_type="BitImageProcessor",
                size=dict(height=224, width=224))


def line(ok, what):
    global failed
    failed += not ok
    print("ok" if ok else "FAIL", what, flush=True)


# Weights of products have lost their names: each node says whose it is.
def write_folder(model, folder):
    stored = {t.name: t for t in model.graph.initializer}
    weights, position_parts = {}, {}
    for node in model.graph.node:
        for name in node.input:
            if name.startswith("backbone."):
                weights[name[len("backbone."):]] = numpy_helper.to_array(stored[name])
        layer = node.name.startswith("/backbone/encoder/") and node.op_type == "MatMul"
        if layer and node.input[1] in stored:
            name = node.name[len("/backbone/encoder/"):-len("/MatMul")].replace("/", ".")
            weights[f"encoder.layer.{name.removeprefix('layer.')}.weight"] = numpy_helper.to_array(stored[node.input[1]]).T.copy()
        if node.name.startswith("/backbone/embeddings/") and node.op_type in ("Reshape", "Concat") and node.input[0] in stored:
            position_parts[node.op_type] = numpy_helper.to_array(stored[node.input[0]])
    weights["embeddings.position_embeddings"] = np.concatenate([position_parts["Concat"], position_parts["Reshape"]], 1)
    d = weights["embeddings.cls_token"].shape[-1]
    config = dict(architectures=["Dinov2Model"], model_type="dinov2", hidden_size=d, num_attention_heads=d // 64, image_size=224,
                  num_hidden_layers=len([w for w in weights if w.endswith("norm1.weight")]), patch_size=14, layer_norm_eps=1e-6)
    save_file(weights, folder + "/model.safetensors")
    json.dump(config, open(folder + "/config.json", "w"))
    json.dump(PROCESSOR, open(folder + "/preprocessor_config.json", "w"))


# The pixels of a PPM of 224 x 224, which is not resized.
def pixels(rng, path):
    base = np.kron(rng.random((7, 7, 3)), np.ones((32, 32, 1)))
    rgb = np.clip(255 * (base + .15 * rng.standard_normal(base.shape)), 0, 255).astype(np.uint8)
    with open(path, "wb") as f:
        f.write(b"P6\n224 224\n255\n" + rgb.tobytes())
    x = (rgb.astype(np.float64) / 255).astype(np.float32)
    return ((x - np.float32(PROCESSOR["image_mean"])) / np.float32(PROCESSOR["image_std"])).transpose(2, 0, 1)[None]


def run(*args):
    r = subprocess.run([clef, *args, "-q"], capture_output=True, text=True, timeout=600)
    if r.returncode:
        raise RuntimeError(f"exit {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


cosine = lambda a, b: float((a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b))

with tempfile.TemporaryDirectory() as tmp:
    model = onnx.load(source)
    write_folder(model, tmp)
    rows = [n.output[0] for n in model.graph.node if n.name.startswith("/backbone/layernorm/") and n.op_type == "Add"][-1]
    maps = [n.output[0] for n in model.graph.node if n.op_type == "Softmax"]
    for name in [rows, *maps]:
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    # What clef writes as ONNX gives the same by ONNX Runtime.
    subprocess.run([clef, "graph", tmp, "--format", "onnx", "-o", tmp + "/own.onnx"], check=True, timeout=600)
    onnx.checker.check_model(onnx.load(tmp + "/own.onnx"), full_check=True)
    own = onnxruntime.InferenceSession(tmp + "/own.onnx", providers=["CPUExecutionProvider"])
    for seed in range(3):
        x = pixels(np.random.default_rng(seed), tmp + "/picture.ppm")
        want = session.run([rows, *maps], {session.get_inputs()[0].name: x})
        got = np.array(run("embed", tmp, "--image", tmp + "/picture.ppm").split(), np.float64)
        mean = np.array(run("embed", tmp, "--image", tmp + "/picture.ppm", "--pooling", "mean").split(), np.float64)
        run("attention", tmp, "--image", tmp + "/picture.ppm", "-o", tmp + "/a.npy")
        attention = np.load(tmp + "/a.npy")
        c = cosine(got, want[0][0, 0].astype(np.float64)), cosine(mean, want[0][0, 1:].astype(np.float64).mean(0))
        line(min(c) >= 0.99999, f"picture {seed}: cosine of the class token {c[0]:.8f}, of the patches' mean {c[1]:.8f}")
        e = max(float(np.abs(attention[i] - w[0]).max()) for i, w in enumerate(want[1:]))
        line(attention.shape[0] == len(maps) and e <= 1e-4, f"picture {seed}: attention of {len(maps)} layers within {e:.1e}")
        written = own.run(None, {"pixel_values": np.concatenate([x, x[..., ::-1]])})[0][0]
        e = float(np.abs(written - want[0][0]).max() / np.abs(want[0]).max()) if written.shape == want[0][0].shape else np.inf
        line(e <= 1e-4, f"picture {seed}: clef's ONNX file within {e:.1e}")
sys.exit(failed > 0)
