# What happens when a rank is killed, stopped, hangs or ends: one line says which, and all ranks end.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_RANK_TIMEOUT=5
# A rank is lost after 5 s. The rest of this is for a busy machine.
limit=300

pids() { awk '$1 == "rank" { print $3 }' "$tmp/out"; }

# start N_RANKS MODE [FILE]: in the background, until every rank has said its process id.
start() {
  local n=$1 tries=3000
  shift
  : >"$tmp/out"
  "${ranks[@]}" -n "$n" "$CLEF_BUILD/tests/rank_with_fault_mpi" "$library" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
  mpirun_pid=$!
  while [ "$(pids | wc -l)" -lt "$n" ] && kill -0 $mpirun_pid 2>/dev/null && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
}

# signal_to RANK SIGNAL
signal_to() { kill -"$2" "$(awk -v rank="$1" '$1 == "rank" && $2 == rank { print $3 }' "$tmp/out")"; }

# Processes that are there and have not ended. A zombie has ended; nobody has asked for its exit code yet.
living() {
  local pid
  for pid in "$@"; do
    case $(awk '{ print $3 }' "/proc/$pid/stat" 2>/dev/null) in '' | Z | X) ;; *) echo "$pid" ;; esac
  done
}

# ends NAME LINE: mpirun fails, no rank stays, and stderr has the line (a pattern of grep -E) once.
ends() {
  local name=$1 line=$2 begin=$SECONDS code=0 tries
  while [ -n "$(living $mpirun_pid)" ] && [ $((SECONDS - begin)) -lt $limit ]; do sleep 0.1; done
  if [ -n "$(living $mpirun_pid)" ]; then
    fail "$name: mpirun still runs after $limit s"
    # shellcheck disable=SC2046
    kill -9 $mpirun_pid $(pids)
    return
  fi
  wait $mpirun_pid || code=$?
  tries=600
  # shellcheck disable=SC2046
  while [ -n "$(living $(pids))" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
  # shellcheck disable=SC2046
  empty "$name: no rank stays" "$(living $(pids))"
  if [ $code -gt 0 ]; then ok "$name: exit $code"; else fail "$name: mpirun exited with 0"; fi
  [ -n "$line" ] || return
  same "$name: one line" 1 "$(grep -cE "$line" "$tmp/err")"
  grep -E "$line" "$tmp/err" | head -n 1
}

start 2 sums
signal_to 1 KILL
ends "a rank is killed" "" # mpirun notices first, and ends the others

start 2 sums
signal_to 1 STOP
ends "a rank is stopped" "^clef: rank 1 on .+ is lost \(last: step [0-9]+\)$"

start 3 wait
signal_to 0 STOP
ends "the first rank is stopped, and others wait for it" "^clef: rank 0 on .+ is lost \(last: step 0\)$"

start 3 words
signal_to 2 STOP
ends "what is called before the end does not return" "^clef: rank 2 on .+ is lost \(last: step [0-9]+\)$"
same "it was called once" 1 "$(grep -c "^last words$" "$tmp/out")"

start 2 abort
ends "a rank ends all" "^clef: the model does not fit$"

start 2 taken
ends "a callback is taken away" "^clef: the model does not fit$"
same "it was called" 1 "$(grep -c "^before the end$" "$tmp/out")"
same "and whoever takes it away waits for it" 0 "$(grep -c "^taken away while it runs$" "$tmp/out")"

start 2 twice "$tmp/ends"
ends "a rank ends all after it has said why" "^clef: the reason$"
same "and no other rank says anything" 1 "$(grep -c "^clef: " "$tmp/err")"

start 2 exit
ends "a rank ends by itself" ""

# A rank that does not come: rank 0 is another program.
: >"$tmp/out"
CLEF_RANK_START=3 "${ranks[@]}" -n 1 sleep 1000 : -n 1 "$CLEF_BUILD/tests/rank_with_fault_mpi" "$library" sums >"$tmp/out" 2>"$tmp/err" </dev/null &
mpirun_pid=$!
ends "a rank does not come" "^clef: the ranks have not met within 3 s \(CLEF_RANK_START\)$"

# Ranks that were stopped together go on together: nobody counts the time in which it was stopped itself.
CLEF_RANK_TIMEOUT=8 start 3 sums
# shellcheck disable=SC2046
kill -STOP $(pids)
sleep 11
# shellcheck disable=SC2046
kill -CONT $(pids)
sleep 5
# shellcheck disable=SC2046
same "ranks that were stopped go on" 3 "$(living $(pids) | wc -l)"
empty "and nobody complains" "$(cat "$tmp/err")"
kill $mpirun_pid
wait $mpirun_pid

# A rank that waits leaves its core to others: below a tenth of a core, which is much more than it takes.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
start 2 wait
waiting=$(awk '$2 == 1 { print $3 }' "$tmp/out")
before=$(ticks "$waiting")
sleep 5
used=$(($(ticks "$waiting") - before))
if [ $used -lt $((5 * $(getconf CLK_TCK) / 10)) ]; then ok "waiting for 5 s takes $used ticks"; else fail "waiting for 5 s takes $used ticks"; fi
kill $mpirun_pid
wait $mpirun_pid
finish
