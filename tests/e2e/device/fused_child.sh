# A fused step is built and tried by a child: the first start goes on launch by launch, later ones have it. One that fails is set aside with one line,
# a child that is stopped leaves nothing, and two at once do not matter.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
layer=$CLEF_BUILD/tests/count_layer.so
greedy="-p ROMEO: --temp 0 --ignore-eos -n 40 -q --print-ids"
export CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0
unset CLEF_PROOF CLEF_PROVER
if [ ! -e "$layer" ]; then skip "the layer $layer was not built"; fi
if ! "$CLEF" devices 2>/dev/null | grep -qi "cpu\|processor"; then skip "no CPU, no fused steps"; fi

# launches ARGS..: runs, and prints how many launches it enqueued; its text is in $tmp/text.
launches() { OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts "$CLEF" run "$demo" $greedy "$@" >"$tmp/text" 2>"$tmp/err"; sed -n 's/^clEnqueueNDRangeKernel //p' "$tmp/counts"; }
# no_child: waits until none is left at work in the cache.
no_child() { for _ in $(seq 400); do if ! pgrep -f "selftest --prove $CLEF_CACHE_DIR/" >/dev/null; then return; fi; sleep 0.25; done; }
# cold: as before any fused step was built, but with all kernels proven
# forget: what is known of the fused step
forget() { sed -i "/ fused_step /d" "$CLEF_CACHE_DIR"/proof/*.txt; rm -f "$CLEF_CACHE_DIR"/proof/step-*; }
cold() { rm -rf "$CLEF_CACHE_DIR" && cp -r "$tmp/kernels" "$CLEF_CACHE_DIR"; }

want=$(CLEF_DEBUG=$CLEF_DEBUG,fused=0 "$CLEF" run "$demo" $greedy)
cp -r "$CLEF_CACHE_DIR" "$tmp/kernels"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0
plain=$(launches)
CLEF_DEBUG=$CLEF_DEBUG,fused=

got=$(CLEF_DEBUG=$CLEF_DEBUG,background=1 launches)
same "while a child builds it, the ids are the same" "$want" "$(cat "$tmp/text")"
if [ "$got" -gt $((plain / 2)) ]; then ok "of $got launches, as $plain without"; else fail "$got launches, expected some $plain"; fi
no_child
got=$(CLEF_DEBUG=$CLEF_DEBUG,background=1 launches)
same "then they are too" "$want" "$(cat "$tmp/text")"
if [ "$got" -lt $((plain / 4)) ]; then ok "of $got launches"; else fail "$got launches, expected far less than $plain"; fi
empty "nothing is said" "$(cat "$tmp/err")"
empty "its files are gone" "$(ls "$CLEF_CACHE_DIR/proof" | grep step)"
same "its proof is there" 1 "$(grep -c " fused_step - right " "$CLEF_CACHE_DIR"/proof/*.txt)"

cold
got=$(launches) # background=0
same "who waits for it has the same ids" "$want" "$(cat "$tmp/text")"
if [ "$got" -lt $((plain / 4)) ]; then ok "of $got launches at once"; else fail "$got launches at once, expected far less than $plain"; fi

cold
for how in fused=wrong fused=crash fused=hang fused.build=wrong fused.build=crash; do
  forget
  export CLEF_DEBUG=$CLEF_DEBUG,break=$how,proof_seconds=4
  same "$how: the ids are the same" "$want" "$("$CLEF" run "$demo" $greedy 2>"$tmp/err")"
  same "$how: one line says so" "1 1" "$(grep -c "fused step .*set aside" "$tmp/err") $(wc -l <"$tmp/err")"
  echo "$how: $(cat "$tmp/err")"
  got=$(launches)
  same "$how: again" "$want" "$(cat "$tmp/text")"
  same "$how: remembered, launch by launch" "$plain" "$got"
  empty "$how: and said once" "$(cat "$tmp/err")"
  CLEF_DEBUG=$CLEF_DEBUG,break=,proof_seconds=
done
forget
export CLEF_DEBUG=$CLEF_DEBUG,break=fused=crash
same "crash behind the user's back" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,background=1 "$CLEF" run "$demo" $greedy 2>"$tmp/err")"
no_child
same "the next start" "$want" "$("$CLEF" run "$demo" $greedy 2>"$tmp/err")"
same "says it" 1 "$(grep -c "crashes the driver" "$tmp/err")"
CLEF_DEBUG=$CLEF_DEBUG,break=

cold
CLEF_DEBUG=$CLEF_DEBUG,background=1 "$CLEF" run "$demo" $greedy >"$tmp/text"
kill -KILL $(pgrep -f "selftest --prove $CLEF_CACHE_DIR/")
same "a child that was killed: the ids" "$want" "$("$CLEF" run "$demo" $greedy 2>"$tmp/err")"
empty "is not a fault of the fused step" "$(cat "$tmp/err")"
same "which is built by the next" 1 "$(comm -13 <(ls "$tmp/kernels/programs") <(ls "$CLEF_CACHE_DIR/programs") | wc -l)"

cold
"$CLEF" run "$demo" $greedy >"$tmp/one" 2>"$tmp/err1" &
first=$!
"$CLEF" run "$demo" $greedy >"$tmp/two" 2>"$tmp/err2"
wait $first
same "two at once: the first" "$want" "$(cat "$tmp/one" "$tmp/err1")"
same "two at once: the second" "$want" "$(cat "$tmp/two" "$tmp/err2")"
same "one program, one proof" "1 1" "$(grep -c " fused_step " "$CLEF_CACHE_DIR"/proof/*.txt) $(comm -13 <(ls "$tmp/kernels/programs") <(ls "$CLEF_CACHE_DIR/programs") | wc -l)"

cold
rm -rf "$CLEF_CACHE_DIR/proof" && : >"$CLEF_CACHE_DIR/proof" # a file where the folder belongs, which stops root, too
same "a cache that cannot be written" "$want" "$("$CLEF" run "$demo" $greedy 2>/dev/null)"
rm "$CLEF_CACHE_DIR/proof"
cold
check "bench waits for it" "$CLEF" bench "$demo" --prompt 0 --gen 8 --rounds 1 --json
same "and it is right" 1 "$(grep -c " fused_step - right " "$CLEF_CACHE_DIR"/proof/*.txt)"
finish
