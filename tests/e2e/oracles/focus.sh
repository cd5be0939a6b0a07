# A real DINOv2-small, whose weights a script takes out of an ONNX file, beside ONNX Runtime.
. "$(dirname "$0")/../lib.sh"
file=$(oracle focus) || skip "no DINOv2 here (tools/oracles focus)"
python=$(find_python onnx onnxruntime)
[ -n "$python" ] || skip "no Python with onnx and onnxruntime"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/focus.py" "$CLEF" "$file" 2>"$tmp/err" || { fail "DINOv2"; tail -n 5 "$tmp/err"; }
finish
