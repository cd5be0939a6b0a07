# clef bench and clef perplexity: the figures' form, and what they must satisfy on any machine.
. "$(dirname "$0")/../lib.sh"

# member FILE WHAT KEY: a member of the JSON line of that figure.
member() { sed -n "s/^{.*\"what\": \"$2\".*\"$3\": \"\{0,1\}\([^,\"}]*\).*/\1/p" "$1"; }
# above NAME X LIMIT
above() { if awk -v x="$2" -v limit="$3" 'BEGIN { exit !(x != "" && x + 0 > limit) }'; then ok "$1"; else fail "$1: '$2', expected more than $3"; fi; }

check "bench in JSON" "$CLEF" bench --prompt 16 --gen 4 --rounds 2 --json -q
cp "$tmp/check.log" "$tmp/json"
for line in load:s first_token:s prefill16:tok/s decode4:tok/s peak_rss:MiB; do
  what=${line%:*}
  above "$what" "$(member "$tmp/json" "$what" value)" 0
  same "unit of $what" "${line#*:}" "$(member "$tmp/json" "$what" unit)"
done
same "a line for each figure and no other" 5 "$(wc -l <"$tmp/json")"
for key in median mean gb_s gop_s; do above "prefill's $key" "$(member "$tmp/json" prefill16 $key)" 0; done
same "a sample a round" 2 "$(sed -n 's/.*"what": "decode4".*"samples": \[\(.*\)\].*/\1/p' "$tmp/json" | tr ',' '\n' | wc -l)"
best=$(sed -n 's/.*"what": "decode4".*"samples": \[\(.*\)\].*/\1/p' "$tmp/json" | tr ', ' '\n\n' | sort -g | tail -n 1)
same "the value is the best sample" "$(printf %.2f "$best")" "$(printf %.2f "$(member "$tmp/json" decode4 value)")"

