# Importance matrices beside PyTorch's sums, and what quantising makes of them by NumPy.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" -P "$CLEF_SOURCE/tests/e2e/oracles/imatrix.py" "$CLEF" 1 2>"$tmp/err" || { fail "importance"; tail -n 5 "$tmp/err"; }
finish
