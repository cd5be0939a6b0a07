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
# Files of whisper.cpp: the same ids and times as a folder with the same weights and lists of ids.
ggml() {
  local folder=$1 type=$2 sound=$3 of
  python3 "$CLEF_SOURCE/tests/e2e/models/ggml.py" "$folder" "$type" "$tmp/$type.bin" "$tmp/$type" || fail "$type is written"
  for of in "$type" "$type.bin"; do # without the probabilities, whose last digits differ
    "$CLEF" transcribe "$tmp/$of" "$sound" -l en $plain -p Well, --format json --words 2>&1 |
      sed 's/"avg_logprob.*"no_speech_prob": [0-9.e-]*//' >"$tmp/$of.json"
  done
  same "whisper.cpp, $type" "$(cat "$tmp/$type.json")" "$(cat "$tmp/$type.bin.json")"
}
ggml "$model" f16 "$wav"
same "its languages" 1 "$("$CLEF" info "$tmp/f16.bin" 2>&1 | grep -c 'general.architecture = "whisper"')"
for size in 4 60 64000 64400 66000 120000; do
  head -c $size "$tmp/f16.bin" >"$tmp/cut"
  if "$CLEF" info "$tmp/cut" >"$tmp/log" 2>&1; then fail "$size bytes of it are refused"; else ok "$size bytes of it are refused"; fi
done
if [ -d "${CLEF_SHARED:-}/oracle/vision/whisper" ]; then
  for type in q5_1 q8_0; do ggml "$CLEF_SHARED/oracle/vision/whisper" $type "$CLEF_SHARED/oracle/vision/sounds/chirp.wav"; done
fi
ctc=${CLEF_SHARED:-}/oracle/vision/wav2vec2-large
if [ -d "$ctc" ]; then # letters of frames, without a decoder
  sound=${ctc%/*}/sounds/chirp.wav
  same "letters, by CTC" "$(sed -n 's/.*"text.chirp": "\(.*\)"/\1/p' "$ctc/expected.json")" "$("$CLEF" transcribe "$ctc" "$sound" -q --no-tune --no-proof)"
  refused_ctc() { same "$1" 1 "$("$CLEF" transcribe "$ctc" "$sound" -q $2 2>&1 | grep -c "$3")"; }
  refused_ctc "beams without a decoder" "--beams 2" "beams: expected none"
  refused_ctc "a language without a decoder" "-l de" "a language: expected none"
fi
printf '{"prompt": "hi"}\n' >"$tmp/prompts"
for how in "-p hi" "--file $tmp/prompts"; do
  same "run $how" 1 "$("$CLEF" run "$model" $how -n 1 -q --no-tune --no-proof 2>&1 | grep -c "whisper hears its source")"
done
finish
