# clef quantize: every type is written, read back and generates; what loses nothing gives the same ids; wrong calls are refused.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
# This test is about files, and most of its time would go into the driver's compiler. The tests of ops check the kernels of
# each type, so only q4_k_m, which mixes types, is run with proofs and a fused step.
plainly() { CLEF_CACHE_DIR=$no_cache CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 "$@"; }
want=$(plainly "$CLEF" run "$demo" $greedy)

types=(f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q3_k q4_k q5_k q6_k iq4_nl mxfp4 nvfp4 q1_0 q2_0 q2_k q3_k_m q4_k_m q5_k_m iq3_s iq4_xs)
for i in "${!types[@]}"; do
  type=${types[i]}
  check "the folder as $type" "$CLEF" quantize "$demo" "$tmp/$type.gguf" $type -q
  in_turn "$i" ${#types[@]} || continue # each file is written, and those that are due generate
  case $type in
    q4_k_m) got=$("$CLEF" run "$tmp/$type.gguf" $greedy) ;;
    *) got=$(plainly "$CLEF" run "$tmp/$type.gguf" $greedy) ;;
  esac
  case $type in
    f32 | f16) same "$type keeps the ids" "$want" "$got" ;;
    *) same "$type gives 24 ids" 24 "$(tr , '\n' <<<"$got" | wc -l)" ;;
  esac
done
same "nothing else is left" ${#types[@]} "$(find "$tmp" -name '*.gguf*' | wc -l)"

check "a type in capitals" "$CLEF" quantize "$demo" "$tmp/capitals.gguf" Q4_K_M -q
same "is the same type" "$(sha256sum <"$tmp/q4_k_m.gguf")" "$(sha256sum <"$tmp/capitals.gguf")"
check "coded again in the same type" "$CLEF" quantize "$tmp/q4_0.gguf" "$tmp/again.gguf" q4_0 -q
same "is the same file" "$(cksum <"$tmp/q4_0.gguf")" "$(cksum <"$tmp/again.gguf")"
check "onto itself" "$CLEF" quantize "$tmp/again.gguf" "$tmp/again.gguf" f32 -q
same "vectors and positions stay f32, matrices fill blocks" "position_embd.weight f32 blk.0.ffn_down.weight q4_k blk.0.attn_output.weight q5_0" "$(
  echo $("$CLEF" info "$tmp/q4_k.gguf" | awk '$1 == "position_embd.weight" || $1 == "blk.0.attn_output.weight" || $1 == "blk.0.ffn_down.weight" {
    print ($1 == "position_embd.weight" ? 1 : $1 == "blk.0.ffn_down.weight" ? 2 : 3), $1, $2 }' | sort | cut -d ' ' -f 2-))"
"$CLEF" quantize "$demo" "$tmp/loud.gguf" q8_0 2>"$tmp/err"
if grep -q "MiB of weights" "$tmp/err"; then ok "the sizes are reported"; else fail "the sizes are reported: $(cat "$tmp/err")"; fi

# ---- importance, and types of single matrices
sed -n 1,60p "$CLEF_SOURCE/docs/tour.md" >"$tmp/text"
check "an importance matrix" plainly "$CLEF" imatrix "$demo" "$tmp/text" -c 64 --chunks 2 -o "$tmp/im" -q
check "weighs errors" "$CLEF" quantize "$demo" "$tmp/weighed.gguf" q4_k --imatrix "$tmp/im" -q
if cmp -s "$tmp/weighed.gguf" "$tmp/q4_k.gguf"; then fail "which gives other codes"; else ok "which gives other codes"; fi
same "and says so" 1 "$(grep -ac quantize.imatrix.chunks_count "$tmp/weighed.gguf")"
same "which the next file does not" 0 "$("$CLEF" quantize "$tmp/weighed.gguf" "$tmp/again.gguf" q8_0 -q && grep -ac quantize.imatrix "$tmp/again.gguf")"
check "types of single matrices" "$CLEF" quantize "$demo" "$tmp/single.gguf" q4_0 --tensor-type 'blk.0*down=q6_k' --tensor-type 'ffn_?own=q8_0' -q
same "the first that fits holds" "blk.0 q6_k blk.1 q8_0" "$(
  echo $("$CLEF" info "$tmp/single.gguf" | awk '/blk.[01].ffn_down.weight/ { print substr($1, 1, 5), $2 }' | sort))"
# One entry of the old form, with 3 columns.
printf '\001\0\0\0\025\0\0\0blk.0.ffn_down.weight\001\0\0\0\003\0\0\0\0\0\200?\0\0\200?\0\0\200?' >"$tmp/other"
refused "an importance matrix of an encoder" 1 "decoder" "$CLEF" imatrix "$CLEF_SOURCE/tests/fixtures/tiny-bert" "$tmp/text" -o "$tmp/x" -q
refused "a text that is too short" 1 "chunk 64" "$CLEF" imatrix "$demo" - -c 64 -o "$tmp/x" -q <<<"a cat"
refused "another model's matrix" 1 "columns another model" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --imatrix "$tmp/other" -q
refused "a model in its place" 1 "importance general.type" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --imatrix "$tmp/q4_k.gguf" -q
head -c 5000 "$tmp/im" >"$tmp/cut"
refused "half a file" 1 "$tmp/cut" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --imatrix "$tmp/cut" -q
refused "a text in its place" 1 "$tmp/text importance" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --imatrix "$tmp/text" -q
refused "no file" 1 "nowhere" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --imatrix "$tmp/nowhere" -q
refused "a rule without a type" 2 "PATTERN=TYPE attn" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --tensor-type attn -q
refused "a rule with a mix" 1 "attn=q4_k_m one matrix" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --tensor-type attn=q4_k_m -q
refused "a rule that fits nothing" 1 "exps=q6_k fits no matrix" "$CLEF" quantize "$demo" "$tmp/x.gguf" q4_k --tensor-type exps=q6_k -q

refused "an unknown type" 2 "q9_9 q4_k_m" "$CLEF" quantize "$demo" "$tmp/x.gguf" q9_9
refused "two arguments" 2 "quantize" "$CLEF" quantize "$demo" "$tmp/x.gguf"
refused "no model" 1 "nowhere" "$CLEF" quantize "$tmp/nowhere" "$tmp/x.gguf" q8_0
refused "no folder to write to" 1 "nowhere" "$CLEF" quantize "$demo" "$tmp/nowhere/x.gguf" q8_0
if [ -e "$tmp/x.gguf" ]; then fail "a refused call writes nothing"; else ok "a refused call writes nothing"; fi

data=${CLEF_SHARED:-}/data/stories260K
if [ -f "$data/stories260K.gguf" ]; then
  ids="--ids 1 -n 40 --temp 0 --ignore-eos --print-ids -q"
  want=$(plainly "$CLEF" run "$data/stories260K.gguf" $ids)
  check "llama's folder as f32" "$CLEF" quantize "$data/hf" "$tmp/hf.gguf" f32 -q
  same "llama's folder keeps the ids" "$want" "$(plainly "$CLEF" run "$tmp/hf.gguf" $ids)"
  check "llama's file as q8_0" "$CLEF" quantize "$data/stories260K.gguf" "$tmp/s.gguf" q8_0 -q
  same "q8_0 begins alike" "$(cut -d , -f 1-10 <<<"$want")" "$(plainly "$CLEF" run "$tmp/s.gguf" $ids | cut -d , -f 1-10)"
fi
finish
