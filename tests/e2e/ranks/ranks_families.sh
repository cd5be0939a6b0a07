# Random-weight models of several families on ranks against PyTorch's answers: by tensor parallelism, as a pipeline, and both. That the graph of
# every family is cut correctly is the test `shard`. Pictures and speech are compared with one process. Needs what e2e_oracle needs, and mpirun.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
check_py=${CLEF_SHARED:-}/oracle/check.py
[ -f "$check_py" ] || skip "no oracle models here (CLEF_SHARED)"
python=$(find_python) || skip "no Python with numpy and safetensors"
export CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0

# families WIDTH STAGES FOLDER FAMILY...: those of the families that are due
number=0
families() {
  local width=$1 stages=$2 folder=$3 family due=()
  shift 3
  for family; do
    if in_turn $((number++)) 40; then due+=("$family"); fi
  done
  [ ${#due[@]} -gt 0 ] || return
  cat >"$tmp/clef" <<END
#!/bin/sh
exec mpirun -n $((width * stages)) --oversubscribe --bind-to none "$CLEF" "\$@" --tp $width --pp $stages </dev/null
END
  chmod +x "$tmp/clef"
  "$python" "$check_py" "$tmp/clef" "$CLEF_SHARED/oracle/$folder" "${due[@]}" >"$tmp/log" 2>&1 || failures=$((failures + 1))
  sed "s/^ok  /ok $width x $stages/; s/^FAIL/FAIL $width x $stages/" "$tmp/log"
  grep -q "^[0-9]* passed, " "$tmp/log" || fail "$width x $stages: check.py did not finish"
}
families 2 1 models llama gpt2 phi3 falcon gemma3 deepseek2 qwen3.5 gpt-oss mixtral bart bert t5
families 1 2 models llama gemma4 qwen3.5 bert t5
families 4 1 models llama qwen3
families 2 2 models llama gpt-oss bart
# Scans between heads and between channels, short convolutions, linear attention, classes, latents, joined heads.
families 2 1 models2 mamba2 mamba jamba lfm2_moe qwen3_next minimax deberta_v2 deepseek_v3 gemma3n llama4 granitemoehybrid
families 1 2 models2 falcon_h1 nemotron_h-moe gemma3n minimax xlm_roberta-pair
families 4 1 models2 diffllama qwen3_next
same "all families are among the turns" 40 $number

# seen NAME ARGUMENTS...: what lies beside the layers, such as encoders of pictures: what one process prints
seen() {
  local name=$1 want
  shift
  want=$("$CLEF" "$@" -q 2>"$tmp/err") || fail "$name: $(head -n 3 "$tmp/err")"
  same "$name, 2 x 1" "$want" "$(mpirun -n 2 --oversubscribe --bind-to none "$CLEF" "$@" -q --tp 2 2>"$tmp/err" </dev/null)"
  same "$name, 1 x 2" "$want" "$(mpirun -n 2 --oversubscribe --bind-to none "$CLEF" "$@" -q --pp 2 2>"$tmp/err" </dev/null)"
}
vision=$CLEF_SHARED/oracle/vision
if [ -d "$vision" ]; then
  seen "a text with a picture" run "$vision/qwen2_vl" --image "$vision/pictures/gradient.png" -p "What is this?" --temp 0 -n 8 --ignore-eos --print-ids
  seen "speech" transcribe "$vision/wav2vec2" "$vision/sounds/bursts.wav"
fi
finish
