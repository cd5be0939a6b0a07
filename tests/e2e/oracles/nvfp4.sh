# NVFP4 with factors beside the matrices, written by gguf-py.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/nvfp4.py" "$CLEF" 1 2>"$tmp/err" || { fail "NVFP4"; tail -n 5 "$tmp/err"; }
finish
