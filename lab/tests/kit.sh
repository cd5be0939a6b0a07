#!/usr/bin/env bash
# The kit for a machine with a GPU (tools/gpu-kit) on PoCL, by a clef of this build: sound, with a kernel after which everything fails, with
# a compiler that crashes, and with one that hangs. lab/kit/rehearse has the whole plan, in a system where nothing is installed.
. "$(dirname "$0")/../../tests/e2e/lib.sh"
[ "$(uname -m)" = x86_64 ] || skip "the kit is for x86-64"
layer=$CLEF_BUILD/tests/quirk_layer.so
[ -e "$layer" ] || skip "the layer $layer was not built"
for name in libOpenCL.so.1 libclblast.so.1; do /sbin/ldconfig -p | grep -q "$name" || skip "$name is not installed"; done
export CLEF_KIT_DIR=$tmp CLEF_KIT_SHAPE=tiny CLEF_KIT_PATIENCE=20 POCL_CACHE_DIR=${POCL_CACHE_DIR:-$HOME/.cache/pocl/kcache}
check "tools/gpu-kit" "$CLEF_SOURCE/tools/gpu-kit" --from "$CLEF_BUILD"
kit=$tmp/clef-gpu-kit

# exit_of STEP: what it ended with
exit_of() { awk -F, -v step="$1" '$2 == step { print $3 }' "$out/steps.csv"; }
# of_log STEP: what it printed
of_log() { awk -v step="$1:" '$1 == "==" { inside = $2 == step; next } inside' "$out/log.txt"; }

# run CASE QUIRK SECONDS STEPS: a run of these steps, whose files are whole
run() {
  out=$tmp/$1
  check "$1: the run" env CLEF_KIT_SECONDS="$3" CLEF_KIT_ONLY="list info devices cache $4" ${2:+OPENCL_LAYERS=$layer} CLEF_QUIRK="$2" \
    "$kit/run" "$out"
  check "$1: its results can be read" "$CLEF_PYTHON" "$CLEF_SOURCE/lab/kit/read_results.py" "$out" --brief
  cp "$tmp/check.log" "$tmp/$1.read"
}
: "${CLEF_PYTHON:=python3}"

CLEF_TUNE=0 CLEF_PROOF=0 run sound "" 3000 "probe_fp16_listed probe_null_argument probe_groups probe_store probe_illegal_address selftest_neg text bench_without_matrix"
for step in list info devices probe_fp16_listed probe_null_argument probe_groups probe_store selftest_neg text bench_without_matrix cache; do
  same "sound: $step" 0 "$(exit_of $step)"
done
same "sound: a probe that crashes" 139 "$(exit_of probe_illegal_address)"
same "sound: what it said before" "illegal_address: a launch that writes where there is no memory" "$(of_log probe_illegal_address | head -n 1)"
same "sound: a group of one kernel" "groups: a kernel: 32 of 32 right" "$(of_log probe_groups | tail -n 1)"
check "sound: the device's table" grep -q '^CL_DEVICE_NAME .' "$out/info.txt"
same "sound: few files" 1 "$(($(find "$out" -type f | wc -l) <= 8))"
check "sound: the device is read" grep -q '^device name ' "$tmp/sound.read"

CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu:-x86_amx run sticky sticky=panel_gpu_gemv 3000 "text selftest_neg"
same "sticky: the text is right all the same" 0 "$(exit_of text)"
same "sticky: what is set aside is among the results" 1 "$(of_log cache | grep -c 'panel_matmul.*groups')"
check "sticky: the proofs are in the archive" tar --list --gzip --file "$out/state.tar.gz" cache/proof

run crash "compiler=crash:void probe(" 3000 "probe_groups probe_fp16_listed"
same "crash: the step" 134 "$(exit_of probe_groups)"
same "crash: the next" 0 "$(exit_of probe_fp16_listed)"

CLEF_KIT_PATIENCE=1 run hang compiler=hang:void 45 "probe_groups probe_half probe_fp16_listed text"
for step in probe_groups probe_half text; do # on a busy machine there may be no time for the last
  same "hang: $step" late "$(exit_of $step | sed 's/^124$\|^137$\|^-$/late/')"
done
check "hang: each step has an end" test -n "$(exit_of probe_fp16_listed)"
empty "hang: nothing is left running" "$(ps ax -o args | grep -F "$kit" | grep -v grep)"

export CLEF_KIT_SECONDS=3000
check "again: the steps that failed" "$kit/again" "$tmp/again" --failed "$tmp/crash/steps.csv"
same "again: those alone" "devices info list probe_groups" "$(awk -F, 'NR > 1 { print $2 }' "$tmp/again/steps.csv" | grep -v '^cache\|^drivers\|^dmesg' | sort | paste -sd' ')"
finish
