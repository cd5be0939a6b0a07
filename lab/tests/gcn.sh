#!/usr/bin/env bash
# AMD's GPUs in software (lab/gpu): clef's probes, proofs and models on three of them, and a fault that is put into a kernel.
. "$CLEF_SOURCE/lab/tests/gpu_lib.sh"
CLEF_GPU_ROCM=$(dirname "$(find "${CLEF_MATRIX_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/clef-matrix}/rocm" /usr/lib/x86_64-linux-gnu/amdgcn \
  -name oclc_isa_version_1100.bc 2>/dev/null | head -n 1)" 2>/dev/null)
[ -r "$CLEF_GPU_ROCM/ockl.bc" ] || skip "AMD's GPUs in software need ROCm's device libraries, which lab/offline fetches"
export CLEF_GPU_ROCM

# dot CARD: whether clef finds the product of bytes.
dot() { gpu env CLEF_GPU_CARD=$1 "$CLEF" devices --variants | grep -c "panel_matmul sdot4: needs"; }
same "MFMA" "mfma (bytes, halves, bf16)" "$(clef_cache=gfx90a units gfx90a)"
same "WMMA" "wmma (bytes, halves, bf16)" "$(clef_cache=gfx1100 units gfx1100)"
same "a card without" none "$(clef_cache=gfx1030 units gfx1030)"
prompt="-p ROMEO:-speak-of-love-and-of-the-night -n 6 --temp 0 --ignore-eos -q --print-ids"
"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q
wanted=$("$CLEF" run "$demo" $prompt --no-proof) wanted_q8=$("$CLEF" run "$tmp/q8.gguf" $prompt --no-proof)
for card in gfx90a gfx1030 gfx1100; do
  clef_cache=$card
  same "$card: products of bytes" 0 "$(dot $card)"
  export CLEF_GPU_CARD=$card
  # Proofs, a prompt of several rows, and tokens one by one.
  same "$card: the text is that of another device" "$wanted" "$(gpu "$CLEF" run "$demo" $prompt)"
  same "$card: and of blocks" "$wanted_q8" "$(gpu "$CLEF" run "$tmp/q8.gguf" $prompt)"
  nothing_is_set_aside "$card: "
done
nothing_found

without_barriers "^log_sum_exp:" "s_barrier"
finish
