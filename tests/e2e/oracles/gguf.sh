# Each family as llama.cpp's converter and as clef write it, read by clef and by llama.cpp.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
converter=$(oracle converter) || skip "no converter of llama.cpp's here (tools/oracles converter)"
python=$(oracle llama) || python=$(oracle transformers)
"$python" "$CLEF_SOURCE/tests/e2e/oracles/gguf.py" "$CLEF" "$converter" "$tmp/models" 2>"$tmp/err" || { fail "beside llama.cpp"; tail -n 5 "$tmp/err"; }
finish
