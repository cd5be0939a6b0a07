# clef run --max-seqs: each answer is the text of the same prompt alone; answers keep the order of the file; what is wrong in a file is refused
# with its line; a full pool, a shared prefix and Ctrl-C.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
demo=$CLEF_SOURCE/share/demo
oracle=${CLEF_SHARED:-}/oracle/models

# member FILE LINE KEY: a number or a text of the answer, as JSON writes it.
member() { sed -n "$2p" "$1" | sed -n "s/.*\"$3\": \(\"\([^\"\\\\]\|\\\\.\)*\"\|[^,}]*\).*/\1/p"; }
# alone MODEL PROMPT FLAGS...: the text that clef run prints, as a JSON string, without control characters.
alone() {
  local model=$1 prompt=$2
  shift 2
  "$CLEF" run "$model" -p "$prompt" -q "$@" | tr -d '\001-\010\013-\037\177' | awk 'BEGIN { RS = "\001" } { sub(/\n$/, "\n"); gsub(/\\/, "\\\\"); gsub(/"/, "\\\""); gsub(/\n/, "\\n"); gsub(/\t/, "\\t"); printf "\"%s\"", $0 }'
}
# texts FILE: the answers without their counts; what was cached depends on which of them ran at once.
texts() { sed 's/, "finish.*//' "$1"; }
many() { "$CLEF" run "$@" 2>"$tmp/err"; }

# ---- equal to each prompt alone --------------------------------------------------------------------
printf '%s\n' "ROMEO:" "KING RICHARD III: my" "First Citizen: Before we proceed any further, hear me speak." "JULIET: what" "a" \
  "First Citizen: Before we proceed any further, speak." >"$tmp/prompts.txt"
# equal NAME MODEL FLAGS...: the file's texts are those of its lines alone.
equal() {
  local name=$1 model=$2 line i=0
  shift 2
  many "$model" --file "$tmp/prompts.txt" --max-seqs 3 -n 20 --repeatable "$@" >"$tmp/answers" || fail "$name: $(cat "$tmp/err")"
  while IFS= read -r line; do
    i=$((i + 1))
    same "$name: line $i" "$(alone "$model" "$line" -n 20 "$@")" "$(member "$tmp/answers" $i text | sed 's/\\u00[0-9a-f][0-9a-f]//g')"
    same "$name: its index" $((i - 1)) "$(member "$tmp/answers" $i index)"
  done <"$tmp/prompts.txt"
  same "$name: an answer a line" "$i" "$(wc -l <"$tmp/answers")"
}
equal "greedy" "$demo" --exact --temp 0
equal "sampling" "$demo" --exact --temp 0.8 --seed 7
equal "samplers on the host" "$demo" --exact --seed 3 --dry-multiplier 1 --typical 0.95 --xtc-probability 0.2 --ignore-eos
equal "Mirostat" "$demo" --exact --seed 3 --mirostat 2 --mirostat-tau 3 --ignore-eos
equal "sampling with a penalty" "$demo" --exact --temp 0.8 --seed 11 --repeat-penalty 1.3 --ignore-eos
same "prompt tokens" "$("$CLEF" tokenize "$demo" "ROMEO:" | tr ',' '\n' | wc -l)" "$(member "$tmp/answers" 1 prompt_tokens)"
same "generated tokens" 20 "$(member "$tmp/answers" 1 generated_tokens)"
same "why it ended" '"length"' "$(member "$tmp/answers" 1 finish)"
cp "$tmp/answers" "$tmp/three"
for n in 1 8; do
  many "$demo" --file "$tmp/prompts.txt" --max-seqs $n -n 20 --repeatable --exact --temp 0.8 --seed 11 --repeat-penalty 1.3 --ignore-eos >"$tmp/answers"
  same "texts with $n at once" "$(for i in 1 2 3 4 5 6; do member "$tmp/three" $i text; done)" "$(for i in 1 2 3 4 5 6; do member "$tmp/answers" $i text; done)"
