# Quantised folders of $CLEF_SHARED, by PyTorch's logits and by the weights that their formats mean.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
folders=${CLEF_SHARED:-}/oracle/quantised
[ -d "$folders" ] || skip "no quantised folders here (CLEF_SHARED)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/quantised.py" "$CLEF" "$folders" 2>"$tmp/err" || { fail "quantised folders"; tail -n 5 "$tmp/err"; }
finish
