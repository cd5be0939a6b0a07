# Batches of encoder-decoders on ranks: clef run --max-seqs and clef serve give the texts of one process.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0
t5=$CLEF_SOURCE/tests/fixtures/tiny-t5
printf '%s\n' "the cat sleeps" "he loves it" "the sea" "a cat and the sea and the cat and he" "it" >"$tmp/prompts.txt"
# many MODEL FLAGS...: the texts, without what depends on when each ran
many() { "$CLEF" run "$@" --file "$tmp/prompts.txt" --temp 0 -n 12 --exact -q 2>"$tmp/err"; }
texts() { sed 's/.*"text": *"/"/; s/", *"[a-z_]*":.*//' "$1"; }

# compared NAME MODEL LAYOUT...: a layout is the number of ranks, and flags
compared() {
  local name=$1 model=$2 layout n flags
  shift 2
  many "$model" --max-seqs 3 >"$tmp/one" || fail "$name, one process: $(cat "$tmp/err")"
  same "$name: five answers" 5 "$(wc -l <"$tmp/one")"
  for layout in "$@"; do
    read -r n flags <<<"$layout"
    # shellcheck disable=SC2086
    timeout 1800 "${mpirun[@]}" -n "$n" "$CLEF" run "$model" --max-seqs 3 --file "$tmp/prompts.txt" --temp 0 -n 12 --exact -q $flags >"$tmp/many" 2>"$tmp/err" </dev/null ||
      fail "$name, $layout: $(head -n 3 "$tmp/err")"
    same "$name, $layout" "$(texts "$tmp/one")" "$(texts "$tmp/many")"
  done
}
# Models of random weights, of more layers than the one beside the tests, with its words and others.
for family in t5 bart marian; do
  [ -d "${CLEF_SHARED:-}/oracle/models/$family" ] || continue
  cp -r "$CLEF_SHARED/oracle/models/$family" "$tmp/$family" && chmod -R u+w "$tmp/$family"
  { cat "$t5/vocab.txt"; seq -f "word%g" 44 384; } >"$tmp/$family/vocab.txt"
  echo '{"tokenizer_class": "BertTokenizer"}' >"$tmp/$family/tokenizer_config.json" # what vocab.txt is for
  compared "$family" "$tmp/$family" "2 --tp 2" "2 --pp 2" "4 --tp 2 --pp 2"
done
compared tiny-t5 "$t5" "2 --tp 2"

"${mpirun[@]}" -n 2 "$CLEF" serve "$t5" --port 0 --max-seqs 3 --exact >"$tmp/serve.log" 2>&1 </dev/null &
server=$!
until_served "$tmp/serve.log"
i=0
asked=
while IFS= read -r prompt; do
  i=$((i + 1))
  curl -s "$address/v1/completions" -H "Content-Type: application/json" -d "{\"prompt\":\"$prompt\",\"max_tokens\":12,\"temperature\":0}" >"$tmp/reply.$i" &
  asked="$asked $!"
done <"$tmp/prompts.txt"
# shellcheck disable=SC2086
wait $asked
for i in 1 2 3 4 5; do
  same "clef serve, text $i" "$(texts <(sed -n ${i}p "$tmp/one") | sed 's/^"//')" "$(sed -n 's/.*"text":"\([^"]*\)".*/\1/p' "$tmp/reply.$i")"
done
kill -INT $server
wait $server 2>/dev/null
finish
