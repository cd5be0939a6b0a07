# The archive that tools/windows makes: what is in it, and that it works where it is unpacked. The archive is not a part of the build
# that the other tests run, which has clef's hooks for tests; so it is refused when it is older than the sources.
. "$(dirname "$0")/../lib.sh"
: "${CLEF_WINE:?}"
native=${CLEF_NATIVE:-$CLEF_SOURCE/build/clef}
version=$("$CLEF_WINE" "$CLEF" --version 2>/dev/null | tr -d '\r' | cut -d ' ' -f 2)
archive=$(dirname "$CLEF_BUILD")/clef-$version-windows-x64.zip
[ -f "$archive" ] || skip "no archive ${archive#"$CLEF_SOURCE/"}: tools/windows makes it"
[ -x "$native" ] || skip "no clef for this machine in $native: build it first"
command -v unzip >/dev/null || skip "no unzip"
export WINEPREFIX=${WINEPREFIX:-$CLEF_BUILD/wine} WINEDEBUG=-all CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0 CLEF_PROOF=0

echo "the archive is ${archive#"$CLEF_SOURCE/"}, made $(date -r "$archive" '+%F %T'), SHA-256 $(sha256sum <"$archive" | cut -c 1-16).."
newer=$(cd "$CLEF_SOURCE" && find CMakeLists.txt cl cmake graph include model runtime tools -type f -newer "$archive" | head -n 1)
if [ -n "$newer" ]; then
  fail "the archive is older than $newer: expected one of the present sources, which tools/windows makes"
  finish
fi
ok "the archive is newer than the sources"
unzip -Z1 "$archive" >"$tmp/names"
same "its entries are sorted" "$(LC_ALL=C sort "$tmp/names")" "$(cat "$tmp/names")"
place="$tmp/Program Files/größe"
mkdir -p "$place"
check "it unpacks" unzip -q "$archive" -d "$place"
top=$(ls -d "$place"/clef-*-windows-x64)
for file in clef.exe libclef.dll LICENSE README.md windows.md share/clef/demo/model.safetensors include/clef/clef.h; do
  check "it has $file" test -s "$top/$file"
done
check "its import library is that of libclef.dll" grep -qa __imp_clef_model_close "$top/lib/libclef.dll.a"
for library in jansson libmicrohttpd mingw-w64 pcre2 protobuf-c utf8proc; do
  check "the licence of $library" test -s "$top/licences/$library.txt"
done
greedy="-p ROMEO: --temp 0 --ignore-eos -n 12 -q --print-ids"
same "the ids of Linux, by the model in it" "$("$native" run $greedy)" "$(cd "$place" && "$CLEF_WINE" "$top/clef.exe" run $greedy 2>&1)"
check "it can serve" "$CLEF_WINE" "$top/clef.exe" serve --list endpoints
for file in clef.exe libclef.dll; do
  empty "$file: no folder of this machine" "$(grep -aoF -e "$CLEF_SOURCE" "$top/$file" | head -n 1)"
  wanted=$("$(command -v x86_64-w64-mingw32-objdump || echo objdump)" -p "$top/$file" | sed -n 's/.*DLL Name: //p' | tr A-Z a-z | sort)
  empty "$file: only libraries of Windows beside it" \
    "$(grep -vxE 'libclef\.dll|kernel32\.dll|msvcrt\.dll|advapi32\.dll|ws2_32\.dll|bcrypt\.dll|psapi\.dll|ntdll\.dll|user32\.dll|api-ms-win-.*' <<<"$wanted")"
done
finish
