#!/usr/bin/env bash
# Prompts multiplied by units for small matrices, with plain C in their instruction's place, give the text of the other kernels.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
gpu=-cpu:-x86_vnni:-x86_avxvnni:-x86_avx2:-x86_amx:-arm64_i8mm:-arm64_sdot:-arm64_bf16 # a CPU as a GPU is
run="$CLEF run $demo -p ROMEO:-speak-of-love --temp 0 --ignore-eos -n 12 -q --print-ids --no-proof"
plain=$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu $run)
same "mma: the text" "$plain" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma $run)"
if CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma "$CLEF" bench "$demo" -p 8 -n 0 -r 1 --profile -q --no-proof | grep -q panel_gpu_few_mma; then ok "mma: serves few rows"; else fail "mma: serves few rows"; fi
if CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma "$CLEF" bench "$demo" -p 40 -n 0 -r 1 --profile -q --no-proof | grep -q panel_gpu_gemm_mma; then ok "mma: serves"; else fail "mma: serves"; fi
seen=$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma "$CLEF" bench "$demo" -p 8 -n 0 -r 1 --profile -q --no-proof --exact)
case $seen in
  *panel_gpu_few_mma* | *panel_gpu_gemm_mma*) fail "exact: x stays f32" ;;
  *panel_gpu_*) ok "exact: x stays f32" ;;
  *) fail "exact: expected a kernel panel_gpu_ in: ${seen:0:600}" ;;
esac
# Blocks are decoded to bf16, and attention over a cache in halves runs on the unit.
"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q
of_unit() { CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+$1 "$CLEF" bench "$tmp/q8.gguf" -p 40 -n 0 -r 1 --profile -q --no-proof --kv-type f16; }
for unit in mma dpas; do
  seen=$(of_unit $unit)
  case $seen in *panel_gpu_gemm_mma*) ok "$unit: multiplies blocks" ;; *) fail "$unit: multiplies blocks" ;; esac
done
seen=$(of_unit mfma)
case $seen in *attention_gpu_flash_mma*) ok "mfma: attention" ;; *) fail "mfma: attention" ;; esac
q8="$CLEF run $tmp/q8.gguf -p ROMEO:-speak-of-love-and-of-the-night --temp 0 --ignore-eos -n 8 -q --print-ids --no-proof --kv-type f16"
same "blocks: the text" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu $q8)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mfma $q8)"
same "reported" "matrix units: plain C for mma (bytes, halves, bf16)" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:+mma "$CLEF" devices --variants | sed -n 's/^ *\(matrix units:.*\)/\1/p' | head -n 1)"
same "none" "matrix units: none" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu "$CLEF" devices --variants | sed -n 's/^ *\(matrix units:.*\)/\1/p' | head -n 1)"
refused "no such unit" 1 "CLEF_DEBUG caps '+mmx' +mma" env CLEF_DEBUG=$CLEF_DEBUG,caps=+mmx "$CLEF" run "$demo" -p A -n 1
finish
