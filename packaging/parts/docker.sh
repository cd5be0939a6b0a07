# shellcheck shell=bash
# Sourced by tools/packages: the image of packaging/docker, built by buildah on the clean Debian.
image() { "${as_root[@]}" buildah --storage-driver vfs --root "$folder/images" --runroot "$folder/images-run" "$@"; }

remove_images() {
  [ -e "$folder/images" ] || return 0
  image rm --all >>"$log" 2>&1 || true
  image rmi --all --force >>"$log" 2>&1 || true
  "${as_root[@]}" rm -rf "$folder/images" "$folder/images-run"
}

check_docker() {
  local base box
  compgen -G "$folder/deb/clef_$version*.changes" >/dev/null || make_deb "$folder/deb" || { failed "dpkg-buildpackage"; return; }
  base_archive || { failed "a clean Debian 12"; return; }
  base=$(image from scratch) && image add "$base" "$folder/base.tar" / >>"$log" 2>&1 && image commit "$base" clef-base >>"$log" 2>&1 ||
    { failed "an image of the clean Debian"; return; }
  check "the Dockerfile builds" image build --isolation chroot --build-arg BASE=localhost/clef-base -f packaging/docker/Dockerfile \
    -t clef "$folder/deb"
  box=$(image from localhost/clef 2>>"$log") || { failed "a container of the image"; return; }
  check "clef devices in the image names PoCL" image run --isolation chroot "$box" -- sh -c 'clef devices | grep Portable'
  check "clef run in the image" image run --isolation chroot "$box" -- sh -c 'test "$(clef run -n 20 --temp 0 -p ROMEO: | wc -c)" -gt 20'
  check "its first start compiles nothing" image run --isolation chroot "$box" -- sh -c \
    'clef run -n 20 --temp 0 -p ROMEO: 2>&1 | grep "kernels 0 built, [1-9]"'
  check "nor with another cache, after an import" image run --isolation chroot "$box" -- sh -c \
    'export CLEF_CACHE_DIR=/tmp/empty POCL_CACHE_DIR=/tmp/empty/pocl; clef cache import /usr/share/clef/kernels.cache && clef run -n 20 -p ROMEO: 2>&1 | grep "kernels 0 built, [1-9]"'
  check "import clef_cl in the image" image run --isolation chroot "$box" -- python3 -c 'import clef_cl; print(clef_cl.Model().generate("ROMEO:", max_tokens=5))'
  remove_images
}
