# What libclef exports is what debian/libclef0.symbols lists: nothing is added or lost by accident.
. "$(dirname "$0")/../lib.sh"
library=$(readlink -f "$CLEF_BUILD/libclef.so")
[ -f "$library" ] || skip "this system has no libclef.so"

nm -D --defined-only "$library" >"$tmp/all"
awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' "$tmp/all" | LC_ALL=C sort >"$tmp/exported"
same "the library exports what is listed (scripts/abi writes the list)" \
  "$(sed -n 's/^ \(clef_.*\)@CLEF_0 .*/\1/p' "$CLEF_SOURCE/debian/libclef0.symbols")" "$(cat "$tmp/exported")"
empty "every function has the version node" "$(awk '$2 != "A" && $3 !~ /@@CLEF_0$/ { print $3 }' "$tmp/all")"
same "the SONAME" libclef.so.0 "$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')"
finish
