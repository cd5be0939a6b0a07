# clef quantize: every type is written, read back and generates; what loses nothing gives the same ids; wrong calls are refused.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
# This test is about files, and most of its time would go into the driver's compiler. The tests of ops check the kernels of
# each type, so only q4_k_m, which mixes types, is run with proofs and a fused step. A cache folder whose name is too long is
# none: PoCL compiles a program again when clef stores it.
plainly() { CLEF_CACHE_DIR=/$(printf '%0600d' 0) CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 "$@"; }
want=$(plainly "$CLEF" run "$demo" $greedy)

for type in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q4_k q5_k q6_k q4_k_m q5_k_m iq4_nl mxfp4 nvfp4 q1_0 q2_0; do
  check "the folder as $type" "$CLEF" quantize "$demo" "$tmp/$type.gguf" $type -q
  case $type in
    q4_k_m) got=$("$CLEF" run "$tmp/$type.gguf" $greedy) ;;
    *) got=$(plainly "$CLEF" run "$tmp/$type.gguf" $greedy) ;;
  esac
  case $type in
    f32 | f16) same "$type keeps the ids" "$want" "$got" ;;
    *) same "$type gives 24 ids" 24 "$(tr , '\n' <<<"$got" | wc -l)" ;;
  esac
done
same "nothing else is left" 18 "$(find "$tmp" -name '*.gguf*' | wc -l)"

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
