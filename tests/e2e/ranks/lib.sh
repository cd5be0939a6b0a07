# shellcheck shell=bash
# Sourced by scripts beside it, after tests/e2e/lib.sh: how ranks are started, and how runs end in which one is killed or stopped.
command -v mpirun >/dev/null || skip "no mpirun here (Debian: openmpi-bin)"
[ -f "$CLEF_BUILD/libclef_mpi.so" ] || skip "built without MPI"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 CLEF_TUNE=0
# With a sanitizer the module is not found beside the library. The leaks are those of MPI.
export CLEF_MPI=$CLEF_BUILD/libclef_mpi.so ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
mpirun=(mpirun)
mpirun --version 2>/dev/null | grep -q "Open MPI" && mpirun=(mpirun --oversubscribe --bind-to none)
# A rank that a busy machine stops for a while is not to be lost, nor a start that is slow. Tests of lost ranks have limits of their own.
export CLEF_RANK_TIMEOUT=60 CLEF_RANK_START=1800
# A rank is lost after 5 s, and all have ended within 10 s on an idle machine. The rest of this is for a busy one.
limit=300

# start N COMMAND...: N ranks in the background; $launcher is their mpirun.
start() {
  local n=$1
  shift
  "${mpirun[@]}" -n "$n" "$CLEF" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
  launcher=$!
}

# Processes that are there and have not ended. A zombie has ended; nobody has asked for its exit code yet.
living() {
  local pid
  for pid in "$@"; do
    case $(sed 's/.*) //; s/ .*//' "/proc/$pid/stat" 2>/dev/null) in '' | Z | X) ;; *) echo "$pid" ;; esac
  done
}

# pids_of LAUNCHER: its ranks, the lowest first; pid_of LAUNCHER RANK
pids_of() { local pid; for pid in $(pgrep -P "$1"); do tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -q '^OMPI_COMM_WORLD_RANK=' && echo "$pid"; done; }
pid_of() { local pid; for pid in $(pgrep -P "$1"); do tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -q "^OMPI_COMM_WORLD_RANK=$2\$" && echo "$pid"; done; }

# until COMMAND...: waits for up to five minutes until it succeeds
until_true() { local tries=3000; while ! "$@" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done; }

# ends NAME LINE: mpirun fails, no rank stays, and stderr has one line LINE (a pattern of grep -E) of clef's; "" where mpirun may come first.
# $pids are the ranks. Says how long it took, since the file $tmp/signalled was made where there is one.
ends() {
  local name=$1 line=$2 begin code=0 took
  begin=$(date +%s%N)
  while [ -n "$(living "$launcher" $pids)" ] && [ $((($(date +%s%N) - begin) / 1000000000)) -lt $limit ]; do sleep 0.1; done
  took=$(date +%s%N)
  [ -e "$tmp/signalled" ] && begin=$(date -r "$tmp/signalled" +%s%N)
  empty "$name: neither mpirun nor a rank stays ($(((took - begin) / 1000000)) ms)" "$(living "$launcher" $pids)"
  # shellcheck disable=SC2046
  [ -z "$(living "$launcher" $pids)" ] || kill -9 $(living "$launcher" $pids)
  wait "$launcher" 2>/dev/null || code=$?
  if [ $code -gt 0 ]; then ok "$name: exit $code"; else fail "$name: mpirun exited with 0"; fi
  [ -n "$line" ] || return
  same "$name: one line" 1 "$(grep -c '^clef: rank' "$tmp/err")"
  if grep -qE "$line" "$tmp/err"; then ok "$name: $(grep -E "$line" "$tmp/err")"; else fail "$name: expected '$line'"; head -n 5 "$tmp/err"; fi
}

# until_served LOG: waits until the server $server answers; $address becomes its address.
until_served() {
  for _ in $(seq 3000); do
    address=$(sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$1" | head -n 1)
    [ -n "$address" ] && curl -fs "$address/health" >/dev/null && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
}
