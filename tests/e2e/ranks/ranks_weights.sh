# --weights-from-rank: only rank 0 has the model's files. The others run in folders where they are not, and get the bytes of their parts from rank 0.
# All commands that run on ranks, a folder and a GGUF file; a file that lacks a weight; a byte that changes on its way; and a rank that is not there.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
mpirun --version 2>/dev/null | grep -q "Open MPI" || skip "needs Open MPI, which starts ranks in folders of their own"
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
from="--weights-from-rank 0"
mkdir "$tmp/has" "$tmp/lacks"
cp -r "$CLEF_SOURCE/share/demo" "$tmp/has/model" && chmod -R u+w "$tmp/has/model"
"$CLEF" quantize "$tmp/has/model" "$tmp/has/model.gguf" q8_0 -q 2>/dev/null || fail "no GGUF file"

# ranks N COMMAND...: rank 0 runs where the model is, the others where nothing is
ranks() {
  local n=$1
  shift
  timeout 1800 mpirun --oversubscribe --bind-to none -n 1 -wdir "$tmp/has" "$CLEF" "$@" : -n $((n - 1)) -wdir "$tmp/lacks" "$CLEF" "$@" 2>"$tmp/err"
}
# one COMMAND...: what one process prints
one() (cd "$tmp/has" && "$CLEF" "$@" 2>/dev/null)

for model in model model.gguf; do
  want=$(one run $model $greedy)
  [ -n "$want" ] || fail "$model: one process prints nothing"
  same "$model, two ranks share each layer" "$want" "$(ranks 2 run $model $greedy $from)"
  same "$model, two stages" "$want" "$(ranks 2 run $model $greedy $from --pp 2)"
  same "$model, two stages of two ranks" "$want" "$(ranks 4 run $model $greedy $from --tp 2 --pp 2)"
  same "$model, weights as they are stored" "$(one run $model $greedy --gemm clblast)" "$(ranks 2 run $model $greedy $from --gemm clblast)"
done
same "a device with memory of its own" "$(CLEF_CAPS=-unified_memory one run model $greedy)" "$(CLEF_CAPS=-unified_memory ranks 2 run model $greedy $from)"
if ranks 2 run model $greedy >"$tmp/out"; then fail "each rank needs the model without the flag"; else ok "each rank needs the model without the flag"; fi

cp "$CLEF_SOURCE/LICENSE" "$tmp/has/text"
same "perplexity" "$(one perplexity model text -q | cut -c 1-12)" "$(ranks 2 perplexity model text -q $from | cut -c 1-12)"
# near NAME FILE FILE: as many numbers, one a line, and each within a thousandth
near() {
  if [ -s "$2" ] && paste "$2" "$3" | awk 'NF != 2 || ($1 - $2) ^ 2 > (1 + $1 ^ 2) * 1e-6 { exit 1 }'; then ok "$1"; else fail "$1"; paste "$2" "$3" | head -n 5; fi
}
one embed model "Once upon a time" --npy -o one.npy
if ranks 2 embed model "Once upon a time" --npy -o two.npy $from; then ok "embed"; else fail "embed: $(cat "$tmp/err")"; fi
for n in one two; do od -An -v -w4 -tf4 -j128 "$tmp/has/$n.npy" >"$tmp/$n.numbers"; done
near "embed: the numbers" "$tmp/one.numbers" "$tmp/two.numbers"
check "bench" ranks 2 bench model -p 16 -n 8 -r 1 -q $from
{ safetensors '{"input_ids":{"dtype":"I32","shape":[1,4],"data_offsets":[0,16]}}'; u32 199; u32 41; u32 452; u32 305; } >"$tmp/has/in.safetensors"
one eval model -i in.safetensors -o one.safetensors -q
if ranks 2 eval model -i in.safetensors -o two.safetensors -q $from; then ok "eval"; else fail "eval: $(cat "$tmp/err")"; fi
for n in one two; do od -An -v -w4 -tf4 -j$((8 + $(od -An -tu4 -N4 "$tmp/has/$n.safetensors"))) "$tmp/has/$n.safetensors" >"$tmp/$n.numbers"; done
near "eval: the numbers" "$tmp/one.numbers" "$tmp/two.numbers"

mpirun --oversubscribe --bind-to none -n 1 -wdir "$tmp/has" "$CLEF" serve model --port 0 $from : -n 1 -wdir "$tmp/lacks" "$CLEF" serve model --port 0 $from >"$tmp/serve.log" 2>&1 &
server=$!
until_served "$tmp/serve.log"
curl -s "$address/v1/completions" -H "Content-Type: application/json" -d '{"prompt":"ROMEO:","max_tokens":16,"temperature":0}' >"$tmp/reply"
same "serve" "$(one run model -p ROMEO: --temp 0 -n 16 -q | tr '\n' ' ' | sed 's/ *$//')" \
  "$(sed -n 's/.*"text":"\([^"]*\)".*/\1/p' "$tmp/reply" | sed 's/\\n/ /g; s/ *$//')"
kill -INT $server
wait $server 2>/dev/null

# refuses NAME LINE N COMMAND...: fails, and one line of clef's is LINE (a pattern of grep -E)
refuses() {
  local name=$1 line=$2
  shift 2
  if ranks "$@" >"$tmp/out"; then fail "$name: it succeeded"; return; fi
  same "$name: one line" 1 "$(grep -c "^clef: " "$tmp/err")"
  if grep -qE "$line" "$tmp/err"; then ok "$name: $(grep "^clef: " "$tmp/err" | cut -c 1-200)"; else fail "$name: expected '$line'"; head -n 5 "$tmp/err"; fi
}
refuses "a rank that is not there" "^clef: --weights-from-rank 2: there is no such rank, 2 were started$" 2 run model $greedy --weights-from-rank 2
refuses "another rank than 0" "^clef: --weights-from-rank 1: expected 0" 2 run model $greedy --weights-from-rank 1
refuses "no number" "^clef: --weights-from-rank: .* got '0x'$" 2 run model $greedy --weights-from-rank 0x
refused "without a launcher" 1 "--weights-from-rank mpirun" "$CLEF" run "$tmp/has/model" $greedy $from
refuses "no model on rank 0" "nowhere" 2 run nowhere $greedy $from

# A bit of a piece of a weight, or of an answer, changes on its way from rank 0.
export CLEF_TEST_MPI=$CLEF_BUILD/libclef_mpi.so
CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so same "nothing changes" "$(one run model $greedy)" \
  "$(CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so ranks 2 run model $greedy $from)"
CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so CLEF_TEST_SPOIL=2000 refuses "a weight that changed" \
  "^clef: .*rank 1 on .*: weight .*[a-z].*: bytes 0 to [0-9]+ came from rank 0 with checksum [0-9a-f]{16}, expected [0-9a-f]{16}" 2 run model $greedy $from
CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so CLEF_TEST_SPOIL=300 refuses "an answer that changed" \
  "^clef: rank 1 on .*: the answer of rank 0 for weight .*[a-z].* has a wrong checksum$" 2 run model $greedy $from
finish
