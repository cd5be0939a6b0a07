# shellcheck shell=bash
# Sourced by tools/wheel, tools/gpu-kit and tools/ports: clang as zig packs it on PyPI, with the C libraries of other systems. The caller sets:
#   root, log  the root of the tree; a file for the output
zig_version=0.14.1

# python_packages FOLDER PACKAGES...: a virtual environment with these packages, made anew when the list changes.
python_packages() {
  local venv=$1 wanted
  shift
  wanted=$*
  [ "$(cat "$venv/packages" 2>/dev/null)" = "$wanted" ] && return 0
  rm -rf "$venv"
  logged "$log" "making a Python environment" python3 -m venv "$venv"
  logged "$log" "installing $wanted" "$venv/bin/pip" install --quiet "$@"
  printf '%s\n' "$wanted" >"$venv/packages"
}

# zig_toolchain TARGET: installs zig, makes its programs under the names that other tools expect in $folder/bin, and sets what
# cmake/zig.cmake and tools/dependencies.sh read. TARGET is one of zig's: x86_64-linux-gnu.2.17, aarch64-macos. The libraries are
# in $folder/prefix.
zig_toolchain() {
  local tool python=$root/build-zig/bin/python
  python_packages "$root/build-zig" "ziglang==$zig_version"
  mkdir -p "$folder/bin"
  for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" -m ziglang %s "$@"\n' "$python" $tool >"$folder/bin/$tool"
  done
  printf '#!/bin/sh\nexec "%s" -m ziglang cc -target %s "$@"\n' "$python" "$1" >"$folder/bin/cc"
  chmod +x "$folder"/bin/*
  export CLEF_ZIG_MACHINE=${1%%-*} CLEF_ZIG_BIN=$folder/bin CLEF_ZIG_PREFIX=$folder/prefix CLEF_ZIG_SYSTEM=Linux
  case $1 in
    *-macos*) CLEF_ZIG_SYSTEM=Darwin ;;
  esac
  toolchain=-DCMAKE_TOOLCHAIN_FILE=$root/cmake/zig.cmake
  target_cc=$folder/bin/cc
  target_ar=$folder/bin/ar
}

# portable_clef: builds clef into $folder/install, with every library in it but those that it opens when they are needed: OpenCL's
# loader and CLBlast. It needs zig_toolchain() and tools/dependencies.sh.
portable_clef() {
  local library
  for library in opencl_headers clblast_header jansson utf8proc pcre2 protobuf_c; do once $library; done
  logged "$log" configuring cmake -S . -B "$folder/clef" -G Ninja "$toolchain" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_LIBDIR=lib -DCLEF_DLOPEN_OPENCL=ON -DCLEF_MPI=OFF \
    -DCMAKE_C_FLAGS="-DPCRE2_STATIC -DUTF8PROC_STATIC"
  logged "$log" building cmake --build "$folder/clef"
  rm -rf "$folder/install"
  logged "$log" installing cmake --install "$folder/clef" --prefix "$folder/install" --strip
}
