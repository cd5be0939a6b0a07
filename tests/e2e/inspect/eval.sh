# `clef eval` of graphs in the text form: inputs and weights by name, symbols from shapes, outputs by name.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels

cat >"$tmp/g.clef" <<'G'
symbol T <= 8
input x f32 [T, 2]
weight w f32 [2]
y = softmax(x)
z = mul(x, w)
i = argmax(x)
output y
output z
output i
G
# x = [[0, 0], [0, 0], [0, 0]], w = [1, 1]
{
  safetensors '{"x":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]},"w":{"dtype":"F32","shape":[2],"data_offsets":[24,32]}}'
  head -c 24 /dev/zero
  printf '\0\0\x80\x3f\0\0\x80\x3f'
} >"$tmp/in.safetensors"
check "a text graph" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/out.safetensors"
header=$(head -c 400 "$tmp/out.safetensors" | tr -d '\0 ' | tr '{' '\n')
for want in '"shape":[3,2]' '"dtype":"F32"' '"dtype":"I32"' '"shape":[3]'; do
  if grep -qaF "$want" <<<"$header"; then ok "the output has $want"; else fail "the output has $want: $header"; fi
done
halves=$(od -An -v -tx1 "$tmp/out.safetensors" | tr -d ' \n' | grep -o '0000003f' | wc -l)
same "softmax of equals" 6 "$halves"
check "a tap" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/out.safetensors" --tap z --after build

grep -q "device" "$tmp/check.log" && ok "the device is named" || fail "the device is named"
silent "-q is quiet" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/out.safetensors" -q

# A weight [2, 3] where the file has [3, 2], as many bytes: refused. f32 numbers for a q8_0 weight: converted (31.75 = 127 / 4 codes as it is).
printf 'input w f32 [2]\nweight x f32 [2, 3]\ny = reshape(x) : f32 [3, 2]\nz = mul(y, w)\noutput z\n' >"$tmp/turned.clef"
refused "a weight of another shape" 1 "weight x 2 [3," "$CLEF" eval "$tmp/turned.clef" --in "$tmp/in.safetensors" --out "$tmp/no"
printf 'input x f32 [3, 2]\nweight w f32 [1, 2]\ny = mul(x, w)\noutput y\n' >"$tmp/rank.clef"
refused "a weight of another rank" 1 "weight w 2 dims [2]" "$CLEF" eval "$tmp/rank.clef" --in "$tmp/in.safetensors" --out "$tmp/no"
printf 'input x f32 [1, 32]\nweight w q8_0 [1, 32]\ny = matmul(x, w) transpose_b=1\noutput y\n' >"$tmp/q8.clef"
{
  safetensors '{"x":{"dtype":"F32","shape":[1,32],"data_offsets":[0,128]},"w":{"dtype":"F32","shape":[1,32],"data_offsets":[128,256]}}'
  printf '\0\0\x80\x3f%.0s' {1..32}
  printf '\0\0\xfe\x41%.0s' {1..32}
} >"$tmp/q8.safetensors"
check "f32 numbers for a q8_0 weight" "$CLEF" eval "$tmp/q8.clef" --in "$tmp/q8.safetensors" --out "$tmp/out.safetensors"
same "32 times 31.75" " 00 00 7e 44" "$(tail -c 4 "$tmp/out.safetensors" | od -An -tx1)"

