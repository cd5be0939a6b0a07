# clef tune: it measures, keeps what it found, and the answers stay the same; devices --variants prints it; variants can be forced.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
export CLEF_CACHE_DIR=$tmp/cache
greedy="-p ROMEO: --temp 0 --ignore-eos -n 16 -q --print-ids"

check "a small model starts without" "$CLEF" run "$demo" $greedy
empty "nothing was measured" "$(ls "$tmp/cache/tuning" 2>/dev/null)"
want=$("$CLEF" run "$demo" $greedy)

if "$CLEF" tune "$demo" -q >"$tmp/tuned" 2>"$tmp/err"; then ok "tune the bundled model"; else fail "tune: $(cat "$tmp/err")"; fi
empty "stderr is quiet" "$(cat "$tmp/err")"
if grep -q "chosen: .* us" "$tmp/tuned"; then ok "something was chosen"; else fail "something was chosen: $(cat "$tmp/tuned")"; fi
empty "no variant is wrong here" "$(grep "failed its check" "$tmp/tuned")"
same "one file of it" 1 "$(find "$tmp/cache/tuning" -name '*.txt' | wc -l)"
same "the ids stay" "$want" "$("$CLEF" run "$demo" $greedy)"

before=$(cksum "$tmp"/cache/tuning/*.txt)
check "a second time" "$CLEF" tune "$demo" -q
same "measures nothing" "$before" "$(cksum "$tmp"/cache/tuning/*.txt)"

"$CLEF" devices --variants >"$tmp/devices"
if grep -qF "$(grep -m 1 "chosen: " "$tmp/tuned")" "$tmp/devices"; then ok "devices prints it"; else fail "devices: $(cat "$tmp/devices")"; fi
if CLEF_DEBUG=$CLEF_DEBUG,caps=-x86_vnni "$CLEF" devices --variants | grep -q "vnni: needs a CPU with AVX-512 VNNI"; then
  ok "what is missing"
else
  fail "what is missing: $(CLEF_DEBUG=$CLEF_DEBUG,caps=-x86_vnni "$CLEF" devices --variants)"
fi
"$CLEF" devices --variants --json >"$tmp/json"
same "json holds the states" "$(grep -c "chosen: " "$tmp/devices")" "$(grep -c '"state": "chosen"' "$tmp/json")"

printf 'clef-tuning 1\n00000000 nonsense\n' >"$(echo "$tmp"/cache/tuning/*.txt)"
same "a damaged database stops nothing" "$want" "$("$CLEF" run "$demo" $greedy)"

for variant in portable vnni; do
  same "forced $variant, where it fits" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,variant=panel_matmul=$variant "$CLEF" run "$demo" $greedy)"
done
refused "an unknown variant" 1 "nosuch portable" env CLEF_DEBUG=$CLEF_DEBUG,variant=panel_matmul=nosuch "$CLEF" run "$demo" $greedy
refused "an unknown part" 2 "what" "$CLEF" tune --what nothing
refused "no model" 1 "nowhere" "$CLEF" tune "$tmp/nowhere" -q
check "no tuning on request" "$CLEF" run "$demo" --no-tune $greedy
finish
