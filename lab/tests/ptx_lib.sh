# shellcheck shell=bash
# Sourced by ptx.sh and ptx_models.sh: clef on an NVIDIA GPU in software (lab/ptx).
. "$CLEF_SOURCE/tests/e2e/lib.sh"
clang=$(sed -n 's/^CLEF_CLANG:FILEPATH=//p' "$CLEF_BUILD/CMakeCache.txt")
[ -x "$clang" ] && [ -r /usr/lib/clc/nvptx64--nvidiacl.bc ] || skip "lab/ptx needs clang and libclc"
demo=$CLEF_SOURCE/share/demo

# ptx COMMAND...: on the device. What it finds is in $tmp/findings. ptx_cache: a folder for PTX; clef_cache: clef's own.
ptx() {
  OCL_ICD_VENDORS=$CLEF_BUILD/tests/ptx.icd CLEF_PTX_CACHE=${ptx_cache:-$CLEF_BUILD/cache/ptx} CLEF_CACHE_DIR=$tmp/${clef_cache:-clef} \
    CLEF_PTX_FINDINGS=$tmp/findings CLEF_PTX_RACES=1 CLEF_TUNE=${tune:-0} "$@"
}
nothing_found() { empty "no kernel did anything wrong" "$(cat "$tmp/findings" 2>/dev/null)"; }
