# clef serve and clients from PyPI: chats, messages, responses and Ollama's API, as these programs call and check them.
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
python=$(oracle clients) || skip "no clients here (tools/oracles clients)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/clients.py" 2>"$tmp/err" || { fail "clients"; tail -n 5 "$tmp/err"; }
finish
