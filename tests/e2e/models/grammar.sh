# clef grammar: what it says of texts and of sources, and clef run with a constraint.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
demo=$CLEF_SOURCE/share/demo
# judged CODE LINES FLAGS...
judged() {
  local code=$1 lines=$2 got=0
  shift 2
  "$CLEF" grammar "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
  same "grammar ${*:1:3}: exit" "$code" "$got"
  same "grammar ${*:1:3}" "$lines" "$(cat "$tmp/out")"
}
schema='{"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["age"], "additionalProperties": false}'
printf '%s' "$schema" >"$tmp/s.json"
judged 0 accepted --json-schema "$schema" --check '{"age": 7}'
judged 0 "accepted
accepted" --json-schema "$tmp/s.json" --check '{"age": 7}' '{"name": "Ann", "age": 120}'
judged 1 "rejected at byte 10" --json-schema "$tmp/s.json" --check '{"age": 121}'
judged 3 incomplete --json-schema "$tmp/s.json" --check '{"age": 12'
judged 1 "incomplete
rejected at byte 0
accepted" --json --check '[1' x '[1]'
judged 0 accepted --regex '[a-c]{2}' --check ab
judged 1 "accepted
rejected at byte 1" --choice ab,ac --check ab ad
printf 'root ::= "a"+ "\\n"\n' >"$tmp/g.gbnf"
judged 0 accepted --grammar "$tmp/g.gbnf" --check 'aa
'
silent "grammar --json" "$CLEF" grammar --json
check "what was compiled" grep -q '"age": value' <("$CLEF" grammar --json-schema "$schema" --print)
refused "a keyword" 1 "/properties/id/contains: not supported" "$CLEF" grammar --json-schema '{"properties": {"id": {"contains": {"const": 1}}}}'
refused "an unknown format" 1 "/format:" "$CLEF" grammar --strict-schema --json-schema '{"type": "string", "format": "x"}'
refused "a grammar" 1 "line 1, rule b: it is used and not defined" "$CLEF" grammar --grammar <(echo 'root ::= b')
refused "two sources" 2 "one of" "$CLEF" grammar --json --regex a
refused "no source" 2 "--json-schema" "$CLEF" grammar --check x
refused "no file" 1 "nowhere" "$CLEF" grammar --json-schema "$tmp/nowhere"

cat >"$tmp/cases.jsonl" <<'END'
{"schema": {"type": "integer"}, "tests": ["1", "1.0", "x"]}
{"gbnf": "root ::= \"a\"", "tests": ["a", "b"]}
{"regex": "a|b", "tests": ["b"]}
{"schema": {"uniqueItems": true}, "tests": []}
{"schema": 18446744073709551616}
END
same "cases" '{"ok": [true, true, false]}
{"ok": [true, false]}
{"ok": [true]}
{"error": {"path": "", "keyword": "uniqueItems"
{"error": {"path": "", "keyword": "JSON"' "$("$CLEF" grammar --cases "$tmp/cases.jsonl" | sed 's/, "message.*//')"
check "times" grep -q "mask: .*p99" <("$CLEF" grammar --cases "$tmp/cases.jsonl" --bench "$demo")

# What is generated fits, whatever the seed; a text that was cut is the start of one that does.
for seed in 1 2 3 4 5 6; do
  "$CLEF" run "$demo" -p "ROMEO:" --json-schema "$tmp/s.json" -n 80 --temp 3 --top-k 0 -s $seed -q >"$tmp/out"
  got=0
  "$CLEF" grammar --json-schema "$tmp/s.json" --check -- "$(cat "$tmp/out")" >"$tmp/judged" || got=$?
  check "seed $seed: $(cat "$tmp/judged")" test $got -ne 1
done
check "one of several" grep -qxE "yes|no" <("$CLEF" run "$demo" -p "ROMEO:" --choice yes,no -q)
# The constraint begins after a text: first anything, then a number.
"$CLEF" run "$demo" -p "ROMEO:" --regex '[0-9]{3}' --constrain-after "e" -n 100 -s 3 -q >"$tmp/out"
check "after a text" grep -qE "e *[0-9]{3}$" "$tmp/out"
printf 'a\nb\nc\n' >"$tmp/p.txt"
"$CLEF" run "$demo" --file "$tmp/p.txt" --max-seqs 2 --regex '[0-9]{3}' -s 1 -q >"$tmp/plain"
same "a file of prompts" 3 "$(grep -cE '"text": "[0-9]{3}", "finish": "stop"' "$tmp/plain")"
"$CLEF" run "$demo" --file "$tmp/p.txt" --max-seqs 2 --regex '[0-9]{3}' -s 1 -q --draft "$demo" >"$tmp/draft"
same "the same with a draft" "$(grep -o '"text": "[^"]*"' "$tmp/plain")" "$(grep -o '"text": "[^"]*"' "$tmp/draft")"
refused "beams" 2 "--beams" "$CLEF" run "$demo" -p a --json --beams 2
refused "a source that is refused" 1 "uniqueItems" "$CLEF" run "$demo" -p a --json-schema '{"uniqueItems": true}'
refused "nothing to begin after" 2 "--constrain-after" "$CLEF" run "$demo" -p a --constrain-after x
finish
