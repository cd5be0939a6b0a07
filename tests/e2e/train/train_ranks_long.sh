#!/usr/bin/env bash
# clef train on several ranks, at length: 50 steps of the bundled model's shape, parts, other optimisers, checkpoints that another number
# of ranks goes on from, and what stops all ranks.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
count() { grep -c "\"event\": \"$2\"" "$1.train/log.jsonl"; }

number=0
due() { in_turn $((number++)) 9; } # comparisons take turns, but for those whose files later checks need

# ---- losses ------------------------------------------------------------------------------------------------
cat >"$tmp/demo.json" <<'J'
{"model_type": "gpt2", "n_embd": 192, "n_layer": 6, "n_head": 6, "n_positions": 256, "tie_word_embeddings": true,
 "activation_function": "gelu_new", "layer_norm_epsilon": 1e-05, "initializer_range": 0.02}
J
cat "$CLEF_SOURCE"/docs/*.md >"$tmp/docs.txt"
numbers=()
due && numbers=(1 4)
for n in "${numbers[@]}"; do # the flags of tools/train-demo; what follows has 2 and 3 ranks
  check "the bundled model's shape, on $n" train $n "$tmp/demo$n" --new "$tmp/demo.json" --tokenizer "$CLEF_SOURCE/share/demo" \
    --data "$tmp/docs.txt" --rows 16 --tokens 256 --steps 50 --rate 2e-3 --warmup 100 --dropout 0.2 --seed 1 --eval-every 25 \
    --checkpoint-every 0 -q
  [ $n = 1 ] || same_losses "$n ranks, 50 steps" "$tmp/demo1" "$tmp/demo$n"
done

# When gradients are summed, and how values reach the host: the same bits.
ways=("CLEF_DEBUG=${CLEF_DEBUG:-},rank_overlap=0" "CLEF_DEBUG=${CLEF_DEBUG:-},rank_overlap=1" "CLEF_DEBUG=$CLEF_DEBUG,rank_overlap=1,caps=-unified_memory"
  "CLEF_DEBUG=$CLEF_DEBUG,rank_overlap=1,rank_shared=0")
due || ways=()
for i in "${!ways[@]}"; do
  read -ra way <<<"${ways[i]}"
  rm -rf "$tmp/way" "$tmp/way.train"
  check "with ${ways[i]}" env "${way[@]}" "${ranks[@]}" -n 2 "$CLEF" train --new "$tmp/demo.json" --tokenizer "$CLEF_SOURCE/share/demo" \
    --data "$tmp/docs.txt" --rows 4 --tokens 64 --accumulate 4 --steps 4 --eval-every 0 --checkpoint-every 0 -q -o "$tmp/way"
  [ "$i" = 0 ] && first=$(weights "$tmp/way")
  same "its weights" "$first" "$(weights "$tmp/way")"
done

# compared NAME RANKS FLAGS...: the losses on one and on RANKS differ by $tolerance at most.
tolerance=1e-5
compared() {
  local name=$1 n=$2
  shift 2
  rm -rf "$tmp/alone" "$tmp/alone.train" "$tmp/many" "$tmp/many.train"
  check "$name, on 1" train 1 "$tmp/alone" "${small[@]}" "$@" --eval-every 5
  check "$name, on $n" train "$n" "$tmp/many" "${small[@]}" "$@" --eval-every 5
  same_losses "$name" "$tmp/alone" "$tmp/many" $tolerance
}
due && compared "parts are divided first" 2 -b 3 --accumulate 4
due && compared "then rows" 4 -b 4 --accumulate 2
due && compared "numbers of elements that no kernel likes" 3 -b 9 -c 21
due && compared "3 ranks" 3 -b 6
due && compared "SGD" 2 --optimizer sgd --rate 0.1
due && compared "recomputed layers" 2 --recompute
tolerance=3e-4 # the last bit of f32 decides how some values are rounded to 16 bits
due && compared "bf16" 2 --compute bf16 --dropout 0
compared "gradients that overflow f16 at first" 2 --compute f16 --loss-scale 1e9
same "each rank halves the scale" "$(count "$tmp/alone" overflow)" "$(count "$tmp/many" overflow)"

# The gradients of an adapter begin at 0, where AdamW magnifies the last bit: so SGD.
for n in 1 2; do
  check "an adapter, on $n" train $n "$tmp/lora$n" "$tmp/alone" --lora 4 --data "$tmp/sums.txt" -c 32 -b 4 -n 10 -r 0.1 --optimizer sgd \
    --eval-every 5 -q
done
same_losses "an adapter" "$tmp/lora1" "$tmp/lora2"

# ---- checkpoints -------------------------------------------------------------------------------------------
steady=("${small[@]}" --schedule constant --warmup 2 --eval-every 5)
train 2 "$tmp/whole" "${steady[@]}"
train 2 "$tmp/half" "${steady[@]}" -n 6
same "a checkpoint of 2 ranks has the size of one" "$(wc -c <"$tmp/alone.train/ckpt-00000010.clef" | cut -c 1-3)" \
  "$(wc -c <"$tmp/half.train/ckpt-00000006.clef" | cut -c 1-3)"
for n in 1 2 4; do
  rm -rf "$tmp/on$n" "$tmp/on$n.train"
  cp -r "$tmp/half.train" "$tmp/on$n.train"
  sed -i '/"event": "eval", "step": 6/d; /"event": "end"/d' "$tmp/on$n.train/log.jsonl"
  check "stopped on 2 ranks, resumed on $n" train $n "$tmp/on$n" "${steady[@]}" --resume
  same_losses "it goes on on $n" "$tmp/whole" "$tmp/on$n"
done
same "on 2 to the last bit" "$(weights "$tmp/whole")" "$(weights "$tmp/on2")"

# wait_for_step N OUT
wait_for_step() {
  local tries=3000
  while [ $((tries -= 1)) -gt 0 ] && ! grep -q "\"step\": $1," "$2.train/log.jsonl" 2>/dev/null; do sleep 0.1; done
}

# interrupted NAME SIGNAL WHOM: in the middle of many steps, the process or mpirun gets a signal.
interrupted() {
  local name=$1 signal=$2 whom=$3 pid
  rm -rf "$tmp/stopped" "$tmp/stopped.train"
  train 2 "$tmp/stopped" "${steady[@]}" -n 1000000 >"$tmp/out" 2>"$tmp/err" </dev/null &
  pid=$!
  wait_for_step 20 "$tmp/stopped"
  if [ "$whom" = mpirun ]; then kill -"$signal" "$(pgrep -f -n "mpirun.*$tmp/stopped")"; else
    kill -"$signal" "$(pgrep -f -o "^$CLEF train.*$tmp/stopped")"; fi
  wait $pid
  check "$name: it says where" grep -qE '^clef: interrupted after step [0-9]+' "$tmp/err"
  local step
  step=$(sed -n 's/^clef: interrupted after step \([0-9]*\).*/\1/p' "$tmp/err")
  check "$name: the checkpoint is good" train 1 "$tmp/stopped" "${steady[@]}" -n $((step + 2)) --resume
  same "$name: one step after the other" $((step + 2)) "$(count "$tmp/stopped" step)"
}
interrupted "Ctrl-C for one rank" INT rank
# Open MPI kills the ranks a second after it has asked them to end. On a busy machine a checkpoint may take longer.
mpirun --version 2>/dev/null | grep -q "Open MPI" && ranks+=(--mca odls_base_sigkill_timeout 10)
interrupted "Ctrl-C for mpirun" INT mpirun

