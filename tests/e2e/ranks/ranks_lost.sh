# A rank that is killed (SIGKILL) or stopped (SIGSTOP) while a model is loaded, and in training: all ranks end, stderr names the rank and its host,
# no process stays, and training goes on from its last checkpoint.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
[ -d /proc/self ] || skip "no /proc here, so no way to find the ranks"
demo=$CLEF_SOURCE/share/demo
export CLEF_TEST_MPI=$CLEF_BUILD/libclef_mpi.so CLEF_TEST_SIGNALLED=$tmp/signalled CLEF_MARK=$tmp CLEF_RANK_TIMEOUT=5
[ -f "$CLEF_BUILD/tests/libfaulty_module.so" ] || skip "built without tests of MPI"
kill=9 stop=19

# Processes of clef and of mpirun that these tests started and that have not ended: children that prove kernels, too.
left() {
  local at
  for at in /proc/[0-9]*; do
    case $(cat "$at/comm" 2>/dev/null) in clef | mpirun | orted) ;; *) continue ;; esac
    tr '\0' '\n' 2>/dev/null <"$at/environ" | grep -qFx "CLEF_MARK=$tmp" && living "${at#/proc/}"
  done
}
none_left() { [ -z "$(left)" ]; }

# lost NAME RANK: what was started ends, with a line that names the rank: clef's, or mpirun's where a process was killed.
lost() {
  local name=$1 rank=$2
  pids=
  ends "$name" ""
  rm -f "$tmp/signalled"
  until_true none_left
  empty "$name: no process stays" "$(left)"
  if [ "$(grep -cE "^clef: rank $rank on .+ is lost \(last: " "$tmp/err")" -eq 1 ]; then ok "$name: $(grep '^clef: rank' "$tmp/err")"
  elif [ "$(grep -cE "process rank $rank with PID .* on node .* exited on signal 9" "$tmp/err")" -eq 1 ]; then ok "$name: $(grep 'on signal 9' "$tmp/err")"
  else fail "$name: expected a line that names rank $rank"; head -n 8 "$tmp/err"; fi
}

# loading NAME N RANK SIGNAL NTH CALL: the rank gets the signal in this call while the model is loaded
loading() {
  local name=$1 n=$2 rank=$3 signal=$4 nth=$5 call=$6
  CLEF_MPI=$CLEF_BUILD/tests/libfaulty_module.so CLEF_TEST_SIGNAL="$rank $signal $nth $call" start "$n" run "$demo" -p ROMEO: -n 4 -q
  lost "$name" "$rank"
}
loading "loading, a rank is killed" 2 1 $kill 1 "making plan"
loading "loading, a rank is stopped" 2 1 $stop 1 "making plan"
loading "loading, rank 0 is stopped" 3 0 $stop 1 "making plan"
loading "loading, rank 0 is killed" 3 0 $kill 1 "making plan"
# Nothing is in the cache: kernels are compiled, and children prove them. The first ones wait until the rank has its signal, so that it comes in time.
# They are processes of clef's name meanwhile.
mkdir "$tmp/prover"
cat >"$tmp/prover/clef" <<'END'
#!/bin/sh
until [ -e "$CLEF_MARK/signalled" ]; do sleep 0.1; done
exec "$CLEF" "$@"
END
chmod +x "$tmp/prover/clef"
has_child() {
  local child
  for child in $(pgrep -P "$(pid_of "$launcher" 1)" 2>/dev/null); do
    tr '\0' ' ' 2>/dev/null <"/proc/$child/cmdline" | grep -q "prover/clef selftest --prove" && return
  done
  return 1
}
for signal in KILL STOP; do
  CLEF_PROVER=$tmp/prover/clef CLEF_CACHE_DIR=$tmp/cache-$signal start 2 run "$demo" -p ROMEO: -n 4 -q
  until_true has_child
  kill -$signal "$(pid_of "$launcher" 1)"
  touch "$tmp/signalled"
  lost "children prove kernels, a rank gets SIG$signal" 1
done

# ---- training --------------------------------------------------------------------------------------------------
awk 'BEGIN { for (i = 0; i < 3000; i++) { a = i * 7 % 10; b = i * 3 % 10; printf "%d + %d = %d\n", a, b, a + b } }' >"$tmp/sums.txt"
echo '{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}' >"$tmp/gpt2.json"
flags=(--new "$tmp/gpt2.json" --tokenizer train:300 --data "$tmp/sums.txt" -c 32 -b 8 -r 0.01 --schedule constant --warmup 2 --eval-every 0 -q)
has_stepped() { grep -q '"step": 25,' "$tmp/trained.train/log.jsonl" 2>/dev/null; }
training() {
  local name=$1 rank=$2 signal=$3 step
  rm -rf "$tmp/trained" "$tmp/trained.train"
  start 2 train "${flags[@]}" --checkpoint-every 10 -n 1000000 -o "$tmp/trained"
  until_true has_stepped
  kill -"$signal" "$(pid_of "$launcher" "$rank")"
  lost "$name" "$rank"
  step=$(grep -o '"step": [0-9]*' "$tmp/trained.train/log.jsonl" | tail -n 1 | tr -dc 0-9)
  check "$name: its checkpoint is good" "$CLEF" train "${flags[@]}" --checkpoint-every 10 -n $((step + 5)) --resume -o "$tmp/trained"
  same "$name: one step after the other" "$(seq -s ' ' 1 $((step + 5)))" \
    "$(grep '"event": "step"' "$tmp/trained.train/log.jsonl" | sed 's/.*"step": \([0-9]*\),.*/\1/' | sort -n | uniq | tr '\n' ' ' | sed 's/ $//')"
  check "$name: the model runs" "$CLEF" run "$tmp/trained" -p "3 + 4 = " -n 4 -q
}
training "training, a rank is killed" 1 KILL
training "training, a rank is stopped" 1 STOP
training "training, rank 0 is killed" 0 KILL
training "training, rank 0 is stopped" 0 STOP
finish
