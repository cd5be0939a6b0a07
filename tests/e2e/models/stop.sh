# clef run --stop: the text ends before the first stop string, in a stream as in a file of prompts, whatever tokens it lies in; wrong stop
# strings are refused.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
demo=$CLEF_SOURCE/share/demo
run() { "$CLEF" run "$demo" -n 60 --temp 0 --ignore-eos "$@" 2>"$tmp/err"; }
# member FILE LINE KEY: a number or a text of the answer, as JSON writes it.
member() { sed -n "$2p" "$1" | sed -n "s/.*\"$3\": \(\"\([^\"\\\\]\|\\\\.\)*\"\|[^,}]*\).*/\1/p"; }

run -p "ROMEO:" -q >"$tmp/whole"
n=$(wc -c <"$tmp/whole")
test "$n" -gt 40 || fail "the demo writes $n bytes"

# Pieces of the text itself, from many places and of many lengths, so that they begin and end inside tokens.
for from in 2 9 17 26 33; do
  for size in 1 3 7 12; do
    piece=$(tail -c +$from "$tmp/whole" | head -c $size; echo x)
    piece=${piece%x}
    # the text before the first place where the piece occurs
    CLEF_PIECE=$piece awk 'BEGIN { RS = "\001" } { printf "%s", substr($0, 1, index($0, ENVIRON["CLEF_PIECE"]) - 1) }' "$tmp/whole" >"$tmp/wanted"
    run -p "ROMEO:" -q --stop "$piece" >"$tmp/got"
    check "a stop string of $size bytes at byte $from" cmp "$tmp/wanted" "$tmp/got"
    CLEF_PIECE=$piece python3 -c 'import json, os; print(json.dumps({"prompt": "ROMEO:", "stop": os.environ["CLEF_PIECE"]}))' >>"$tmp/lines.jsonl"
    cat "$tmp/wanted" >"$tmp/wanted.$from.$size"
  done
done

run --file "$tmp/lines.jsonl" --repeatable >"$tmp/answers" || fail "$(cat "$tmp/err")"
run --file "$tmp/lines.jsonl" --repeatable --spec ngram --spec-max-seqs 64 >"$tmp/drafted" || fail "$(cat "$tmp/err")"
line=0
for from in 2 9 17 26 33; do
  for size in 1 3 7 12; do
    line=$((line + 1))
    for file in answers drafted; do
      sed -n ${line}p "$tmp/$file" | python3 -c 'import json, sys; sys.stdout.write(json.loads(sys.stdin.read())["text"])' >"$tmp/got"
      check "$file: the text of line $line" cmp "$tmp/wanted.$from.$size" "$tmp/got"
      same "$file: why line $line ended" '"stop"' "$(member "$tmp/$file" $line finish)"
    done
  done
done

# What is held back at the end of the text is printed.
last=$(tail -c 3 "$tmp/whole")
same "a stop string that only begins" "$(cat "$tmp/whole")" "$(run -p "ROMEO:" -q --stop "${last}and more")"
run -p "ROMEO:" --stop never --stop "$(head -c 12 "$tmp/whole" | tail -c 2)" >/dev/null
check "the reason" grep "a stop string ended the text" "$tmp/err"
printf '%s\n' '{"prompt": "ROMEO:", "stop": []}' '{"prompt": "ROMEO:", "stop": ["never", ":"]}' '{"prompt": "ROMEO:"}' >"$tmp/lists.jsonl"
run --file "$tmp/lists.jsonl" --stop I >"$tmp/answers" || fail "$(cat "$tmp/err")"
same "an empty list takes the flag away" '"length"' "$(member "$tmp/answers" 1 finish)"
same "the flag" '"stop"' "$(member "$tmp/answers" 3 finish)"

# ---- refused ---------------------------------------------------------------------------------------
# excluded WHAT FLAGS...: the run fails and says so.
excluded() {
  local what=$1
  shift
  if run "$@" >/dev/null; then fail "$*: accepted"; fi
  check "refused: $what" grep -e "$what" "$tmp/err"
}
excluded "stop string 2 is empty" -p a --stop b --stop ""
excluded "stop string 1 is not UTF-8" -p a --stop "$(printf '\377')"
excluded "excludes --beams" -p a --stop b --beams 2
excluded "excludes --print-ids" -p a --stop b --print-ids
for value in 5 '""' '["a", 1]' 'null'; do
  printf '{"prompt": "a", "stop": %s}\n' "$value" >"$tmp/bad.jsonl"
  excluded 'line 1: "stop": expected a text, or a list' --file "$tmp/bad.jsonl"
done
excluded "stop string 1 is empty" --file "$tmp/lists.jsonl" --stop ""
finish
