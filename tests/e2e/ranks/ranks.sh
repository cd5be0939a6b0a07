# clef on several ranks, which mpirun starts: the texts and vectors of one process, by tensor parallelism, as a pipeline and both; a server;
# what ranks refuse; and a rank that is lost.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
ranks() { local n=$1; shift; timeout 1800 mpirun -n "$n" --oversubscribe --bind-to none "$CLEF" "$@" 2>"$tmp/err"; }

want=$("$CLEF" run "$demo" $greedy)
same "two ranks share each layer" "$want" "$(ranks 2 run "$demo" $greedy)"
same "three ranks" "$want" "$(ranks 3 run "$demo" $greedy)"
same "two stages" "$want" "$(ranks 2 run "$demo" $greedy --pp 2)"
same "two stages of two ranks" "$want" "$(ranks 4 run "$demo" $greedy --tp 2 --pp 2)"
same "launch by launch" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,fused=0 ranks 2 run "$demo" $greedy)"
same "sums in 16 bits" "$want" "$(ranks 2 run "$demo" $greedy --wire f16)"
same "devices with memory of their own" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory ranks 2 run "$demo" $greedy)"
same "their sums in pieces" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory,rank_piece=1K ranks 2 run "$demo" $greedy)"
same "sums of 8 bits in pieces" "$(ranks 2 run "$demo" $greedy --wire q8)" \
  "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory,rank_piece=1000 ranks 2 run "$demo" $greedy --wire q8)"
# A prompt of several steps: text of the model's own, whose likeliest next tokens lie well ahead of others.
"$CLEF" run "$demo" -p ROMEO: --temp 0 --ignore-eos -n 220 -q >"$tmp/prompt"
long="-f $tmp/prompt --temp 0 --ignore-eos -n 16 -q --print-ids"
for flags in "" "--wire f16" "--batch-size 65" "--kv-type q8_0"; do
  same "a long prompt $flags" "$("$CLEF" run "$demo" $long ${flags/--wire f16/})" "$(ranks 2 run "$demo" $long $flags)"
done
same "a long prompt on devices with memory of their own" "$(ranks 3 run "$demo" $long --wire q8)" \
  "$(CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory,rank_piece=20K ranks 3 run "$demo" $long --wire q8)"
same "a long prompt on two stages" "$("$CLEF" run "$demo" $long)" "$(ranks 4 run "$demo" $long --tp 2 --pp 2)"
one="-n 1 $CLEF run $demo $greedy"
same "a device in host memory and one with its own" "$want" \
  "$(CLEF_DEBUG=$CLEF_DEBUG,rank_piece=1K timeout 1800 mpirun --oversubscribe --bind-to none $one : -x CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory,rank_piece=1K $one 2>"$tmp/err")"
same "a prompt from stdin goes to rank 0" "$(echo ROMEO: | "$CLEF" run "$demo" -f - --temp 0 -n 8 -q)" \
  "$(echo ROMEO: | ranks 2 run "$demo" -f - --temp 0 -n 8 -q)"
same "perplexity" "$("$CLEF" perplexity "$demo" "$CLEF_SOURCE/LICENSE" -q 2>/dev/null | cut -c 1-12)" \
  "$(ranks 2 perplexity "$demo" "$CLEF_SOURCE/LICENSE" -q | cut -c 1-12)"
license="perplexity $demo $CLEF_SOURCE/LICENSE -c 64 -q"
alone=$("$CLEF" $license --curve "$tmp/alone.svg" | head -n 1)
same "perplexity, each rank with a part of the windows" "$alone" "$(ranks 3 $license --dp 3 --curve "$tmp/ranks.svg" | head -n 1)"
check "and the same curve" cmp "$tmp/alone.svg" "$tmp/ranks.svg"

