# Two hosts with a cable of 1 Gbit/s, made by examples/mpi-two-hosts.sh: every call, and a rank on the other host that is stopped.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_RANK_TIMEOUT=5
[ "$(id -u)" -eq 0 ] || skip "needs root"
ip netns add clef-try-$$ 2>/dev/null || skip "no network namespaces here"
ip netns delete clef-try-$$
hosts=$CLEF_SOURCE/examples/mpi-two-hosts.sh

code=0
"$hosts" -q -r 1gbit "$CLEF_BUILD/tests/test_transport_mpi" "$library" >"$tmp/out" 2>"$tmp/err" </dev/null || code=$?
sed 's/$/, two hosts/' "$tmp/out"
same "the exit code of the command" 0 "$code"
same "the exit code of a command that fails" 3 "$("$hosts" -q sh -c 'exit 3' >/dev/null 2>&1; echo $?)"
same "the names of the hosts" "host-a host-b " "$("$hosts" -q hostname 2>/dev/null | sort | tr '\n' ' ')"

"$hosts" -q "$CLEF_BUILD/tests/rank_with_fault_mpi" "$library" sums >"$tmp/out" 2>"$tmp/err" </dev/null &
pid=$!
for _ in $(seq 3000); do [ "$(grep -c '^rank' "$tmp/out")" -eq 2 ] && break; sleep 0.1; done
kill -STOP "$(awk '$2 == 1 { print $3 }' "$tmp/out")"
code=0
wait $pid || code=$?
same "a rank of the other host is stopped" "clef: rank 1 on host-b is lost" "$(grep -oE '^clef: rank 1 on host-b is lost' "$tmp/err")"
if [ $code -gt 0 ]; then ok "the run fails"; else fail "the run exits with 0"; fi
empty "the hosts are gone" "$(ip netns list | grep "clef-[ab]-$pid")"
finish
