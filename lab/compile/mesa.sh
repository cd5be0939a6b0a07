# shellcheck shell=bash disable=SC2154 # variables of lab/offline
# Sourced by lab/offline --mesa: Mesa's OpenCL driver (rusticl), as Debian 13 has it, compiles the kernels for GPUs that are not here.
# The kernel's side of the graphics driver is Mesa's own stand-in for tests, its drm-shim: it says which chip there is, and runs
# nothing. For Arm's chips the driver is Debian's for Arm, by qemu.
# It wants $home, $kept, $out, $wanted (chips), $brief and $programs. A result is kept as $kept/SUM.mesaVERSION.CHIP: a line for each
# kernel, "KERNEL PRIVATE LOCAL GROUP REGISTERS SPILLED DOTS".
mesa_version=25.0.7
mesa_sum=592272df3cf01e85e7db300c449df5061092574d099da275d19e97ef0510f8a6
zig_python=$PWD/build-zig/bin/python
prefix=$out/prefix folder=$out # of tools/dependencies.sh
. tools/dependencies.sh

# mesa_skip WHY: without the driver there is nothing to fail.
mesa_skip() { say "offline: --mesa: skipped: $*"; exit 0; }

# mesa_root ARCHITECTURE: a folder with the driver, its libraries, and nothing else.
mesa_root() {
  local root=$home/mesa-$mesa_version-$1 mirror name
  [ -d "$root" ] && return 0
  command -v mmdebstrap >/dev/null || return 1
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' | grep -m 1 '/debian/*$') || return 1
  rm -rf "$root.part"
  mmdebstrap --mode=root --variant=extract --architectures="$1" --skip=output/dev,check/empty,check/qemu \
    --aptopt='APT::Install-Recommends "false"' --include=mesa-opencl-icd,ocl-icd-libopencl1,libclc-19,libdrm-dev,libc6-dev \
    trixie "$root.part" "$mirror" >"$out/mmdebstrap" 2>&1 || { tail -n 3 "$out/mmdebstrap" >&2; return 1; }
  for name in bin sbin lib lib64; do [ -e "$root.part/$name" ] || ln -s "usr/$name" "$root.part/$name"; done
  mkdir -p "$root.part"/{proc,sys,dev,tmp,programs,shim}
  mv "$root.part" "$root"
}

# mesa_shim ARCHITECTURE CHIPS SOURCE...: Mesa's stand-in for the kernel's driver of these chips, from its source.
mesa_shim() {
  local root=$home/mesa-$mesa_version-$1 shim=$home/mesa-$mesa_version-$1/shim/$2.so source=$home/mesa-$mesa_version name
  local compiler=(cc)
  shift 2
  [ "$shim" -nt lab/compile/mesa.sh ] && return 0
  if ! [ -d "$source" ]; then
    download m/mesa/mesa_$mesa_version.orig.tar.xz $mesa_sum "$out/mesa.tar.xz" || return 1
    tar --extract --file "$out/mesa.tar.xz" --directory "$home" --wildcards '*/src/*drm-shim/*' '*/src/util/*' '*/src/c11/*' \
      '*/src/amd/common/amd_family.*' '*/include/*' || return 1
  fi
  # What the shim calls of a larger library, without which it does as well. Its fences are not files, for which Mali's driver waits
  # when a program has a table of constants: here they are.
  printf '%s\n' '#include <stdarg.h>' '#include <stdbool.h>' '#include <stddef.h>' \
    'bool debug_get_bool_option(const char *name, bool otherwise) { return otherwise; }' \
    'void mesa_log(int level, const char *tag, const char *format, ...) {}' \
    'size_t u_printf_length(const char *format, va_list args) { return 0; }' \
    '#include <sys/mman.h>' '#include "drm-shim/drm_shim.h"' '#include "drm-uapi/drm.h"' 'extern ioctl_fn_t core_ioctls[];' \
    'static int export_fence(int fd, unsigned long request, void *arg)' \
    '{ return (((struct drm_syncobj_handle *)arg)->fd = memfd_create("fence", 0)) < 0 ? -1 : 0; }' \
    '__attribute__((constructor)) static void give_fences(void)' \
    '{ core_ioctls[_IOC_NR(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD)] = export_fence; }' >"$out/rest.c"
  [ "$root" = "${root%-arm64}" ] || compiler=(mesa_arm64_cc)
  (
    cd "$source" &&
      "${compiler[@]}" -std=gnu11 -O1 -w -fPIC -shared -fvisibility=hidden -D_GNU_SOURCE -DHAVE_PTHREAD -DHAVE_SECURE_GETENV -DHAVE_MEMFD_CREATE \
        -DHAVE_STRUCT_TIMESPEC -DHAVE_ENDIAN_H '-DPACKAGE_VERSION="0"' -Iinclude -Iinclude/drm-uapi -Isrc -Isrc/amd -Isrc/util \
        "-I$out/drm" "-I$out/drm/libdrm" "$@" src/drm-shim/{device,drm_shim}.c src/util/{hash_table,ralloc,set,vma,anon_file,u_call_once,simple_mtx}.c \
        "$out/rest.c" -o "$shim.part" -ldl -lpthread
  ) && mv "$shim.part" "$shim"
}

# Debian's cross compiler, else zig's clang.
mesa_arm64_cc() {
  if command -v aarch64-linux-gnu-gcc >/dev/null; then aarch64-linux-gnu-gcc "$@"; else "$zig_python" -m ziglang cc -target aarch64-linux-gnu.2.36 "$@"; fi
}

# mesa_of CHIP: sets $architecture, $driver and $variables, by which the driver also prints what it compiles.
mesa_of() {
  architecture=amd64
  case $1 in
    adreno*) architecture=arm64 driver=freedreno variables="RUSTICL_ENABLE=freedreno FD_GPU_ID=${1#adreno} IR3_SHADER_DEBUG=cs,disasm" ;;
    mali-g610) architecture=arm64 driver=panfrost variables="RUSTICL_ENABLE=panfrost PAN_GPU_ID=a867 BIFROST_MESA_DEBUG=shaders,internal" ;;
    *) driver=amdgpu variables="RUSTICL_ENABLE=radeonsi AMDGPU_GPU_ID=$1 AMD_DEBUG=cs,asm,stats" ;;
  esac
}

# mesa_get CHIP: makes what a chip needs.
mesa_get() {
  mesa_of "$1"
  mesa_root $architecture || return 1
  mkdir -p "$out/drm"
  cp -r "$home/mesa-$mesa_version-$architecture/usr/include"/{libdrm,xf86drm*.h} "$out/drm"
  if [ $architecture = arm64 ]; then
    mesa_arm64 || return 1
  else
    cp "$programs/build_programs" "$home/mesa-$mesa_version-amd64/"
  fi
  case $driver in
    amdgpu) mesa_shim amd64 amdgpu src/amd/drm-shim/amdgpu_{noop_drm_shim,devices}.c ;;
    freedreno) mesa_shim arm64 freedreno src/freedreno/drm-shim/freedreno_noop.c ;;
    panfrost) mesa_shim arm64 panfrost src/panfrost/drm-shim/panfrost_noop.c ;;
  esac
}

# What runs programs of Arm, and the program that builds, for it.
mesa_arm64() {
  local root=$home/mesa-$mesa_version-arm64
  unpacked qemu qemu-user-static && cp -u "$home/qemu/usr/bin/qemu-aarch64-static" "$root/" || return 1
  if ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    (root=$PWD log=$out/zig.log; . tools/zig.sh; python_packages "$root/build-zig" "ziglang==$zig_version") || return 1
  fi
  [ -e "$root/build_programs" ] && return 0
  mkdir -p "$out/headers" && cp -r /usr/include/CL "$out/headers"
  mesa_arm64_cc -std=c17 -O1 "-I$out/headers" lab/kernels/build_programs.c "$root/usr/lib/aarch64-linux-gnu/libOpenCL.so.1" \
    -Wl,--allow-shlib-undefined -o "$root/build_programs"
}

# mesa_figures: of what the compilers print for each program, lines "FILE REGISTERS SPILLED DOTS", the largest of its kernels.
mesa_figures() {
  awk '
    function show() { if (file != "") print file, registers + 0, spilled + 0, dots + 0 }
    function most(x) { if (x + 0 > registers) registers = x + 0 }
    $1 == "begins" { show(); file = $2; registers = spilled = dots = 0 }
    /^VGPRS:/ { most($2) }
    /^Spilled VGPRs:/ { spilled += $3 }
    /v_dot4|dp4acc|IDOT|iadd_dot/ { dots++ }
    / half, [0-9]+ full/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^full/) most($i) }
    / work registers/ { for (i = 1; i < NF; i++) if ($(i + 1) == "work") most($i) }
    END { show() }'
}

# mesa_inside CHIP FILE...: builds programs of $out/cl where the driver is, in 600 s of processor time at most.
mesa_inside() {
  local root preload="/lib64/ld-linux-x86-64.so.2 --preload "
  mesa_of "$1"
  shift
  root=$home/mesa-$mesa_version-$architecture
  [ $architecture = amd64 ] || preload="/qemu-aarch64-static -E LD_PRELOAD="
  # shellcheck disable=SC2016,SC2086
  unshare --mount sh -c '
    root=$1 work=$2
    shift 2
    mount --make-rprivate / && mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" && mount --rbind /sys "$root/sys" &&
      mount --bind "$work" "$root/programs" && mount -t tmpfs tmpfs "$root/tmp" && exec "$@"' sh "$root" "$out/cl" \
    env -i "PATH=$PATH" HOME=/tmp OCL_ICD_VENDORS=rusticl.icd MESA_SHADER_CACHE_DISABLE=true $variables \
    prlimit --cpu=600 timeout 3600 chroot "$root" ${preload}/shim/$driver.so /build_programs "${@/#//programs/}"
}

# mesa_batch CHIP SUM FILE [SUM FILE]...: builds programs, and keeps what is said of each. What is not built is in $out/failed.
mesa_batch() {
  local chip=$1 at sum file
  shift
  at=$(mktemp -d "$out/at.XXXXXX")
  # shellcheck disable=SC2046
  mesa_inside "$chip" $(printf '%s %s\n' "$@" | cut -d ' ' -f 2) >"$at/lines" 2>"$at/log" || true
  mesa_figures <"$at/log" >"$at/figures"
  while [ $# -gt 1 ]; do
    sum=$1 file=$2
    shift 2
    awk -v file="/programs/$file" 'FNR == NR { if ($1 == file) figures = $2 " " $3 " " $4; next }
      $1 == "kernel" && $2 == file { print $3, $4, $5, $6, figures }' "$at/figures" "$at/lines" >"$at/kept"
    if [ -s "$at/kept" ] && ! grep -q "^failed /programs/$file " "$at/lines"; then
      mv "$at/kept" "$kept/$sum.mesa$mesa_version.$chip"
    else
      echo "$file $chip" >>"$out/failed"
      { sed -n "\|^begins /programs/$file\$|,\|^begins |p" "$at/log"; grep -v -m 2 '^begins' "$at/log"; } | grep -v '^begins' | head -n 4 >"$out/$file.$chip"
    fi
  done
  rm -rf "$at"
}

# mesa_chosen CHIP: lines "SUM FILE KERNEL OPTIONS" of the hot programs that the chip gets. Arm's, which take up to a minute each: the Q4_K
# products and attention, without sub-groups, which their drivers do not have. In brief: of each kernel one of so many, or the first alone.
mesa_chosen() {
  local each=1
  [ -z "$brief" ] || each=1000
  [ -z "$brief" ] || [ "$1" != navi31 ] || each=5
  case $1 in
    adreno* | mali*)
      awk '$3 ~ /^(panel_gpu_(gemv|gemm|activations)|attention_gpu_(decode|flash))$/ && (!/W_TYPE=/ || /W_TYPE=12 .*INT_DOT=[1-9]/) && !n[$3]++' "$out/hot" |
        while read -r _ file kernel options; do
          sed '1s/-D SUBGROUPS=1 /-D SUBGROUPS=0 /' "$out/cl/$file" >"$out/cl/arm$file"
          echo "$(sha256sum <"$out/cl/arm$file" | cut -c 1-32) arm$file $kernel ${options/-D SUBGROUPS=1 /-D SUBGROUPS=0 }"
        done ;;
    # It has 32 KiB of local memory, so that a plan gives it smaller tiles of gradients, and of heads of 128. Mesa's compiler divides
    # by zero where a program takes more.
    pitcairn) awk -v each=$each '$3 !~ /^attention_grad/ && !/ ROWS=32 .* KEYS=32 -D D=128/ && n[$3]++ % each == 0' "$out/hot" ;;
    *) awk -v each=$each 'n[$3]++ % each == 0' "$out/hot" ;;
  esac
}

# mesa_stage: builds, and prints the tables. Sets $failed.
mesa_stage() {
  local chip wanted_here=
  command -v unshare >/dev/null && [ "$(id -u)" -eq 0 ] || mesa_skip "it needs root, for chroot"
  for chip in $wanted; do
    if mesa_get "$chip"; then wanted_here="$wanted_here $chip"; else say "offline: --mesa: skipped $chip: its driver or its stand-in cannot be had"; fi
  done
  [ -n "$wanted_here" ] || mesa_skip "there is no driver"
  "$programs/list_kernels" "$out/cl"
  (cd "$out/cl" && sha256sum ./*.cl) | awk '
    FNR == NR { sub(/\.\//, "", $2); sub(/\.cl/, "", $2); sum[$2] = substr($1, 1, 32); next }
    $2 == "radeonsi" && $7 == "layer" && !seen[$1, $3]++ {
      file = out "/cl/" $1 ".cl"
      getline line <file
      close(file)
      print sum[$1], $1 ".cl", $3, line
    }' out="$out" - "$out/cl/list" >"$out/hot"
  : >"$out/failed"
  for chip in $wanted_here; do
    mesa_chosen "$chip" | while read -r sum file kernel _; do
      echo "$chip $kernel $sum $file" >>"$out/chosen"
      [ -s "$kept/$sum.mesa$mesa_version.$chip" ] || echo "$chip $sum $file"
    done
  done >"$out/jobs"
  say "offline: --mesa: $(wc -l <"$out/chosen") programs for$wanted_here: $(wc -l <"$out/jobs") to build, on $(nproc) processors"
  export -f mesa_of mesa_inside mesa_batch mesa_figures
  export mesa_version brief
  # shellcheck disable=SC2016
  awk '{ if ($1 != chip || n == (chip ~ /adreno|mali/ ? 1 : 8)) { if (n) print line; line = chip = $1; n = 0 } line = line " " $2 " " $3; n++ } END { if (n) print line }' "$out/jobs" |
    xargs -P "$(nproc)" -L 1 bash -c 'mesa_batch "$@"' _
  mesa_tables
}

# A failure for each program that is not built, and for each kernel with private memory, unless a line KERNEL BYTES WHY of
# lab/kernels/allow-mesa allows as much.
mesa_tables() {
  failed=0
  while read -r file chip; do
    say "offline: --mesa: $chip: $(head -n 1 "$out/cl/$file" | sed 's/^.. options: //') is not built"
    cat "$out/$file.$chip" >&2
    failed=$((failed + 1))
  done <"$out/failed"
  while read -r chip kernel sum file; do
    [ -s "$kept/$sum.mesa$mesa_version.$chip" ] || continue
    awk -v kernel="$kernel" -v chip="$chip" -v file="$file" '$1 == kernel { print chip, file, $0 }' "$kept/$sum.mesa$mesa_version.$chip"
  done <"$out/chosen" >"$out/figures"
  mkdir -p "$tables"
  { echo "chip,kernel,constants,private_bytes,local_bytes,largest_group,registers,spilled,dots"
    while read -r chip file rest; do
      # shellcheck disable=SC2086
      set -- $rest
      echo "$chip,$1,$(sed -n '1s,^// options: -w [^ ]* ,,p' "$out/cl/$file"),$2,$3,$4,$5,$6,$7"
    done <"$out/figures"; } >"$tables/mesa.csv"
  while read -r kernel most n; do
    allowed=$(awk -v kernel="$kernel" '$1 == kernel && $3 != "" { print $2 }' lab/kernels/allow-mesa)
    [ "$most" -gt "${allowed:-0}" ] || continue
    say "offline: --mesa: $kernel has up to $most bytes of private memory, in $n programs; lab/kernels/allow-mesa has a reason for ${allowed:-0}"
    failed=$((failed + 1))
  done < <(awk '$4 { n[$3]++; if ($4 > most[$3]) most[$3] = $4 } END { for (k in n) print k, most[k], n[k] }' "$out/figures")
  passed=$(wc -l <"$out/figures")
  awk '
    BEGIN { print "| chip | hot kernels | private memory | spill | most registers | dot instructions |"; print "|---|---|---|---|---|---|" }
    !($1 in all) { chip[++n] = $1 }
    { all[$1]++; private[$1] += $4 > 0; spill[$1] += $8 > 0; dots[$1] += $9; if ($7 > most[$1]) most[$1] = $7 }
    END { for (i = 1; i <= n; i++) { c = chip[i]; print "| " c " | " all[c] " | " private[c] + 0 " | " spill[c] + 0 " | " most[c] + 0 " | " dots[c] + 0 " |" } }' "$out/figures"
  awk '
    BEGIN { print "| kernel | programs | with private memory | most, bytes | registers | spill |"; print "|---|---|---|---|---|---|" }
    { all[$3]++; private[$3] += $4 > 0; spill[$3] += $8 > 0; if ($4 > most[$3]) most[$3] = $4; if ($7 > registers[$3]) registers[$3] = $7 }
    END { for (k in all) if (private[k] || spill[k]) print "| " k " | " all[k] " | " private[k] " | " most[k] + 0 " | " registers[k] " | " spill[k] " |" | "sort" }' "$out/figures"
  say "offline: --mesa: all figures are in $tables/mesa.csv"
}
