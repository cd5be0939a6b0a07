# The model that comes with clef, as a folder and as GGUF, beside transformers.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
"$CLEF" convert "$CLEF_SOURCE/share/demo" "$tmp/demo.gguf" -q || fail "the conversion"
HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" "$CLEF_SOURCE/tests/e2e/oracles/logits.py" "$CLEF" "$CLEF_SOURCE/share/demo" "$CLEF_SOURCE/share/demo" "$tmp/demo.gguf" \
  2>"$tmp/err" || { fail "beside transformers"; tail -n 5 "$tmp/err"; }
finish