"$CLEF" quantize "$demo" "$tmp/demo.gguf" q8_0 -q 2>/dev/null || fail "no GGUF file"
same "a GGUF file" "$("$CLEF" run "$tmp/demo.gguf" $greedy)" "$(ranks 2 run "$tmp/demo.gguf" $greedy)"
same "its weights as they are stored" "$("$CLEF" run "$tmp/demo.gguf" $greedy --gemm clblast)" "$(ranks 2 run "$tmp/demo.gguf" $greedy --gemm clblast)"
# near NAME SKIP FILE FILE: from that byte on as many numbers, and each within a thousandth
near() {
  od -An -v -w4 -tf4 -j"$2" "$3" >"$tmp/one.numbers"
  od -An -v -w4 -tf4 -j"$2" "$4" >"$tmp/two.numbers"
  if [ -s "$tmp/one.numbers" ] && paste "$tmp/one.numbers" "$tmp/two.numbers" | awk 'NF != 2 || ($1 - $2) ^ 2 > (1 + $1 ^ 2) * 1e-6 { exit 1 }'; then ok "$1"
  else fail "$1"; paste "$tmp/one.numbers" "$tmp/two.numbers" | head -n 5; fi
}
"$CLEF" embed "$demo" "Once upon a time" --npy -o "$tmp/one.npy"
check "embed" ranks 2 embed "$demo" "Once upon a time" --npy -o "$tmp/two.npy"
near "embed: the numbers" 128 "$tmp/one.npy" "$tmp/two.npy"
{ safetensors '{"input_ids":{"dtype":"I32","shape":[1,4],"data_offsets":[0,16]}}'; u32 199; u32 41; u32 452; u32 305; } >"$tmp/in.safetensors"
"$CLEF" eval "$demo" -i "$tmp/in.safetensors" -o "$tmp/one.safetensors" -q
check "eval" ranks 2 eval "$demo" -i "$tmp/in.safetensors" -o "$tmp/two.safetensors" -q
near "eval: the numbers" $((8 + $(od -An -tu4 -N4 "$tmp/one.safetensors"))) "$tmp/one.safetensors" "$tmp/two.safetensors"

# Only rank 0 speaks; a failure is said once.
ranks 2 run "$demo" -p ROMEO: -n 2 >"$tmp/out"
same "one rank names its device" 1 "$(grep -c "^clef: device" "$tmp/err")"
# refuses NAME WORDS RANKS ARGUMENTS...: fails with one line of clef's that holds each of the words
refuses() {
  local name=$1 words=$2 n=$3 word
  shift 3
  if ranks "$n" "$@" >"$tmp/out"; then fail "$name: it succeeded"; return; fi
  if [ "$(grep -c "^clef: " "$tmp/err")" -ne 1 ]; then fail "$name: expected one line of clef's"; cat "$tmp/err"; return; fi
  for word in $words; do
    grep "^clef: " "$tmp/err" | grep -qF -e "$word" || { fail "$name: expected '$word' in: $(grep "^clef: " "$tmp/err")"; return; }
  done
  ok "$name: $(grep "^clef: " "$tmp/err" | cut -c 1-160)"
}
refuses "no such model" "/nonexistent" 2 run /nonexistent -p x
refuses "a command for one process" "tokenize 2" 2 tokenize x
refuses "a width that does not divide the ranks" "2 --tp" 2 run "$demo" $greedy --tp 3
refuses "more stages than layers" "layers" 16 run "$demo" $greedy --pp 16
refuses "--dp beside --tp" "--dp --tp" 2 $license --dp 2 --tp 2
refuses "--dp of another number" "--dp 3 2" 2 $license --dp 3
refused "--dp without a launcher" 1 "--dp mpirun" "$CLEF" $license --dp 2
CLEF_DEBUG=$CLEF_DEBUG,rank_piece=many refuses "a piece that is not a size" "CLEF_DEBUG rank_piece many" 2 run "$demo" $greedy
refuses "heads that do not divide" "heads 1, 2, 3, 6" 4 run "$demo" $greedy --tp 4
refused "--tp without a launcher" 1 "--tp mpirun" "$CLEF" run "$demo" $greedy --tp 2
if CLEF_MPI=/nonexistent.so ranks 2 run "$demo" $greedy >"$tmp/out"; then
  fail "a module that is missing: it succeeded"
else
  same "a module that is missing" 1 "$(grep "^clef: .*/nonexistent.so" "$tmp/err" | sed 's/rank 1: //' | sort -u | wc -l)"
fi
if timeout 1800 mpirun --oversubscribe --bind-to none -n 1 "$CLEF" run "$demo" $greedy : -n 1 "$CLEF" run "$demo" $greedy -n 5 >"$tmp/out" 2>"$tmp/err"; then
  fail "ranks with other flags"
