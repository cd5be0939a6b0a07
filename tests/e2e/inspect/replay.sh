# Recorded launches give the text of enqueued ones, over lengths of the visible cache, where a device has them and they are right.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
run="$CLEF run $demo -p ROMEO: --ignore-eos -n 150 -q --print-ids --no-proof"
why=$("$CLEF" devices --variants | sed -n 's/^ *command buffers: //p')
if [ -n "$why" ]; then ok "reported: $why"; else fail "reported"; fi
for how in "--temp 0" "--seed 3" "--temp 0 --kv-type q8_0 -b 2"; do
  same "$how" "$(CLEF_DEBUG=$CLEF_DEBUG,replay=0 $run $how)" "$(CLEF_DEBUG=$CLEF_DEBUG,replay=1 $run $how)"
done
same "masked" "the device has none (cl_khr_command_buffer)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-command_buffer "$CLEF" devices --variants | sed -n 's/^ *command buffers: //p')"
same "by measurement" "$(CLEF_DEBUG=$CLEF_DEBUG,replay=0 $run --temp 0)" "$(CLEF_TUNE=1 $run --temp 0)"
same "two devices" "$(CLEF_DEBUG=$CLEF_DEBUG,replay=0 $run --temp 0)" "$(CLEF_DEBUG=$CLEF_DEBUG,replay=1 $run --temp 0 -d 0:0,0:0 --split 1,1)"
if [ -z "$(CLEF_DEBUG=$CLEF_DEBUG,replay=1 $run --temp 0)" ]; then fail "a run"; fi
finish
