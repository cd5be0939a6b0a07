#!/usr/bin/env bash
# An NVIDIA GPU in software (lab/gpu): clef's probes, proofs and models on it, and faults that are put into its kernels.
. "$CLEF_SOURCE/lab/tests/gpu_lib.sh"
[ -r /usr/lib/clc/nvptx64--nvidiacl.bc ] || skip "this needs libclc"
units() { gpu env CLEF_GPU_CARD=$1 "$CLEF" devices --variants | sed -n 's/^ *matrix units: //p'; }
same "a card without units for bytes" none "$(units sm_70)"
same "a card with them" "mma (bytes, halves, bf16)" "$(units sm_89)"

# Proofs, tuning, a prompt of several rows, and tokens one by one.
prompt="-p ROMEO:-speak-of-love-and-of-the-night -n 6 --temp 0 --ignore-eos -q --print-ids"
same "the text is that of another device" "$("$CLEF" run "$demo" $prompt --no-proof)" "$(tune=1 gpu "$CLEF" run "$demo" $prompt)"
empty "nothing is set aside" "$(gpu "$CLEF" cache | grep -v "^Nothing is set aside" | grep "set aside")"
"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q
same "and of blocks" "$("$CLEF" run "$tmp/q8.gguf" $prompt --no-proof)" "$(gpu "$CLEF" run "$tmp/q8.gguf" $prompt)"
# An op, and the same without its barriers: the PTX that was kept is changed.
gpu_cache=$tmp/code clef_cache=second
check "an op is sound" gpu "$CLEF" selftest --op log_sum_exp
nothing_found
grep -l "entry log_sum_exp(" "$gpu_cache"/*.s | xargs sed -i "/bar\\.sync/d"
clef_cache=third
if gpu "$CLEF" selftest --op log_sum_exp >"$tmp/out" 2>&1; then fail "without barriers it fails"; else ok "without barriers it fails"; fi
found=$(grep -E "kernel log_sum_exp, .*(race: |nobody wrote)" "$tmp/findings")
if [ -n "$found" ]; then ok "and what went wrong is reported"; else fail "expected a race in: $(head -n 3 "$tmp/findings")"; fi
finish
