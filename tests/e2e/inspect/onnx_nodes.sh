# The ONNX standard's own cases of the ops that clef has, as text graphs run by `clef eval`. Needs ../shared and Python.
. "$(dirname "$0")/../lib.sh"
cases=${CLEF_SHARED:-}/data/onnx-node-tests
[ -d "$cases" ] || skip "no ONNX cases here (CLEF_SHARED)"
python=$(find_python) || skip "no Python with numpy and safetensors"
"$python" "$CLEF_SOURCE/tests/e2e/inspect/onnx_nodes.py" "$CLEF" "$cases" >"$tmp/log" 2>&1 || failures=$((failures + 1))
cat "$tmp/log"
grep -q "^[0-9]* passed, " "$tmp/log" || fail "onnx_nodes.py did not finish"
finish
