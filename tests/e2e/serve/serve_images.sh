#!/usr/bin/env bash
# clef serve reads the pictures of chats: data: URLs alone.
# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$(dirname "$0")/../lib.sh"
"$CLEF" serve --list endpoints >/dev/null 2>&1 || skip "built without libmicrohttpd"
command -v python3 >/dev/null || skip "no python3"
[ -d "${CLEF_SHARED:-}/oracle/vision" ] || skip "no oracle/vision here (CLEF_SHARED)"
exec python3 "$(dirname "$0")/images.py"
