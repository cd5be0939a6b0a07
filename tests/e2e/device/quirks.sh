#!/usr/bin/env bash
# Drivers that err in ways seen on real ones (tests/layers/quirk_layer.c): the text is that of a sound driver, or clef says why not.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
layer=$CLEF_BUILD/tests/quirk_layer.so
greedy="-p ROMEO: --temp 0 --ignore-eos -n 12 -q --print-ids"
export CLEF_TUNE=0 CLEF_CACHE_DIR=$tmp/cache CLEF_QUIRK_MET=$tmp/met
unset CLEF_PROOF CLEF_PROVER
if [ ! -e "$layer" ]; then skip "the layer $layer was not built"; fi

# As a GPU: kernels in groups of work-items, with local memory and barriers.
gpu=-cpu
want=$("$CLEF" run "$demo" $greedy)
if [ -z "$want" ]; then fail "a sound driver"; fi
rm -rf "$tmp/cache"
same "a sound driver, as a GPU" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu "$CLEF" run "$demo" $greedy)"

# with QUIRK COMMAND...: the command on a driver with the quirk
with() (
  export CLEF_QUIRK=$1 OPENCL_LAYERS=$layer
  shift
  "$@"
)
is_met() { # QUIRK: the layer changed something
  if grep -qx "${1%%=*}" "$tmp/met" 2>/dev/null; then ok "$1: met"; else fail "$1: was never met"; fi
}

# The drivers take turns, since each starts with empty caches. goes_on and refuses fail where it is not their turn.
number=0
due() { in_turn $((number++)) 47; }

