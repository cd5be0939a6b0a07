# shellcheck shell=bash disable=SC2154 # variables of lab/offline
# Sourced by lab/offline: the compilers of GPUs that are not here, and compiling programs with them.
# It wants $home (where tools and results are kept), $kept ($home/offline), $out (a folder that is removed at the end) and
# $wanted (targets). compilers_find drops from $wanted what cannot be compiled for here. compile_listed compiles.
# A result is kept by the program's source and options, the compiler and the target, as $kept/SUM.COMPILER.TARGET: a line for
# each kernel, "KERNEL REGISTERS SPILLED STACK LOCAL X". X: AMD's occupancy in waves, or Intel's SIMD width.
# With code=1, SUM.COMPILER.TARGET.gz is its assembly.

# ---- tools ------------------------------------------------------------------------------------------------------------------------------

get_ptxas() {
  [ -x "$home/ptxas" ] && return 0
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || return 1
  timeout 600 python3 -m pip download -q --no-deps -d "$out/nv" nvidia-cuda-nvcc-cu12 >&2 || return 1
  python3 -m zipfile -e "$out"/nv/*.whl "$out/nv" && install -m 755 "$out/nv/nvidia/cuda_nvcc/bin/ptxas" "$home/ptxas"
}

get_nvdisasm() {
  [ -x "$home/nvdisasm" ] && return 0
  command -v python3 >/dev/null && python3 -m pip --version >/dev/null 2>&1 || return 1
  timeout 600 python3 -m pip download -q --no-deps -d "$out/nvd" nvidia-cuda-nvdisasm >&2 || return 1
  python3 -m zipfile -e "$out"/nvd/*.whl "$out/nvd" && install -m 755 "$(find "$out/nvd" -name nvdisasm)" "$home/nvdisasm"
}

# unpacked NAME PACKAGE...: unpacks Debian packages beside the system. If they were installed, their driver would appear among
# the machine's.
unpacked() {
  local name=$1 deb
  shift
  [ -d "$home/$name/usr" ] && return 0
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  mkdir -p "$out/$name"
  (cd "$out/$name" && apt-get download "$@") >/dev/null 2>&1 || return 1
  rm -rf "$home/$name.part"
  for deb in "$out/$name"/*.deb; do dpkg -x "$deb" "$home/$name.part"; done
  rm -rf "${home:?}/$name" && mv "$home/$name.part" "$home/$name"
}

# ROCm's libraries need the target's number; this release has none for gfx1100. clang-19 reads what clang-15 writes.
get_rocm() {
  unpacked rocm rocm-device-libs || return 1
  bitcode=$(dirname "$(find "$home/rocm" -name ockl.bc | head -n 1)")
  [ -e "$bitcode/oclc_isa_version_1100.bc" ] && return 0
  echo 'extern const __constant int __oclc_ISA_version; const __constant int __oclc_ISA_version = 11000;' >"$out/isa.cl"
  clang-15 -x cl -cl-std=CL2.0 -target amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -emit-llvm -c -o "$bitcode/oclc_isa_version_1100.bc" "$out/isa.cl"
}

drop() { # PATTERN WHY: removes a vendor's targets from the list, and reports it
  local left='' target gone=''
  for target in $wanted; do
    # shellcheck disable=SC2254
    case $target in $1) gone=1 ;; *) left="$left $target" ;; esac
  done
  wanted=$left
  if [ -n "$gone" ]; then say "offline: skipped $2"; fi
}
# ---- compiling ---------------------------------------------------------------------------------------------------------------------------
# Each function prints lines "KERNEL REGISTERS SPILLED STACK LOCAL X". X is AMD's occupancy in waves, or Intel's SIMD width.

options_of() { sed -n '1s,^// options: ,,p' "$1"; }

# Scalar registers spill into lanes of vector registers, not into memory, and do not count.
amd() { # FILE TARGET
  local libraries='' part isa=${2#gfx} wave=on
  case $2 in gfx1*) wave=off ;; esac
  for part in opencl ocml ockl oclc_correctly_rounded_sqrt_on oclc_daz_opt_off oclc_finite_only_off oclc_unsafe_math_off \
    oclc_wavefrontsize64_$wave "oclc_isa_version_$isa" oclc_abi_version_400; do
    libraries="$libraries -Xclang -mlink-builtin-bitcode -Xclang $bitcode/$part.bc"
  done
  # shellcheck disable=SC2046,SC2086
  "$amd_clang" -w -x cl $(options_of "$1") -target amdgcn-amd-amdhsa "-mcpu=$2" -nogpulib -Xclang -finclude-default-header $libraries -O3 \
    -S -o "$at/a.s" "$1" || return 1
  awk '/; -- Begin function/ { f = $NF } /^; Occupancy:/ { waves[f] = $3 } /^    \.group_segment_fixed_size:/ { l = $2 } /^    \.name: / { k = $2 }
    /^    \.private_segment_fixed_size:/ { p = $2 } /^    \.vgpr_count:/ { v = $2 }
    /^    \.vgpr_spill_count:/ { print k, v, $2, $2 ? 0 : p, l, waves[k] }' "$at/a.s"
}

# One PTX serves all NVIDIA targets, each under its own name: this clang does not know sm_89 and sm_90.
ptx() { # FILE
  # shellcheck disable=SC2046
  "$clang" -w -x cl $(options_of "$1") -target nvptx64--nvidiacl -Xclang -target-cpu -Xclang sm_70 -nogpulib -Xclang -finclude-default-header \
    -Xclang -mlink-builtin-bitcode -Xclang /usr/lib/clc/nvptx64--nvidiacl.bc -O3 -S -o "$at/a.ptx" "$1"
}

nvidia() { # FILE TARGET
  [ -e "$at/a.ptx" ] || ptx "$1" || return 1
  sed "s/^\.version .*/.version 7.8/; s/^\.target .*/.target $2/" "$at/a.ptx" >"$at/$2.ptx"
  "$home/ptxas" -v "-arch=$2" "$at/$2.ptx" -o "$at/a.bin" >"$at/v" 2>&1 || { cat "$at/v" >&2; return 1; }
  awk -F "[ ,']+" '/Compiling entry function/ { for (i = 1; i <= NF; i++) if ($i == "function") k = $(i + 1) }
    /bytes stack frame/ { for (i = 2; i <= NF; i++) { if ($i == "stack") f = $(i - 2); if ($i == "spill" && $(i + 1) == "stores") s = $(i - 2) } }
    /Used .* registers/ { l = 0
      for (i = 3; i <= NF; i++) { if ($i == "registers") r = $(i - 1); if ($i == "smem") l = $(i - 2) }
      p = f > s ? f - s : 0; print k, r, s, p, l, 0 }' "$at/v"
}