"$CLEF" bench --prompt 0 --gen 2 --depth 9 --rounds 1 --threads 1 --json -q >"$tmp/json"
same "no prefill expected, a decode at depth" "load first_token decode2@d9 peak_rss" \
  "$(sed 's/.*"what": "\([^"]*\)".*/\1/' "$tmp/json" | tr '\n' ' ' | sed 's/ $//')"
same "one thread" 1 "$(member "$tmp/json" load threads)"

check "bench --profile" "$CLEF" bench --profile --prompt 16 -q
for word in "prefill of 16 tokens" "decode of 1 token" matmul kernel; do
  if grep -q "$word" "$tmp/check.log"; then ok "the profile names $word"; else fail "the profile names $word"; fi
done
if [ -z "${CLEF_SANITIZE:-}" ]; then
  check "bench --device" "$CLEF" bench --device --json
  cp "$tmp/check.log" "$tmp/json"
  for what in read copy mad dot launch round_trip; do above "the device's $what" "$(member "$tmp/json" $what value)" 0; done
  check "bench as a table" "$CLEF" bench --prompt 16 --gen 4 --rounds 1 --md -q
  same "a row for each rate" 2 "$(grep -c '^| .*[0-9]%* %* of' "$tmp/check.log")"
fi

# Many sequences: rows in the order asked for, and the gap while a prompt comes in.
for flag in "" --repeatable; do
  # shellcheck disable=SC2086
  check "bench --batch $flag" "$CLEF" bench --batch 1,3,2 --prompt 16 --gen 6 --rounds 1 --json -q $flag
  cp "$tmp/check.log" "$tmp/json"
  same "its rows $flag" "batch1 batch3 batch2 longest_gap kv_cache peak_rss" "$(sed 's/.*"what": "\([^"]*\)".*/\1/' "$tmp/json" | tr '\n' ' ' | sed 's/ $//')"
  for n in 1 2 3; do
    for key in value each gap_p50_ms gap_p99_ms; do above "batch of $n: $key $flag" "$(member "$tmp/json" batch$n $key)" 0; done
    same "batch of $n: all is $n times each $flag" 1 \
      "$(awk -v a="$(member "$tmp/json" batch$n value)" -v b="$(member "$tmp/json" batch$n each)" -v n=$n 'BEGIN { d = a - n * b; print (d < 0.01 && d > -0.01) }')"
  done
  same "the ratio is that to the first row $flag" 1 "$(member "$tmp/json" batch1 ratio)"
  above "the longest gap $flag" "$(member "$tmp/json" longest_gap value)" 0
  above "a step $flag" "$(member "$tmp/json" longest_gap step_ms)" 0
done
check "with short steps" "$CLEF" bench --batch 2 --step-tokens 40 --prompt 8 --gen 4 --rounds 1 --json -q
same "a prompt's step has them" 40 "$(member "$tmp/check.log" longest_gap step_tokens)"
check "bench --batch in Markdown" "$CLEF" bench --batch 1,2 --prompt 8 --gen 4 --rounds 1 --md -q
same "a row for each number" 2 "$(grep -c '^| [12] | [0-9]' "$tmp/check.log")"
for list in 0 1,,2 1, 2x 5000 ""; do refused "--batch '$list'" 2 "--batch" "$CLEF" bench --batch "$list"; done
refused "--batch beyond the context" 1 "--prompt 200 --gen 100 256" "$CLEF" bench --batch 2 --prompt 200 --gen 100
refused "--batch of a profile" 2 "--batch --profile" "$CLEF" bench --batch 1 --profile
refused "--repeatable without it" 2 "--repeatable --batch --spec" "$CLEF" bench --repeatable
refused "fewer step tokens than sequences" 1 "4 8" "$CLEF" bench --batch 8 --step-tokens 4

# Speculation: a text that repeats with small edits, and prose. How fast it is, no test can know.
for flags in "--spec ngram" "--spec ngram:1,2 --repeatable" "--draft $CLEF_SOURCE/share/demo --draft-tokens 3"; do
  # shellcheck disable=SC2086
  check "bench $flags" "$CLEF" bench $flags --rounds 2 --json -q
  cp "$tmp/check.log" "$tmp/json"
  same "its rows with $flags" "spec_edited spec_prose peak_rss" "$(sed 's/.*"what": "\([^"]*\)".*/\1/' "$tmp/json" | tr '\n' ' ' | sed 's/ $//')"
  for what in spec_edited spec_prose; do
    for key in value plain ratio; do above "$what: $key with $flags" "$(member "$tmp/json" $what $key)" 0; done
  done
  above "drafted with $flags" "$(member "$tmp/json" spec_edited drafted)" 0
done
check "bench --spec in Markdown" "$CLEF" bench --spec ngram --prompt 60 --gen 40 --rounds 1 --md -q
same "a row for each text" 2 "$(grep -c '^| [ep][a-z]* | [0-9]' "$tmp/check.log")"
refused "--spec draft alone" 2 "--spec --draft" "$CLEF" bench --spec draft
refused "--spec of anything" 2 "--spec 'all' ngram draft" "$CLEF" bench --spec all
refused "--spec and --batch" 2 "--spec --batch" "$CLEF" bench --spec ngram --batch 2
refused "--spec beyond the context" 1 "--prompt 150 --gen 150 256" "$CLEF" bench --spec ngram --prompt 150 --gen 150
refused "--spec beyond its text" 1 "--gen 'edited'" "$CLEF" bench --spec ngram --gen 5000

refused "nothing to measure" 2 "--prompt --gen" "$CLEF" bench --prompt 0 --gen 0
refused "JSON and Markdown" 2 "--json --md" "$CLEF" bench --json --md
refused "a profile in JSON" 2 "--profile --json" "$CLEF" bench --json --profile
refused "a device and a model" 2 "--device MODEL" "$CLEF" bench --device some.gguf
refused "rounds out of range" 2 "--rounds 0" "$CLEF" bench --rounds 0
refused "a prompt beyond the context" 1 "--prompt 9999 256" "$CLEF" bench --prompt 9999
refused "a decode beyond the context" 1 "--gen 200 256" "$CLEF" bench --gen 200 --depth 100
refused "no such model" 1 "nothing.gguf" "$CLEF" bench nothing.gguf

# The text: some lines of the licence. The model's tokenizer adds no BOS, so the first token of all is not scored.
head -n 40 "$CLEF_SOURCE/LICENSE" >"$tmp/text"
n=$("$CLEF" tokenize "$CLEF_SOURCE/share/demo" "$(cat "$tmp/text"; printf x)" | tr ',' '\n' | wc -l)
check "perplexity in JSON" "$CLEF" perplexity "$tmp/text" -c 64 --json -q
cp "$tmp/check.log" "$tmp/json"
above "perplexity" "$(member "$tmp/json" perplexity value)" 1
same "perplexity is e to the nats" "$(awk -v x="$(member "$tmp/json" perplexity nats_per_token)" 'BEGIN { printf "%.3f", exp(x) }')" \
  "$(awk -v x="$(member "$tmp/json" perplexity value)" 'BEGIN { printf "%.3f", x }')"
scored=$(member "$tmp/json" perplexity tokens)
if [ "$scored" -ge $((n - 3)) ] && [ "$scored" -le $((n - 1)) ]; then ok "every token but the first is scored"; else fail "$scored of $n tokens scored"; fi
same "windows" $(((scored + 63) / 64)) "$(member "$tmp/json" perplexity windows)"
# A model beside itself, and beside its quantised copy.
"$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" -c 64 --save-logits "$tmp/base" -q >/dev/null || fail "--save-logits"
"$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" --kl "$tmp/base" -q >"$tmp/kl" || fail "--kl"
for want in '^KL divergence -\?0.0000' '^  median   -\?0.0000' '^same likeliest token 100.000'; do
  if grep -q -e "$want" "$tmp/kl"; then ok "--kl prints $want"; else fail "--kl prints $want: $(cat "$tmp/kl")"; fi
done
refused "another text" 1 "another text" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$CLEF_SOURCE/docs/ARCHITECTURE.md" --kl "$tmp/base" -q
refused "other windows" 1 "-c 32 64" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" -c 32 --kl "$tmp/base" -q
refused "a text as the base" 1 "--save-logits" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" --kl "$tmp/text" -q
head -c 3000 "$tmp/base" >"$tmp/cut"
refused "half a base" 1 "ends" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" --kl "$tmp/cut" -q
refused "both" 2 "--kl --save-logits" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" --kl "$tmp/base" --save-logits "$tmp/x" -q
refused "a window too short" 1 "3 or more" "$CLEF" perplexity "$CLEF_SOURCE/share/demo" "$tmp/text" -c 2 --save-logits "$tmp/x" -q
if [ -e "$tmp/x" ]; then fail "which leaves nothing"; else ok "which leaves nothing"; fi
"$CLEF" perplexity "$CLEF_SOURCE/share/demo" - -c 64 --score half --json -q <"$tmp/text" >"$tmp/half"
same "half of each whole window" $(((scored + 1) / 64 * 31)) "$(member "$tmp/half" perplexity tokens)"
check "perplexity as text" "$CLEF" perplexity "$tmp/text" -q
refused "perplexity of nothing" 2 "FILE" "$CLEF" perplexity
: >"$tmp/empty"
refused "perplexity of an empty file" 1 "empty 0 tokens" "$CLEF" perplexity "$tmp/empty"
refused "perplexity of a missing file" 1 "missing" "$CLEF" perplexity "$tmp/missing"
refused "a window beyond the context" 1 "9999 256" "$CLEF" perplexity "$tmp/text" -c 9999
refused "a score that is none" 2 "--score all half" "$CLEF" perplexity "$tmp/text" --score none
refused "two models" 2 "--model" "$CLEF" perplexity a "$tmp/text" --model b

# The loss on the last twentieth of the training text, which was not trained on, as PyTorch computes it with these weights.
text=${CLEF_SHARED:-}/data/text/tinyshakespeare.txt
if [ -f "$text" ] && [ -z "${CLEF_SANITIZE:-}" ]; then
  size=$(wc -c <"$text")
  tail -c $((size / 20)) "$text" >"$tmp/valid"
  nats=$("$CLEF" perplexity "$tmp/valid" -c 256 --json -q | sed 's/.*"nats_per_token": \([^,]*\).*/\1/')
  want=$(sed -n 's/.*"validation_loss_nats_per_token": \([0-9.]*\).*/\1/p' "$CLEF_SOURCE/share/demo/expected.json")
  if awk -v x="$nats" -v want="$want" 'BEGIN { exit !(want > 0 && x > want - 0.005 && x < want + 0.005) }'; then ok "PyTorch's loss: $nats"; else fail "the loss is $nats, PyTorch's $want"; fi
fi
same "tests/bench/peers names the peers that it knows" "peers: --only: expected $("$CLEF_SOURCE/tests/bench/peers" --list | sed -z 's/\n/, /g; s/, $//'), got 'nobody'" \
  "$("$CLEF_SOURCE/tests/bench/peers" --only nobody 2>&1)"
finish
