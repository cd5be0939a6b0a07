#!/usr/bin/env bash
# clef train on several ranks: the same losses as on one, a part of the moments on each, and one rank that prints.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"

for n in 1 2 4; do
  train $n "$tmp/on$n" "${small[@]}" --eval-every 5 --checkpoint-every 0 >"$tmp/out" 2>"$tmp/err"
  same "$n ranks: the exit code" 0 $?
  empty "$n ranks: nothing is printed" "$(cat "$tmp/out" "$tmp/err")"
  [ $n = 1 ] || same_losses "$n ranks" "$tmp/on1" "$tmp/on$n"
done
same "the log says how many they are" '"ranks": 2' "$(grep -o '"ranks": 2' "$tmp/on2.train/log.jsonl")"
check "the model of 4 ranks runs" "$CLEF" run "$tmp/on4" -p "3 + 4 = " -n 4 -q

train 2 "$tmp/says" --new "$tmp/gpt2.json" --tokenizer "$tmp/on1" --data "$tmp/sums.txt" -c 32 -n 2 --eval-every 0 2>"$tmp/err" >/dev/null
same "only rank 0 prints" 1 "$(grep -c '2 steps of 8 rows of 32' "$tmp/err")"

# moment_bytes N: of one rank, by --dry-run, in KiB
moment_bytes() { train "$1" "$tmp/dry$1" "${small[@]}" --dry-run 2>/dev/null | sed -n 's/^memory.*optimiser \([0-9.]*\) KiB.*/\1/p'; }
one=$(moment_bytes 1) two=$(moment_bytes 2)
check "each of 2 ranks has half of the moments: $two KiB of $one" awk "BEGIN { r = $two / $one; exit !(r > 0.48 && r < 0.52) }"

for n in 2 3 4; do
  check "the arrays of $n ranks" env CLEF_MPI="$library" "${ranks[@]}" -n $n "$CLEF_BUILD/tests/train_ranks_mpi"
done
check "on devices with memory of their own" env CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory CLEF_MPI="$library" "${ranks[@]}" -n 2 \
  "$CLEF_BUILD/tests/train_ranks_mpi"
check "and with SGD" env CLEF_MPI="$library" "${ranks[@]}" -n 3 "$CLEF_BUILD/tests/train_ranks_mpi" sgd

# Three buckets of gradients, in parts, summed while the backward pass runs and after it.
cat >"$tmp/wide.json" <<'J'
{"model_type": "gpt2", "n_embd": 320, "n_layer": 2, "n_head": 2, "n_positions": 64}
J
wide=("${small[@]}" --new "$tmp/wide.json" -c 16 -b 3 -n 8 --accumulate 6 -r 0.001 --eval-every 0 --checkpoint-every 0)
train 1 "$tmp/wide1" "${wide[@]}"
for n in 2 3; do
  CLEF_DEBUG=${CLEF_DEBUG:-},rank_overlap=0 train $n "$tmp/after$n" "${wide[@]}"
  CLEF_DEBUG=${CLEF_DEBUG:-},rank_overlap=1 train $n "$tmp/while$n" "${wide[@]}"
  same_losses "$n ranks, sums during the backward pass" "$tmp/wide1" "$tmp/while$n"
  same "$n ranks: during it or after it, the same bits" "$(weights "$tmp/after$n")" "$(weights "$tmp/while$n")"
done
train 2 "$tmp/measured" "${wide[@]}"
same "whichever is chosen, the same bits" "$(weights "$tmp/while2")" "$(weights "$tmp/measured")"
CLEF_DEBUG=${CLEF_DEBUG:-},rank_overlap=perhaps stops "a value that it does not have" "CLEF_DEBUG: rank_overlap: expected 0 or 1, got 'perhaps'" \
  train 2 "$tmp/no" "${wide[@]}"

stops "rows that do not divide" "6 rows 1 parts 4 ranks --rows --accumulate" train 4 "$tmp/no" "${small[@]}" -b 6
finish
