# Each public header compiles alone, as C17 and as C++.
. "$(dirname "$0")/../lib.sh"
cxx=${CXX:-$(command -v c++ || command -v g++ || command -v clang++ || true)}

cd "$CLEF_SOURCE/include" || exit 1
for header in clef/*.h; do
  printf '#include "%s"\nint main(void) { return 0; }\n' "$header" >"$tmp/t.c"
  cp "$tmp/t.c" "$tmp/t.cpp"
  check "$header as C17" "${CC:-cc}" -std=c17 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$tmp/t.c"
  if [ -n "$cxx" ]; then check "$header as C++" "$cxx" -std=c++11 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only "$tmp/t.cpp"; fi
done
finish
