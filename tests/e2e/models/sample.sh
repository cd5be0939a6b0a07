# clef sample prints what each sampler makes of given probabilities; clef run takes the same flags, alone and in a file of prompts, and what a
# model recommends; wrong flags are refused.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
demo=$CLEF_SOURCE/share/demo
p=0.1,0.2,0.3,0.4
last() { "$CLEF" sample "$@" | tail -n 1; }

# ---- clef sample -----------------------------------------------------------------------------------
same "a chain" "$(printf '%s\n' "logits 0.1 0.2 0.3 0.4" "top_k 0 0.222222 0.333333 0.444444" "temperature 0 0.137931 0.310345 0.551724")" \
  "$("$CLEF" sample --probs $p --top-k 3 --temp 0.5)"
same "spaces, and a sum that is not 1" "logits 0.1 0.2 0.3 0.4" "$(last --probs "1, 2, 3, 4")"
same "top-p" "top_p 0 0.222222 0.333333 0.444444" "$(last --probs $p --top-p 0.75)"
same "min-p" "min_p 0 0 0.428571 0.571429" "$(last --probs $p --min-p 0.6)"
same "typical" "typical 0 0.4 0.6 0" "$(last --probs $p --typical 0.45)"
same "top-n-sigma" "top_n_sigma 0 0 0.428571 0.571429" "$(last --probs $p --top-n-sigma 1)"
same "XTC" "xtc 0.333333 0.666667 0 0" "$(last --probs $p --xtc-probability 1 --xtc-threshold 0.15)"
same "repeat penalty" "penalties 0.131579 0.263158 0.394737 0.210526" "$(last --probs $p --repeat-penalty 2 --previous 3,3)"
same "presence penalty" "penalties 0.133842 0.267683 0.401525 0.19695" "$(last --probs $p --presence-penalty 1 --previous 3,3)"
same "frequency penalty" "penalties 0.133842 0.267683 0.401525 0.19695" "$(last --probs $p --frequency-penalty 0.5 --previous 3,3)"
same "DRY" "dry 0.133842 0.267683 0.401525 0.19695" "$(last --probs $p --dry-multiplier 1 --previous 0,1,3,0,1)"
same "DRY switched off" "logits 0.1 0.2 0.3 0.4" "$(last --probs $p --dry-multiplier 1 --dry-last-n 0 --previous 0,1,3,0,1)"
same "a breaker" "dry 0.1 0.2 0.3 0.4" "$(last --probs $p --dry-multiplier 1 --dry-breaker 1 --previous 0,1,3,0,1)"
same "biases" "logit_bias 0 0.222222 0.333333 0.444444" "$(last --probs $p --logit-bias 0=-inf)"
same "Mirostat" "mirostat 0 0 0.428571 0.571429" "$(last --probs $p --mirostat 2 --mirostat-tau 0.9)"
same "another order" "min_p 0 0 0.36 0.64" "$(last --probs $p --temp 0.5 --min-p 0.3 --samplers temperature,min_p)"
same "left out" "logits 0.1 0.2 0.3 0.4" "$(last --probs $p --top-k 1 --samplers min_p)"
same "draws of one" "draws 0 0 0 1" "$(last --probs $p --top-k 1 --draws 50)"
same "draws repeat with a seed" "$(last --probs $p --draws 500 --seed 4)" "$(last --probs $p --draws 500 --seed 4)"

# ---- clef run --------------------------------------------------------------------------------------
# The host samples from the same logits what the device does: a bias of 0 changes nothing but where it is sampled, greedily.
run() { "$CLEF" run "$demo" -p "ROMEO:" -n 40 --ignore-eos -q --print-ids --exact "$@"; }
same "greedy on the host" "$(run --temp 0)" "$(run --temp 0 --logit-bias 5=0)"
all="--temp 0.9 --presence-penalty 0.4 --frequency-penalty 0.2 --dry-multiplier 0.8 --xtc-probability 0.3 --typical 0.95 --top-n-sigma 2"
# shellcheck disable=SC2086
same "a seed repeats" "$(run $all --seed 7)" "$(run $all --seed 7)"
same "Mirostat repeats" "$(run --mirostat 2 --mirostat-tau 3 --seed 7)" "$(run --mirostat 2 --mirostat-tau 3 --seed 7)"
first=$(run --temp 0 -n 1)
if [ "$(run --temp 0 -n 1 --logit-bias "$first=-inf")" != "$first" ]; then ok "a banned token"; else fail "a banned token"; fi
same "a token that always wins" "9,9,9" "$(run --temp 0 -n 3 --logit-bias 9=1000)"
# shellcheck disable=SC2086
text=$("$CLEF" run "$demo" -p "ROMEO:" -n 30 --ignore-eos -q --exact $all --seed 7)
printf '{"prompt": "ROMEO:"}\n{"prompt": "JULIET: what"}\n' >"$tmp/lines.jsonl"
# shellcheck disable=SC2086
for flags in "" "--spec ngram"; do
  "$CLEF" run "$demo" --file "$tmp/lines.jsonl" -n 30 --ignore-eos -q --exact --repeatable $all --seed 7 $flags >"$tmp/answers"
  same "in a file of prompts $flags" "$text" "$(sed -n 1p "$tmp/answers" | python3 -c 'import json, sys; sys.stdout.write(json.loads(sys.stdin.read())["text"])')"
