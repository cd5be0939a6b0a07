# clef serve writes down sounds: forms and fields of OpenAI's transcriptions, streams, bodies that are none, several models.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/speech.py"
