# clef serve reads requests as other servers' clients write them: fields, JSON, heads; it obeys or refuses, and never ignores a constraint.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/others.py"
