# The calls of the transport over MPI: by the way that is measured to be the fastest, by each way, and over TCP. usage: transport.sh N_RANKS
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/lib.sh"

# run NAME COMMAND...: the lines of the test program, with NAME at their ends.
run() {
  local name=$1 code=0
  shift
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
  sed "s/\$/, $name/" "$tmp/out"
  if [ $code -ne 0 ] || [ "$(grep -c '^ok' "$tmp/out")" -eq 0 ]; then fail "$name exited $code"; tail -n 20 "$tmp/err"; fi
}
test_of=("${ranks[@]}" -n "$1")
program=("$CLEF_BUILD/tests/test_transport_mpi" "$library")
run "the fastest way" "${test_of[@]}" "${program[@]}"
for way in messages messages-scatter shared shared-scatter; do
  CLEF_DEBUG=${CLEF_DEBUG:-},rank_sum=$way run "$way" "${test_of[@]}" "${program[@]}"
done
for eager in 0 1; do
  CLEF_DEBUG=${CLEF_DEBUG:-},rank_shared=0,rank_eager=$eager run "messages, eager $eager" "${test_of[@]}" "${program[@]}"
done
[ ${#over_tcp[@]} -gt 0 ] && CLEF_DEBUG=${CLEF_DEBUG:-},rank_shared=0 run "TCP" "${test_of[@]}" "${over_tcp[@]}" "${program[@]}"
finish
