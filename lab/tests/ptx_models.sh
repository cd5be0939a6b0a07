#!/usr/bin/env bash
# Batches, training and models of all families on an NVIDIA GPU in software (lab/gpu).
. "$CLEF_SOURCE/lab/tests/gpu_lib.sh"
[ -r /usr/lib/clc/nvptx64--nvidiacl.bc ] || skip "this needs libclc"

# Prompts in a batch.
printf '{"prompt": "ROMEO:"}\n{"prompt": "But soft, what light"}\n{"prompt": "I"}\n' >"$tmp/prompts.jsonl"
batch="--file $tmp/prompts.jsonl --max-seqs 3 -n 6 --temp 0 --ignore-eos -q"
same "a batch writes what another device writes" "$("$CLEF" run "$demo" $batch --no-proof)" "$(gpu "$CLEF" run "$demo" $batch)"

# Two steps of training an adapter, and its use.
head -c 3000 "$CLEF_SOURCE/README.md" >"$tmp/text.txt"
train() { "$@" "$CLEF" train "$demo" --data "$tmp/text.txt" --steps 2 -c 32 -b 2 --lora 4 -o "$tmp/$name" 2>&1 | grep -o "loss [0-9.]*"; }
want=$(name=other train env)
same "training steps lose what they lose elsewhere" "$want" "$(name=adapter train gpu)"
run="-p ROMEO: -n 6 --temp 0 --ignore-eos -q --print-ids"
same "so the adapter writes the same" "$("$CLEF" run "$demo" --lora "$tmp/other" $run --no-proof)" "$(gpu "$CLEF" run "$demo" --lora "$tmp/adapter" $run)"
nothing_found

# Tiny models of all families against PyTorch's answers: those that are due.
check_py=${CLEF_SHARED:-}/oracle/check.py
if [ -f "$check_py" ] && python=$(find_python); then
  for set in models models2; do
    folders=("$CLEF_SHARED/oracle/$set"/*/expected.safetensors) due=()
    for i in "${!folders[@]}"; do
      folder=$(dirname "${folders[i]}")
      if in_turn "$i" ${#folders[@]} && "$CLEF" graph "$folder" >/dev/null 2>&1; then due+=("$(basename "$folder")"); fi
    done
    for family in "${due[@]}"; do
      # PyTorch's logits of mT5 in float32 are 7e-5 from those in float64, this device's 5e-5: its scores reach 50.
      case $family in mt5) export TOL=2e-4 ;; *) unset TOL ;; esac
      gpu "$python" "$check_py" "$CLEF" "$CLEF_SHARED/oracle/$set" "$family" >"$tmp/log" 2>&1 || failures=$((failures + 1))
      grep -v "^[0-9]* passed, " "$tmp/log"
      grep -q "^[0-9]* passed, " "$tmp/log" || fail "$family: check.py did not finish"
    done
    nothing_found
  done
fi
finish