done
many "$demo" --file - --max-seqs 8 -n 4 --temp 0 -q <"$tmp/prompts.txt" >"$tmp/answers"
same "stdin" 6 "$(wc -l <"$tmp/answers")"
empty "nothing on stderr with -q" "$(cat "$tmp/err")"
sed 's/$/\r/' "$tmp/prompts.txt" >"$tmp/dos.txt"
many "$demo" --file "$tmp/dos.txt" --max-seqs 8 -n 4 --temp 0 >"$tmp/dos"
same "lines that end in CR and LF" "$(cat "$tmp/answers")" "$(cat "$tmp/dos")"

# ---- lines of JSON ---------------------------------------------------------------------------------
cat >"$tmp/lines.jsonl" <<'END'
{"prompt": "ROMEO:", "id": "a \"b\" é", "n": 40}
{"prompt": "ROMEO:", "id": 7, "n": 3, "seed": 5, "temperature": 0.8}
{"prompt": "JULIET:", "n": 6, "temperature": 1.5, "top_k": 5, "top_p": 0.9, "min_p": 0, "repeat_penalty": 1.2, "seed": 3}
{"prompt": "", "n": 2, "id": 1.5}
{"n": 0, "prompt": "x\ty"}
{"prompt": "ROMEO:", "n": 40, "salt": 1}
END
many "$demo" --file "$tmp/lines.jsonl" --temp 0 --exact --repeatable >"$tmp/answers" || fail "lines of JSON: $(cat "$tmp/err")"
same "id, a text" '"a \"b\" é"' "$(member "$tmp/answers" 1 id)"
same "id, a number" "7 1.5" "$(member "$tmp/answers" 2 id) $(member "$tmp/answers" 4 id)"
empty "no id" "$(member "$tmp/answers" 3 id)"
same "the defaults of a line" "$(alone "$demo" ROMEO: -n 40 --temp 0 --exact)" "$(member "$tmp/answers" 1 text)"
same "n, seed, temperature" "$(alone "$demo" ROMEO: -n 3 --temp 0.8 --seed 5 --exact)" "$(member "$tmp/answers" 2 text)"
same "all options" "$(alone "$demo" JULIET: -n 6 --temp 1.5 --top-k 5 --top-p 0.9 --min-p 0 --repeat-penalty 1.2 --seed 3 --exact)" \
  "$(member "$tmp/answers" 3 text)"
same "an empty prompt begins with BOS" "$(alone "$demo" "" -n 2 --temp 0 --exact)" "$(member "$tmp/answers" 4 text)"
same "n 0" '"" 0' "$(member "$tmp/answers" 5 text) $(member "$tmp/answers" 5 generated_tokens)"
many "$demo" --file "$tmp/lines.jsonl" --max-seqs 1 --temp 0 -q >"$tmp/answers"
same "another salt shares no prefix" "1 0" "$(member "$tmp/answers" 2 cached_tokens) $(member "$tmp/answers" 6 cached_tokens)"
cp "$tmp/lines.jsonl" "$tmp/lines"
same "a first line that begins with {" "$(cat "$tmp/answers")" "$(many "$demo" --file "$tmp/lines" --max-seqs 1 --temp 0 -q)"
printf '{"prompt": "a"}\n{"prompt": "b"}\n' >"$tmp/two.jsonl"
many "$demo" --file "$tmp/two.jsonl" -n 2 >/dev/null
same "the seed is reported" 1 "$(grep -c 'seed [0-9]* and an index$' "$tmp/err")"

