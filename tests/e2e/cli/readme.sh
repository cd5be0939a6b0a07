# The counts, tables and figures of README.md are what scripts/readme prints, and its links lead to files. Its C example is
# examples/generate.c, which builds, runs, and gives what `clef run` gives.
. "$(dirname "$0")/../lib.sh"

check "README.md is what scripts/readme makes of it" "$CLEF_SOURCE/scripts/readme" --check
check "docs/serving.md is what scripts/serving makes of it" "$CLEF_SOURCE/scripts/serving" --check
for link in $(grep -oE '\]\([^)#]+' "$CLEF_SOURCE/README.md" | cut -c 3-); do
  check "README links to $link" test -e "$CLEF_SOURCE/$link"
done
flags=
if [ -n "${CLEF_SANITIZE:-}" ]; then flags=-fsanitize=$CLEF_SANITIZE; fi
# shellcheck disable=SC2086
check "examples/generate.c builds" "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$CLEF_SOURCE/include" "$CLEF_SOURCE/examples/generate.c" \
  -o "$tmp/generate" -L"$CLEF_BUILD" -lclef -Wl,-rpath,"$CLEF_BUILD" $flags
same "and generates" "$("$CLEF" run -p "ROMEO:" -n 32 --temp 0 --ignore-eos -q)" "$("$tmp/generate" "ROMEO:")"
finish
