# A real Whisper beside transformers: sentences that espeak-ng says, and minutes of them with the times of segments and words.
. "$(dirname "$0")/../lib.sh"
folder=$(oracle whisper) || skip "no Whisper here (tools/oracles whisper)"
python=$(oracle transformers) || skip "no transformers here (tools/oracles transformers)"
command -v espeak-ng >/dev/null || skip "no espeak-ng here (tools/setup test)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/speech.py" "$CLEF" "$folder" 2>"$tmp/err" || { fail "speech"; tail -n 5 "$tmp/err"; }
finish