# ---- what is refused, before anything runs ---------------------------------------------------------
refused_line() { # NAME WORDS LINE
  printf '{"prompt": "a"}\n%b\n' "$3" >"$tmp/bad.jsonl"
  refused "$1" 1 "bad.jsonl: line 2 $2" "$CLEF" run "$demo" --file "$tmp/bad.jsonl"
}
refused_line "no JSON" "no JSON" '{"prompt": '
refused_line "no object" "object" '["a"]'
refused_line "text after the object" "no JSON" '{"prompt": "a"} b'
refused_line "a key twice" "duplicate" '{"prompt": "a", "prompt": "b"}'
refused_line "an unknown key" "temprature temperature" '{"prompt": "a", "temprature": 1}'
refused_line "no prompt" "prompt" '{"n": 3}'
refused_line "a prompt that is not text" "prompt string" '{"prompt": 3}'
refused_line "n as a text" '"n" integer' '{"prompt": "a", "n": "3"}'
refused_line "n as a fraction" '"n" integer' '{"prompt": "a", "n": 1.5}'
refused_line "n below" '"n" -1' '{"prompt": "a", "n": -2}'
refused_line "top_p beyond 1" "top_p 1" '{"prompt": "a", "top_p": 1.5}'
refused_line "a temperature below 0" "temperature" '{"prompt": "a", "temperature": -1}'
refused_line "a seed below 0" "seed 0" '{"prompt": "a", "seed": -1}'
refused_line "null" "seed" '{"prompt": "a", "seed": null}'
refused_line "an id that is a list" "id string number" '{"prompt": "a", "id": [1]}'
refused_line "no UTF-8" "UTF-8" '{"prompt": "\xff"}'
refused_line "an empty line" "no JSON" ''
printf 'a\n\nb\n' >"$tmp/gap.txt"
refused "an empty prompt" 1 "line 2 empty" "$CLEF" run "$demo" --file "$tmp/gap.txt" --max-seqs 2
printf 'a\nb\xc3(\n' >"$tmp/latin.txt"
refused "a prompt that is not UTF-8" 1 "line 2 UTF-8" "$CLEF" run "$demo" --file "$tmp/latin.txt" --max-seqs 2
: >"$tmp/empty.txt"
refused "an empty file" 1 "no line" "$CLEF" run "$demo" --file "$tmp/empty.txt" --max-seqs 2
refused "no file" 1 "nothing.jsonl" "$CLEF" run "$demo" --file "$tmp/nothing.jsonl"
refused "one prompt" 2 "--max-seqs --file" "$CLEF" run "$demo" -p a --max-seqs 2
refused "no layer that predicts further tokens" 1 "demo further tokens" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --spec mtp -q
refused "two kinds of drafts" 2 "--spec mtp --draft" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --spec mtp --draft "$demo"
refused "--kv-tokens alone" 2 "--kv-tokens --max-seqs" "$CLEF" run "$demo" -p a --kv-tokens 64
refused "--repeatable alone" 2 "--repeatable --max-seqs" "$CLEF" run "$demo" -p a --repeatable
for flag in --echo --print-ids "--beams 2" "--prompt-cache $tmp/c" --profile "-b 7"; do
  # shellcheck disable=SC2086
  refused "with $flag" 2 "many prompts" "$CLEF" run "$demo" --file "$tmp/two.jsonl" $flag
done
refused "fewer step tokens than sequences" 1 "4 8" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --step-tokens 4 -q

# ---- a request that can never fit ------------------------------------------------------------------
{ echo '{"prompt": "a", "n": 2, "id": 1}'; printf '{"prompt": "%s", "id": 2}\n' "$(seq -s ' ' 300)"; echo '{"prompt": "b", "n": 2, "id": 3}'; } >"$tmp/long.jsonl"
code=0
many "$demo" --file "$tmp/long.jsonl" >"$tmp/answers" || code=$?
same "exit code" 1 $code
same "the others go on" "1 2 3" "$(sed 's/.*"id": \([0-9]*\).*/\1/' "$tmp/answers" | tr '\n' ' ' | sed 's/ $//')"
same "and say nothing of it" "2" "$(grep -c '"text"' "$tmp/answers")"
case $(member "$tmp/answers" 2 error) in *"context holds 256"*) ok "the error has the numbers" ;; *) fail "the error: $(sed -n 2p "$tmp/answers")" ;; esac

