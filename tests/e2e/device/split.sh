# Layers over several devices: the text of one device's, whatever the cut; what a device does not need it does not load.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 80 -q --print-ids"
# Each cut makes other fused steps, which PoCL compiles for seconds: one cut runs with them, the others without.
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 POCL_DEVICES="pthread basic"
unset CLEF_DEVICE
n=$("$CLEF" devices | grep -c '^[0-9]*:[0-9]') || n=0
if [ "$n" -lt 2 ]; then skip "two devices are needed: PoCL gives them by POCL_DEVICES"; fi

want=$("$CLEF" run "$demo" $greedy -d 0:0)
if [ -z "$want" ]; then fail "one device"; fi
same "with fused steps" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,fused= "$CLEF" run "$demo" $greedy -d 0:0,0:1 --split 60,40)"
for split in 60,40 1,5 5,1; do
  same "split $split" "$want" "$("$CLEF" run "$demo" $greedy -d 0:0,0:1 --split $split)"
done
same "three stages, one device twice" "$want" "$("$CLEF" run "$demo" $greedy -d 0:1,0:0,0:1 --split 1,1,1)"
same "a stage for each layer" "$want" "$("$CLEF" run "$demo" $greedy -d 0,1,0,1,0,1 --split 1,1,1,1,1,1)"
same "prompts in steps of 3" "$want" "$("$CLEF" run "$demo" $greedy -d 0:0,0:1 --split 1,1 -b 3)"
same "by work-groups" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu "$CLEF" run "$demo" $greedy -d 0:0)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu "$CLEF" run "$demo" $greedy -d 0:0,0:1 --split 1,2)"
sampled="-p ROMEO: --seed 7 --ignore-eos -n 40 --repeat-penalty 1.2 -q --print-ids"
same "sampling" "$("$CLEF" run "$demo" $sampled -d 0:0)" "$("$CLEF" run "$demo" $sampled -d 0:0,0:1 --split 1,1)"
beams="-p ROMEO: --beams 3 -n 20 -q --print-ids"
same "beams" "$("$CLEF" run "$demo" $beams -d 0:0)" "$("$CLEF" run "$demo" $beams -d 0:0,0:1 --split 1,1)"

# what each device takes
"$CLEF" plan "$demo" -d 0:0 >"$tmp/one"
"$CLEF" plan "$demo" -d 0:0,0:1 --split 1,1 >"$tmp/two"
row() { sed -n "s/^  $2 *[0-9.]* [A-Za-z]* *\([0-9]*\).*/\1/p" "$1"; }
same "a part of the plan for each device" 2 "$(grep -c '^model on 0:' "$tmp/two")"
same "each cache on one device" "$(row "$tmp/one" 'KV cache and states')" "$(row "$tmp/two" 'KV cache and states' | awk '{ n += $1 } END { print n }')"
packed=$(row "$tmp/one" weights)
while read -r n; do
  if [ "$n" -lt $((packed * 3 / 4)) ]; then ok "weights of a half: $n of $packed"; else fail "weights of a half: $n of $packed"; fi
done <<<"$(row "$tmp/two" weights)"

# other commands
printf 'To be, or not to be, that is the question: whether it is nobler in the mind to suffer.' >"$tmp/text"
loss() { "$CLEF" perplexity "$demo" "$tmp/text" -q "$@" | head -n 1; }
same "perplexity" "$(loss -d 0:0)" "$(loss -d 0:0,0:1 --split 2,1)"
encoder=$CLEF_SOURCE/tests/fixtures/tiny-bert
same "embed" "$("$CLEF" embed "$encoder" 'a text' -q -d 0:0)" "$("$CLEF" embed "$encoder" 'a text' -q -d 0:0,0:1 --split 1,1)"
seq2seq=$CLEF_SOURCE/tests/fixtures/tiny-t5
of_t5="--ids 5,6,7,1 -n 8 --temp 0 -q --print-ids --ignore-eos"
refused "an encoder of one layer" 1 "1 layers" "$CLEF" run "$seq2seq" $of_t5 -d 0:0,0:1 --split 1,1
same "by measured speed" "$want" "$("$CLEF" run "$demo" $greedy -d 0:0,0:1)"
if "$CLEF" devices | grep -q 'measured earlier'; then ok "what was measured is kept"; else fail "what was measured is kept"; fi

