# clef run --prompt-cache: the text with the file is the text without, for each KV type and kind of model; what of the prompt was
# taken from the file is reported; another model's file, or a damaged one, is refused and left as it is.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
demo=$CLEF_SOURCE/share/demo
oracle=${CLEF_SHARED:-}/oracle/models
file=$tmp/cache

# without MODEL IDS N FLAGS...: the ids that follow. with: the same with the file; what the file gave goes to $tmp/reused.
without() { local model=$1 ids=$2 n=$3; shift 3; "$CLEF" run "$model" --ids "$ids" -n "$n" --print-ids --ignore-eos -q "$@"; }
with() {
  local model=$1 ids=$2 n=$3
  shift 3
  "$CLEF" run "$model" --ids "$ids" -n "$n" --print-ids --ignore-eos --prompt-cache "$file" "$@" 2>"$tmp/err" || cat "$tmp/err"
  sed -n 's/^clef: prompt cache: //p' "$tmp/err" >"$tmp/reused"
}

# reused NAME WANTED
reused() { same "$1, from the file" "$2" "$(cat "$tmp/reused")"; }

numbers() { seq -s, "$1" "$2"; }

# A prompt; the same again; the text goes on; another end. The cached numbers are those of a cache that can be cut anywhere.
conversation() {
  local name=$1 model=$2 prompt first more other
  shift 2
  prompt=$(numbers 5 44)
  rm -f "$file"
  first=$(without "$model" "$prompt" 12 "$@")
  same "$name: a first run" "$first" "$(with "$model" "$prompt" 12 "$@")"
  reused "$name: a first run" "0 of 40 tokens"
  same "$name: the prompt again" "$first" "$(with "$model" "$prompt" 12 "$@")"
  reused "$name: the prompt again" "39 of 40 tokens"
  more="$prompt,$first,$(numbers 60 65)"
  same "$name: the text goes on" "$(without "$model" "$more" 8 "$@")" "$(with "$model" "$more" 8 "$@")"
  reused "$name: the text goes on" "51 of 58 tokens"
  other="$(numbers 5 30),$(numbers 90 99)"
  same "$name: another end" "$(without "$model" "$other" 8 "$@")" "$(with "$model" "$other" 8 "$@")"
  reused "$name: another end" "26 of 36 tokens"
}

for type in f32 f16 q8_0; do conversation "bundled model, $type" "$demo" --kv-type $type --temp 0; done
conversation "sampling" "$demo" --seed 7 --temp 0.8 --repeat-penalty 1.2
conversation "short steps" "$demo" --temp 0 -b 7

rm -f "$file"
with "$demo" "$(numbers 5 44)" 0 >"$tmp/none"
empty "no token: the prompt alone" "$(tr -d '\n' <"$tmp/none")"
same "after it" "$(without "$demo" "$(numbers 5 45)" 4 --temp 0)" "$(with "$demo" "$(numbers 5 45)" 4 --temp 0)"
reused "after it" "40 of 41 tokens"
same "a smaller context" "$(without "$demo" "$(numbers 5 20)" 4 --temp 0 -c 60)" "$(with "$demo" "$(numbers 5 20)" 4 --temp 0 -c 60)"
reused "a smaller context" "15 of 16 tokens"

# What earlier versions wrote is read (docs/stability.md).
cp "$CLEF_SOURCE/tests/fixtures/own/session-1.cache" "$file"
same "a file of form 1" "$(without "$demo" 199,41,452,305,76,474 3 --temp 0 --kv-type q8_0)" \
  "$(with "$demo" 199,41,452,305,76,474 3 --temp 0 --kv-type q8_0)"
reused "a file of form 1" "5 of 6 tokens"

