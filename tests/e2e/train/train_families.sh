#!/usr/bin/env bash
# clef train with masked tokens and with pairs of texts, and models that cannot be trained.
. "$(dirname "$0")/../lib.sh"
fixtures=$CLEF_SOURCE/tests/fixtures
losses() { grep -o '"event": "step".*"loss": [0-9.e+-]*' "$1" | sed 's/.*"loss": //'; }
falls() { # NAME LOG
  local first last
  first=$(losses "$2" | head -n 1)
  last=$(losses "$2" | tail -n 1)
  check "$1: the loss falls from $first to $last" awk "BEGIN { exit !($last < 0.95 * $first) }"
}

awk 'BEGIN { for (i = 0; i < 600; i++) printf "%d and %d\n", i * 7 % 10, i * 7 % 10 }' >"$tmp/lines.txt"
awk 'BEGIN { for (i = 0; i < 600; i++) printf "{\"source\": \"%d %d\", \"target\": \"%d\"}\n", i % 10, i * 3 % 7, i % 10 }' >"$tmp/pairs.jsonl"

check "an encoder learns masked tokens" "$CLEF" train "$fixtures/tiny-bert" --data "$tmp/lines.txt" --documents lines -o "$tmp/bert" -b 8 -c 16 -n 40 \
  -r 0.01 -q
falls "masked tokens" "$tmp/bert.train/log.jsonl"
check "clef fill uses it" "$CLEF" fill "$tmp/bert" "1 and [MASK]" -q
check "an encoder's adapter is trained" "$CLEF" train "$fixtures/tiny-bert" --data "$tmp/lines.txt" -o "$tmp/bert-lora" --lora 2 -b 4 -c 16 -n 2 -q
check "and read" "$CLEF" lora merge "$fixtures/tiny-bert" "$tmp/bert-lora" "$tmp/merged.gguf" -q
check "an encoder-decoder learns pairs" "$CLEF" train "$fixtures/tiny-t5" --data "$tmp/pairs.jsonl" -o "$tmp/t5" -b 8 -c 16 -n 40 -r 0.01 -q
falls "pairs" "$tmp/t5.train/log.jsonl"
check "clef run uses it" "$CLEF" run "$tmp/t5" -p "3 2" -n 3 -q
refused "pairs need .jsonl" 1 "lines.txt" "$CLEF" train "$fixtures/tiny-t5" --data "$tmp/lines.txt" -o "$tmp/x" -b 8 -c 16 -n 2 -q
if [ -d "${CLEF_SHARED:-}/oracle/models/gpt-oss" ]; then
  cp -r "$CLEF_SHARED/oracle/models/gpt-oss" "$tmp/oss"
  cp "$CLEF_SOURCE"/share/demo/tokenizer.json "$tmp/oss/"
  refused "a family whose attention has no gradient" 1 "gpt_oss" "$CLEF" train "$tmp/oss" --data "$tmp/lines.txt" -o "$tmp/y" -b 4 -c 16 -n 2 -q
fi
if [ -d "${CLEF_SHARED:-}/oracle/models2/phimoe" ]; then # longrope's frequencies are those of the rows, whatever context the model has
  for context in 256 128; do
    cp -r "$CLEF_SHARED/oracle/models2/phimoe" "$tmp/phimoe$context"
    cp "$fixtures/tiny-bert/vocab.txt" "$tmp/phimoe$context/"
    sed -i "s/\"max_position_embeddings\": 256/\"max_position_embeddings\": $context/" "$tmp/phimoe$context/config.json"
    check "rows of 32 tokens, a context of $context" "$CLEF" train "$tmp/phimoe$context" --data "$tmp/lines.txt" -o "$tmp/$context" -b 4 -c 32 -n 2 -q
  done
  same "have the same losses" "$(losses "$tmp/128.train/log.jsonl")" "$(losses "$tmp/256.train/log.jsonl")"
fi
finish