# The folder goes away meanwhile, so that rank 0 cannot write the checkpoint for which it collects the moments.
unwritable() {
  local code=0
  train 2 "$tmp/gone" "${steady[@]}" -n 1000000 &
  wait_for_step 20 "$tmp/gone"
  mv "$tmp/gone.train" "$tmp/elsewhere"
  kill -INT "$(pgrep -f -o "^$CLEF train.*$tmp/gone")"
  wait $! || code=$?
  return $code
}
stops "a checkpoint that cannot be written" "gone.train" unwritable

# ---- what stops all ranks ----------------------------------------------------------------------------------
diverges() { train 2 "$tmp/nan" "${small[@]}" -n 50 -r 1e6 --warmup 0 --clip 0 --dropout 0; }
stops "a loss that is not a number" "not finite" diverges
seeds() {
  "${ranks[@]}" -n 1 "$CLEF" train "${small[@]}" -o "$tmp/seeds" --seed 1 : -n 1 "$CLEF" train "${small[@]}" -o "$tmp/seeds" --seed 2
}
if seeds >"$tmp/out" 2>"$tmp/err"; then fail "other options on another rank"; else ok "other options on another rank"; fi
check "it is named" grep -qE "^clef: rank 1 on .+ differs from rank 0 on .+ --seed 2" "$tmp/err"
mkdir "$tmp/a" "$tmp/b"
head -n 2000 "$tmp/sums.txt" >"$tmp/a/text.txt"
tail -n 2000 "$tmp/sums.txt" | sed 's/+/-/' >"$tmp/b/text.txt"
texts() {
  local same=("$CLEF" train "$tmp/alone" --data text.txt -o "$tmp/texts" -q -c 32)
  "${ranks[@]}" -n 1 --wdir "$tmp/a" "${same[@]}" : -n 1 --wdir "$tmp/b" "${same[@]}"
}
stops "another text on another rank" "rank 1 differs data" texts
stops "an earlier training" "holds an earlier training" train 2 "$tmp/whole" "${small[@]}"
stops "flags that do not fit together" "--new" train 2 "$tmp/no" "$tmp/whole" "${small[@]}"
finish
