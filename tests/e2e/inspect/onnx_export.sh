# `clef graph --format onnx` of every oracle model: onnx.checker, and logits by ONNX Runtime. Needs ../shared and Python with onnx and
# onnxruntime; where these are missing, a virtual environment outside the tree gets them, if that can be had.
. "$(dirname "$0")/../lib.sh"
"$CLEF" graph --format onnx -o "$tmp/demo.onnx" 2>"$tmp/err" ||
  { grep -q "without protobuf-c" "$tmp/err" && skip "this clef was built without protobuf-c"; }
check "the demo's graph" test -s "$tmp/demo.onnx"
refused "weights beside nothing" 1 "beside -o" "$CLEF" graph --format onnx --weights beside
refused "ops of the fuse pass" 1 "ONNX has no ops for cached_attention" "$CLEF" graph --format onnx --after fuse
refused "no cache of a text" 1 "--no-cache --format onnx text" "$CLEF" graph --no-cache
refused "a part of a decoder" 1 "encoder-decoder gpt2 --part" "$CLEF" graph --part encoder
printf 'input x f32 [2]\nweight w f32 [2]\ny = add(x, w)\noutput y\n' >"$tmp/g.clef"
refused "a weight that is nowhere" 1 "no weight of that name w" "$CLEF" graph "$tmp/g.clef" --format onnx
printf 'input "x//1" f32 [2]\ny = neg("x//1")\noutput y\n' >"$tmp/g.clef"
refused "no cache of a graph in text form" 1 "--no-cache model" "$CLEF" graph "$tmp/g.clef" --format onnx --no-cache
refused "a name of the export's own" 1 "names with //" "$CLEF" graph "$tmp/g.clef" --format onnx
if [ -c /dev/full ]; then refused "a full disk" 1 "/dev/full" "$CLEF" graph --format onnx -o /dev/full; fi

[ -d "${CLEF_SHARED:-}/oracle/models" ] || skip "no oracle models here (CLEF_SHARED)"
python=$(find_python onnx onnxruntime) || skip "no Python with onnx and onnxruntime"
[ -n "$python" ] || skip "no Python with onnx and onnxruntime"
for models in models "models2 llama4"; do # which alone has attention in chunks
  # shellcheck disable=SC2086
  "$python" "$CLEF_SOURCE/tests/e2e/inspect/onnx_export.py" "$CLEF" "$CLEF_SHARED/oracle"/$models >"$tmp/log" 2>&1 || failures=$((failures + 1))
  grep -v "W:onnxruntime" "$tmp/log"
  grep -q "^[0-9]* passed, " "$tmp/log" || fail "onnx_export.py did not finish"
done
finish
