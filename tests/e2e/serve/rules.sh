# clef serve refuses what it should: hosts, origins, keys, bodies, and every field beyond its range.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/rules.py"