# mistakes
run="$CLEF run $demo -p x -n 1 -q"
refused "too few shares" 1 "1 shares 2 devices" $run -d 0:0,0:1 --split 60
refused "too many shares" 1 "3 shares 2 devices" $run -d 0:0,0:1 --split 60,40,3
refused "a share of nothing" 1 "--split 60,0" $run -d 0:0,0:1 --split 60,0
refused "a negative share" 1 "--split -40" $run -d 0:0,0:1 --split 60,-40
refused "a share that is not a number" 1 "--split half" $run -d 0:0,0:1 --split half,half
refused "a share that is none" 1 "--split" $run -d 0:0,0:1 --split inf,1
refused "shares for one device" 1 "one device" $run -d 0:0 --split 60,40
refused "more devices than layers" 1 "8 stages 6 layers" $run -d 0,1,0,1,0,1,0,1 --split 1,1,1,1,1,1,1,1
refused "a device without a name" 1 "device number 2" $run -d 0:0,,0:1
refused "a device that is not there" 1 "0:7 there are pthread basic" $run -d 0:0,0:7
refused "a name that fits two" 1 "platform of 2 0:0 0:1" $run -d 0:0,portable
refused "one device expected" 1 "several devices expected one" "$CLEF" selftest -d 0:0,0:1

for what in "run $demo -p x -n 1 --trace $tmp/x.json" "run $demo -p x -n 1 --profile" "bench $demo --profile" "bench --device"; do
  refused "of one device: ${what%% $demo*}" 2 "works on one device" "$CLEF" $what -q -d 0:0,0:1
done

# the experts of a mixture on another device
refused "experts beside several devices" 1 "expected one device experts got several" $run -d 0:0,0:1 --experts-on 0:0
refused "experts on a device that is not there" 1 "0:7 there are pthread basic" $run -d 0:0 --experts-on 0:7
same "a model without experts" "$want" "$("$CLEF" run "$demo" $greedy -d 0:0 --experts-on 0:1)"
if [ -d "${CLEF_SHARED:-}" ]; then
  n=0
  for model in qwen3moe gpt-oss mixtral deepseek2; do # two models a turn, one with fused steps
    if ! in_turn $((n % 2)) 2; then n=$((n + 1)); continue; fi
    mixture=$CLEF_SHARED/oracle/models/$model
    ids="--ids 5,6,7,1,9,20 --temp 0 --ignore-eos -n 24 -q --print-ids"
    with=$CLEF_DEBUG
    [ $((n / 2)) -eq 0 ] || with=$with,fused=
    text=$("$CLEF" run "$mixture" $ids -d 0:0)
    same "$model, its experts on another device" "$text" "$(CLEF_DEBUG=$with "$CLEF" run "$mixture" $ids -d 0:0 --experts-on 0:1)"
    same "$model, the other way" "$text" "$(CLEF_DEBUG=$with "$CLEF" run "$mixture" $ids -d 0:1 --experts-on 0:0 -b 4)"
    empty "$model, logits" "$(diff <("$CLEF" logits "$mixture" --ids 5,6,7,1,9 -d 0:0 -q) <("$CLEF" logits "$mixture" --ids 5,6,7,1,9 -d 0:0 --experts-on 0:1 -q))"
    "$CLEF" plan "$mixture" -d 0:0 --experts-on 0:1 >"$tmp/experts"
    same "$model, what each device has" "model experts" "$(sed -n 's/^\([a-z]*\) on 0:[01] .*/\1/p' "$tmp/experts" | paste -s -d ' ')"
    n=$((n + 1))
  done
fi

# two platforms in one process
if [ -n "${CLEF_SECOND_ICD:-}" ]; then
  mkdir "$tmp/vendors"
  cp "$CLEF_SECOND_ICD" "$tmp/vendors/"
  cp "$OCL_ICD_VENDORS" "$tmp/vendors/pocl.icd"
  export OCL_ICD_VENDORS=$tmp/vendors
  export POCL_DEVICES=pthread
  if [ "$("$CLEF" devices | grep -cE '^[01]:0 ')" -eq 2 ]; then
    same "two platforms" "$want" "$("$CLEF" run "$demo" $greedy -d 0:0,1:0 --split 1,1)"
    same "two platforms, the other way" "$want" "$("$CLEF" run "$demo" $greedy -d 1:0,0:0 --split 40,60)"
  else
    fail "two platforms: $("$CLEF" devices 2>&1 | head -n 3)"
  fi
fi
finish
