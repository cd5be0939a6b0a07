# clef run --prompt-cache on ranks: a file that ranks have written is read by one process and by other layouts of ranks, and the other way round.
# The text is that of a run without the file, and what of the prompt came from the file is reported.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
oracle=${CLEF_SHARED:-}/oracle/models

numbers() { seq -s, "$1" "$2"; }
# on LAYOUT COMMAND...: "1" is one process, "2x1" two ranks that share each layer, "1x2" two stages
on() {
  local width=${1%x*} stages=${1#*x}
  shift
  if [ "$width$stages" = 11 ]; then "$CLEF" "$@"; else
    timeout 1800 "${mpirun[@]}" -n $((width * stages)) "$CLEF" "$@" --tp "$width" --pp "$stages" </dev/null
  fi
}

# pair NAME MODEL WRITER READER FLAGS...: READER's text with WRITER's file is one process's text without a file
pair() {
  local name="$1, $3 writes, $4 reads" model=$2 writer=$3 reader=$4 prompt more
  shift 4
  prompt=$(numbers 5 44)
  more="$prompt,$(numbers 60 75)"
  rm -f "$tmp/cache"
  on "$writer" run "$model" --ids "$prompt" -n 1 --temp 0 --print-ids -q --prompt-cache "$tmp/cache" "$@" >"$tmp/out" 2>"$tmp/err" || { fail "$name: writing"; head -n 5 "$tmp/err"; return; }
  "$CLEF" run "$model" --ids "$prompt" -n 1 --temp 0 --print-ids -q --prompt-cache "$tmp/alone" "$@" >"$tmp/out" 2>"$tmp/err"
  same "$name: the file's size" "$(wc -c <"$tmp/alone")" "$(wc -c <"$tmp/cache")"
  same "$name" "$("$CLEF" run "$model" --ids "$more" -n 12 --temp 0 --print-ids --ignore-eos -q "$@")" \
    "$(on "$reader" run "$model" --ids "$more" -n 12 --temp 0 --print-ids --ignore-eos --prompt-cache "$tmp/cache" "$@" 2>"$tmp/err")"
  same "$name: what came from the file" "40 of 56 tokens" "$(sed -n 's/^clef: prompt cache: //p' "$tmp/err")"
  rm -f "$tmp/alone"
}

demo=$CLEF_SOURCE/share/demo
for layouts in "2x1 1x1" "1x1 2x1" "1x2 1x1" "1x1 2x2" "2x2 3x1" "3x1 1x2"; do
  # shellcheck disable=SC2086
  pair "demo" "$demo" $layouts
done
CLEF_DEBUG=$CLEF_DEBUG,caps=-unified_memory pair "a device with memory of its own" "$demo" 2x1 3x1
pair "a KV cache of 8 bits" "$demo" 2x1 1x1 --kv-type q8_0
pair "a KV cache of 8 bits" "$demo" 1x1 2x2 --kv-type q8_0
if [ -d "$oracle" ]; then
  # A cache that is cut between heads; one whose heads several ranks share; a sliding window; a latent cache; recurrent layers.
  for model in llama qwen3 gemma3 deepseek2 qwen3.5; do
    pair "$model" "$oracle/$model" 2x1 1x1
    pair "$model" "$oracle/$model" 1x1 2x1
  done
  # a scan that is cut between channels
  pair falcon_mamba "${oracle}2/falcon_mamba" 2x1 1x1
  pair falcon_mamba "${oracle}2/falcon_mamba" 1x1 2x1
  pair llama "$oracle/llama" 4x1 1x1
  pair llama "$oracle/llama" 1x1 4x1
  pair qwen3.5 "$oracle/qwen3.5" 1x2 2x1
fi

# A file is bound to its model, on ranks too, and stays as it is.
"$CLEF" run "$demo" --ids 5,6,7 -n 1 --temp 0 --print-ids -q --prompt-cache "$tmp/cache" >"$tmp/out" 2>&1
printf x | dd of="$tmp/cache" bs=1 seek=300 conv=notrunc 2>/dev/null
before=$(cksum <"$tmp/cache")
if on 2x1 run "$demo" --ids 5,6,7 -n 1 --temp 0 --print-ids -q --prompt-cache "$tmp/cache" >"$tmp/out" 2>"$tmp/err"; then fail "a damaged file: it succeeded"; else
  same "a damaged file: one line" 1 "$(grep -c '^clef: ' "$tmp/err")"
fi
same "it stays as it is" "$before" "$(cksum <"$tmp/cache")"
finish
