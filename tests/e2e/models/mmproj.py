"""mmproj.py FOLDER OUT [KIND]: the tower of a tiny Gemma 3 as llama.cpp's converter writes it, in F32. KIND: old: with the names of earlier
converters; scale4, unscaled: with squares of 4 x 4 patches, which the file says, or not, as those of published models; silu."""
import json
import struct
import sys

STRING, U32, F32, BOOL, ARRAY = 8, 4, 6, 7, 9
folder, out = sys.argv[1:3]
kind = "".join(sys.argv[3:])
config = json.load(open(folder + "/config.json"))
v = config["vision_config"]
pixels = json.load(open(folder + "/preprocessor_config.json"))
NAMES = [("vision_tower.vision_model.", ""), ("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight"),
         ("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm"), ("embeddings.patch_embedding", "v.patch_embd"),
         ("embeddings.position_embedding", "v.position_embd"), ("post_layernorm", "v.post_ln"), ("encoder.layers", "v.blk"), ("layer_norm", "ln"),
         ("self_attn.out_proj", "attn_out"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
         ("mlp.fc1", "ffn_down" if kind == "old" else "ffn_up"), ("mlp.fc2", "ffn_up" if kind == "old" else "ffn_down")]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def number(name, value):
    return key("clip." + name, U32, struct.pack("<I", value))


def floats(name, values):
    return key("clip.vision." + name, ARRAY, struct.pack("<IQ3f", F32, 3, *values))


side = v["image_size"] // v["patch_size"]
keys = [key("general.architecture", STRING, text("clip")), key("clip.projector_type", STRING, text("gemma3")),
        key("clip.use_silu" if kind == "silu" else "clip.use_gelu", BOOL, b"\1"),
        key("clip.vision.attention.layer_norm_epsilon", F32, struct.pack("<f", v["layer_norm_eps"])),
        number("vision.projection_dim", config["text_config"]["hidden_size"]), number("vision.image_size", v["image_size"]),
        number("vision.patch_size", v["patch_size"]), number("vision.embedding_length", v["hidden_size"]),
        number("vision.feed_forward_length", v["intermediate_size"]), number("vision.block_count", v["num_hidden_layers"]),
        number("vision.attention.head_count", v["num_attention_heads"]),
        floats("image_mean", pixels["image_mean"]), floats("image_std", pixels["image_std"])]
scale = 4 if "scale" in kind else side // int(config["mm_tokens_per_image"] ** 0.5)
if kind != "unscaled":
    keys.append(number("vision.projector.scale_factor", scale))
infos, data = [], b""
with open(folder + "/model.safetensors", "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    for name, t in sorted(json.loads(f.read(n)).items()):
        if not name.startswith(("vision_tower", "multi_modal_projector")):
            continue
        begin, end = t["data_offsets"]
        f.seek(8 + n + begin)
        values = f.read(end - begin)
        for old, new in NAMES:
            name = name.replace(old, new)
        if "soft_emb_norm" in name:  # there it is stored whole
            values = struct.pack(f"<{len(values) // 4}f", *(x + 1 for x in struct.unpack(f"<{len(values) // 4}f", values)))
        shape = t["shape"][::-1]
        infos.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data)))
        data += values + b"\0" * (-len(values) % 32)
head = struct.pack("<IIQQ", 0x46554747, 3, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
with open(out, "wb") as f:
    f.write(head + b"\0" * (-len(head) % 32) + data)
