# clef serve lets no request stop the others: many texts, many inputs, large bodies, hostile schemas. What counts is the order of events.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
exec python3 "$(dirname "$0")/fair.py"
