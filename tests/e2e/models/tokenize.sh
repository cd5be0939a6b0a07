# shellcheck shell=bash
# Texts that come from outside: empty, broken, 10 MB of one letter or of spaces. The right ids and back, in linear time.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/model/demo

same "an empty text" "[]" "$("$CLEF" tokenize "$demo" "")"
same "nothing on stdin" "[]" "$("$CLEF" tokenize "$demo" - </dev/null)"
same "bytes that are no UTF-8" "$("$CLEF" tokenize "$demo" "$(printf 'a\357\277\275b')")" "$("$CLEF" tokenize "$demo" "$(printf 'a\377b')")"
same "half a character on stdin" "$("$CLEF" tokenize "$demo" "$(printf 'a\357\277\275')")" "$(printf 'a\342\226' | "$CLEF" tokenize "$demo" -)"
refused "no ids to decode" 2 "expected ids x" "$CLEF" tokenize "$demo" --decode "x"
refused "an id outside the vocabulary" 1 "id 99999999 is outside the vocabulary" "$CLEF" tokenize "$demo" --decode 99999999
refused "a folder without a tokenizer" 1 "no tokenizer.json" "$CLEF" tokenize "$tmp" a

# long NAME LIMIT: what stands in $tmp/text comes back from its ids, encoded in LIMIT seconds (sanitizers and loaded machines: no limit).
long() {
  local start=$SECONDS
  "$CLEF" tokenize "$demo" - <"$tmp/text" >"$tmp/ids" || { fail "$1: exited $?"; return; }
  local took=$((SECONDS - start))
  if [ -z "${CLEF_SANITIZE:-}" ] && [ "$took" -gt "$2" ]; then fail "$1: took $took s"; return; fi
  if "$CLEF" tokenize "$demo" --decode - <"$tmp/ids" | cmp -s - "$tmp/text"; then ok "$1: 10 MB and back"; else fail "$1: another text comes back"; fi
}
head -c 10000000 /dev/zero | tr '\0' a >"$tmp/text"
long "one letter" 60
head -c 10000000 /dev/zero | tr '\0' ' ' >"$tmp/text"
long "spaces" 60
yes "It is the 1st of 20,000 lines; don't stop: caf$(printf '\303\251')." | head -c 9999990 >"$tmp/text"
long "lines" 60
finish
