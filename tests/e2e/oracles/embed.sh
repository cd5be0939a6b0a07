# Embeddings beside sentence-transformers'.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" "$CLEF_SOURCE/tests/e2e/oracles/embed.py" "$CLEF" 1 2>"$tmp/err" || { fail "embeddings"; tail -n 5 "$tmp/err"; }
finish
