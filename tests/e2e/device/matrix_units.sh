#!/usr/bin/env bash
# Prompts multiplied by units for small matrices, with plain C in their instruction's place, give the text of the other kernels.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
gpu=-cpu:-x86_vnni:-x86_avxvnni:-x86_avx2:-x86_amx:-arm64_i8mm:-arm64_sdot:-arm64_bf16 # a CPU as a GPU is
run="$CLEF run $demo -p ROMEO:-speak-of-love --temp 0 --ignore-eos -n 12 -q --print-ids --no-proof"
# These kernels take minutes to compile, so the checks take turns.
number=0
due() { in_turn $((number++)) 8; }
# profile UNIT FLAGS...: the launches of a prompt, with that unit
profile() { CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+$1 "$CLEF" bench "${@:2}" -n 0 -r 1 --profile -q --no-proof; }
# serves NAME KERNEL PROFILE
serves() { case $3 in *"$2"*) ok "$1" ;; *) fail "$1: expected $2 in: ${3:0:600}" ;; esac; }
if due; then same "mma: the text" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu $run)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma $run)"; fi
if due; then serves "mma: serves few rows" panel_gpu_few_mma "$(profile mma "$demo" -p 8)"; fi
if due; then serves "mma: serves" panel_gpu_gemm_mma "$(profile mma "$demo" -p 40)"; fi
if due; then
  seen=$(profile mma "$demo" -p 8 --exact)
  case $seen in
    *panel_gpu_few_mma* | *panel_gpu_gemm_mma*) fail "exact: x stays f32" ;;
    *) serves "exact: x stays f32" panel_gpu_ "$seen" ;;
  esac
fi
# Blocks are decoded to bf16, and attention over a cache in halves runs on the unit.
"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q
for unit in mma dpas; do
  if due; then serves "$unit: multiplies blocks" panel_gpu_gemm_mma "$(profile $unit "$tmp/q8.gguf" -p 40 --kv-type f16)"; fi
done
if due; then serves "mfma: attention" attention_gpu_flash_mma "$(profile mfma "$tmp/q8.gguf" -p 40 --kv-type f16)"; fi
q8="$CLEF run $tmp/q8.gguf -p ROMEO:-speak-of-love-and-of-the-night --temp 0 --ignore-eos -n 8 -q --print-ids --no-proof --kv-type f16"
if due; then same "blocks: the text" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu $q8)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mfma $q8)"; fi
same "reported" "matrix units: plain C for mma (bytes, halves, bf16)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma "$CLEF" devices --variants | sed -n 's/^ *\(matrix units:.*\)/\1/p' | head -n 1)"
same "none" "matrix units: none" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu "$CLEF" devices --variants | sed -n 's/^ *\(matrix units:.*\)/\1/p' | head -n 1)"
refused "no such unit" 1 "CLEF_DEBUG caps '+mmx' +mma" env CLEF_DEBUG=$CLEF_DEBUG,caps=+mmx "$CLEF" run "$demo" -p A -n 1
finish