# This ocloc declares products of bytes without having them; its compiler has the instruction under a name of its own. It has
# products of matrices without declaring them. It leaves calls that it cannot resolve to the driver, and compiles instructions
# that the device lacks to nothing: here both are failures.
intel() { # FILE TARGET
  { echo 'int __builtin_IB_dp4a_ss(int, int, int) __attribute__((const));'
    echo 'int __attribute__((overloadable)) dot_4x8packed_ss_int(uint a, uint b) { return __builtin_IB_dp4a_ss(0, as_int(a), as_int(b)); }'
    echo 'int8 __attribute__((overloadable)) intel_sub_group_i8_i8_matrix_mad_k32(int8, int8, int8);'
    echo 'float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(int8, int8, float8);'
    echo 'float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(int8, int8, float8);'
    echo 'uint8 __attribute__((overloadable)) intel_sub_group_block_read8(const local uint *);'
    echo 'void __attribute__((overloadable)) intel_sub_group_block_write8(local uint *, uint8);'
    echo '#define cl_intel_subgroup_local_block_io 1'
    cat "$1"; } >"$at/intel.cl"
  local lib=$home/ocloc/usr/lib/x86_64-linux-gnu
  rm -rf "$at/dump" && mkdir "$at/dump"
  IGC_ShaderDumpEnable=${code:-0} IGC_DumpToCustomDir=$at/dump LD_LIBRARY_PATH=$lib:$lib/intel-opencl "$home/ocloc/usr/bin/ocloc" compile --format zebin -output_no_suffix -output "$2" -device "$2" -file "$at/intel.cl" \
    -out_dir "$at" -options "$(options_of "$1")" >"$at/v" 2>&1 || { cat "$at/v" >&2; return 1; }
  grep -q "Build succeeded" "$at/v" && ! grep -q "INVALID opcode" "$at/v" || { cat "$at/v" >&2; return 1; }
  if readelf -sW "$at/$2" | grep 'GLOBAL.*UND' >&2; then return 1; fi
  readelf -p .ze_info "$at/$2" | sed 's/\\n$//; s/^  \[ *[0-9a-f]*\]  *//' |
    awk 'function show() { if (k != "") print k, g, s, p, l, w }
      /- name: / { show(); k = $3; g = s = p = l = w = 0 } /- type: / { t = $3 } /usage: / { u = $2 }
      t == "scratch" && /^ *size:/ { if (u == "private_space") p = $2; else s = $2; t = "" } /grf_count:/ { g = $2 } /simd_size:/ { w = $2 } /slm_size:/ { l = $2 } /kernels_misc_info:/ { exit } END { show() }'
}

