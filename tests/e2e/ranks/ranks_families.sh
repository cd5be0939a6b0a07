# Random-weight models of several families on ranks against PyTorch's answers: by tensor parallelism, as a pipeline, and both. That the graph of
# every family is cut correctly is the test `shard`. Needs what e2e_oracle needs, and mpirun.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
check_py=${CLEF_SHARED:-}/oracle/check.py
[ -f "$check_py" ] || skip "no oracle models here (CLEF_SHARED)"
python=$(find_python) || skip "no Python with numpy and safetensors"
export CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0

# families WIDTH STAGES FAMILY...: those of the families that are due
number=0
families() {
  local width=$1 stages=$2 family due=()
  shift 2
  for family; do
    if in_turn $((number++)) 22; then due+=("$family"); fi
  done
  [ ${#due[@]} -gt 0 ] || return
  cat >"$tmp/clef" <<END
#!/bin/sh
exec mpirun -n $((width * stages)) --oversubscribe --bind-to none "$CLEF" "\$@" --tp $width --pp $stages </dev/null
END
  chmod +x "$tmp/clef"
  "$python" "$check_py" "$tmp/clef" "$CLEF_SHARED/oracle/models" "${due[@]}" >"$tmp/log" 2>&1 || failures=$((failures + 1))
  sed "s/^ok  /ok $width x $stages/; s/^FAIL/FAIL $width x $stages/" "$tmp/log"
  grep -q "^[0-9]* passed, " "$tmp/log" || fail "$width x $stages: check.py did not finish"
}
families 2 1 llama gpt2 phi3 falcon gemma3 deepseek2 qwen3.5 gpt-oss mixtral bart bert t5
families 1 2 llama gemma4 qwen3.5 bert t5
families 4 1 llama qwen3
families 2 2 llama gpt-oss bart
same "all families are among the turns" 22 $number
finish
