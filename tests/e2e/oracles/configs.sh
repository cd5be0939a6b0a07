# Mutations of each family's config.json: the same logits as transformers, or refused; never another answer without a word.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" "$CLEF_SOURCE/tests/e2e/oracles/configs.py" "$CLEF" 2>"$tmp/err" ||
  { fail "beside transformers"; tail -n 5 "$tmp/err"; }
finish