printf 'symbol T <= 2\ninput x f32 [T, 2]\ny = softmax(x)\noutput y\n' >"$tmp/bound.clef"
refused "a symbol beyond its bound" 1 "x T 2 [3," "$CLEF" eval "$tmp/bound.clef" --in "$tmp/in.safetensors" --out "$tmp/no"
printf 'symbol T <= 8\ninput x f32 [T, 2]\ninput w f32 [T]\ny = softmax(x)\nz = softmax(w)\noutput y\noutput z\n' >"$tmp/clash.clef"
refused "two values for one symbol" 1 "T 3 2 x w" "$CLEF" eval "$tmp/clash.clef" --in "$tmp/in.safetensors" --out "$tmp/no"
printf 'input q f32 [3, 2]\ny = softmax(q)\noutput y\n' >"$tmp/missing.clef"
refused "an input that IN lacks" 1 "q in.safetensors" "$CLEF" eval "$tmp/missing.clef" --in "$tmp/in.safetensors" --out "$tmp/no"
printf 'input x f32 [3, 4]\ny = softmax(x)\noutput y\n' >"$tmp/shape.clef"
refused "a shape that does not fit" 1 "x 4 [3," "$CLEF" eval "$tmp/shape.clef" --in "$tmp/in.safetensors" --out "$tmp/no"

# Integers that number rows: an input's are checked before the run, those of a constant or a computed value after it.
# x = [[1, 0, 0, 0, 9]], whose argmax is 4, and ids = [1, -1, 3].
{
  safetensors '{"x":{"dtype":"F32","shape":[1,5],"data_offsets":[0,20]},"ids":{"dtype":"I32","shape":[3],"data_offsets":[20,32]}}'
  for x in 1065353216 0 0 0 1091567616 1 4294967295 3; do u32 "$x"; done
} >"$tmp/rows.safetensors"
rows() { # STATEMENTS, which make y of x, of its 5 rows r, and of ids
  printf 'input x f32 [1, 5]\ninput ids i32 [3]\nr = reshape(x) : f32 [5, 1]\n%b\noutput y\n' "$1" >"$tmp/rows.clef"
  "$CLEF" eval "$tmp/rows.clef" --in "$tmp/rows.safetensors" --out "$tmp/rows.npy" -q
}
refused "a negative id" 1 "rows.clef y gather ids 0 4 5 -1 [1]" rows 'y = gather(r, ids)'
refused "an id beyond the table" 1 "y gather ids -1 1 3 [2]" rows 'p = slice(r) size=3\ny = gather(p, ids) first=-1'
refused "an id beyond the row" 1 "y gather_elements i 0 4 5 -1 [0, 1]" \
  rows 'i = reshape(ids) : i32 [1, 3]\ny = gather_elements(x, i)'
refused "a constant id" 1 "y gather c 0 2 3 5 [1]" rows 'const t f32 [3] = 1, 2, 3\nconst c i32 [2] = 0, 5\ny = gather(t, c)'
refused "a computed id" 1 "y gather i 0 2 3 4 [0]" rows 'i = argmax(x)\np = slice(r) size=3\ny = gather(p, i)'
refused "a position behind the cache" 1 "y cache_write p 0 2 4 3 [0]" \
  rows 'p = slice(ids) start=2 size=1\ns = reshape(x) : f32 [1, 1, 5, 1]\nt = slice(s) axis=2 size=2
state k f32 [1, 1, 4, 1]\ny = cache_write(k, t, p)'
refused "an order without its sequence" 1 "y cache_reorder o 0 1 2 -1 [0]" \
  rows 'o = slice(ids) start=1 size=2\nstate k f32 [2, 1, 4, 1]\ny = cache_reorder(k, o)'
check "ids that are rows" rows 'i = slice(ids) start=2 size=1\na = argmax(x)\nz = gather(r, a)\ng = gather(r, i)\ny = add(z, g)'
same "the output alone is written" "9" "$(tail -c 4 "$tmp/rows.npy" | od -An -tf4 | tr -d ' ')"

