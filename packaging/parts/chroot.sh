# shellcheck shell=bash
# Sourced by tools/packages: a clean Debian 12, to install packages in. All of it needs root.
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
chroot=$folder/root

# base_archive: a minimal Debian, made once.
base_archive() {
  [ -f "$folder/base.tar" ] && return 0
  logged "$log" "fetching a clean Debian" "${as_root[@]}" mmdebstrap --format=tar --variant=minbase bookworm "$folder/base.tar.part" &&
    mv "$folder/base.tar.part" "$folder/base.tar"
}

# new_chroot: unpacks it. Downloaded packages are kept between runs.
new_chroot() {
  base_archive || return 1
  remove_chroot
  mkdir -p "$chroot" "$folder/archives"
  "${as_root[@]}" tar --extract --file "$folder/base.tar" --directory "$chroot" --numeric-owner --exclude './dev/*'
  # Users of a new machine have documentation and translations; a package that misses them would go unseen otherwise.
  "${as_root[@]}" rm -f "$chroot"/etc/apt/apt.conf.d/*clean* "$chroot"/etc/dpkg/dpkg.cfg.d/*
}

remove_chroot() { [ ! -e "$chroot" ] || "${as_root[@]}" rm -rf --one-file-system "$chroot"; }

# inside COMMAND...: runs it in the chroot. What is mounted for it is seen by nobody else, and gone when it ends.
inside() {
  "${as_root[@]}" unshare --mount --propagation private bash -ec '
    root=$1 archives=$2
    shift 2
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys" # PoCL reads the processor from it
    mount --rbind /dev "$root/dev"
    mount --bind "$archives" "$root/var/cache/apt/archives"
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    if [ -f /etc/hosts ]; then cp /etc/hosts "$root/etc/hosts"; fi
    exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp/home LANG=C.UTF-8 \
      DEBIAN_FRONTEND=noninteractive http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" AUTOPKGTEST_TMP=/tmp/test "$@"
  ' inside "$chroot" "$folder/archives" "$@"
}

apt_inside() { inside apt-get -y "$@"; }

# All files but those that apt, dpkg and ldconfig keep for themselves.
files_inside() {
  "${as_root[@]}" find "$chroot" -xdev -path "$chroot/proc" -prune -o -path "$chroot/dev" -prune -o -path "$chroot/sys" -prune -o -path "$chroot/tmp" -prune -o \
    -path "$chroot/var/cache" -prune -o -path "$chroot/var/log" -prune -o -path "$chroot/var/lib/apt" -prune -o \
    -path "$chroot/var/lib/dpkg" -prune -o -printf '%y %P\n' | LC_ALL=C sort
}
