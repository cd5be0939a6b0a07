# Batches of encoder-decoders and of recurrent models on ranks: clef run --max-seqs and clef serve give the texts of one process.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0
t5=$CLEF_SOURCE/tests/fixtures/tiny-t5
printf '%s\n' "the cat sleeps" "he loves it" "the sea" "a cat and the sea and the cat and he" "it" >"$tmp/prompts.txt"
at_once=3
# many MODEL FLAGS...: the texts, without what depends on when each ran
many() { "$CLEF" run "$@" --file "$tmp/prompts.txt" --temp 0 -n 12 --exact -q 2>"$tmp/err"; }
texts() { sed 's/.*"text": *"/"/; s/", *"[a-z_]*":.*//' "$1"; }

# compared NAME MODEL LAYOUT...: a layout is the number of ranks, and flags
compared() {
  local name=$1 model=$2 layout n flags
  shift 2
  many "$model" --max-seqs $at_once >"$tmp/one" || fail "$name, one process: $(cat "$tmp/err")"
  same "$name: an answer each" "$(wc -l <"$tmp/prompts.txt")" "$(wc -l <"$tmp/one")"
  for layout in "$@"; do
    read -r n flags <<<"$layout"
    # shellcheck disable=SC2086
    timeout 1800 "${mpirun[@]}" -n "$n" "$CLEF" run "$model" --max-seqs $at_once --file "$tmp/prompts.txt" --temp 0 -n 12 --exact -q $flags >"$tmp/many" 2>"$tmp/err" </dev/null ||
      fail "$name, $layout: $(head -n 3 "$tmp/err")"
    same "$name, $layout" "$(texts "$tmp/one")" "$(texts "$tmp/many")"
  done
}
# copied FOLDER FAMILY: a model of random weights, of more layers than the one beside the tests, with its words and others
copied() {
  [ -d "${CLEF_SHARED:-}/oracle/$1/$2" ] || return
  cp -r "$CLEF_SHARED/oracle/$1/$2" "$tmp/$2" && chmod -R u+w "$tmp/$2"
  { cat "$t5/vocab.txt"; seq -f "word%g" 44 384; } >"$tmp/$2/vocab.txt"
  echo '{"tokenizer_class": "BertTokenizer"}' >"$tmp/$2/tokenizer_config.json" # what vocab.txt is for
}
for family in t5 bart marian; do
  copied models $family || continue
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
# The memory of recurrent layers lies in parts, of which a rank may have several. The prefix cache keeps copies of it.
beginning=$(seq -f "word%g" -s " " 50 370)
printf '%s\n' "$beginning" "$beginning the" "$beginning" >"$tmp/prompts.txt"
at_once=1
for family in models/qwen3.5 models2/jamba; do
  copied ${family%/*} ${family#*/} || continue
  sed -i 's/"max_position_embeddings": 256/"max_position_embeddings": 1024/' "$tmp/${family#*/}/config.json"
  compared "${family#*/}" "$tmp/${family#*/}" "2 --tp 2" "2 --pp 2"
  same "$family: what came from the cache" "0 256 256" "$(sed 's/.*"cached_tokens": *//; s/,.*//' "$tmp/many" | tr '\n' ' ' | sed 's/ $//')"
done
finish