# A model: ids beyond the vocabulary, and what a decoder does not take.
{ safetensors '{"input_ids":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}}'; u32 3; u32 4000; } >"$tmp/ids.safetensors"
refused "an id beyond the vocabulary" 1 "input_ids 1023 4000" "$CLEF" eval --in "$tmp/ids.safetensors" --out "$tmp/no"
{
  safetensors '{"input_ids":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},"decoder_input_ids":{"dtype":"I32","shape":[1,1],"data_offsets":[16,20]}}'
  u64 3; u64 4; u32 0
} >"$tmp/dec.safetensors"
refused "decoder_input_ids for a decoder" 1 "decoder_input_ids gpt2" "$CLEF" eval --in "$tmp/dec.safetensors" --out "$tmp/no"
{
  safetensors '{"input_ids":{"dtype":"I64","shape":[2,3],"data_offsets":[0,48]},"attention_mask":{"dtype":"I64","shape":[2,3],"data_offsets":[48,96]}}'
  for x in 3 4 5 3 4 5 1 1 1 1 1 0; do u64 $x; done
} >"$tmp/batch.safetensors"
check "a model, two sequences, one padded" "$CLEF" eval --in "$tmp/batch.safetensors" --out "$tmp/logits.safetensors" --tap hidden_last --tap attention_0
header=$(head -c 600 "$tmp/logits.safetensors" | tr -d '\0 ' | tr '{' '\n')
for want in '[2,3,1024]' '[2,3,192]' '[2,6,3,3]'; do
  if grep -qaF "\"shape\":$want" <<<"$header"; then ok "shape $want"; else fail "shape $want: $header"; fi
