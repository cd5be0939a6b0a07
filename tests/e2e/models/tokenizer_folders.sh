# Folders of tokenizer files of all kinds: clef's ids and texts beside those of transformers, where Python has it. Some of these folders are in
# tests/fixtures/token_folders.json, with their right answers, for test_token_folders.
. "$(dirname "$0")/../lib.sh"
library=$(dirname "$CLEF")/libclef.so
[ -e "$library" ] || skip "needs $library"
for python in "${CLEF_PYTHON:-}" python3; do
  [ -n "$python" ] && "$python" -c "import transformers, sentencepiece, google.protobuf" 2>/dev/null && break
  python=
done
[ -n "$python" ] || skip "needs a Python with transformers, sentencepiece and protobuf (CLEF_PYTHON)"
"$python" "$CLEF_SOURCE/tests/tokenizer/folders.py" "$library" --folders 150 >"$tmp/log" 2>/dev/null
code=$?
case $(cat "$tmp/log") in skipped:*) skip "$(cut -d' ' -f2- "$tmp/log")" ;; esac
if [ "$code" = 0 ]; then ok "$(tail -n 1 "$tmp/log")"; else fail "$(cat "$tmp/log")"; fi
finish
