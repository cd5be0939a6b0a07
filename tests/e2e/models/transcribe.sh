# clef transcribe: ids and timestamps are those of transformers (tests/fixtures/whisper/make.py); forms, stdin, and sounds that are refused.
. "$(dirname "$0")/../lib.sh"
model=$CLEF_SOURCE/tests/fixtures/whisper
wav=$CLEF_SOURCE/tests/fixtures/speech/short.wav
plain="-q --no-tune --no-proof --exact --temperature 0 -n 4"
export CLEF_DEBUG=$CLEF_DEBUG,fused=0

python3 "$CLEF_SOURCE/tests/e2e/models/transcribe.py" "$CLEF" "$model" "$tmp" "${CLEF_TEST_TURN:-1/1}" >"$tmp/log" 2>&1
same "ids and timestamps are those of transformers" "0 differ" "$(tail -n 1 "$tmp/log")"
[ "$(tail -n 1 "$tmp/log")" = "0 differ" ] || cat "$tmp/log"

said=$("$CLEF" transcribe "$model" "$wav" -l en $plain 2>&1) || fail "text: $said"
same "stdin" "$said" "$("$CLEF" transcribe "$model" - -l en $plain <"$wav" 2>&1)"
same "a form" "WEBVTT" "$("$CLEF" transcribe "$model" "$wav" -l en $plain --format vtt 2>&1 | head -n 1)"
refused() {
  local got
  if got=$("$CLEF" transcribe "$model" "$tmp/$1" -l en $plain 2>&1); then fail "$1 is refused"; else ok "$1 is refused"; fi
  case $got in *"$2"*) ok "$1: $2" ;; *) fail "$1: expected '$2', got '$got'" ;; esac
}
printf R >"$tmp/one"
refused one "1 bytes"
head -c 6000 "$wav" >"$tmp/cut"
refused cut "12014 bytes of samples, got 5956"
head -c 44 "$wav" >"$tmp/none"
refused none "got 0"
same "a language that it does not know" 1 \
  "$("$CLEF" transcribe "$model" "$wav" -l tlh $plain 2>&1 | grep -c "does not know the language tlh")"
printf '{"prompt": "hi"}\n' >"$tmp/prompts"
for how in "-p hi" "--file $tmp/prompts"; do
  same "run $how" 1 "$("$CLEF" run "$model" $how -n 1 -q --no-tune --no-proof 2>&1 | grep -c "whisper hears its source")"
done
finish
