# clef serve and its clients: they leave, wait, come in crowds and read slowly; signals, a lost device, small pools.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/clients.py"
