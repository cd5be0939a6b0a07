# clef serve --cache-disk: a second start finds the pages of the first one, and never a wrong one.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/cache_disk.py" "$tmp"