# What a compilation left, as assembly. nvdisasm no longer takes sm_70, whose instructions are those of sm_75 as far as kernels
# here use them: the file's header says that it is for that one. Intel's disassembler is not in Debian, so its compiler writes
# each kernel while it compiles.
code_of_amd() { awk '/^[A-Za-z_.]/ || /^\t[a-z]/ { sub(/ *;.*/, ""); print }' "$at/a.s"; }
code_of_nvidia() { # TARGET
  if [ "$1" = sm_70 ]; then
    printf '\113' | dd of="$at/a.bin" bs=1 seek=48 conv=notrunc 2>/dev/null
    printf '\113' | dd of="$at/a.bin" bs=1 seek=50 conv=notrunc 2>/dev/null
  fi
  "$home/nvdisasm" -c "$at/a.bin"
}
# Where a kernel's arguments are stands before it, in lines that begin with "//ze".
code_of_intel() { # TARGET
  readelf -p .ze_info "$at/$1" | sed 's/\\n$//; s/^  \[ *[0-9a-f]*\]  *//; s/^/\/\/ze /' &&
    sed '/^\/\/\.\(kernel\|instCount\)/!{/^\/\//d}' "$at"/dump/*_entry_*.asm
}

# A digest of what compiles for a vendor. Results are kept until it changes.
vendor_of() { case $1 in gfx*) echo amd ;; sm_*) echo nvidia ;; *) echo intel ;; esac; }
compiler_of() { # VENDOR
  { declare -f options_of ptx "$1"
    case $1 in
      amd) "$amd_clang" --version && cksum "$bitcode/ockl.bc" ;;
      nvidia) "$clang" --version && "$home/ptxas" --version ;;
      *) find "$home/ocloc" -name '*.so.*' ;;
    esac; } | sha256sum | cut -c 1-12
}

# keep_code TARGET FILE: writes the assembly of what was compiled last. It fails where there is none.
keep_code() {
  (set -o pipefail && "code_of_$(vendor_of "$1")" "$1") >"$at/code" && [ -s "$at/code" ] && gzip -9 <"$at/code" >"$at/code.gz" &&
    mv "$at/code.gz" "$2"
}

# one NUMBER SUM TARGET...: compiles a program for some targets of one vendor. On failure the compiler's messages are in
# $out/NUMBER.TARGET.
one() {
  local file=$out/cl/$1.cl number=$1 sum=$2 target vendor compiler at name
  shift 2
  vendor=$(vendor_of "$1")
  compiler=$(cat "$out/$vendor")
  at=$(mktemp -d "$out/at.XXXXXX")
  for target in "$@"; do
    name=$kept/$sum.$compiler.$target
    if "$vendor" "$file" "$target" >"$at/lines" 2>"$at/log" && [ -s "$at/lines" ] &&
      { [ -z "${code:-}" ] || keep_code "$target" "$name.gz" 2>>"$at/log" ||
        { echo "its assembly cannot be had" >>"$at/log" && false; }; }; then
      mv "$at/lines" "$name"
    else
      mv "$at/log" "$out/$number.$target"
    fi
  done
  rm -rf "$at"
}
export -f options_of amd ptx nvidia intel code_of_amd code_of_nvidia code_of_intel vendor_of keep_code one

say_why() { # NUMBER TARGET: the first lines of the compiler's messages
  if [ -e "$out/$1.$2" ]; then head -n 4 "$out/$1.$2" >&2; fi
}

compilers_find() {
  local target vendor
  clang=$(command -v clang-15 || true)
  amd_clang=$(command -v clang-19 || true)
  bitcode=
  [ -n "$clang" ] && [ -n "$amd_clang" ] && get_rocm || drop 'gfx*' "AMD: clang-15 or clang-19 is not installed, or rocm-device-libs cannot be had"
  [ -n "$clang" ] && [ -r /usr/lib/clc/nvptx64--nvidiacl.bc ] && get_ptxas &&
    { [ -z "${code:-}" ] || get_nvdisasm; } ||
    drop 'sm_*' "NVIDIA: clang-15 or libclc-15 is not installed, or ptxas or nvdisasm from PyPI cannot be had"
  unpacked ocloc intel-opencl-icd libigc1 libigdfcl1 libigdgmm12 libopencl-clang14 libllvmspirvlib14 libllvm14 &&
    command -v readelf >/dev/null || drop '[dt]g*' "Intel: ocloc or readelf cannot be had"
  export clang amd_clang bitcode
  for target in $wanted; do
    vendor=$(vendor_of "$target")
    [ -e "$out/$vendor" ] || compiler_of "$vendor" >"$out/$vendor"
    echo "$target $(cat "$out/$vendor").$target" >>"$out/compilers"
  done
}

# compile_listed: compiles what "$out/cl/list" has (lines that begin PROGRAM TARGET) and is not kept yet, NVIDIA's targets of a
# program together. $out/sums then has lines "PROGRAM SUM".
compile_listed() {
  (cd "$out/cl" && sha256sum ./*.cl) | while read -r sum file; do
    number=${file#./}
    echo "${number%.cl} ${sum:0:32}"
  done >"$out/sums"
  find "$kept" -maxdepth 1 -type f ! \( -name '*.gz' -size -40c \) | sed 's,.*/,,' >"$out/have" # an empty .gz is less
  awk -v out="$out" -v code="${code:-}" '
    BEGIN {
      while ((getline line < (out "/compilers")) > 0) { split(line, w, " "); is[w[1]] = w[2] }
      while ((getline line < (out "/have")) > 0) done[line] = 1
    }
    FNR == NR { sum[$1] = $2; next }
    !($2 in is) || (($1, $2) in seen) { next }
    { seen[$1, $2] = 1; name = sum[$1] "." is[$2] }
    (name in done) && (!code || ((name ".gz") in done)) { next }
    $2 ~ /^sm_/ { sm[$1] = sm[$1] " " $2; next }
    { print $1, sum[$1], $2 }
    END { for (i in sm) print i, sum[i] sm[i] }' "$out/sums" "$out/cl/list" | sort >"$out/jobs"
  say "offline: $(ls "$out/cl" | grep -c '\.cl$') programs for ${wanted# }: $(wc -l <"$out/jobs") compilations, on $(nproc) processors"
  if [ -s "$out/jobs" ]; then
    export code
    # shellcheck disable=SC2016
    xargs -P "$(nproc)" -L 1 bash -c 'one "$@"' _ <"$out/jobs"
  fi
}
