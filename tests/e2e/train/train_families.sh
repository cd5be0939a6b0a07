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
check "an encoder-decoder learns pairs" "$CLEF" train "$fixtures/tiny-t5" --data "$tmp/pairs.jsonl" -o "$tmp/t5" -b 8 -c 16 -n 40 -r 0.01 -q
falls "pairs" "$tmp/t5.train/log.jsonl"
check "clef run uses it" "$CLEF" run "$tmp/t5" -p "3 2" -n 3 -q
refused "pairs need .jsonl" 1 "lines.txt" "$CLEF" train "$fixtures/tiny-t5" --data "$tmp/lines.txt" -o "$tmp/x" -b 8 -c 16 -n 2 -q
if [ -d "${CLEF_SHARED:-}/oracle/models/gpt-oss" ]; then
  cp -r "$CLEF_SHARED/oracle/models/gpt-oss" "$tmp/oss"
  cp "$CLEF_SOURCE"/share/demo/tokenizer.json "$tmp/oss/"
  refused "a family whose attention has no gradient" 1 "gpt_oss" "$CLEF" train "$tmp/oss" --data "$tmp/lines.txt" -o "$tmp/y" -b 4 -c 16 -n 2 -q
fi
finish
