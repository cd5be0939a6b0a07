# The layer that predicts further tokens against the formula in PyTorch: folders under their published names, clef's GGUF files of them, and
# those of llama.cpp's converter.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
models=$CLEF_SOURCE/tests/e2e/models
converter=$(oracle converter) || converter=
# alike NAME MODEL FOLDER: MODEL gives the answers of FOLDER.
alike() {
  check "$1: the model" "$CLEF" eval "$2" --in "$3/text.safetensors" --tap hidden_last --out "$tmp/model.safetensors" -q
  check "$1: the layer" "$CLEF" eval "$2" --in "$3/in.safetensors" --tap hidden_last --out "$tmp/layer.safetensors" -q
  check "$1: PyTorch's numbers" "$python" -c '
import sys, numpy as np
from safetensors.numpy import load_file
model, layer, want = map(load_file, sys.argv[1:])
for a, b in ((model["hidden_last"], want["hidden"]), (layer["hidden_last"], want["next_hidden"]), (layer["logits"], want["logits"])):
    error = np.abs(a - b).max() / np.abs(b).max()
    if not error <= 1e-4:
        sys.exit(f"relative error {error:.2e}, expected at most 1e-4")' "$tmp/model.safetensors" "$tmp/layer.safetensors" "$3/expected.safetensors"
}
i=0
for family in qwen3_5 qwen3_5_moe glm4_moe deepseek_v3; do
  in_turn $i 4 || { i=$((i + 1)); continue; }
  i=$((i + 1))
  mkdir -p "$tmp/$family"
  check "$family is written" "$python" "$models/mtp.py" $family "$tmp/$family" $i
  alike "$family" "$tmp/$family" "$tmp/$family"
  check "$family as GGUF" "$CLEF" convert "$tmp/$family" "$tmp/own.gguf" -q
  alike "$family as clef's GGUF" "$tmp/own.gguf" "$tmp/$family"
  [ -n "$converter" ] && [ $family != deepseek_v3 ] || continue # llama.cpp's converter leaves DeepSeek's layer out
  check "$family by llama.cpp's converter" "$python" "$models/mtp_gguf.py" "$converter" "$tmp/$family" "$tmp/others.gguf"
  alike "$family as llama.cpp's GGUF" "$tmp/others.gguf" "$tmp/$family"
done
finish
