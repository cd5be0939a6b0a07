# What `cmake --install` makes works wherever it is moved: the command, pkg-config's consumers, CMake's consumers.
. "$(dirname "$0")/../lib.sh"
if [ -n "${CLEF_SANITIZE:-}" ]; then skip "a library with sanitizers is not for others"; fi

check "cmake --install" cmake --install "$CLEF_BUILD" --prefix "$tmp/first"
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
pc=$(find "$prefix" -name clef.pc)
lib=$(dirname "$(dirname "$pc")")
for file in bin/clef include/clef/clef.h share/clef/demo/model.safetensors share/clef/demo/tokenizer.json; do
  check "installs $file" test -f "$prefix/$file"
done
for command in $("$CLEF" help | awk '/^  [a-z]+ / && $1 != "help" { print $1 }'); do
  check "installs clef-$command.1" test -s "$prefix/share/man/man1/clef-$command.1"
done
for file in man/man1/clef.1 bash-completion/completions/clef zsh/site-functions/_clef fish/vendor_completions.d/clef.fish; do
  check "installs share/$file" test -s "$prefix/share/$file"
done
if command -v mandoc >/dev/null; then
  empty "mandoc finds no fault in the man pages" "$(mandoc -T lint -W warning "$prefix"/share/man/man1/*.1 2>&1)"
fi
cat >"$tmp/complete.sh" <<'B'
. "$1"
complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _clef; echo "${COMPREPLY[*]}"; }
complete_words clef quant
complete_words clef run --temp
complete_words clef run --kv-type ""
complete_words clef help sim
B
same "bash completes" "quantize|--temp|auto f32 f16 q8_0|similarity" \
  "$(bash "$tmp/complete.sh" "$prefix/share/bash-completion/completions/clef" | paste -s -d '|' -)"
check "installs libclef.so" test -e "$lib/libclef.so"
check "installs libclef.a" test -f "$lib/libclef.a"
same "the moved command runs" "$("$CLEF" --version)" "$("$prefix/bin/clef" --version)"
empty "only clef_ is exported" "$(nm -D --defined-only "$lib/libclef.so" | awk '$2 ~ /[TDBRV]/ && $3 !~ /^clef_[a-z]/')"

cat >"$tmp/main.c" <<'C'
#include <clef/clef.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    (void)argv;
    return puts(argc > 1 ? clef_demo_model() : clef_version()) < 0;
}
C
export PKG_CONFIG_PATH=${pc%/*}
# shellcheck disable=SC2046
check "builds by pkg-config" "${CC:-cc}" "$tmp/main.c" -o "$tmp/by_pc" $(pkg-config --cflags --libs clef) -Wl,-rpath,"$lib"
same "and runs" "$("$CLEF" --version)" "clef $("$tmp/by_pc")"
same "finds the demo model where the prefix was moved" "$(realpath "$prefix")/share/clef/demo" \
  "$(realpath "$(env -u CLEF_DEMO_MODEL "$tmp/by_pc" demo)")"
empty "the library holds no path of the build" "$(strings -d "$lib/libclef.so" | grep -F "$CLEF_SOURCE/")"
# shellcheck disable=SC2046
check "builds statically by pkg-config" "${CC:-cc}" "$tmp/main.c" -o "$tmp/by_a" $(pkg-config --cflags clef) "$lib/libclef.a" \
  $(pkg-config --static --libs clef | sed 's/-lclef\b//')
same "and runs statically" "$("$CLEF" --version)" "clef $("$tmp/by_a")"

cat >"$tmp/CMakeLists.txt" <<'M'
cmake_minimum_required(VERSION 3.21)
project(consumer C)
find_package(clef 0.1 REQUIRED COMPONENTS static)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE clef::clef)
add_executable(static main.c)
target_link_libraries(static PRIVATE clef::static)
M
check "find_package(clef)" cmake -G Ninja -S "$tmp" -B "$tmp/build" -DCMAKE_PREFIX_PATH="$prefix"
check "builds by CMake" cmake --build "$tmp/build"
same "clef::clef runs" "$("$CLEF" --version)" "clef $("$tmp/build/shared")"
same "clef::static runs" "$("$CLEF" --version)" "clef $("$tmp/build/static")"
finish
