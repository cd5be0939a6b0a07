# Towers for pictures by llama.cpp's converter, and of the folders that they were made of.
. "$(dirname "$0")/../lib.sh"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
converter=$(oracle converter) || skip "no converter of llama.cpp's here (tools/oracles converter)"
folders=${CLEF_SHARED:-}/oracle/vision
[ -d "$folders" ] || skip "no folders with towers here (CLEF_SHARED)"
export CLEF_PROOF=0 CLEF_TUNE=0
"$python" "$CLEF_SOURCE/tests/e2e/oracles/towers.py" "$CLEF" "$converter" "$folders" 2>"$tmp/err" || { fail "towers"; tail -n 5 "$tmp/err"; }
finish
