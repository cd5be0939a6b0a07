# The bundled model gives PyTorch's ids (share/demo/expected.json), as ids and as text; and `clef run` behaves.
. "$(dirname "$0")/../lib.sh"
expected=$CLEF_SOURCE/share/demo/expected.json
greedy="--temp 0 --ignore-eos -n 100 -q"

for i in 1 2 3; do
  prompt=$(json_case "$expected" prompt $i)
  prompt=${prompt%x}
  ids=$(json_case "$expected" prompt_ids $i)
  new=$(json_case "$expected" new_ids $i)
  same "case $i tokenized" "[${ids%x}]" "$("$CLEF" tokenize "$CLEF_SOURCE/share/demo" "$prompt" | tr -d ' ')"
  for gemm in own clblast; do
    [ $gemm = clblast ] && [ -z "$(nm -D "$CLEF_BUILD/libclef.so" | grep CLBlast)" ] && continue
    same "case $i by ids, $gemm" "${new%x}" "$("$CLEF" run --ids "${ids%x}" $greedy --print-ids --gemm $gemm)"
  done
  same "case $i by text" "${new%x}" "$("$CLEF" run -p "$prompt" $greedy --print-ids)"
  same "case $i in steps of 2" "${new%x}" "$("$CLEF" run -p "$prompt" $greedy --print-ids -b 2)"
  same "case $i as text" "$(json_case "$expected" text $i)" "$("$CLEF" run -p "$prompt" $greedy; printf x)"
done

prompt=$(json_case "$expected" prompt 1)
same "--echo puts the prompt before" "$prompt" "$("$CLEF" run --echo -p "${prompt%x}" -n 0 -q; printf x)"
printf %s "${prompt%x}" >"$tmp/prompt"
same "-f is -p" "$("$CLEF" run -p "${prompt%x}" $greedy)" "$("$CLEF" run -f "$tmp/prompt" $greedy)"
same "-f - is -p" "$("$CLEF" run -p "${prompt%x}" $greedy)" "$("$CLEF" run -f - $greedy <"$tmp/prompt")"
same "a seed repeats" "$("$CLEF" run -p x -n 40 -s 7 -q)" "$("$CLEF" run -p x -n 40 --seed=7 -q)"
if [ "$("$CLEF" run -p x -n 40 -s 7 -q)" != "$("$CLEF" run -p x -n 40 -s 8 -q)" ]; then ok "another seed differs"; else fail "another seed differs"; fi
silent "-n 0 generates nothing" "$CLEF" run -p x -n 0 -q
check "an empty prompt begins with BOS" "$CLEF" run -p "" -n 4 -q
check "-q" "$CLEF" run -p x -n 4 -q
empty "-q is quiet" "$("$CLEF" run -p x -n 4 -q 2>&1 >/dev/null)"
"$CLEF" run -p x -n 4 >/dev/null 2>"$tmp/err"
for word in "tokens/s" "memory" "first token" "device" "seed"; do
  if grep -q "$word" "$tmp/err"; then ok "statistics name $word"; else fail "statistics name $word"; fi
done
"$CLEF" run -p x -n -1 --ignore-eos >/dev/null 2>"$tmp/err"
if grep -q "context is full" "$tmp/err"; then ok "-n -1 fills the context"; else fail "-n -1 fills the context: $(cat "$tmp/err")"; fi

# Ctrl-C while the prompt is still awaited: nothing is generated, the exit is clean.
mkfifo "$tmp/fifo"
"$CLEF" run -f "$tmp/fifo" -n 200 >"$tmp/out" 2>"$tmp/err" &
pid=$!
exec 3>"$tmp/fifo" # returns when clef has opened the other end, so that its handler stands
kill -INT $pid
printf 'ROMEO:' >&3
exec 3>&-
wait $pid
same "Ctrl-C exits" 130 $?
if "$CLEF" run -p x -n 50 --ignore-eos 2>"$tmp/err" | head -c 3 >/dev/null; then ok "a reader that goes"; else fail "a reader that goes"; fi
if grep -q "cannot" "$tmp/err"; then fail "a reader that goes is not an error"; else ok "a reader that goes is not an error"; fi
finish