else
  same "ranks with other flags" 1 "$(grep -c "^clef: rank 1 on .* differs from rank 0" "$tmp/err")"
fi

# One launch of a prompt's step fails on rank 1: the run ends, and one line says whose launch it was.
layer=$CLEF_BUILD/tests/count_layer.so
if [ -e "$layer" ]; then
  prompt="$CLEF run $demo $long -n 1"
  # under_layer VARIABLE...: rank 1 runs under the layer, with these variables
  under_layer() {
    local variable variables=(-x "OPENCL_LAYERS=$layer")
    for variable in "$@"; do variables+=(-x "$variable"); done
    timeout 1800 mpirun --oversubscribe --bind-to none -n 1 $prompt : "${variables[@]}" -n 1 $prompt 2>"$tmp/err" </dev/null
  }
  same "a prompt, with rank 1's launches counted" "$($prompt)" "$(under_layer "CLEF_LAYER_OUT=$tmp/counts")"
  for back in 20 50 80; do
    nth=$(($(sed -n 's/^clEnqueueNDRangeKernel //p' "$tmp/counts") - back))
    if under_layer CLEF_LAYER_FAIL_API=clEnqueueNDRangeKernel "CLEF_LAYER_FAIL=$nth" >"$tmp/out"; then fail "launch $nth fails: the run succeeded"; fi
    same "launch $nth fails: one line" 1 "$(grep -c '^clef: rank 1 on .*clEnqueueNDRangeKernel.*CL_OUT_OF_RESOURCES' "$tmp/err")"
  done
fi
cp -r "$demo" "$tmp/other"
sed -i 's/"layer_norm_epsilon": [^,]*/"layer_norm_epsilon": 0.001/' "$tmp/other/config.json"
mkdir "$tmp/a" "$tmp/b"
ln -s "$demo" "$tmp/a/model"
ln -s "$tmp/other" "$tmp/b/model"
if timeout 1800 mpirun --oversubscribe -n 1 -wdir "$tmp/a" "$CLEF" run model $greedy : -n 1 -wdir "$tmp/b" "$CLEF" run model $greedy >"$tmp/out" 2>"$tmp/err"; then
  fail "a rank with another model"
else
  same "a rank with another model" 1 "$(grep -c "^clef: .*rank 1 on .*differs from that of rank 0" "$tmp/err")"
fi

# A server: rank 0 listens, and the others compute with it.
start 2 serve "$demo" --port 0
server=$launcher
until_served "$tmp/out"
pids=$(pids_of "$launcher")
same "the server has two ranks" 2 "$(echo "$pids" | wc -w)"
ask() {
  curl -s "$address/v1/completions" -H "Content-Type: application/json" -d '{"prompt":"ROMEO:","max_tokens":16,"temperature":0}' |
    sed -n 's/.*"text":"\([^"]*\)".*/\1/p' | sed 's/\\n/ /g'
}
for i in 1 2 3 4; do ask >"$tmp/reply.$i" & asked="${asked:-} $!"; done
# shellcheck disable=SC2086
wait $asked
same "four requests at once" "4 $("$CLEF" run "$demo" -p ROMEO: --temp 0 -n 16 -q | tr '\n' ' ' | sed 's/ *$//')" \
  "$(sed 's/ *$//' "$tmp"/reply.* | sort | uniq -c | sed 's/^ *//; s/^4  /4  /')"
kill -INT "$server"
wait "$server" 2>/dev/null
# shellcheck disable=SC2086
none_lives() { [ -z "$(living $pids)" ]; }
until_true none_lives
# shellcheck disable=SC2086
empty "the server's ranks end" "$(living $pids)"

# A rank that is stopped ends the run, and the line names it.
export CLEF_TEST_MPI=$CLEF_BUILD/libclef_mpi.so CLEF_TEST_SIGNALLED=$tmp/signalled
if [ -f "$CLEF_BUILD/tests/libfaulty_module.so" ] && [ -d /proc/self ]; then
  CLEF_RANK_TIMEOUT=5 CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so CLEF_TEST_SIGNAL="1 $(kill -l STOP) 40 step" \
    start 2 bench "$demo" -n 200 -p 0 -r 100 -q
  until_true [ -e "$tmp/signalled" ]
  pids=$(pids_of "$launcher")
  ends "a rank that stops" "^clef: rank 1 on .* is lost \(last: "
fi
finish
