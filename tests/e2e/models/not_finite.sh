# Numbers that are not finite: quantize, convert and merge refuse them; what is sampled, embedded or scored from them ends with an error.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
plain="--no-tune --no-proof -q"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0

# put FILE TENSOR INDEX BYTES: writes an element of 2 bytes into a .safetensors file.
put() {
  local head begin
  head=$(od -An -t u4 -N 4 "$1" | tr -d ' ')
  begin=$(head -c $((head + 8)) "$1" | tail -c +9 | grep -oE "\"$2\":\{[^}]*\}" | grep -oE '\[[0-9]+,[0-9]+\]\}' | tr -dc '0-9,' | cut -d , -f 1)
  printf "$4" | dd of="$1" bs=1 seek=$((8 + head + begin + 2 * $3)) conv=notrunc status=none
}

# folder NAME TENSOR INDEX BYTES: the bundled model with one number changed.
folder() {
  cp -r "$demo" "$tmp/$1"
  chmod -R u+w "$tmp/$1"
  put "$tmp/$1/model.safetensors" "$2" "$3" "$4"
}
weight=transformer.h.2.mlp.c_fc.weight # [192, 768]; GGUF has its columns as rows
folder nan $weight 770 '\x00\x7e'
folder inf $weight 770 '\x00\xfc'
folder late transformer.wpe.weight $((20 * 192 + 5)) '\x00\x7e' # position 20

for type in f32 f16 bf16 q8_0 q4_0 q4_1 q5_0 q5_1 q3_k q4_k q5_k q6_k iq4_nl mxfp4 nvfp4 q1_0 q2_0 q2_k q3_k_m q4_k_m q5_k_m iq3_s iq4_xs; do
  refused "NaN as $type" 1 "h.2.mlp.c_fc.weight[770]: finite NaN" "$CLEF" quantize "$tmp/nan" "$tmp/x.gguf" $type -q
done
refused "-inf" 1 "h.2.mlp.c_fc.weight[770]: -inf" "$CLEF" quantize "$tmp/inf" "$tmp/x.gguf" q8_0 -q
refused "convert --type" 1 "h.2.mlp.c_fc.weight[770]: NaN" "$CLEF" convert "$tmp/nan" "$tmp/x.gguf" --type q8_0 -q
check "a copy is a copy" "$CLEF" convert "$tmp/late" "$tmp/late.gguf" -q
refused "a GGUF file" 1 "position_embd.weight[3845]: NaN" "$CLEF" quantize "$tmp/late.gguf" "$tmp/x.gguf" f16 -q
empty "nothing is left" "$(ls "$tmp" | grep x.gguf)"

refused "greedy" 1 "logits finite --stats" "$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --temp 0 $plain
refused "drawn" 1 "logits finite" "$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --temp 1 --seed 1 $plain
refused "picked on the host" 1 "logits finite" "$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --presence-penalty 1 $plain
refused "beams" 1 "logits finite" "$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --beams 2 $plain
refused "under a constraint" 1 "logits finite" "$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --regex '[0-9]+' $plain
"$CLEF" run "$tmp/nan" -p ROMEO: -n 4 --temp 0 --stats $plain >"$tmp/out" 2>"$tmp/err"
same "--stats finds the first" 1 "$(grep -c 'layer2.* first value with a NaN' "$tmp/err")"
echo "First Citizen: we are accounted poor citizens" >"$tmp/text"
refused "perplexity" 1 "perplexity: finite" "$CLEF" perplexity "$tmp/nan" "$tmp/text" $plain
refused "embeddings" 1 "embedding finite NaN" "$CLEF" embed "$tmp/nan" -f "$tmp/text" $plain

# One sequence of a batch reaches the position; the others end as without it.
cat >"$tmp/prompts.jsonl" <<'X'
{"prompt": "ROMEO:"}
{"prompt": "First Citizen: Before we proceed any further, hear me speak."}
{"prompt": "The"}
X
for how in "--temp 0" "--temp 1 --seed 3" "--presence-penalty 0.1 --seed 3" "--temp 0 --spec ngram"; do
  lines() { "$CLEF" run "$1" --file "$tmp/prompts.jsonl" --max-seqs 3 -n 8 $how $plain; }
  lines "$demo" >"$tmp/want"
  lines "$tmp/late" >"$tmp/got" && fail "$how: exits with 0"
  same "$how: the others are as they were" "$(sed -n '1p;3p' "$tmp/want")" "$(sed -n '1p;3p' "$tmp/got")"
  same "$how: one fails" 1 "$(sed -n 2p "$tmp/got" | grep -c '"error": "the logits are not finite')"
done
finish
