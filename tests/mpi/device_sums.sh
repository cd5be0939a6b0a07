# Sums by the devices of two ranks: right beside sums by the host, and part of the fused step.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/lib.sh"
[ "$(nproc)" -ge 2 ] || skip "two ranks have one core"
export CLEF_MPI=$library
program=("${ranks[@]}" -n 2 "$CLEF_BUILD/tests/device_sums_mpi")

"${program[@]}" >"$tmp/out" 2>"$tmp/err" </dev/null
same "the test program ends" 0 $?
same "both ranks sum by their devices, and right" 2 "$(grep -cE '^rank [01]: 0 wrong, [1-9][0-9]* of 400 by the device$' "$tmp/out")"
same "rank_fused=0: the host sums" none "$(CLEF_DEBUG=${CLEF_DEBUG:-},rank_fused=0 "${program[@]}" 2>>"$tmp/err" </dev/null)"
same "with fewer cores than ranks the host sums" none "$(taskset -c 0 "${program[@]}" 2>>"$tmp/err" </dev/null)"
if [ -s "$tmp/err" ]; then tail -n 5 "$tmp/err"; fi

# text N NAME: a text of N tokens; launches NAME: how many kernels the second rank has enqueued for it.
text() {
  # shellcheck disable=SC2016
  "${ranks[@]}" -n 2 sh -c 'OPENCL_LAYERS=$1 CLEF_LAYER_OUT=$2.$OMPI_COMM_WORLD_RANK exec "$3" run -p "Once upon a time" -n "$4" --temp 0 -q' \
    _ "$CLEF_BUILD/tests/count_layer.so" "$tmp/$2" "$CLEF_BUILD/clef" "$1" 2>"$tmp/err" </dev/null
}
launches() { awk '$1 == "clEnqueueNDRangeKernel" { print $2 }' "$tmp/$1.1"; }
text 4 first >/dev/null # it builds the fused step
export CLEF_DEBUG=background=0
text 10 short >/dev/null
long=$(text 30 long)
same "the text is that of sums by the host" "$(CLEF_DEBUG=${CLEF_DEBUG:-},rank_fused=0 text 30 apart)" "$long"
# The step, the logits' gathering by the host, and the choice of the token.
same "a token takes two launches" 40 $(($(launches long) - $(launches short)))
finish
