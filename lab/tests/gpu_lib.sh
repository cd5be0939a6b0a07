# shellcheck shell=bash
# Sourced by ptx.sh, ptx_models.sh and gcn.sh: clef on a GPU in software (lab/gpu).
. "$CLEF_SOURCE/tests/e2e/lib.sh"
clang=$(sed -n 's/^CLEF_CLANG:FILEPATH=//p' "$CLEF_BUILD/CMakeCache.txt")
[ -x "$clang" ] || skip "lab/gpu needs clang"
demo=$CLEF_SOURCE/share/demo

# gpu COMMAND...: on the device. What it finds is in $tmp/findings. gpu_cache: a folder for assembly; clef_cache: clef's own.
gpu() {
  OCL_ICD_VENDORS=$CLEF_BUILD/tests/gpu.icd CLEF_GPU_CACHE=${gpu_cache:-$CLEF_BUILD/cache/gpu} CLEF_CACHE_DIR=$tmp/${clef_cache:-clef} \
    CLEF_GPU_FINDINGS=$tmp/findings CLEF_GPU_RACES=1 CLEF_TUNE=${tune:-0} "$@"
}
nothing_found() { empty "no kernel did anything wrong" "$(cat "$tmp/findings" 2>/dev/null)"; }
