# README's C example is examples/generate.c, which builds, runs, and gives what `clef run` gives.
. "$(dirname "$0")/../lib.sh"

quoted=$(awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$CLEF_SOURCE/README.md")
same "README quotes examples/generate.c" "$(cat "$CLEF_SOURCE/examples/generate.c")" "$quoted"
flags=
if [ -n "${CLEF_SANITIZE:-}" ]; then flags=-fsanitize=$CLEF_SANITIZE; fi
# shellcheck disable=SC2086
check "examples/generate.c builds" "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$CLEF_SOURCE/include" "$CLEF_SOURCE/examples/generate.c" \
  -o "$tmp/generate" -L"$CLEF_BUILD" -lclef -Wl,-rpath,"$CLEF_BUILD" $flags
same "and generates" "$("$CLEF" run -p "ROMEO:" -n 32 --temp 0 --ignore-eos -q)" "$("$tmp/generate" "ROMEO:")"
finish
