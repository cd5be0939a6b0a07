# clef lora merge and --lora: an adapter beside the weights writes what the merged file writes; wrong calls are refused.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 16 -q --print-ids --exact --no-tune"

# floats N BYTES: N times a float, whose bytes are given for printf
floats() { for ((i = 0; i < $1; i++)); do printf '%b' "$2"; done; }
# adapter FOLDER [RANK] [MODULE]: rank 1 on the output projection [192, 192] of the first attention; RANK is what the configuration says
adapter() {
  local header n module=${3:-transformer.h.0.attn.c_proj}
  mkdir -p "$1"
  echo "{\"peft_type\": \"LORA\", \"r\": ${2:-1}, \"lora_alpha\": 2, \"fan_in_fan_out\": true, \"bias\": \"none\"}" >"$1/adapter_config.json"
  header='{"base_model.model.'$module'.lora_A.weight":{"dtype":"F32","shape":[1,192],"data_offsets":[0,768]},'
  header+='"base_model.model.'$module'.lora_B.weight":{"dtype":"F32","shape":[192,1],"data_offsets":[768,1536]}}'
  n=${#header}
  {
    printf "\\x$(printf %02x $((n % 256)))\\x$(printf %02x $((n / 256)))\\0\\0\\0\\0\\0\\0"
    printf %s "$header"
    floats 96 '\0\0\0\075\0\0\200\277' # 0.03125, -1
    floats 96 '\0\0\200\076\0\0\200\276' # 0.25, -0.25
  } >"$1/adapter_model.safetensors"
}
adapter "$tmp/a"
adapter "$tmp/wrong" 2

plain=$("$CLEF" run "$demo" $greedy)
beside=$("$CLEF" run "$demo" --lora "$tmp/a" $greedy)
same "the adapter gives 16 ids" 16 "$(tr , '\n' <<<"$beside" | wc -l)"
if [ "$plain" != "$beside" ]; then ok "the adapter changes the text"; else fail "the adapter changes the text"; fi
same "a scale of 0 changes nothing" "$plain" "$("$CLEF" run "$demo" --lora "off=$tmp/a:0" $greedy)"
check "the adapter is merged" "$CLEF" lora merge "$demo" "$tmp/a" "$tmp/merged.gguf" --type f32 -q
same "the merged file writes the same" "$beside" "$("$CLEF" run "$tmp/merged.gguf" $greedy)"
check "merged with a scale of 0" "$CLEF" lora merge "$demo" "$tmp/a" "$tmp/zero.gguf" --scale 0 -q
check "the folder as GGUF" "$CLEF" convert "$demo" "$tmp/plain.gguf" -q
same "is the model" "$(cksum <"$tmp/plain.gguf")" "$(cksum <"$tmp/zero.gguf")"
same "nothing else is left" 3 "$(find "$tmp" -name '*.gguf*' | wc -l)"
same "the graph has the input" 1 "$("$CLEF" graph "$demo" --lora "$tmp/a" | grep -c '^input adapter ')"
same "the graph has one adapter node" 1 "$("$CLEF" graph "$demo" --lora "$tmp/a" | grep -c 'low_rank_add(')"

# ---- many prompts, several adapters in one step ------------------------------------------------------
many() { "$CLEF" run "$demo" --max-seqs 4 --temp 0 --ignore-eos -n 16 -q --exact --no-tune "$@"; }
ids_of() { sed -n "$1s/.*\"ids\": \[\([^]]*\)\].*/\1/p" "$tmp/answers" | tr -d ' '; } # of answer N
for name in '"a"' '"half"' null '"a"'; do echo "{\"prompt\": \"ROMEO:\", \"lora\": $name}"; done >"$tmp/lines.jsonl"
many --file "$tmp/lines.jsonl" --lora "a=$tmp/a" --lora "half=$tmp/a:0.5" >"$tmp/answers"
same "an adapter of a line" "$beside" "$(ids_of 1)"
same "the same at half its scale" "$("$CLEF" run "$demo" --lora "$tmp/a:0.5" $greedy)" "$(ids_of 2)"
same "a line with none" "$plain" "$(ids_of 3)"
same "the adapter again" "$beside" "$(ids_of 4)"
echo '{"prompt": "ROMEO:"}' >"$tmp/one.jsonl"
many --file "$tmp/one.jsonl" --lora "$tmp/a" >"$tmp/answers"
same "one adapter is that of all lines" "$beside" "$(ids_of 1)"
many --file "$tmp/one.jsonl" --lora "a=$tmp/a" --lora "half=$tmp/a:0.5" >"$tmp/answers"
same "of several none" "$plain" "$(ids_of 1)"
echo '{"prompt": "ROMEO:", "lora": "A"}' >"$tmp/unknown.jsonl"
refused "an adapter that nothing names" 1 "unknown.jsonl: line 1 'A' --lora 'a', 'b'" many --file "$tmp/unknown.jsonl" \
  --lora "a=$tmp/a" --lora "b=$tmp/a:2"
refused "a name where there are no adapters" 1 "line 1 'A' --lora none" many --file "$tmp/unknown.jsonl"
long=("a=$tmp/a")
for i in 1 2 3 4 5 6 7 8 9; do long+=(--lora "a_name_as_long_as_names_may_be_so_that_the_message_is_cut_$i=$tmp/a"); done
refused "a name that none of ten has" 1 "line 1 'A' 'a', _3' ..." many --file "$tmp/unknown.jsonl" --lora "${long[@]}"
for none in '""' '"none"' null; do echo "{\"prompt\": \"ROMEO:\", \"lora\": $none}"; done >"$tmp/base.jsonl"
many --file "$tmp/base.jsonl" --lora "$tmp/a" >"$tmp/answers"
same "lines that want the model alone" "$plain $plain $plain" "$(ids_of 1) $(ids_of 2) $(ids_of 3)"
refused "an adapter named none" 1 "--lora none NAME=PATH" many --file "$tmp/one.jsonl" --lora "none=$tmp/a"
echo '{"prompt": "ROMEO:", "lora": {"a": 0.5}}' >"$tmp/scale.jsonl"
refused "a scale in a line" 1 "line 1 lora one NAME=PATH:SCALE" many --file "$tmp/scale.jsonl" --lora "a=$tmp/a"
printf '%s\n' "ROMEO:" "ROMEO:" >"$tmp/plain.txt"
many --file "$tmp/plain.txt" --lora "$tmp/a" >"$tmp/answers"
same "one adapter is that of lines of text" "$beside $beside" "$(ids_of 1) $(ids_of 2)"
echo '{"prompt": "ROMEO:", "lora": 1}' >"$tmp/number.jsonl"
refused "a number for an adapter" 1 "line 1 lora name" many --file "$tmp/number.jsonl" --lora "a=$tmp/a"
refused "two of one name" 1 "two 'a'" many --file "$tmp/one.jsonl" --lora "$tmp/a" --lora "a=$tmp/a:2"
refused "an empty name" 1 "[NAME=]PATH" many --file "$tmp/one.jsonl" --lora "=$tmp/a"

# ---- a prompt cache is bound to its adapter ----------------------------------------------------------
kept() { "$CLEF" run "$demo" $greedy --prompt-cache "$@"; }
same "a prompt cache with an adapter" "$beside" "$(kept "$tmp/with.cache" --lora "$tmp/a")"
same "and from it" "$beside" "$(kept "$tmp/with.cache" --lora "$tmp/a")"
same "one without" "$plain" "$(kept "$tmp/without.cache")"
refused "the adapter's for none" 1 "adapter (scale 1) expected no" kept "$tmp/with.cache"
refused "that of none for the adapter" 1 "no adapter" kept "$tmp/without.cache" --lora "$tmp/a"
refused "another scale" 1 "(scale 1) (scale 0.5)" kept "$tmp/with.cache" --lora "$tmp/a:0.5"
cp -r "$tmp/a" "$tmp/moved"
same "the same adapter elsewhere" "$beside" "$(kept "$tmp/with.cache" --lora "$tmp/moved")"

refused "two adapters of one sequence" 1 "--lora one 2" "$CLEF" run "$demo" --lora "$tmp/a" --lora "$tmp/a" -p x
refused "no adapter there" 1 "nowhere" "$CLEF" run "$demo" --lora "$tmp/nowhere" -p x
refused "another rank" 1 "rank 1 says 2" "$CLEF" lora merge "$demo" "$tmp/wrong" "$tmp/x.gguf"
# refused_adapter NAME WORDS MODULE [KEY]: an adapter of that module, with KEY in its configuration, is refused by each command.
refused_adapter() {
  adapter "$tmp/bad" 1 "$3"
  [ -z "${4:-}" ] || sed -i "s/}/, $4}/" "$tmp/bad/adapter_config.json"
  refused "$1, merging" 1 "$tmp/bad $2" "$CLEF" lora merge "$demo" "$tmp/bad" "$tmp/x.gguf"
  refused "$1, beside" 1 "$tmp/bad $2" "$CLEF" run "$demo" --lora "$tmp/bad" -p x
  refused "$1, in a file of prompts" 1 "$tmp/bad $2" many --file "$tmp/one.jsonl" --lora "a=$tmp/a" --lora "b=$tmp/bad"
}
refused_adapter "DoRA" "DoRA" transformer.h.0.attn.c_proj '"use_dora": true'
refused_adapter "modules_to_save" "modules_to_save" transformer.h.0.attn.c_proj '"modules_to_save": ["lm_head"]'
refused_adapter "a module in full" "modules_to_save trained" transformer.h.0.modules_to_save.default
refused_adapter "a layer beyond the last" "transformer.h.6.attn.c_proj" transformer.h.6.attn.c_proj
refused_adapter "an unknown target" "transformer.h.0.attn.q_proj" transformer.h.0.attn.q_proj
refused_adapter "another shape" "c_attn 192 576" transformer.h.0.attn.c_attn
refused_adapter "another architecture" "model.layers.0.self_attn.o_proj gpt2" model.layers.0.self_attn.o_proj
refused "a model is not an adapter" 1 "general.type adapter" "$CLEF" logits "$demo" --lora "$tmp/plain.gguf" -p x
refused "an export" 1 "adapters merge" "$CLEF" graph "$demo" --lora "$tmp/a" --format onnx -o "$tmp/x.onnx"
refused "an unknown type" 2 "q9_9" "$CLEF" lora merge "$demo" "$tmp/a" "$tmp/x.gguf" --type q9_9
refused "no such action" 2 "merge" "$CLEF" lora split "$demo" "$tmp/a" "$tmp/x.gguf"
refused "too few arguments" 2 "lora" "$CLEF" lora merge "$demo" "$tmp/a"
head -c 1000 "$tmp/a/adapter_model.safetensors" >"$tmp/wrong/adapter_model.safetensors"
refused "a cut file" 1 "adapter_model.safetensors" "$CLEF" run "$demo" --lora "$tmp/wrong" -p x
if [ -e "$tmp/x.gguf" ]; then fail "a refused call writes nothing"; else ok "a refused call writes nothing"; fi
finish
