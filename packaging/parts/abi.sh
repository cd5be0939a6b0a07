# shellcheck shell=bash
# Sourced by tools/packages: the interface of the library that make_deb has built, and that the check sees changes.

# change_and_check NAME CODE WORDS: builds the changed library, whose check must end with CODE and say WORDS.
change_and_check() {
  local name=$1 code=$2 words=$3 came=0
  logged "$log" building cmake --build "$build" --target libclef.so || came=building
  [ $came = building ] || "$tree/scripts/abi" check "$build/libclef.so" >"$folder/check.out" 2>&1 || came=$?
  if [ $came != "$code" ] || ! grep -qF "$words" "$folder/check.out"; then
    failed "$name: expected exit code $code and '$words', got $came"
    tail -n 5 "$folder/check.out"
  else
    passed "$name: $(grep -F "$words" "$folder/check.out" | head -n 1)"
  fi
  cp -r "$tree/.unchanged/." "$tree"
}

# All changes are made in the copy of the tree that the packages were built in.
check_abi() {
  local tree=$folder/work/clef-$version build
  build=$(echo "$tree"/obj-*)
  check "the interface is that which is recorded in cmake/abi" scripts/abi check "$build/libclef.so"
  rm -rf "$tree/.unchanged"
  mkdir "$tree/.unchanged"
  (cd "$tree" && cp --parents include/clef/tune.h cmake/exports.map model/about.c model/open/model.h CMakeLists.txt .unchanged)

  sed -i 's/^} clef_tune_opts;/    int32_t more;\n&/' "$tree/include/clef/tune.h"
  change_and_check "a struct with one more field is refused" 1 "Expected another CLEF_ABI"
  sed -i 's/^struct clef_model {/&\n    int32_t more;/' "$tree/model/open/model.h"
  change_and_check "a struct of which users see only the name may change" 0 "the interface is that of"
  sed -i 's/local: \*;/local: clef_demo_model; *;/' "$tree/cmake/exports.map"
  change_and_check "a function that is gone is refused" 1 "Expected another CLEF_ABI"
  echo 'CLEF_API int clef_more(void); int clef_more(void) { return 1; }' >>"$tree/model/about.c"
  change_and_check "a function that came is refused in the same version" 1 "Expected a new minor version"
  echo 'CLEF_API int clef_more(void); int clef_more(void) { return 1; }' >>"$tree/model/about.c"
  sed -i 's/^project(clef VERSION [0-9]*\.[0-9]*\./project(clef VERSION 0.99./' "$tree/CMakeLists.txt"
  change_and_check "and taken in the next minor version" 0 "functions were added"
  sed -i 's/^} clef_tune_opts;/    int32_t more;\n&/' "$tree/include/clef/tune.h"
  sed -i 's/^set(CLEF_ABI 0)/set(CLEF_ABI 1)/' "$tree/CMakeLists.txt"
  change_and_check "a changed struct is taken with another SONAME" 0 "and the SONAME with it"
  rm -rf "$tree/.unchanged"
}