done

keys='"presence_penalty": 0.4, "frequency_penalty": 0.2, "typical": 0.95, "top_n_sigma": 2, "xtc_probability": 0.3'
printf '{"prompt": "ROMEO:", "temperature": 0.9, "seed": 7, %s}\n' "$keys" >"$tmp/keys.jsonl"
"$CLEF" run "$demo" --file "$tmp/keys.jsonl" -n 30 --ignore-eos -q --exact --repeatable --dry-multiplier 0.8 >"$tmp/answers"
same "in a line of a file" "$text" "$(python3 -c 'import json, sys; sys.stdout.write(json.loads(sys.stdin.read())["text"])' <"$tmp/answers")"

# ---- what a model recommends -----------------------------------------------------------------------
cp -rL "$demo" "$tmp/model"
recommended() { "$CLEF" run "$tmp/model" -p a -n 2 --exact "$@" 2>&1 >/dev/null | grep recommended; }
printf '{"temperature": 0.6, "top_k": 20, "top_p": 0.9, "min_p": null, "repetition_penalty": 1.1}' >"$tmp/model/generation_config.json"
same "a folder" "clef: recommended by the model: temperature 0.6, top_k 20, top_p 0.9, repeat_penalty 1.1" "$(recommended)"
same "a flag wins" "clef: recommended by the model: top_k 20, top_p 0.9, repeat_penalty 1.1" "$(recommended --temp 1)"
order=penalties,dry,top_n_sigma,temperature,top_k,top_p,min_p,typical,xtc # transformers'
same "it is what the flags do" \
  "$(run --temp 0.6 --top-k 20 --top-p 0.9 --repeat-penalty 1.1 --repeat-last-n 1000 --samplers $order --seed 3)" \
  "$("$CLEF" run "$tmp/model" -p "ROMEO:" -n 40 --ignore-eos -q --print-ids --exact --seed 3)"
printf '{"do_sample": false, "temperature": 0.6}' >"$tmp/model/generation_config.json"
empty "do_sample false" "$(recommended)"
printf '{"temperature": "hot", "top_p": 7}' >"$tmp/model/generation_config.json"
empty "no numbers" "$(recommended)"

# ---- refused ---------------------------------------------------------------------------------------
refused "no probabilities" 2 "--probs" "$CLEF" sample
refused "no number" 2 "--probs x" "$CLEF" sample --probs 0.1,x
refused "only zeros" 2 "--probs" "$CLEF" sample --probs 0,0
refused "an id beyond" 2 "--previous 4" "$CLEF" sample --probs $p --previous 4
refused "an unknown sampler" 2 "--samplers topk top_k" "$CLEF" sample --probs $p --samplers topk
refused "a sampler twice" 2 "--samplers twice min_p" "$CLEF" run -p x --samplers min_p,xtc,min_p
refused "a bias without =" 2 "--logit-bias 5" "$CLEF" run -p x --logit-bias 5
refused "a bias of inf" 2 "--logit-bias 5=inf" "$CLEF" run -p x --logit-bias 5=inf
refused "a bias beyond the vocabulary" 2 "logit-bias 99999999" "$CLEF" run -p x --logit-bias 99999999=1
refused "Mirostat 1" 2 "mirostat 1" "$CLEF" run -p x --mirostat 1
refused "typical" 2 "--typical 2" "$CLEF" run -p x --typical 2
refused "an empty breaker" 2 "--dry-breaker" "$CLEF" run -p x --dry-multiplier 1 --dry-breaker ""
finish