# goes_on QUIRK CAPS [WORDS]: the same text from an empty cache, a notice with each of the words and no other; then again, without a
# notice.
goes_on() {
  local quirk=$1 word
  due || return 1
  rm -rf "$tmp/cache" "$tmp/met"
  export CLEF_DEBUG=$CLEF_DEBUG,caps=$2
  same "$quirk${2:+ ($2)}: the text" "$want" "$(with "$quirk" "$CLEF" run "$demo" $greedy 2>"$tmp/err")"
  is_met "$quirk"
  for word in ${3:-}; do
    word=${word//\~/ }
    if grep '^clef: ' "$tmp/err" | grep -qF -e "$word"; then ok "$quirk: says '$word'"; else fail "$quirk: expected '$word' in: $(cat "$tmp/err")"; fi
  done
  if [ -z "${3:-}" ]; then empty "$quirk: nothing to say" "$(grep '^clef: ' "$tmp/err")"; fi
  same "$quirk: a second start" "$want" "$(with "$quirk" "$CLEF" run "$demo" $greedy 2>"$tmp/err")"
  empty "$quirk: which says nothing" "$(grep '^clef: ' "$tmp/err")"
  CLEF_DEBUG=$CLEF_DEBUG,caps=
}

# refuses QUIRK CAPS WORDS: the last line on stderr says why, and no text comes.
refuses() {
  local quirk=$1 code=0 word
  due || return 1
  rm -rf "$tmp/cache" "$tmp/met"
  CLEF_DEBUG=$CLEF_DEBUG,caps=$2 with "$quirk" "$CLEF" run "$demo" $greedy >"$tmp/out" 2>"$tmp/err" || code=$?
  same "$quirk${2:+ ($2)}: refused" "1 " "$code $(cat "$tmp/out")"
  is_met "$quirk"
  for word in $3; do
    word=${word//\~/ }
    if tail -n 1 "$tmp/err" | grep '^clef: ' | grep -qF -e "$word"; then ok "$quirk: says '$word'"; else fail "$quirk: expected '$word' in: $(tail -n 1 "$tmp/err")"; fi
  done
  return 0
}

# ---- what the device says, and what it takes
for quirk in group=64 kernel_group=16 kernel_group=1; do
  goes_on $quirk $gpu "at~most~${quirk#*=}~work-items"
done
goes_on resources=64 $gpu "CL_OUT_OF_RESOURCES at~most~64~work-items"
goes_on local=4096 $gpu "gpu_flash CL_OUT_OF_RESOURCES set~aside"
if refuses local=1024 $gpu "panel_matmul CL_OUT_OF_RESOURCES no~others"; then
  check "local=1024: there are proofs" grep -q . "$tmp"/cache/proof/*
  empty "local=1024: smaller groups did not help, so none are launched" "$(cat "$tmp"/cache/proof/* | grep largest_group)"
  empty "local=1024: and nothing says so" "$(grep "work-items in a group" "$tmp/err")"
fi
for caps in "" $gpu; do
  goes_on align=4096 "$caps"
  goes_on no_fill "$caps"
  greedy="$greedy -b 64" goes_on alloc=1000000 "$caps" # a launch's scratch is one buffer
done
goes_on host_ptr=copy $gpu
goes_on host_ptr=refuse $gpu
mapped() { CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu "$@" plan "$demo" | grep -c "used where the file lies"; }
rm -rf "$tmp/cache" # which may hold verdicts on another driver
same "weights are used where the file lies" 1 "$(mapped "$CLEF")"
same "host_ptr=copy: but not if they would be copied" 0 "$(mapped with host_ptr=copy "$CLEF")"
refuses alloc_silent=1000000 "" "clCreateBuffer CL_INVALID_BUFFER_SIZE bytes max_alloc"
refuses memory=2000000 "" "clCreateBuffer CL_MEM_OBJECT_ALLOCATION_FAILURE its~driver~says"
refuses memory_late=2000000 "" "CL_MEM_OBJECT_ALLOCATION_FAILURE"
# NVIDIA's code for it is that of a kernel that faults.
refuses memory_late=300000:-5 $gpu "CL_OUT_OF_RESOURCES" &&
  empty "memory_late: no kernel is blamed" "$(awk 'NR > 2 && $4 != "right" && $4 != "untried" { print $2, $3, $4 }' "$tmp"/cache/proof/*)"
goes_on units=9999 $gpu
goes_on mhz=0 $gpu
goes_on flush=lazy $gpu
goes_on address_bits=32 ""
same "address_bits=32: 4 GiB of the 16 that it reports" "4294967295 4294967295" \
  "$(with address_bits=32 "$CLEF" devices --json | sed -n 's/.*"max_alloc_bytes": \([0-9]*\), "global_bytes": \([0-9]*\).*/\1 \2/p' | head -n 1)"
for name in cl_khr_fp16 cl_khr_subgroups cl_khr_integer_dot_product cl_intel_subgroup_matrix_multiply_accumulate; do
  goes_on extension=$name $gpu
done
# An emulated product of bytes is not even tried.
listed="extension=cl_khr_integer_dot_product,compiler=crash:void probe_dot("
goes_on "$listed" $gpu "probe_dot~crashes~the~driver"
goes_on "$listed,dot=slow" $gpu && is_met dot

# ---- a kernel that faults: it is set aside, and no other
prompt=$(head -c 420 "$CLEF_SOURCE/LICENSE" | tr -dc 'a-zA-Z ')
long() { "$CLEF" run "$demo" -p "$prompt" --temp 0 --ignore-eos -n 8 -q --print-ids; }
rm -rf "$tmp/cache"
export CLEF_DEBUG=$CLEF_DEBUG,caps=$gpu:-x86_amx
after=$(long)
rm -rf "$tmp/cache"
same "null_arg: no buffer argument is NULL" "$after" "$(with null_arg long 2>"$tmp/err")"
empty "null_arg: nothing to say" "$(cat "$tmp/err")"
for kernel in panel_gpu_gemv:"panel_matmul groups" panel_gpu_gemm:"panel_matmul groups" attention_gpu_decode:"cached_attention gpu_decode" \
  attention_gpu_flash:"cached_attention gpu_flash" pack_gpu:"pack groups"; do
  quirk=sticky=${kernel%%:*}
  due || continue
  rm -rf "$tmp/cache" "$tmp/met"
  same "$quirk: the text" "$after" "$(with "$quirk" long 2>"$tmp/err")"
  is_met "$quirk"
  same "$quirk: what failed" "${kernel#*:} faulted" "$(awk 'NR > 2 && $4 != "right" { print $2, $3, $4 }' "$tmp"/cache/proof/* | sort -u)"
  same "$quirk: what is said" "clef: ${kernel#*:} makes all later commands fail (CL_OUT_OF_RESOURCES)" "$(sed 's/ on .*//' "$tmp/err")"
done
# The second child's unit fails with it, and is innocent.
for kernel in panel_gpu_gemv:"panel_matmul groups" attention_gpu_decode:"cached_attention gpu_decode"; do
  quirk=reset=${kernel%%:*}
  due || continue
  rm -rf "$tmp/cache" "$tmp"/met*
  same "$quirk: the text" "$after" "$(with "$quirk" long 2>"$tmp/err")"
  is_met "$quirk"
  same "$quirk: what failed" "${kernel#*:} faulted" "$(awk 'NR > 2 && $4 != "right" { print $2, $3, $4 }' "$tmp"/cache/proof/* | sort -u)"
done
rm -f "$tmp"/met*
CLEF_DEBUG=$CLEF_DEBUG,caps=
refuses sticky=gather $gpu "gather faulted no~others"

with sticky=positions "$CLEF" selftest --op positions,rope -q >"$tmp/table" 2>"$tmp/err"
same "sticky=positions: the self-test's rows" "positions FAILED: rope ok" "$(awk 'NR > 1 { print $1, $6 }' "$tmp/table" | xargs)"

# ---- the compiler
for caps in "" $gpu; do
  goes_on denormals "$caps"
  goes_on fast_math "$caps"
done
for how in crash exit; do
  goes_on "compiler=$how:void attention_gpu_decode(" $gpu "gpu_decode~crashes~the~driver set~aside"
  goes_on "compiler=$how:probe_dot4" "" "probe_dot4~crashes~the~driver not~used"
done
# The kernels that measure a device are built by a child first, too.
for how in crash:measure_read exit:measure_dot; do
  due || continue
  rm -rf "$tmp/cache" "$tmp/met"
  with "compiler=$how" "$CLEF" bench --device -q >"$tmp/out" 2>"$tmp/err"
  same "compiler=$how: it is said which" 1 "$(grep -c "${how#*:} crashes the driver" "$tmp/err")"
  refused "compiler=$how: measuring" 1 "measure driver clear" with "compiler=$how" "$CLEF" bench --device -q
  is_met compiler
done
goes_on compiler=slow:200 ""
export CLEF_DEBUG=$CLEF_DEBUG,proof_seconds=4
goes_on "compiler=hang:void attention_gpu_decode(" $gpu "gpu_decode~does~not~come~back set~aside"
goes_on "compiler=hang:probe_dot4" "" "probe_dot4~does~not~come~back not~used"
CLEF_DEBUG=$CLEF_DEBUG,proof_seconds=

# ---- binaries of another version of the driver
rm -rf "$tmp/cache"
"$CLEF" run "$demo" $greedy >/dev/null
for how in refuse build kernel; do
  rm -f "$tmp/met"
  same "binaries=$how: the text" "$want" "$(with binaries=$how "$CLEF" run "$demo" $greedy 2>"$tmp/err")"
  empty "binaries=$how: nothing to say" "$(cat "$tmp/err")"
  is_met binaries=$how
done

# ---- profiling
for how in reversed untouched none; do
  rm -f "$tmp/met"
  same "times=$how: the text" "$want" "$(with times=$how "$CLEF" run "$demo" $greedy --profile 2>"$tmp/err" | tail -n 1)"
  is_met times=$how
  if grep -q 'gives no times, or impossible ones, for' "$tmp/err"; then ok "times=$how: it is said"; else fail "times=$how: expected a notice in: $(head -n 3 "$tmp/err")"; fi
  impossible=$(grep -v '^clef: ' "$tmp/err" | grep -E '[0-9]{7}|nan|inf|-[0-9]' | head -n 2) # a notice has the device's name
  empty "times=$how: no impossible times" "$impossible"
done

# A misspelt quirk would test nothing.
code=0
with algin=4096 "$CLEF" devices >/dev/null 2>"$tmp/err" || code=$?
same "an unknown quirk" "3 CLEF_QUIRK: unknown 'algin=4096'" "$code $(cat "$tmp/err")"
finish
