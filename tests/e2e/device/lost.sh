# A device that is lost for a moment: its context is made anew, and the text goes on as if nothing had been. One that stays lost is reported.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
layer=$CLEF_BUILD/tests/count_layer.so
run="$CLEF run $demo -p ROMEO: --ignore-eos -n 60 --print-ids --no-proof"
export CLEF_TUNE=0
if [ ! -e "$layer" ]; then skip "the layer $layer was not built"; fi

# losing API BACK CODE: runs $run with the API's call number (all - BACK) failing once
losing() { OPENCL_LAYERS=$layer CLEF_LAYER_FAIL_API=$1 CLEF_LAYER_FAIL=$(($(sed -n "s/^$1 //p" "$tmp/counts") - $2)) CLEF_LAYER_CODE=$3 $run $4 2>"$tmp/err"; }

# launch by launch, and with a launch a token
for how in "--temp 0" "--seed 5 --repeat-penalty 1.3" "--seed 5 --typical 0.9 --dry-multiplier 1" \
  "--seed 5 --mirostat 2 --mirostat-tau 3" "fused step --temp 0"; do
  export CLEF_DEBUG=$CLEF_DEBUG,fused=0
  backs="3 500 1300"
  if [ "${how%% *}" = fused ]; then CLEF_DEBUG=$CLEF_DEBUG,fused=1 backs="3 20 50" how=${how#fused step }; fi
  want=$($run $how -q)
  if [ -z "$want" ]; then fail "$how: an undisturbed run"; fi
  OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts $run $how -q >/dev/null
  for back in $backs; do
    same "$how: launch $back before the last, CL_OUT_OF_RESOURCES" "$want" "$(losing clEnqueueNDRangeKernel $back -5 "$how")"
    if grep -q 'made anew' "$tmp/err"; then ok "it is reported"; else fail "it is reported: $(cat "$tmp/err")"; fi
  done
  same "$how: a token's read, CL_DEVICE_NOT_AVAILABLE" "$want" "$(losing clEnqueueReadBuffer 20 -2 "$how")"
  same "$how: a flush, CL_INVALID_COMMAND_QUEUE" "$want" "$(losing clFlush 20 -36 "$how")"
done
CLEF_DEBUG=$CLEF_DEBUG,fused=0
two="-d 0:0,0:0 --split 1,1 --temp 0"
want=$($run $two -q)
OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts $run $two -q >/dev/null
same "one of two devices" "$want" "$(losing clEnqueueNDRangeKernel 700 -5 "$two")"

n=$(($(sed -n "s/^clEnqueueNDRangeKernel //p" "$tmp/counts") - 200))
code=0
OPENCL_LAYERS=$layer CLEF_LAYER_FAIL_API=clEnqueueNDRangeKernel CLEF_LAYER_FAIL=$n+ $run -q --temp 0 -d 0:0,0:0 --split 1,1 >"$tmp/out" 2>"$tmp/err" || code=$?
same "one that stays lost: exit code" 1 "$code"
if grep -q 'CL_OUT_OF_RESOURCES.*did not come back' "$tmp/err"; then ok "it is said"; else fail "it is said: $(cat "$tmp/err")"; fi

# whole texts
encoder=$CLEF_SOURCE/tests/fixtures/tiny-bert
embed="$CLEF embed $encoder text"
want=$($embed -q)
OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts $embed -q >/dev/null
n=$(($(sed -n "s/^clEnqueueNDRangeKernel //p" "$tmp/counts") - 2))
same "embed" "$want" "$(OPENCL_LAYERS=$layer CLEF_LAYER_FAIL_API=clEnqueueNDRangeKernel CLEF_LAYER_FAIL=$n $embed -q 2>/dev/null)"
finish
