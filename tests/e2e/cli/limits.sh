# Buffers no larger than so many bytes: weights in parts, the same text; what cannot be cut is said with what would fit, before loading.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
# Each limit makes another fused step, which PoCL compiles for seconds: one runs with it, the others without.
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0

"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q >/dev/null 2>&1 || fail "quantize"
for model in "$demo" "$tmp/q8.gguf"; do
  name=$(basename "$model")
  want=$("$CLEF" run "$model" $greedy)
  same "$name: buffers of 300 KB" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,max_alloc=300K "$CLEF" run "$model" $greedy -b 16)"
  same "$name: of 128 KB" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,max_alloc=128K "$CLEF" run "$model" $greedy -c 128 -b 8)"
  same "$name: of 300 KB, with work-groups" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu "$CLEF" run "$model" $greedy)" \
    "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu,max_alloc=300K "$CLEF" run "$model" $greedy -b 16)"
done
same "$name: of 300 KB, with a fused step" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,fused=,max_alloc=300K "$CLEF" run "$model" $greedy -b 16)"
shared=$CLEF_SHARED/data/stories260K/stories260K.gguf
if [ -e "$shared" ]; then
  same "stories260K in 64 KB" "$("$CLEF" run "$shared" $greedy)" "$(CLEF_DEBUG=$CLEF_DEBUG,max_alloc=64K "$CLEF" run "$shared" $greedy -c 128 -b 8)"
fi
# steps of fewer rows, so that no launch lasts long
long=$(printf 'To be, or not to be, that is the question. %.0s' 1 2 3 4 5)
want=$("$CLEF" run "$demo" -p "$long" --temp 0 --ignore-eos -n 24 -q --print-ids)
for seconds in 1e-3 1e-9; do
  same "launches of $seconds s" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,launch_seconds=$seconds "$CLEF" run "$demo" -p "$long" --temp 0 --ignore-eos -n 24 -q --print-ids)"
done
arena() { "$CLEF" plan "$demo" | sed -n 's/^  arena *[0-9.]* [A-Za-z]* *\([0-9]*\).*/\1/p'; }
same "steps of 16 rows at the least" $(($(arena) / 16)) "$(CLEF_DEBUG=$CLEF_DEBUG,launch_seconds=1e-9 arena)"
refused "no seconds" 1 "launch_seconds soon" env CLEF_DEBUG=$CLEF_DEBUG,launch_seconds=soon "$CLEF" run "$demo" -p x -n 1 -q
refused "a cache that is too large" 1 "cache positions kv-type" env CLEF_DEBUG=$CLEF_DEBUG,max_alloc=90K "$CLEF" run "$demo" -p x -n 1 -b 4 -q
refused "rows that are too many" 1 "clef run -b" env CLEF_DEBUG=$CLEF_DEBUG,max_alloc=200K "$CLEF" run "$demo" -p x -n 1 -b 256 -q
refused "no size" 1 "max_alloc 12Q" env CLEF_DEBUG=$CLEF_DEBUG,max_alloc=12Q "$CLEF" run "$demo" -p x -n 1 -q
finish