# ---- the pool --------------------------------------------------------------------------------------
for i in 1 2 3 4 5 6; do echo "{\"prompt\": \"$i. First Citizen: hear me.\", \"n\": 150, \"seed\": $i}"; done >"$tmp/six.jsonl"
many "$demo" --file "$tmp/six.jsonl" --ignore-eos --repeatable >"$tmp/roomy"
same "room enough" 0 "$(cat "$tmp/roomy" | sed 's/.*"preemptions": \([0-9]*\).*/\1/' | sort -n | tail -n 1)"
many "$demo" --file "$tmp/six.jsonl" --ignore-eos --repeatable --kv-tokens 320 --max-seqs 6 >"$tmp/tight"
if [ "$(sed 's/.*"preemptions": \([0-9]*\).*/\1/' "$tmp/tight" | awk '{ n += $1 } END { print n }')" -gt 0 ]; then ok "a full pool preempts"; else fail "nothing was preempted"; fi
same "with the same texts" "$(sed 's/, "finish.*//' "$tmp/roomy")" "$(sed 's/, "finish.*//' "$tmp/tight")"
same "the size of the pool is reported" 1 "$(grep -c 'KV cache: 6 sequences of 256 need 1536 positions, 320 fit (--kv-tokens)' "$tmp/err")"
prefix="First Citizen: Before we proceed any further, hear me speak. All: Speak, speak."
printf '{"prompt": "%s one"}\n{"prompt": "%s two"}\n' "$prefix" "$prefix" >"$tmp/shared.jsonl"
many "$demo" --file "$tmp/shared.jsonl" --max-seqs 1 -n 4 --temp 0 >"$tmp/answers"
cached=$(member "$tmp/answers" 2 cached_tokens)
n=$("$CLEF" tokenize "$demo" "$prefix" | tr ',' '\n' | wc -l)
if [ "$cached" -ge $((n - 1)) ] && [ "$cached" -le $((n + 1)) ]; then ok "the prefix was cached: $cached of $n"; else fail "cached $cached, the prefix has $n"; fi
many "$demo" --file "$tmp/shared.jsonl" --max-seqs 1 -n 4 --temp 0 --no-prefix-cache >"$tmp/answers"
same "without the prefix cache" 0 "$(member "$tmp/answers" 2 cached_tokens)"
same "which is reported" 1 "$(grep -c 'prefix cache: off, switched off' "$tmp/err")"

# A chat template of stories260K: the prefix is cached to the token, and the last token is computed in any case.
stories=${CLEF_SHARED:-}/data/stories260K/stories260K.gguf
if [ -e "$stories" ]; then
  for text in "1 2 3 4 5 6" "1 2 3 4 5 6" "1 2 3 4 5 9" "1 2 3 9 9 9"; do
    printf '{"prompt": "<|im_start|>system\\nTest<|im_end|>\\n<|im_start|>user\\n%s<|im_end|>\\n<|im_start|>assistant\\n"}\n' "$text"
  done >"$tmp/chat.jsonl"
  many "$stories" --file "$tmp/chat.jsonl" --max-seqs 1 -n 8 --temp 0 >"$tmp/answers"
  same "prompt tokens of a chat" "77 77 77 77" "$(for i in 1 2 3 4; do member "$tmp/answers" $i prompt_tokens; done | tr '\n' ' ' | sed 's/ *$//')"
  same "cached tokens of a chat" "0 76 51 47" "$(for i in 1 2 3 4; do member "$tmp/answers" $i cached_tokens; done | tr '\n' ' ' | sed 's/ *$//')"
fi

# ---- speculation -----------------------------------------------------------------------------------
# A draft of coarser weights is a model of its own; a folder with one token renamed has another vocabulary.
"$CLEF" quantize "$demo" "$tmp/rough.gguf" q4_0 >/dev/null 2>&1
cp -r "$demo" "$tmp/renamed" && chmod -R u+w "$tmp/renamed"
for file in vocab.json tokenizer.json; do
  sed 's/"#" *: *3\([,}]\)/"changed":3\1/' "$demo/$file" >"$tmp/renamed/$file"
