# The counts, tables and figures of README.md and of docs/ are what scripts/readme prints, and their links lead to files. The C
# example is examples/generate.c, which builds, runs, and gives what `clef run` gives.
. "$(dirname "$0")/../lib.sh"

check "the generated tables are what scripts/readme makes of them" "$CLEF_SOURCE/scripts/readme" --check
check "docs/serving.md is what scripts/serving makes of it" "$CLEF_SOURCE/scripts/serving" --check
check "README.md has at most 200 lines" test "$(wc -l <"$CLEF_SOURCE/README.md")" -le 200
empty "links of README.md, CHANGELOG.md and docs/ lead to files and headings" "$(python3 "$CLEF_SOURCE/tests/links.py" "$CLEF_SOURCE" 2>&1)"
flags=
if [ -n "${CLEF_SANITIZE:-}" ]; then flags=-fsanitize=$CLEF_SANITIZE; fi
# shellcheck disable=SC2086
check "examples/generate.c builds" "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$CLEF_SOURCE/include" "$CLEF_SOURCE/examples/generate.c" \
  -o "$tmp/generate" -L"$CLEF_BUILD" -lclef -Wl,-rpath,"$CLEF_BUILD" $flags
same "and generates" "$("$CLEF" run -p "ROMEO:" -n 32 --temp 0 --ignore-eos -q)" "$("$tmp/generate" "ROMEO:")"
finish
