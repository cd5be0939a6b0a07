# Three servers behind HAProxy, with examples/haproxy.cfg and examples/serve-three.sh.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
PATH=$PATH:/usr/sbin
command -v haproxy >/dev/null || skip "no haproxy"
exec python3 "$(dirname "$0")/haproxy.py"
