# What families need beside their logits (families.py): graphs drawn, quantised weights, adapters, ONNX, batches, training. Needs ../shared, and
# Python with onnx and onnxruntime; where these are missing, a virtual environment outside the tree gets them, if that can be had.
. "$(dirname "$0")/../lib.sh"
[ -d "${CLEF_SHARED:-}/oracle/models" ] || skip "no oracle models here (CLEF_SHARED)"
python=$(find_python onnx onnxruntime) || python=$(find_python) || skip "no Python with numpy and safetensors"
export CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
"$python" "$CLEF_SOURCE/tests/e2e/models/families.py" "$CLEF" "$CLEF_SHARED"/oracle/models/* "$CLEF_SHARED"/oracle/models2/* >"$tmp/log" 2>&1 ||
  failures=$((failures + 1))
cat "$tmp/log"
grep -q "^[0-9]* passed, " "$tmp/log" || fail "families.py did not finish"
finish
