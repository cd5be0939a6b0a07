# PoCL's cache: where PoCL cannot write its own, clef gives it one that can be written, and names what fails where there is none.
. "$(dirname "$0")/../lib.sh"
[ "$("$CLEF" devices --json | grep -c PoCL)" -gt 0 ] || skip "PoCL is not among the devices"
chmod 711 "$tmp"
as_user=()
if [ "$(id -u)" = 0 ]; then
  command -v setpriv >/dev/null || skip "root can write anywhere, and there is no setpriv"
  as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  cp "$CLEF" "$tmp/clef" && cp -L "$CLEF_BUILD"/libclef.so.0 "$tmp" # where another user can read them
  CLEF=$tmp/clef
fi
mkdir "$tmp/closed" "$tmp/temp" && chmod 555 "$tmp/closed" && chmod 777 "$tmp/temp"
printf x >"$tmp/file"

# finds NAME FOLDER VARIABLE=VALUE...: there are devices, and PoCL's cache is in that folder below $tmp/open.
finds() {
  local name=$1 folder=$2
  shift 2
  rm -rf "$tmp/open" "$tmp/temp"/* && mkdir -m 777 "$tmp/open"
  "${as_user[@]}" env -i PATH="$PATH" LD_LIBRARY_PATH="$tmp" TMPDIR="$tmp/temp" "$@" "$CLEF" devices >"$tmp/out" 2>&1 || fail "$name: $(tail -n 3 "$tmp/out")"
  same "$name" "$folder" "$(cd "$tmp" && find open temp -name kcache -o -name pocl -o -name chosen | sort | tail -n 1)"
}
finds "a home that can be written" open/.cache/pocl/kcache "HOME=$tmp/open"
finds "XDG_CACHE_HOME before it" open/xdg/pocl/kcache "HOME=$tmp/closed" "XDG_CACHE_HOME=$tmp/open/xdg"
finds "a relative one is ignored" open/.cache/pocl/kcache "HOME=$tmp/open" XDG_CACHE_HOME=relative
finds "POCL_CACHE_DIR before both" open/chosen "HOME=$tmp/open" "POCL_CACHE_DIR=$tmp/open/chosen"
finds "an empty one is none" open/.cache/pocl/kcache "HOME=$tmp/open" POCL_CACHE_DIR=
cache=CLEF_CACHE_DIR=$tmp/open/clef
finds "a home that is closed" open/clef/pocl "HOME=$tmp/closed" "$cache"
finds "a home that is not there" open/clef/pocl "HOME=$tmp/closed/x" "$cache"
finds "HOME=/" open/clef/pocl HOME=/ "$cache"
finds "no HOME" open/clef/pocl "$cache"
finds "POCL_CACHE_DIR is a file" open/clef/pocl "HOME=$tmp/open" "POCL_CACHE_DIR=$tmp/file" "$cache"
finds "POCL_CACHE_DIR takes no files" open/clef/pocl "HOME=$tmp/open" POCL_CACHE_DIR=/proc/self/task "$cache"
finds "no cache of clef either" "temp/clef-$("${as_user[@]}" id -u)/pocl" HOME=/

# A folder of that name that others can write is not trusted.
mkdir -m 777 "$tmp/temp/clef-$("${as_user[@]}" id -u)" 2>/dev/null || chmod 777 "$tmp/temp"/clef-*
chmod 777 "$tmp/temp"/clef-*
refused "no folder at all" 1 "$tmp/closed/.cache/pocl/kcache POCL_CACHE_DIR Permission" "${as_user[@]}" env -i PATH="$PATH" \
  LD_LIBRARY_PATH="$tmp" TMPDIR="$tmp/temp" "HOME=$tmp/closed" "$CLEF" devices
chmod 755 "$tmp/closed"
finish
