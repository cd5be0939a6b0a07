# shellcheck shell=bash
# Sourced by tools/packages: the archive and the Debian package that cpack makes of a build by CMake.

# make_tar INTO [WORK]
make_tar() {
  local into=$1 work=${2:-$folder/work-tar}
  make_source "$work"
  (
    cd "$work/clef-$version"
    logged "$log" configuring cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr \
      -DCMAKE_INSTALL_LIBDIR=lib -DCLEF_DLOPEN_OPENCL=ON &&
      logged "$log" building cmake --build build -j "${CLEF_JOBS:-$(nproc)}" &&
      cd build && logged "$log" packing cpack -G TGZ && logged "$log" packing cpack -G DEB
  ) || return 1
  rm -rf "$into"
  mkdir -p "$into"
  cp "$work/clef-$version/build"/clef*.tar.gz "$work/clef-$version/build"/clef*.deb "$into"
  cp "$work/clef-$version/build/libclef.so.0".* "$into"
  say "${into#"$root"/}: $(cd "$into" && echo clef*)"
}
