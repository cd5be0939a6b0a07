# shellcheck shell=bash
# Sourced by tools/packages: builds everything twice and compares the bytes. The builds differ in what must not matter: folder,
# locale, time zone, time, umask, home and number of processes.

# compare_folders NAME A B: each file of A is the same in B.
compare_folders() {
  local path sum
  for path in "$2"/*; do
    case $path in *.buildinfo | *.changes) continue ;; esac # they name the machine and its packages
    sum=$(sha256sum <"$path")
    same "$1: ${path##*/}" "$sum" "$(sha256sum <"$3/${path##*/}")"
  done
}

check_reproducible() {
  local here=$folder/again there far
  far=$(mktemp -d)
  temporary+=("$far")
  there=$far/a/folder-with-a-longer-name
  rm -rf "$here"
  copy_tree "$here/tree" # so that both build the same, even if somebody edits the tree meanwhile
  local root=$here/tree
  if (export CLEF_JOBS=1 CCACHE_DISABLE=1; umask 022; make_deb "$here/deb" "$here/work" && make_tar "$here/tar" "$here/work-tar") &&
    (export CLEF_JOBS=2 CCACHE_DISABLE=1 LC_ALL=C.UTF-8 LANG=de_DE.UTF-8 TZ=Asia/Tokyo HOME=/nonexistent; umask 077; sleep 61
      make_deb "$far/deb" "$there/work" && make_tar "$far/tar" "$there/work-tar"); then
    passed "all packages are built twice"
    compare_folders "two builds give the same bytes" "$here/deb" "$far/deb"
    compare_folders "two builds give the same bytes" "$here/tar" "$far/tar"
  else
    failed "all packages are built twice"
  fi
  if [ $n_failed -eq 0 ]; then
    rm -rf "$here" "$far"
  else
    temporary=()
    say "the two builds are kept: $here and $far"
  fi
}
