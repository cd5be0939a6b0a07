# The text that llama2.c publishes for its stories260K, character for character, from the GGUF file and from the folder.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
data=${CLEF_SHARED:-}/data/stories260K
[ -f "$data/stories260K.gguf" ] || skip "no stories260K here (CLEF_SHARED)"

want=$(sed -n 's/^ "greedy_200_steps_from_bos": "\(.*\)",$/\1/p' "$data/expected.json" | sed 's/\\"/"/g' | { IFS= read -r line; printf '%bx' "$line"; })
same "greedy text" "$want" "$("$CLEF" run "$data/stories260K.gguf" -p "" -n 200 --temp 0 -q; printf x)"
ids=$(cut -d ' ' -f 2- "$data/greedy200_ids.txt" | tr ' ' ,)
n=$(tr ',' '\n' <<<"$ids" | wc -l)
same "greedy ids" "$ids" "$("$CLEF" run "$data/stories260K.gguf" --ids 1 -n "$n" --temp 0 --ignore-eos --print-ids -q)"
same "greedy ids of the folder" "$ids" "$("$CLEF" run "$data/hf" --ids 1 -n "$n" --temp 0 --ignore-eos --print-ids -q)"
same "greedy ids, own GEMM" "$ids" "$("$CLEF" run "$data/stories260K.gguf" --ids 1 -n "$n" --temp 0 --ignore-eos --print-ids -q --gemm own)"
finish
