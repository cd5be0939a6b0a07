# generation_config.json: texts are those of transformers' generate(); batches and draft tokens follow the rules, too; what is not applied is reported.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
plain="--no-tune --no-proof --exact"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0

# folder NAME MODEL JSON: a model with that generation_config.json.
folder() {
  rm -rf "${tmp:?}/$1"
  mkdir "$tmp/$1"
  cp -r "$2"/* "$tmp/$1"
  rm -f "$tmp/$1/generation_config.json"
  [ -z "$3" ] || printf '%s' "$3" >"$tmp/$1/generation_config.json"
}

# ---- as transformers (tests/fixtures/generation.py)
wrong=0 lines=0
while IFS=$'\t' read -r model beams n ids want json; do
  case $model in demo) path=$demo ;; *) path=$CLEF_SOURCE/tests/fixtures/$model ;; esac
  folder made "$path" "$json"
  case $beams in 1) how="--temp 0" ;; *) how="--beams $beams" ;; esac
  got=$("$CLEF" run "$tmp/made" --ids "$ids" -n "$n" $how --print-ids -q $plain 2>"$tmp/err")
  lines=$((lines + 1))
  if [ "${got:--}" != "$want" ]; then
    wrong=$((wrong + 1))
    echo "$model $ids -n $n $how $json: expected $want, got $got$(cat "$tmp/err")"
  fi
done <"$CLEF_SOURCE/tests/fixtures/generation.txt"
same "$lines texts are those of transformers" 0 "$wrong"

# ---- everywhere the same
rules='{"bos_token_id": 0, "eos_token_id": 0, "no_repeat_ngram_size": 2, "bad_words_ids": [[201], [32, 84]], "min_new_tokens": 12, "repetition_penalty": 1.1}'
folder rules "$demo" "$rules"
printf '{"prompt": "%s"}\n' "ROMEO:" "First Citizen:" "The the the the" >"$tmp/prompts.jsonl"
alone=$(for p in "ROMEO:" "First Citizen:" "The the the the"; do "$CLEF" run "$tmp/rules" -p "$p" -n 16 --temp 0 -q --print-ids $plain | sed 's/,/, /g'; done)
free=$("$CLEF" run "$demo" -p "ROMEO:" -n 16 --temp 0 -q --print-ids $plain | sed 's/,/, /g')
if [ "$free" = "$(head -n 1 <<<"$alone")" ]; then fail "the rules change the text"; else ok "the rules change the text"; fi
ids() { sed -E 's/.*"ids": \[([^]]*)\].*/\1/'; }
for how in "" "--spec ngram" "--draft $demo"; do
  got=$("$CLEF" run "$tmp/rules" --file "$tmp/prompts.jsonl" --max-seqs 3 -n 16 --temp 0 -q $how $plain | ids)
  same "in a batch${how:+, $how}" "$alone" "$got"
done
check "convert" "$CLEF" convert "$tmp/rules" "$tmp/rules.gguf" -q
same "a GGUF file keeps the rules" "$(head -n 1 <<<"$alone")" \
  "$("$CLEF" run "$tmp/rules.gguf" -p ROMEO: -n 16 --temp 0 -q --print-ids $plain | sed 's/,/, /g')"
# llama.cpp's converter writes one rule under a key of its own; two keys of 32 bytes in all leave the tensors aligned.
check "convert without rules" "$CLEF" convert "$demo" "$tmp/free.gguf" -q
first=${free%%,*} first=${first#[}
python3 - "$tmp/free.gguf" "$first" <<'END'
import struct, sys
name, more = b"tokenizer.ggml.suppress_tokens", b"more"
file = open(sys.argv[1], "rb").read()
keys = struct.pack("<Q", len(name)) + name + struct.pack("<IIQiii", 9, 5, 3, -1, int(sys.argv[2]), 1 << 30)
keys += struct.pack("<Q", len(more)) + more + struct.pack("<IQ", 8, -(len(keys) + 24) % 32) + b" " * (-(len(keys) + 24) % 32)
open(sys.argv[1], "wb").write(file[:16] + struct.pack("<Q", struct.unpack("<Q", file[16:24])[0] + 2) + keys + file[24:])
END
got=$("$CLEF" run "$tmp/free.gguf" -p ROMEO: -n 16 --temp 0 -q --print-ids $plain | sed 's/,/, /g')
if grep -qw -e "$first" <<<"$got" || [ -z "$got" ]; then fail "a GGUF file's suppressed tokens: $got"; else ok "a GGUF file's suppressed tokens"; fi
folder config "$demo" ""
sed -i 's/"vocab_size"/"no_repeat_ngram_size": 2, "bad_words_ids": [[201], [32, 84]], "min_new_tokens": 12, "repetition_penalty": 1.1, "vocab_size"/' "$tmp/config/config.json"
same "config.json in its place" "$(head -n 1 <<<"$alone")" "$("$CLEF" run "$tmp/config" -p ROMEO: -n 16 --temp 0 -q --print-ids $plain | sed 's/,/, /g')"

# ---- what is reported, and refused
reported() {
  folder reported "$demo" "$1"
  "$CLEF" run "$tmp/reported" -p ROMEO: -n 1 --seed 1 $plain ${2:-} 2>&1 >/dev/null | grep -E 'generation_config|recommended' | sed 's/^clef: //'
}
same "what is applied" "generation_config.json: applied: min_length 3, no_repeat_ngram_size 2" "$(reported '{"min_length": 3, "no_repeat_ngram_size": 2}')"
same "what is not" "generation_config.json: not applied: num_beams 4 (--beams), max_length 50 (-n), epsilon_cutoff 0.1, a_new_key true" \
  "$(reported '{"num_beams": 4, "max_length": 50, "epsilon_cutoff": 0.1, "a_new_key": true, "top_h": null, "diversity_penalty": 0.0, "use_cache": true}')"
same "beams are applied with --beams" "generation_config.json: not applied: max_length 50 (-n)" "$(reported '{"num_beams": 4, "max_length": 50}' "--beams 2")"
same "recommended options" "recommended by the model: temperature 0.5, top_k 3, repeat_penalty 1.2" "$(reported '{"do_sample": true, "temperature": 0.5, "top_k": 3, "repetition_penalty": 1.2}')"
empty "nothing to report" "$(reported '{"eos_token_id": 0, "num_beams": 1, "suppress_tokens": [], "min_length": 0, "length_penalty": 1.0}')"
refuses() {
  folder bad "$demo" "$1"
  refused "$1" 1 "generation_config.json $2" "$CLEF" run "$tmp/bad" -p x -n 1 -q
}
refuses '{"min_length": "5"}' "min_length"
refuses '{"bad_words_ids": [5]}' "bad_words_ids"
refuses '{"bad_words_ids": [[1024]]}' "bad_words_ids 1023"
refuses '{"bad_words_ids": [[]]}' "bad_words_ids"
refuses '{"suppress_tokens": ["a"]}' "suppress_tokens"
refuses '{"sequence_bias": [[[3], "x"]]}' "sequence_bias"
refuses '{"exponential_decay_length_penalty": [3]}' "exponential_decay_length_penalty"
refuses '{"forced_eos_token_id": 7, "suppress_tokens": [7]}' "forced_eos_token_id suppress_tokens"
for rule in '"guidance_scale": 1.5' '"num_beam_groups": 2' '"penalty_alpha": 0.6' '"dola_layers": "high"' \
  '"watermarking_config": {"bias": 2.0}' '"force_words_ids": [[5]]' '"token_healing": true'; do
  refuses "{$rule}" "$(cut -d'"' -f2 <<<"$rule") not supported"
done
folder all "$demo" "{\"suppress_tokens\": [$(seq -s , 0 1023)]}"
refused "nothing is left" 1 "generation_config.json no token" "$CLEF" run "$tmp/all" -p x -n 1 -q $plain

# ---- what is reported
folder reported "$demo" '{"do_sample": true, "temperature": 0.6, "top_k": 7, "repetition_penalty": 1.1, "bad_words_ids": [[201]], "min_new_tokens": 12, "num_beams": 4}'
sed -i 's/"n_embd"/"zebra": 1, "n_embd"/' "$tmp/reported/config.json"
same "clef info prints what is recommended, applied, and not applied" "temperature 0.6 top_k 7 repeat_penalty 1.1 applied bad_words_ids [[201]], min_new_tokens 12 not_applied num_beams 4 (--beams)" \
  "$(echo $("$CLEF" info "$tmp/reported" 2>/dev/null | sed -n '/^generation$/,/^$/p' | tail -n +2))"
same "as JSON, too" '"generation": {"temperature": 0.6, "top_k": 7, "repeat_penalty": 1.1, "applied": "bad_words_ids [[201]], min_new_tokens 12", "not_applied": "num_beams 4 (--beams)"}' \
  "$("$CLEF" info "$tmp/reported" --json 2>/dev/null | grep -o '"generation": {[^}]*}' | sed -E 's/(0\.6|1\.1)0+[0-9]*/\1/g')"
note="clef: note: keys that are not read: zebra"
same "clef info prints what is not read" "$note" "$("$CLEF" info "$tmp/reported" 2>&1 >/dev/null)"
same "--verbose, too, and once" "$note" "$("$CLEF" run "$tmp/reported" -p a -n 1 --verbose 2>&1 >/dev/null | grep zebra)"
same "of a file of prompts, too" "$note" "$("$CLEF" run "$tmp/reported" --file "$tmp/prompts.jsonl" --max-seqs 2 -n 1 --verbose 2>&1 >/dev/null | grep zebra)"
empty "without it no" "$("$CLEF" run "$tmp/reported" -p a -n 1 2>&1 >/dev/null | grep zebra)"
finish
