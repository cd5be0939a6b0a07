#!/usr/bin/env bash
# clef train: from nothing to text, resuming, adapters, and what stops it.
. "$(dirname "$0")/../lib.sh"

# A text that a small model learns quickly: sums of small numbers, in documents.
awk 'BEGIN { for (i = 0; i < 3000; i++) { a = i * 7 % 10; b = i * 3 % 10; printf "%d + %d = %d\n", a, b, a + b } }' >"$tmp/sums.txt"
awk 'BEGIN { for (i = 0; i < 3000; i++) { a = i * 7 % 10; b = i * 3 % 10; printf "%d - %d = %d\n", a, b, a - b } }' >"$tmp/other.txt"
cat >"$tmp/gpt2.json" <<'J'
{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
J
cat >"$tmp/llama.json" <<'J'
{"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
 "num_key_value_heads": 1, "max_position_embeddings": 64}
J

train() { # OUT FLAGS...
  local out=$1
  shift
  "$CLEF" train --new "$tmp/gpt2.json" --tokenizer train:300 --data "$tmp/sums.txt" -o "$out" -b 4 -c 32 --dropout 0.1 -q "$@"
}
weights() { sha256sum <"$1/model.safetensors"; }
losses() { grep -o '"event": "step".*"loss": [0-9.e+-]*' "$1" | sed 's/.*"loss": //'; }

# ---- from nothing ------------------------------------------------------------------------------------------
check "a new model is trained" train "$tmp/whole" -n 24 -r 0.01 --checkpoint-every 5 -p "3 + 4"
first=$(losses "$tmp/whole.train/log.jsonl" | head -n 1)
last=$(losses "$tmp/whole.train/log.jsonl" | tail -n 1)
check "its loss falls from $first to $last" awk "BEGIN { exit !($last < 0.7 * $first) }"
check "clef run uses it" "$CLEF" run "$tmp/whole" -p "3 + 4 = " -n 4 -q
same "the log has a line for each step" 24 "$(grep -c '"event": "step"' "$tmp/whole.train/log.jsonl")"
check "the log has the validation's loss and a text" grep -q '"event": "sample"' "$tmp/whole.train/log.jsonl"
for form in svg png html; do
  check "its losses are drawn as $form" "$CLEF" train plot "$tmp/whole.train/log.jsonl" -o "$tmp/loss.$form"
  check "which has something in it" test "$(wc -c <"$tmp/loss.$form")" -gt 5000
done
echo '{"event": "step", "step": 1, "loss": 3}' >"$tmp/broken.jsonl"
echo 'no json' >>"$tmp/broken.jsonl"
refused "a broken log" 1 "line 2" "$CLEF" train plot "$tmp/broken.jsonl"
check "the same again" train "$tmp/again" -n 24 -r 0.01
same "the same seed gives the same weights" "$(weights "$tmp/whole")" "$(weights "$tmp/again")"
check "another seed" train "$tmp/seed" -n 24 -r 0.01 -s 5
if [ "$(weights "$tmp/whole")" = "$(weights "$tmp/seed")" ]; then fail "another seed gives other weights"; else ok "another seed gives other weights"; fi

# ---- resuming ----------------------------------------------------------------------------------------------
# Killed after some steps, wherever it is then, and resumed until it is done.
for round in 1 2 3 4 5; do
  rm -rf "$tmp/killed" "$tmp/killed.train"
  train "$tmp/killed" -n 24 -r 0.01 --checkpoint-every 5 >/dev/null 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    if [ "$(grep -c '"event": "step"' "$tmp/killed.train/log.jsonl" 2>/dev/null)" -ge $((round * 4)) ] 2>/dev/null; then kill -9 "$pid"; break; fi
  done
  wait "$pid" 2>/dev/null
  check "killed after $((round * 4)) steps, it goes on" train "$tmp/killed" -n 24 -r 0.01 --checkpoint-every 5 --resume
  same "with the weights of an undisturbed run, to the last bit" "$(weights "$tmp/whole")" "$(weights "$tmp/killed")"
done
cp -r "$tmp/whole.train" "$tmp/damaged.train"
newest=$(ls "$tmp/damaged.train"/ckpt-*.clef | tail -n 1)
head -c 5000 "$newest" >"$newest.cut" && mv "$newest.cut" "$newest"
"$CLEF" train --new "$tmp/gpt2.json" --tokenizer train:300 --data "$tmp/sums.txt" -o "$tmp/damaged" -b 4 -c 32 --dropout 0.1 -n 24 -r 0.01 \
  --resume 2>"$tmp/err" >/dev/null
same "a damaged checkpoint is passed over for the one before" "$(weights "$tmp/whole")" "$(weights "$tmp/damaged")"
check "and named" grep -q "ckpt-00000024" "$tmp/err"
cp -r "$tmp/whole.train" "$tmp/full.train"
rm "$tmp"/full.train/ckpt-*24.clef
most=$(($(stat -c %s "$tmp"/full.train/ckpt-*20.clef) / 1024 - 1)) # KiB of a file: PoCL, too, writes some while it builds
(trap '' XFSZ; ulimit -f $most; train "$tmp/full" -n 24 -r 0.01 --checkpoint-every 5 --resume) 2>"$tmp/err"
same "a checkpoint that the disk has no room for ends it" 1 $?
check "and is named" grep -q "full.train/ckpt-00000024.clef" "$tmp/err"
same "only the one before stays" "ckpt-00000020.clef" "$(ls "$tmp/full.train" | grep ckpt)"
check "with room, it goes on" train "$tmp/full" -n 24 -r 0.01 --resume
same "and ends with the same weights" "$(weights "$tmp/whole")" "$(weights "$tmp/full")"
refused "other options" 1 "rows" train "$tmp/whole" -n 24 -b 8 --resume
refused "other data" 1 "data" "$CLEF" train --new "$tmp/gpt2.json" --tokenizer train:300 --data "$tmp/other.txt" -o "$tmp/whole" -b 4 -c 32 \
  --dropout 0.1 -q -n 24 --resume
sed 's/"n_layer": 2/"n_layer": 3/' "$tmp/gpt2.json" >"$tmp/deeper.json"
refused "another configuration" 1 "n_layer" train "$tmp/whole" -n 24 --resume --new "$tmp/deeper.json"
cp -r "$tmp/whole.train" "$tmp/cut.train"
printf '{"event": "step", "ste' >>"$tmp/cut.train/log.jsonl"
check "a training whose log was cut off is resumed" train "$tmp/cut" -n 24 -r 0.01 --resume
check "and its log is drawn" "$CLEF" train plot "$tmp/cut.train/log.jsonl" -o "$tmp/cut.svg"
refused "an earlier training is not overwritten" 1 "--resume" train "$tmp/whole" -n 24
refused "nothing to resume" 1 "resume" train "$tmp/none" -n 24 --resume

# ---- products of 16 bits -----------------------------------------------------------------------------------
half() { train "$1" -n 12 -r 0.01 --checkpoint-every 6 --compute f16 --loss-scale 1e9 "${@:2}"; }
check "products of f16" half "$tmp/half"
check "whose gradients overflow at first" grep -q '"event": "overflow", "step": 1,' "$tmp/half.train/log.jsonl"
same "make each step" 12 "$(grep -c '"event": "step"' "$tmp/half.train/log.jsonl")"
check "and their loss is that of f32" awk "BEGIN { d = $(losses "$tmp/half.train/log.jsonl" | sed -n 1p) - $first; exit !(d * d < 1e-6) }"
cp -r "$tmp/half.train" "$tmp/again16.train"
rm "$tmp/again16.train/ckpt-00000012.clef"
refused "a checkpoint of other products" 1 "compute f16" train "$tmp/again16" -n 12 -r 0.01 --resume
check "they go on from a checkpoint, at its loss scale" half "$tmp/again16" --resume
same "and end with the same weights" "$(weights "$tmp/half")" "$(weights "$tmp/again16")"
check "products of bf16" train "$tmp/brain" -n 2 --compute bf16

# ---- parts -------------------------------------------------------------------------------------------------
"$CLEF" train --new "$tmp/llama.json" --tokenizer "$tmp/whole" --data "$tmp/sums.txt" -o "$tmp/one" -b 8 -c 32 -n 3 -q --eval-every 0
"$CLEF" train --new "$tmp/llama.json" --tokenizer "$tmp/whole" --data "$tmp/sums.txt" -o "$tmp/two" -b 4 --accumulate 2 -c 32 -n 3 -q --eval-every 0
same "two parts of 4 rows are one of 8" "$(losses "$tmp/one.train/log.jsonl" | cut -c 1-6)" "$(losses "$tmp/two.train/log.jsonl" | cut -c 1-6)"
"$CLEF" train --new "$tmp/llama.json" --tokenizer "$tmp/whole" --data "$tmp/sums.txt" -o "$tmp/re" -b 8 -c 32 -n 3 -q --eval-every 0 --recompute
same "layers that are computed again give the same weights" "$(weights "$tmp/one")" "$(weights "$tmp/re")"

# ---- a graph of one's own ------------------------------------------------------------------------------------
check "examples/train.c builds" "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$CLEF_SOURCE/include" "$CLEF_SOURCE/examples/train.c" \
  -L"$CLEF_BUILD" -lclef -lm -Wl,-rpath,"$CLEF_BUILD" -o "$tmp/train"
"$tmp/train" >"$tmp/line.txt" 2>&1
same "and runs" 0 $?
check "to two digits" grep -E '^y = (1[.]9|2[.]0). x1 - (2[.]9|3[.]0). x2 [+] 0[.][45]' "$tmp/line.txt"

# ---- adapters ----------------------------------------------------------------------------------------------
before=$(weights "$tmp/whole")
check "an adapter is trained" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/lora" --lora 4 -b 4 -c 32 -n 40 -r 0.02 -q
same "the weights stay" "$before" "$(weights "$tmp/whole")"
evals=$(grep '"event": "eval"' "$tmp/lora.train/log.jsonl" | sed 's/.*"loss": //; s/,.*//')
check "the loss on the other text falls" awk "BEGIN { exit !($(tail -n 1 <<<"$evals") < 0.9 * $(head -n 1 <<<"$evals")) }"
check "it is merged" "$CLEF" lora merge "$tmp/whole" "$tmp/lora" "$tmp/merged.gguf"
same "clef run --lora writes what the merged model writes" "$("$CLEF" run "$tmp/merged.gguf" -p "7 - 3" -n 12 --temp 0 -q 2>/dev/null)" \
  "$("$CLEF" run "$tmp/whole" --lora "$tmp/lora" -p "7 - 3" -n 12 --temp 0 -q 2>/dev/null)"

# ---- other outputs -----------------------------------------------------------------------------------------
check "a GGUF file" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/out.gguf" -b 4 -c 32 -n 2 -q
check "which clef run reads" "$CLEF" run "$tmp/out.gguf" -p "1 + 1" -n 2 -q
check "--dry-run" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -b 4 -c 32 --dry-run -q
check "the graph of gradients" "$CLEF" graph "$tmp/whole" --train -c 16 -t layer0.attn.qkv.grad -o "$tmp/graph.clef"
check "has the tapped gradient" grep -q '^output layer0.attn.qkv.grad' "$tmp/graph.clef"

# ---- tokenizers --------------------------------------------------------------------------------------------
check "a tokenizer is learned" "$CLEF" tokenize --train 300 "$tmp/sums.txt" -o "$tmp/tok" -q
same "its ids" "$("$CLEF" tokenize "$tmp/whole" "3 + 4 = 7")" "$("$CLEF" tokenize "$tmp/tok" "3 + 4 = 7")"
refused "too few tokens" 2 "257" "$CLEF" tokenize --train 200 "$tmp/sums.txt" -o "$tmp/tok2"
refused "a tokenizer without a folder" 2 "-o" "$CLEF" tokenize --train 300 "$tmp/sums.txt"

# ---- what stops it -----------------------------------------------------------------------------------------
"$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/nan" -b 4 -c 32 -n 50 -r 1e6 --warmup 0 --clip 0 --checkpoint-every 1 -q 2>"$tmp/err"
same "a loss that is not a number ends it" 1 $?
check "with the first value that has one" grep -q "not finite" "$tmp/err"
check "and the checkpoints stay" test -s "$(ls "$tmp/nan.train"/ckpt-*.clef | head -n 1)"
printf 'abc\xff\n' >"$tmp/bad.txt"
refused "a text that is not UTF-8" 1 "bad.txt" "$CLEF" train "$tmp/whole" --data "$tmp/bad.txt" -o "$tmp/x1" -q
refused "a missing text" 1 "nothing.txt" "$CLEF" train "$tmp/whole" --data "$tmp/nothing.txt" -o "$tmp/x2" -q
refused "a tokenizer beside a model" 2 "--new" "$CLEF" train "$tmp/whole" --tokenizer train:300 --data "$tmp/other.txt" -o "$tmp/x8" -q
refused "targets without an adapter" 2 "--lora RANK" "$CLEF" train "$tmp/whole" --lora-targets q --data "$tmp/other.txt" -o "$tmp/x8" -q
refused "an adapter as a file" 2 "FOLDER" "$CLEF" train "$tmp/whole" --lora 2 --data "$tmp/other.txt" -o "$tmp/x8.gguf" -q
refused "the objective of other models" 1 "decoder" "$CLEF" train "$tmp/whole" --objective masked --data "$tmp/other.txt" -o "$tmp/x8" -q
refused "rows beyond the context" 1 "context" "$CLEF" train "$tmp/whole" -c 65 --data "$tmp/other.txt" -o "$tmp/x8" -q
echo text >"$tmp/taken.gguf"
refused "a file that is something else" 1 "taken.gguf" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/taken.gguf" -n 2 -q
empty "before it trains" "$(ls "$tmp/taken.gguf.train" 2>/dev/null)"
refused "no data" 2 "--data" "$CLEF" train "$tmp/whole" -o "$tmp/x3"
refused "no model" 2 "MODEL" "$CLEF" train --data "$tmp/other.txt" -o "$tmp/x4"
refused "an output that is something else" 1 "e2e" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$CLEF_SOURCE/tests/e2e" -q
refused "a folder from a file" 2 ".gguf" "$CLEF" train "$tmp/out.gguf" --data "$tmp/other.txt" -o "$tmp/x5" -q
refused "an adapter without targets" 1 "nothing_like_it" "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/x6" --lora 4 --lora-targets nothing_like_it -q
refused "rows that need more memory than there is" 1 "memory" env POCL_MEMORY_LIMIT=4 "$CLEF" train "$tmp/whole" --data "$tmp/other.txt" -o "$tmp/x7" -c 64 -b 60000 -q
finish