done
for flags in "--temp 0" "--temp 0.8 --seed 11 --repeat-penalty 1.1"; do
  # shellcheck disable=SC2086
  many "$demo" --file "$tmp/prompts.txt" --max-seqs 3 -n 60 --ignore-eos --repeatable -q $flags >"$tmp/plain"
  for spec in "--spec ngram" "--spec ngram:1,3 --spec-max-seqs 3" "--draft $tmp/rough.gguf" "--draft $demo --draft-tokens 7"; do
    # shellcheck disable=SC2086
    many "$demo" --file "$tmp/prompts.txt" --max-seqs 3 -n 60 --ignore-eos --repeatable $flags $spec >"$tmp/answers" || fail "$spec: $(cat "$tmp/err")"
    same "$flags $spec changes no text" "$(texts "$tmp/plain")" "$(texts "$tmp/answers")"
    counts=$(sed -n 's/^clef: speculation: \([0-9]*\) draft tokens, \([0-9]*\) accepted (.* %), in \([0-9]*\) of \([0-9]*\) steps; left out in [0-9]* where.*/\1 \2 \3 \4/p' "$tmp/err")
    if echo "$counts" | awk '{ exit !($1 > 0 && $2 <= $1 && $3 > 0 && $3 <= $4) }'; then ok "which it reports: $counts"; else fail "statistics: $(cat "$tmp/err")"; fi
  done
done
many "$demo" --file "$tmp/prompts.txt" --max-seqs 3 -n 4 >/dev/null
same "nothing is reported without it" 0 "$(grep -c speculation "$tmp/err")"
for value in "" gram ngrams ngram: ngram:0 ngram:3,2 ngram:1,99 ngram:2, ngram:2,3x draft; do
  refused "--spec '$value'" 2 "--spec ngram:MIN,MAX '$value'" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --spec "$value"
done
refused "--spec and --draft" 2 "--spec --draft" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --spec ngram --draft "$demo"
refused "--draft-tokens alone" 2 "--draft-tokens --draft" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft-tokens 3
refused "--draft-tokens 9" 2 "--draft-tokens 9" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft "$demo" --draft-tokens 9
refused "--spec-max-seqs alone" 2 "--spec-max-seqs --spec" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --spec-max-seqs 3
for flag in "--spec ngram" "--draft $demo"; do
  # shellcheck disable=SC2086
  refused "$flag of one prompt" 2 "${flag%% *} --file" "$CLEF" run "$demo" -p a $flag
done
refused "no such draft" 1 "nothing.gguf" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft "$tmp/nothing.gguf" -q
refused "a draft with one other token" 1 "renamed token 3 'changed' '#'" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft "$tmp/renamed" -q
if [ -e "$stories" ]; then
  refused "a draft with fewer tokens" 1 "stories260K 512 1024" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft "$stories" -q
fi
if [ -d "$oracle/t5" ]; then
  refused "an encoder-decoder as a draft" 1 "t5 encoder-decoder" "$CLEF" run "$demo" --file "$tmp/two.jsonl" --draft "$oracle/t5" -q
fi

# New kernels are proven with pages, too.
mkdir "$tmp/fresh"
if CLEF_CACHE_DIR="$tmp/fresh" CLEF_PROOF=1 many "$demo" --file "$tmp/shared.jsonl" --max-seqs 2 -n 4 --temp 0 >"$tmp/answers"; then
  ok "proofs in an empty cache"
else
  fail "proofs in an empty cache: $(cat "$tmp/err")"
fi

# ---- Ctrl-C: what is done is written, in order -----------------------------------------------------
{ for i in 1 2 3; do echo "{\"prompt\": \"a\", \"n\": 3, \"id\": $i}"; done
  for i in $(seq 4 3000); do echo "{\"prompt\": \"a b c\", \"n\": 200, \"id\": $i}"; done; } >"$tmp/endless.jsonl"
