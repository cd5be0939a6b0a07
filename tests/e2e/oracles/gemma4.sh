# Gemma 4 with experts against PyTorch's answers: a tiny model of our own, as a folder and as the GGUF file that llama.cpp's
# converter would write.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
check_py=${CLEF_SHARED:-}/oracle/check.py
[ -f "$check_py" ] || skip "no check.py here (CLEF_SHARED)"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
gemma4=$CLEF_SOURCE/tests/e2e/models/gemma4.py # not here, where gguf.py would hide the package
mkdir -p "$tmp/models/gemma4-moe"
check "gemma4 with experts is written" "$python" "$gemma4" "$tmp/models/gemma4-moe" "$tmp/gemma4.gguf"
"$python" "$check_py" "$CLEF" "$tmp/models" gemma4-moe >"$tmp/log" 2>&1 || failures=$((failures + 1))
sed "s/^ok  /ok own/; s/^FAIL/FAIL own/" "$tmp/log"
check "gemma4 with experts as GGUF runs" "$CLEF" eval "$tmp/gemma4.gguf" --in "$tmp/models/gemma4-moe/in.safetensors" \
  --out "$tmp/out.safetensors" -q
check "gemma4 with experts as GGUF has the folder's logits" "$python" -c '
import sys, numpy as np
from safetensors.numpy import load_file
a, b = (load_file(p)["logits"] for p in sys.argv[1:])
error = np.abs(a - b).max() / np.abs(b).max()
sys.exit(0 if error <= 1e-4 else f"relative error {error:.2e}, expected at most 1e-4")' "$tmp/out.safetensors" "$tmp/models/gemma4-moe/expected.safetensors"
finish
