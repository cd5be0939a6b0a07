# clef serve with several models: loaded when they are asked for, within --memory, and unloaded.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/models.py"
