# clef tokenize --train: its flags, what it refuses, and the same vocabulary and merges as Hugging Face's tokenizers, where Python has them
# or a virtual environment outside the tree can.
. "$(dirname "$0")/../lib.sh"
learn() { "$CLEF" tokenize --train "$@"; }

printf 'low low low lower newest newest\n' >"$tmp/text.txt"
check "a tokenizer is learned" learn 260 "$tmp/text.txt" -o "$tmp/tok" -q
# 'l o' and 'o w' occur 4 times; after them, a space and 'low' 3 times. Of equal ones the lowest ids come first.
same "its merges" "l o,lo w,Ġ low," "$(tail -n +2 "$tmp/tok/merges.txt" | tr '\n' ,)"
same "its ids" "[258,259,69,82]" "$("$CLEF" tokenize "$tmp/tok" "low lower" | tr -d ' ')"
same "and back" "low lower" "$("$CLEF" tokenize "$tmp/tok" --decode "$("$CLEF" tokenize "$tmp/tok" "low lower")")"
same "the end of a text" "[0]" "$("$CLEF" tokenize "$tmp/tok" "<|endoftext|>")"
same "all files" "clef_train.json merges.txt tokenizer.json tokenizer_config.json vocab.json" "$(cd "$tmp/tok" && echo *)"
cp "$tmp/tok/tokenizer.json" "$tmp/first.json"
check "the same again, in its place" learn 260 "$tmp/text.txt" -o "$tmp/tok" -q
check "to the last byte" cmp "$tmp/first.json" "$tmp/tok/tokenizer.json"
check "special tokens" learn 262 "$tmp/text.txt" -o "$tmp/special" -q --special "<s>" --special "</s>" --special "<pad>"
same "are the first ids" "[2,0,1]" "$("$CLEF" tokenize "$tmp/special" "<pad><s></s>" | tr -d ' ')"
learn 300 "$tmp/text.txt" -o "$tmp/few" --min-frequency 4 2>"$tmp/err"
same "pairs that are frequent enough alone" "l o,lo w," "$(tail -n +2 "$tmp/few/merges.txt" | tr '\n' ,)"
check "and a word about it" grep -q "259 tokens in place of 300" "$tmp/err"
: >"$tmp/empty.txt"
check "an empty text" learn 300 "$tmp/empty.txt" -o "$tmp/nothing" -q
same "gives the bytes" "257" "$(grep -c '": [0-9]' "$tmp/nothing/vocab.json")"

printf 'abc\ncaf\351\n' >"$tmp/latin.txt"
refused "Latin-1" 1 "latin.txt byte 7 UTF-8" learn 300 "$tmp/text.txt" "$tmp/latin.txt" -o "$tmp/x1"
refused "a missing text" 1 "nowhere.txt" learn 300 "$tmp/nowhere.txt" -o "$tmp/x2"
refused "a folder as a text" 1 "folder" learn 300 "$tmp" -o "$tmp/x3"
refused "too few tokens" 2 "257" learn 256 "$tmp/text.txt" -o "$tmp/x4"
refused "too few tokens for the special ones" 1 "258" learn 257 "$tmp/text.txt" -o "$tmp/x5" --special "<s>" --special "</s>"
refused "an empty special token" 1 "special token 1" learn 300 "$tmp/text.txt" -o "$tmp/x6" --special ""
refused "no folder to write" 2 "-o" learn 300 "$tmp/text.txt"
refused "a folder of something else" 1 "expected nothing there" learn 300 "$tmp/text.txt" -o "$tmp"
refused "flags of a new tokenizer without one" 2 "--train" "$CLEF" tokenize "$tmp/tok" a --special "<s>"
empty "nothing of them is left" "$(cd "$tmp" && echo x[0-9]* | grep -v 'x\[')"

python=$(find_python tokenizers) || finish
[ -n "$python" ] || finish
"$python" "$CLEF_SOURCE/tests/e2e/models/tokenize_train.py" "$CLEF" "${CLEF_SHARED:-}/data/text" >"$tmp/log" 2>&1 || failures=$((failures + 1))
cat "$tmp/log"
grep -q "^[0-9]* passed, " "$tmp/log" || fail "tokenize_train.py did not finish"
finish
