# Random-weight models of each family against PyTorch's answers. Needs ../shared and Python with numpy and safetensors; where
# these are missing, a virtual environment outside the tree gets them, if that can be had. gemm: whose matrix products.
. "$(dirname "$0")/../lib.sh"
gemm=${gemm:-own}
check_py=${CLEF_SHARED:-}/oracle/check.py
[ -f "$check_py" ] || skip "no oracle models here (CLEF_SHARED)"
if [ "$gemm" = clblast ] && ! grep -qa CLBlastSgemm "$CLEF_BUILD/libclef.so"; then skip "built without CLBlast"; fi
python=$(find_python) || skip "no Python with numpy and safetensors"

all=(gpt2 llama llama3 qwen2 qwen3 mistral)
if [ "$gemm" = own ]; then all+=(t5 flan-t5 marian bart mbart m2m100); fi
families=
for i in "${!all[@]}"; do
  if in_turn "$i" ${#all[@]}; then families="$families ${all[i]}"; fi
done
# This test is about models. Tests of ops and proofs check the kernels, and test_fused_kinds the fused steps.
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
# shellcheck disable=SC2086
CLEF_GEMM=$gemm "$python" "$check_py" "$CLEF" "$CLEF_SHARED/oracle/models" $families >"$tmp/log" 2>&1 || failures=$((failures + 1))
sed "s/^ok  /ok $gemm/; s/^FAIL/FAIL $gemm/" "$tmp/log"
grep -q "^[0-9]* passed, " "$tmp/log" || fail "$gemm: check.py did not finish"

# Most folders have F16 or BF16 weights: what has a graph with F32 weights has one with these.
if [ "$gemm" = own ]; then
  cat >"$tmp/halve.py" <<'E'
import os, shutil, sys
import numpy as np
from safetensors.numpy import load_file, save_file

source, target = sys.argv[1:]
shutil.copytree(source, target, ignore=lambda folder, names: [n for n in names if n.startswith("expected")])
os.chmod(target, 0o755)
for name in os.listdir(target):
    path = os.path.join(target, name)
    if name.endswith(".safetensors"):
        weights = {k: v.astype(np.float16) if v.dtype == np.float32 else v for k, v in load_file(path).items()}
        os.unlink(path)
        save_file(weights, path, {"format": "pt"})
E
  n=0
  folders=("$CLEF_SHARED"/oracle/models/*/ "$CLEF_SHARED"/oracle/models2/*/)
  for i in "${!folders[@]}"; do
    folder=${folders[i]}
    in_turn "$i" ${#folders[@]} || continue
    "$CLEF" graph "$folder" >"$tmp/log" 2>&1 || continue
    n=$((n + 1))
    "$python" "$tmp/halve.py" "$folder" "$tmp/half" && "$CLEF" graph "$tmp/half" >"$tmp/log" 2>&1 || fail "F16: ${folder%/}: $(tail -n 1 "$tmp/log")"
    rm -rf "$tmp/half"
  done
  if [ $n -gt 0 ]; then ok "$n folders with F16 weights"; else fail "F16: no folder has a graph"; fi
fi
finish
