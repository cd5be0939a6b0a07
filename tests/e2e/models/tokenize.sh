# shellcheck shell=bash
# Texts that come from outside: empty, broken, 10 MB of one letter or of spaces. The right ids and back, in linear time.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo

same "an empty text" "[]" "$("$CLEF" tokenize "$demo" "")"
same "nothing on stdin" "[]" "$("$CLEF" tokenize "$demo" - </dev/null)"
same "bytes that are not UTF-8" "$("$CLEF" tokenize "$demo" "$(printf 'a\357\277\275b')")" "$("$CLEF" tokenize "$demo" "$(printf 'a\377b')")"
same "half a character on stdin" "$("$CLEF" tokenize "$demo" "$(printf 'a\357\277\275')")" "$(printf 'a\342\226' | "$CLEF" tokenize "$demo" -)"
refused "no ids to decode" 2 "expected ids x" "$CLEF" tokenize "$demo" --decode "x"
refused "an id outside the vocabulary" 1 "id 99999999 is outside the vocabulary" "$CLEF" tokenize "$demo" --decode 99999999
refused "a folder without a tokenizer" 1 "tokenizer.json qwen.tiktoken" "$CLEF" tokenize "$tmp" a

# A vocabulary alone, with incomplete hyperparameters: the numbers of heads differ, most others are missing.
{
  printf GGUF; u32 3; u64 0; u64 6
  gguf_string general.architecture; u32 8; gguf_string gemma4
  gguf_string gemma4.attention.head_count_kv; u32 9; u32 4; u64 2; u32 8; u32 2
  gguf_string tokenizer.ggml.model; u32 8; gguf_string gemma4
  gguf_string tokenizer.ggml.bos_token_id; u32 4; u32 0
  gguf_string tokenizer.ggml.tokens; u32 9; u32 8; u64 4; gguf_string "<s>"; gguf_string a; gguf_string b; gguf_string ab
  gguf_string tokenizer.ggml.merges; u32 9; u32 8; u64 1; gguf_string "a b"
} >"$tmp/vocabulary.gguf"
same "a vocabulary alone encodes" "[0,3,2]" "$("$CLEF" tokenize "$tmp/vocabulary.gguf" abb | tr -d ' ')"
same "a vocabulary alone is described" "n_tokens 4 [8, 2]" "$(echo $("$CLEF" info "$tmp/vocabulary.gguf" |
  sed -n 's/.*\(n_tokens\) *\([0-9]*\)$/\1 \2/p; s/.*head_count_kv = "\(.*\)"$/\1/p'))"
refused "a vocabulary alone does not run" 1 "vocabulary.gguf no tensors" "$CLEF" run "$tmp/vocabulary.gguf" -p a

# long NAME LIMIT: what is in $tmp/text comes back from its ids, encoded in LIMIT seconds (sanitizers and loaded machines: no limit).
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
