# shellcheck shell=bash
# Sourced by tools/packages: the Debian packages.

# make_deb INTO [WORK]: builds the packages of the tree in the folder WORK; they come into INTO with the .changes file.
make_deb() {
  local into=$1 work=${2:-$folder/work} part
  make_source "$work"
  (cd "$work/clef-$version" && logged "$log" "building the Debian packages" env DEB_BUILD_OPTIONS="parallel=${CLEF_JOBS:-$(nproc)}" \
    dpkg-buildpackage --no-sign --build=full) || return 1
  rm -rf "$into"
  mkdir -p "$into"
  for part in deb dsc changes buildinfo debian.tar.xz orig.tar.gz; do cp "$work"/*."$part" "$into"; done
  say "${into#"$root"/}: $(find "$into" -name '*.deb' | wc -l) packages"
}

# check_lintian FOLDER: no error and no warning.
check_lintian() {
  lintian --fail-on error,warning --tag-display-limit 0 --allow-root "$1"/*.changes
}