# ---- what is refused -----------------------------------------------------------------------------
rm -f "$file"
with "$demo" "$(numbers 5 44)" 4 --kv-type f32 >/dev/null
cp "$file" "$tmp/good"
bytes=$(stat -c %s "$file")
run_with() { "$CLEF" run "$1" --ids 5,6,7 -n 2 --print-ids -q --prompt-cache "$2" --kv-type "${3:-f32}"; }
flip() { # flip BYTE: the file with a bit of that byte changed
  cp "$tmp/good" "$tmp/flipped"
  local was
  was=$(od -An -tu1 -j "$1" -N 1 "$tmp/good" | tr -d ' ')
  printf "\\x$(printf %02x $((was ^ 4)))" | dd of="$tmp/flipped" bs=1 seek="$1" conv=notrunc 2>/dev/null
}
refused "another KV type" 1 "KV type f32, expected f16 $file" run_with "$demo" "$file" f16
nan_model "$tmp/other"
refused "other weights of the same shape" 1 "made with model demo fingerprint expected other" run_with "$tmp/other" "$file"
head -c $((bytes - 1)) "$file" >"$tmp/cut"
refused "a cut file" 1 "cut: $((bytes - 1)) bytes, expected $bytes" run_with "$demo" "$tmp/cut"
head -c 100 "$file" >"$tmp/short"
refused "a short file" 1 "cut: 100 bytes, expected $bytes" run_with "$demo" "$tmp/short"
: >"$tmp/empty"
refused "an empty file" 1 "no session file" run_with "$demo" "$tmp/empty"
for at in 30 100 $((bytes / 2)) $((bytes - 1)); do
  flip $at
  refused "a bit of byte $at" 1 "checksum differs damaged" run_with "$demo" "$tmp/flipped"
done
flip 8
refused "another version" 1 "version 5, expected 1" run_with "$demo" "$tmp/flipped"
refused "a folder" 1 "$tmp" run_with "$demo" "$tmp"
refused "no such folder" 1 "$tmp/no" run_with "$demo" "$tmp/no/file"
refused "beams" 2 "--prompt-cache excludes --beams" "$CLEF" run "$demo" -p x --beams 2 --prompt-cache "$file"
check "a refused file stays as it is" cmp "$file" "$tmp/good"
empty "nothing half-written" "$(find "$tmp" -name '*.tmp')"

# ---- other kinds of models -----------------------------------------------------------------------
if [ -d "$oracle/llama" ]; then
  for type in f32 f16; do conversation "llama, $type" "$oracle/llama" --kv-type $type --temp 0; done
  refused "a file of llama for another model" 1 "made with model llama expected qwen3" run_with "$oracle/qwen3" "$file" f16

  # A recurrent memory cannot be cut: the file counts if all of it is the beginning of the prompt.
  model=$oracle/qwen3.5 prompt=$(numbers 5 44)
  for type in f32 f16; do
    rm -f "$file"
    first=$(without "$model" "$prompt" 12 --temp 0 --kv-type $type)
    same "recurrent, $type: a first run" "$first" "$(with "$model" "$prompt" 12 --temp 0 --kv-type $type)"
    same "recurrent, $type: the text goes on" "$(without "$model" "$prompt,$first,7,8" 8 --temp 0 --kv-type $type)" \
      "$(with "$model" "$prompt,$first,7,8" 8 --temp 0 --kv-type $type)"
    reused "recurrent, $type: the text goes on" "51 of 54 tokens"
    same "recurrent, $type: the prompt again" "$first" "$(with "$model" "$prompt" 12 --temp 0 --kv-type $type)"
    reused "recurrent, $type: the prompt again" "0 of 40 tokens"
  done

  # The prompt of an encoder-decoder is its source; what is kept is the beginning of its text.
  for name in t5 mbart; do
    rm -f "$file"
    first=$(without "$oracle/$name" 5,6,7,8,9,1 12 --temp 0)
    same "$name: a first run" "$first" "$(with "$oracle/$name" 5,6,7,8,9,1 12 --temp 0)"
    same "$name: the source again" "$first" "$(with "$oracle/$name" 5,6,7,8,9,1 12 --temp 0)"
    same "$name: another source" "$(without "$oracle/$name" 15,16,7,1 9 --temp 0)" "$(with "$oracle/$name" 15,16,7,1 9 --temp 0)"
    same "$name: a longer source, fewer tokens" "$(without "$oracle/$name" 5,6,7,8,9,5,6,7,1 3 --temp 0)" \
      "$(with "$oracle/$name" 5,6,7,8,9,5,6,7,1 3 --temp 0)"
    same "$name: a shorter one than the file's" "$(without "$oracle/$name" 5,1 5 --temp 0)" "$(with "$oracle/$name" 5,1 5 --temp 0)"
  done
fi
finish
