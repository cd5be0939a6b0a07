# Mutations of each family's config.json: the same logits as transformers, or refused; never another answer without a word.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
# Two at once, because this takes longer than all other oracles together.
for part in 1/2 2/2; do
  HF_HUB_DISABLE_PROGRESS_BARS=1 "$python" "$CLEF_SOURCE/tests/e2e/oracles/configs.py" "$CLEF" --part $part \
    >"$tmp/${part%/2}.out" 2>"$tmp/${part%/2}.err" &
  pids="${pids:-} $!"
done
part=0
for pid in $pids; do
  part=$((part + 1)) code=0
  wait "$pid" || code=$?
  cat "$tmp/$part.out"
  [ "$code" -eq 0 ] || { fail "beside transformers, part $part"; tail -n 5 "$tmp/$part.err"; }
done
finish
