# clef serve on ranks of which one is lost: each request gets an answer before the server ends. What has not begun gets status 503 and an error as
# JSON; a stream that has begun ends with an error.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
[ -d /proc/self ] || skip "no /proc here, so no way to find the ranks"
command -v curl >/dev/null || skip "no curl here"
demo=$CLEF_SOURCE/share/demo

address() { sed -n 's/.*listening on \(http[^ ]*\).*/\1/p' "$tmp/out" | head -n 1; }
is_ready() { [ -n "$(address)" ] && curl -fs "$(address)/health" >/dev/null; }
has_begun() { grep -q "^HTTP/1.1 200" "$tmp/stream.head" 2>/dev/null; }
# Two requests wait behind the stream, and the embedding, which waits for the engine, too, counts as running.
has_all() { curl -fs "$(address)/metrics" | awk '$1 == "clef_requests_waiting" { w = $2 } $1 == "clef_requests_running" { r = $2 } END { exit !(w == 2 && r == 1) }'; }
# ask NAME STREAM: $tmp/NAME.code becomes the status, NAME.body the reply, NAME.head its headers
ask() {
  : >"$tmp/$1.head"
  curl -sN -D "$tmp/$1.head" -o "$tmp/$1.body" -w '%{http_code}' "$(address)/v1/completions" -H "Content-Type: application/json" \
    -d '{"prompt":"ROMEO:","max_tokens":100,"ignore_eos":true,"temperature":0,"stream":'"$2"'}' >"$tmp/$1.code" 2>/dev/null &
  asked="$asked $!"
}

# lose NAME SIGNAL N LINE: the last of N ranks gets the signal, and three requests come: a stream, which begins; one that waits behind it; and an
# embedding. A killed rank is noticed at once by mpirun, so the requests come before.
lose() {
  local name=$1 signal=$2 n=$3 line=$4 last
  asked=
  rm -f "$tmp"/*.code "$tmp"/*.body "$tmp"/*.head
  start "$n" serve "$demo" --port 0 --max-seqs 1
  until_true is_ready
  pids=$(pids_of "$launcher")
  same "$name: $n ranks" "$n" "$(echo "$pids" | wc -w)"
  last=$(pid_of "$launcher" $((n - 1)))
  kill -STOP "$last"
  ask stream true
  until_true has_begun
  ask one false
  ask two true
  curl -sN -D "$tmp/embed.head" -o "$tmp/embed.body" -w '%{http_code}' "$(address)/v1/embeddings" -H "Content-Type: application/json" \
    -d '{"input":"ROMEO:"}' >"$tmp/embed.code" 2>/dev/null &
  asked="$asked $!"
  until_true has_all
  kill -"$signal" "$last"
  ends "$name" "$line"
  # shellcheck disable=SC2086
  wait $asked
  same "$name: a request gets" 503 "$(cat "$tmp/one.code")"
  same "$name: a stream that has not begun" 503 "$(cat "$tmp/two.code")"
  same "$name: an embedding" 503 "$(cat "$tmp/embed.code")"
  for reply in one two embed; do
    same "$name: the error" 1 "$(grep -c '^{"error":{.*"code":"\?[a-z0-9]*"\?.*}}\?$' "$tmp/$reply.body")"
  done
  same "$name: a stream that has begun" 200 "$(cat "$tmp/stream.code")"
  same "$name: its last event" 1 "$(grep "^data: " "$tmp/stream.body" | tail -n 1 | grep -c '^data: {"error":{.*one of its ranks')"
}
export CLEF_RANK_TIMEOUT=20 # so that the requests come in time on a busy machine, too
lose "a rank is stopped" STOP 2 "^clef: rank 1 on .* is lost \(last: "
lose "a rank of three is stopped" STOP 3 "^clef: rank 2 on .* is lost \(last: "
# Open MPI kills the others a second after it has asked them to end. On a busy machine the replies may take longer.
[ ${#mpirun[@]} -gt 1 ] && mpirun+=(--mca odls_base_sigkill_timeout 5)
lose "a rank is killed" KILL 2 ""

# Who ends mpirun ends the server. Open MPI may kill the ranks before a request is answered.
asked=
rm -f "$tmp"/*.code "$tmp"/*.body "$tmp"/*.head
start 2 serve "$demo" --port 0 --max-seqs 1
until_true is_ready
pids=$(pids_of "$launcher")
kill -STOP "$(pid_of "$launcher" 1)"
ask one false
sleep 1
kill -TERM "$launcher"
ends "mpirun is ended" ""
# shellcheck disable=SC2086
wait $asked
finish
