# The ids that transformers gives for a trained Llama-shaped folder with its own tokenizer.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
data=${CLEF_SHARED:-}/data/tinystories-656k
[ -f "$data/model.safetensors" ] || skip "no tinystories-656k here (CLEF_SHARED)"

for i in 1 2 3; do
  prompt=$(json_case "$data/expected.json" prompt $i)
  ids=$(json_case "$data/expected.json" prompt_ids $i)
  new=$(json_case "$data/expected.json" new_ids $i)
  same "case $i tokenized" "[${ids%x}]" "$("$CLEF" tokenize "$data" "${prompt%x}" | tr -d ' ')"
  same "case $i" "${new%x}" "$("$CLEF" run "$data" -p "${prompt%x}" -n 96 --temp 0 --ignore-eos --print-ids -q)"
  # transformers decodes the new ids by themselves and drops their first space; clef goes on after the prompt.
  text=$("$CLEF" run "$data" -p "${prompt%x}" -n 96 --temp 0 --ignore-eos -q; printf x)
  same "case $i as text" "$(json_case "$data/expected.json" text $i)" "${text# }"
done
finish
