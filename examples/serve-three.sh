#!/usr/bin/env bash
# Starts three `clef serve` and HAProxy in front of them, on free ports of this machine, and stops them all on Ctrl-C.
# A server that fails is started again.
#
# usage: examples/serve-three.sh [MODEL] [FLAGS OF clef serve]
#   Without a model it serves the small one that comes with clef.
#   PORT=8080         the port of HAProxy; otherwise a free one, which is printed
#   CLEF=build/clef   the command; otherwise the build in this folder, or the one on the path
# It needs haproxy (Debian: apt-get install haproxy).
set -euo pipefail
set -m # each program has a process group of its own, so that Ctrl-C reaches this script alone

here=$(cd "$(dirname "$0")" && pwd)
clef=${CLEF:-}
if [ -z "$clef" ]; then
  clef=$here/../build/clef
  [ -x "$clef" ] || clef=clef
fi
PATH=$PATH:/usr/sbin # Debian has haproxy there
for program in "$clef" haproxy; do
  command -v "$program" >/dev/null || { echo "serve-three: expected the program $program" >&2; exit 1; }
done

# All requests come from HAProxy, which names the client in X-Forwarded-For.
flags=(--proxy 127.0.0.1)
case ${1:--} in
  -*) flags+=(--chat-template chatml) ;; # the model that comes with clef has no template of its own
esac

folder=$(mktemp -d)
names=(a b c)
ports=(0 0 0) # 0: any
pids=()
proxy=

# shellcheck disable=SC2317 # the trap calls it
stop_all() {
  trap '' INT TERM HUP
  # HAProxy first: the servers end when their requests have.
  [ -z "$proxy" ] || kill "$proxy" 2>/dev/null || :
  [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || :
  wait 2>/dev/null || :
  rm -rf "$folder"
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

failed() {
  echo "serve-three: $1" >&2
  [ ! -s "$2" ] || tail -n 20 "$2" >&2
  exit 1
}
# A pause that a signal ends.
pause() { sleep "$1" & wait $! || :; }

# get PORT PATH: prints the status of the reply.
get() {
  (
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
    read -r _ status _ <&3 && echo "$status"
  ) 2>/dev/null || :
}

# start NUMBER [MODEL] [FLAGS]: starts a server; its port stays the same when it is started again.
start() {
  local i=$1
  shift
  : >"$folder/${names[i]}.out"
  "$clef" serve "$@" "${flags[@]}" --port "${ports[i]}" >"$folder/${names[i]}.out" 2>>"$folder/${names[i]}.log" </dev/null &
  pids[i]=$!
}

# await NUMBER: waits until a server answers.
await() {
  local i=$1 log=$folder/${names[$1]}.log
  until [ "${ports[i]}" != 0 ] && [ "$(get "${ports[i]}" /health)" = 200 ]; do
    kill -0 "${pids[i]}" 2>/dev/null || failed "server ${names[i]} ended" "$log"
    ports[i]=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$folder/${names[i]}.out")
    ports[i]=${ports[i]:-0}
    pause 0.1
  done
  echo "server ${names[i]}: http://127.0.0.1:${ports[i]}, process ${pids[i]}"
}

# A model that is new to this machine has its kernels compiled once: the first server does it, and the others find them.
start 0 "$@"
await 0
start 1 "$@"
start 2 "$@"
await 1
await 2

export HA_TRIAL=1 HA_SOCKET=$folder/admin.sock
export HA_A=127.0.0.1:${ports[0]} HA_B=127.0.0.1:${ports[1]} HA_C=127.0.0.1:${ports[2]}
for _ in 1 2 3 4 5 6 7 8; do
  port=${PORT:-$((20000 + RANDOM % 10000))}
  stats=$((30000 + RANDOM % 2000))
  export HA_ADDRESS=127.0.0.1:$port HA_STATS=127.0.0.1:$stats
  haproxy -db -f "$here/haproxy.cfg" >"$folder/haproxy.log" 2>&1 </dev/null &
  proxy=$!
  while kill -0 "$proxy" 2>/dev/null && [ "$(get "$port" /health)" != 200 ]; do pause 0.1; done
  if kill -0 "$proxy" 2>/dev/null; then break; fi
  if [ -n "${PORT:-}" ] || ! grep -qi 'cannot bind' "$folder/haproxy.log"; then
    failed "haproxy ended" "$folder/haproxy.log"
  fi
  proxy=
done
[ -n "$proxy" ] || failed "found no free port" "$folder/haproxy.log"
echo "states: http://127.0.0.1:$stats, runtime API: $HA_SOCKET, logs: $folder"
echo "listening on http://127.0.0.1:$port (Ctrl-C stops all)"

while kill -0 "$proxy"; do
  for i in 0 1 2; do
    if [ -z "${pids[i]:-}" ] || kill -0 "${pids[i]}"; then continue; fi
    code=0
    wait "${pids[i]}" || code=$?
    unset "pids[i]"
    # Like Restart=on-failure of systemd: a server that ended by itself stays ended.
    if [ $code -eq 0 ]; then echo "server ${names[i]} has ended"; continue; fi
    echo "server ${names[i]} ended with code $code; it is started again"
    start "$i" "$@"
  done
  pause 0.5
done 2>/dev/null # what bash itself says of programs that end
failed "haproxy ended" "$folder/haproxy.log"
