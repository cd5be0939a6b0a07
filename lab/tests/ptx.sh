#!/usr/bin/env bash
# An NVIDIA GPU in software (lab/gpu): clef's probes, proofs and models on it, and faults that are put into its kernels.
. "$CLEF_SOURCE/lab/tests/gpu_lib.sh"
[ -r /usr/lib/clc/nvptx64--nvidiacl.bc ] || skip "this needs libclc"
same "a card without units for bytes" none "$(units sm_70)"
same "a card with them" "mma (bytes, halves, bf16)" "$(units sm_89)"

# Proofs, tuning, a prompt of several rows, and tokens one by one.
prompt="-p ROMEO:-speak-of-love-and-of-the-night -n 6 --temp 0 --ignore-eos -q --print-ids"
same "the text is that of another device" "$("$CLEF" run "$demo" $prompt --no-proof)" "$(tune=1 gpu "$CLEF" run "$demo" $prompt)"
nothing_is_set_aside ""
"$CLEF" quantize "$demo" "$tmp/q8.gguf" q8_0 -q
same "and of blocks" "$("$CLEF" run "$tmp/q8.gguf" $prompt --no-proof)" "$(gpu "$CLEF" run "$tmp/q8.gguf" $prompt)"
without_barriers "entry log_sum_exp(" "bar\.sync"
finish
