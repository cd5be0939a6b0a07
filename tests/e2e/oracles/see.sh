# Encoders of pictures beside transformers: attention weights, vectors, hidden states and classes.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/see.py" "$CLEF" "${CLEF_TEST_SEED:-1}" 2>"$tmp/err" || { fail "encoders of pictures"; tail -n 5 "$tmp/err"; }
finish
