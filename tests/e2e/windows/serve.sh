# clef serve of clef.exe under Wine. usage: serve.sh TEST.py: of this folder, or of ../serve
. "$(dirname "$0")/../lib.sh"
: "${CLEF_WINE:?}"
export WINEPREFIX=${WINEPREFIX:-$CLEF_BUILD/wine} WINEDEBUG=-all CLEF_NATIVE=${CLEF_NATIVE:-$CLEF_SOURCE/build/clef}
command -v python3 >/dev/null || skip "no python3"
[ -x "$CLEF_NATIVE" ] || skip "no clef for this machine in $CLEF_NATIVE: build it first"
script=$(dirname "$0")/$1
[ -f "$script" ] || script=$(dirname "$0")/../serve/$1
exec python3 "$script"