done
# --tap with * and ?: every value that fits, each once, as its name alone gives it.
check "taps by a pattern" "$CLEF" eval --in "$tmp/batch.safetensors" --out "$tmp/taps.safetensors" --tap 'layer?.out' --tap '*.attention' --tap layer0.out -q
names=$(head -c 4000 "$tmp/taps.safetensors" | grep -ao '"[a-z0-9_.]*":{"dtype"' | cut -d '"' -f 2 | sort | tr '\n' ' ')
layers=$("$CLEF" graph --format dot | grep -c cluster)
want=$(for l in $(seq 0 $((layers - 1))); do echo "layer$l.attention layer$l.out"; done | tr '\n' ' ')
same "they are those" "$(echo "$want logits" | tr ' ' '\n' | grep . | sort | tr '\n' ' ')" "$names"
refused "a pattern that nothing fits" 1 "layer9?.out" "$CLEF" eval --in "$tmp/batch.safetensors" --out "$tmp/no" --tap 'layer9?.out' -q
check "of a text graph" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/all.safetensors" --tap '*' --after build -q
# --stats: a line a value, and a stop at the first NaN: x / x of zeros.
check "--stats" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --stats --after build -q
same "a line a value of floats" "y z" "$(awk 'NR > 1 { print $1 }' "$tmp/check.log" | tr '\n' ' ' | sed 's/ $//')"
same "range, mean, deviation" "y softmax 0.5 0.5 0.5 0 0 0" "$(sed -n 's/  */ /gp' "$tmp/check.log" | sed 's/ $//' | grep '^y ')"
printf 'input x f32 [3, 2]\nweight w f32 [2]\na = mul(x, w)\nb = div(a, x)\nc = softmax(b)\noutput c\n' >"$tmp/nan.clef"
if "$CLEF" eval "$tmp/nan.clef" --in "$tmp/in.safetensors" --stats -q >"$tmp/stats" 2>"$tmp/err"; then fail "a NaN is an error"; fi
same "the first NaN is named" "clef: b (div) is the first value with a NaN; its inputs: a, x" "$(cat "$tmp/err")"
same "and stops it" "b 6" "$(tail -n 1 "$tmp/stats" | awk '{ print $1, $7 }')"
check "--stats of a model, and its logits" "$CLEF" eval --in "$tmp/batch.safetensors" --out "$tmp/again.safetensors" --stats --tap hidden_last --tap attention_0
check "are what they are without" cmp "$tmp/logits.safetensors" "$tmp/again.safetensors"
refused "neither --out nor --stats" 2 "--out --stats" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors"
refused "a tap without a file" 2 "--out --tap" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --stats --tap z
# .npy: one value in a file, or a folder of them. The numbers are those of the .safetensors file.
check "a .npy file" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/y.npy" --tap y -q
same "NumPy's head" "934e554d505901007600" "$(head -c 10 "$tmp/y.npy" | od -An -tx1 | tr -d ' ')"
if head -c 128 "$tmp/y.npy" | grep -qaF "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"; then ok "and its shape"; else fail "and its shape"; fi
same "and six halves" 6 "$(tail -c +129 "$tmp/y.npy" | od -An -v -tx1 | tr -d ' \n' | grep -o '0000003f' | wc -l)"
check "a folder of them" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/values/" -q
same "they are all" "i.npy y.npy z.npy" "$(cd "$tmp/values" && echo *)"
if head -c 128 "$tmp/values/i.npy" | grep -qaF "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }"; then ok "whole numbers too"; else fail "whole numbers too"; fi
check "a tap of a model" "$CLEF" eval --in "$tmp/batch.safetensors" --out "$tmp/hidden.npy" --tap hidden_last -q
if head -c 128 "$tmp/hidden.npy" | grep -qaF "'shape': (2, 3, 192), }"; then ok "is alone in its file"; else fail "is alone in its file"; fi
# `clef run --tap`: every step that a text took; what `clef eval` makes of its tokens.
new=$("$CLEF" run --ids 3,4,5 -n 4 --temp 0 --print-ids --ignore-eos -q --tap 'layer?.out' --tap hidden_last --tap-out "$tmp/run" 2>"$tmp/err")
empty "run --tap is quiet" "$(cat "$tmp/err")"
names=$(head -c 4000 "$tmp/run" | grep -ao '"[a-z0-9_.]*":{"dtype":"F32","shape":\[1,6,192\]' | wc -l)
same "values of the six tokens that were read" $((layers + 1)) "$names"
check "run --tap, one .npy" "$CLEF" run --ids "3,4,5,${new%,*}" -n 0 -q --tap hidden_last --tap-out "$tmp/run.npy"
{
  safetensors '{"input_ids":{"dtype":"I32","shape":[1,6],"data_offsets":[0,24]}}'
  for x in 3 4 5 ${new//,/ }; do u32 "$x"; done | head -c 24
} >"$tmp/six.safetensors"
"$CLEF" eval --in "$tmp/six.safetensors" --out "$tmp/six.npy" --tap hidden_last -q
same "as large as eval's" "$(wc -c <"$tmp/six.npy")" "$(wc -c <"$tmp/run.npy")"
python=$(find_python)
if [ -n "$python" ]; then
  check "the numbers are eval's" "$python" -c "
import sys, numpy as np
from safetensors.numpy import load_file
run, six, all = np.load(sys.argv[1]), np.load(sys.argv[2]), load_file(sys.argv[3])['hidden_last']
assert run.shape == six.shape == (1, 6, 192) and np.abs(six).max() > 0.1
assert np.abs(run - six).max() < 1e-3 * np.abs(six).max() and np.abs(all - six).max() < 1e-3 * np.abs(six).max()" \
    "$tmp/run.npy" "$tmp/six.npy" "$tmp/run"
fi
said=$("$CLEF" run --ids 3,4,5 -n 4 --temp 0 --print-ids --ignore-eos -q --stats 2>"$tmp/stats")
same "run --stats says what it says without" "$new" "$said"
if grep -q '^layer0.* softmax .* 0 * 0$' "$tmp/stats"; then ok "and reports each value"; else fail "and reports each value: $(head -n 3 "$tmp/stats")"; fi
refused "a tap of a run without a file" 2 "--tap-out" "$CLEF" run -p a --tap layer0.out
refused "several for one .npy" 1 "no.npy 3 folder" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/no.npy" -q
refused "a folder that cannot be" 1 "nowhere" "$CLEF" eval "$tmp/g.clef" --in "$tmp/in.safetensors" --out "$tmp/nowhere/x/" -q
if [ -e "$tmp/no" ] || [ -e "$tmp/no.npy" ]; then fail "a refused eval writes nothing"; else ok "a refused eval writes nothing"; fi
finish