mkfifo "$tmp/pipe"
"$CLEF" run "$demo" --file "$tmp/endless.jsonl" --max-seqs 2 --ignore-eos -q >"$tmp/pipe" 2>"$tmp/err" &
pid=$!
: >"$tmp/answers"
{
  for _ in 1 2 3; do IFS= read -r line && echo "$line" >>"$tmp/answers"; done
  kill -INT $pid
  cat >>"$tmp/answers"
} <"$tmp/pipe"
code=0
wait $pid || code=$?
same "the exit code of Ctrl-C" 130 $code
same "whole lines" "$(wc -l <"$tmp/answers")" "$(grep -c '^{"index": [0-9]*, "id": [0-9]*, "ids": \[[0-9, ]*\], "text": ".*"preemptions": 0}$' "$tmp/answers")"
same "in order" "$(sed 's/.*"id": \([0-9]*\).*/\1/' "$tmp/answers" | sort -n)" "$(sed 's/.*"id": \([0-9]*\).*/\1/' "$tmp/answers")"
if [ "$(wc -l <"$tmp/answers")" -ge 3 ] && [ "$(wc -l <"$tmp/answers")" -lt 3000 ]; then ok "what was done"; else fail "$(wc -l <"$tmp/answers") answers"; fi

# ---- speculation in other families: sliding windows of 16 positions, and a memory that goes back by copies ------
# borrow MODEL: a copy of a model of the oracle, with the first 384 tokens of another model's tokenizer.
borrow() {
  cp -r "$oracle/$1" "$tmp/$1" && chmod -R u+w "$tmp/$1" && rm -f "$tmp/$1"/tokenizer*
  sed 's/, *"[^"]*": *384,.*/}/' "$demo/vocab.json" >"$tmp/$1/vocab.json"
  head -n 128 "$demo/merges.txt" >"$tmp/$1/merges.txt"
}
for model in gemma3 mistral gpt-oss llama; do
  [ -d "$oracle/$model" ] || continue
  borrow $model
  for flags in "--temp 0" "--temp 0.7 --seed 4"; do
    # shellcheck disable=SC2086
    many "$tmp/$model" --file "$tmp/prompts.txt" --max-seqs 3 -c 120 -n 80 --ignore-eos --repeatable $flags -q >"$tmp/plain"
    # shellcheck disable=SC2086
    many "$tmp/$model" --file "$tmp/prompts.txt" --max-seqs 3 -c 120 -n 80 --ignore-eos --repeatable $flags --draft "$tmp/$model" >"$tmp/answers"
    same "$model as its own draft, $flags" "$(texts "$tmp/plain")" "$(texts "$tmp/answers")"
    same "which drafted" 1 "$(grep -c '^clef: speculation: [1-9][0-9]* draft tokens, [1-9]' "$tmp/err")"
  done
done
if [ -d "$oracle/qwen3.5" ]; then
  borrow qwen3.5
  flags="--max-seqs 2 -c 120 -n 40 --temp 0 --ignore-eos --repeatable"
  # shellcheck disable=SC2086
  many "$tmp/qwen3.5" --file "$tmp/prompts.txt" $flags -q >"$tmp/plain"
  # shellcheck disable=SC2086
  many "$tmp/qwen3.5" --file "$tmp/prompts.txt" $flags --spec ngram >"$tmp/answers"
  same "a memory that goes back" "$(texts "$tmp/plain")" "$(texts "$tmp/answers")"
  if [ -d "$tmp/llama" ]; then
    refused "but not as a draft" 1 "qwen3.5 memory" "$CLEF" run "$tmp/llama" --file "$tmp/two.jsonl" -c 60 --draft "$tmp/qwen3.5" -q
  fi
fi

# ---- an encoder-decoder ----------------------------------------------------------------------------
if [ -d "$oracle/t5" ]; then
  borrow t5
  equal "t5" "$tmp/t5" --temp 0
  same "its prefix cache is off" 1 "$(grep -c 'prefix cache: off, ' "$tmp/err")"
fi
finish
