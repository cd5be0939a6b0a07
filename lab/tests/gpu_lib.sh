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
# without_barriers PATTERN INSTRUCTION: an op, and the same without its barriers. The kept assembly of the files with PATTERN loses
# the lines with INSTRUCTION.
without_barriers() {
  local gpu_cache=$tmp/code clef_cache=second found
  check "an op is sound" gpu "$CLEF" selftest --op log_sum_exp
  nothing_found
  grep -l "$1" "$gpu_cache"/*.s | xargs sed -i "/$2/d"
  clef_cache=third
  if gpu "$CLEF" selftest --op log_sum_exp >"$tmp/out" 2>&1; then fail "without barriers it fails"; else ok "without barriers it fails"; fi
  found=$(grep -E "kernel log_sum_exp, .*(race: |nobody wrote)" "$tmp/findings")
  if [ -n "$found" ]; then ok "and what went wrong is reported"; else fail "expected a race in: $(head -n 3 "$tmp/findings")"; fi
}
# The matrix units that clef finds on a card.
units() { gpu env CLEF_GPU_CARD=$1 "$CLEF" devices --variants | sed -n 's/^ *matrix units: //p'; }
nothing_is_set_aside() { empty "$1nothing is set aside" "$(gpu "$CLEF" cache | grep -v "^Nothing is set aside" | grep "set aside")"; }
nothing_found() { empty "no kernel did anything wrong" "$(cat "$tmp/findings" 2>/dev/null)"; }
