# clef for Arm by qemu, beside the command of this machine: the processors' products of bytes are found and used, and the greedy
# tokens and the quantised files are the same.
. "$(dirname "$0")/../lib.sh"
: "${CLEF_EMULATOR:?}"
native=${CLEF_NATIVE:-$CLEF_SOURCE/build/clef}
[ -x "$native" ] || skip "no clef for this machine in $native: build it first"
# Proofs and fused steps start further processes, each of which would compile for itself.
export CLEF_TUNE=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0
unset CLEF_PROOF CLEF_PROVER QEMU_CPU

# arm PROCESSOR ARGUMENTS...: clef on that processor. native_run: on this one, with a cache of its own.
# What PoCL says of the emulated machine is not a message of clef.
arm() { QEMU_CPU=$1 $CLEF_EMULATOR "$CLEF" "${@:2}" 2> >(grep -v -e "^pocl warning: " -e "hwloc" >&2); }
native_run() { CLEF_CACHE_DIR=$tmp/cache "$native" run "$@"; }
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 12 -q --print-ids --no-proof"

# ---- files

for type in q4_0 q8_0 q4_k_m; do
  "$native" quantize "$demo" "$tmp/$type.gguf" $type -q && arm max quantize "$demo" "$tmp/arm.gguf" $type -q
  check "quantize $type: the same bytes" cmp "$tmp/$type.gguf" "$tmp/arm.gguf"
done
same "tokenize: the same ids" "$("$native" tokenize "$demo" "héllo 日本 ☃")" "$(arm max tokenize "$demo" "héllo 日本 ☃")"

# ---- machines that are refused when CMake configures

# configure FLAG: what CMake says of Arm with that flag of the compiler
configure() {
  rm -rf "$tmp/configured"
  cmake -S "$CLEF_SOURCE" -B "$tmp/configured" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
    "-DCMAKE_C_FLAGS=$1" -DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY 2>&1 | tr -s ' \n' ' '
}
for case in "-mbig-endian:clef needs a little-endian machine" "-mabi=ilp32:clef needs a 64-bit machine"; do
  case $(configure "${case%%:*}") in
    *"${case#*:}"*) ok "${case%%:*}: ${case#*:}" ;;
    *) fail "${case%%:*}: $(configure "${case%%:*}" | tail -c 300)" ;;
  esac
done

# ---- instructions

# variant PROCESSOR CAPS NAME: what `clef devices` says about it
variant() { CLEF_DEBUG=$CLEF_DEBUG,caps=$2 arm "$1" devices --variants | grep "^ *$3: "; }
for case in "max::panel_matmul i8mm" "max::panel_matmul bfdot" "max:-arm64_i8mm:panel_matmul sdot" "max::attention cpu_decode" \
  "cortex-a53::panel_matmul portable"; do
  IFS=: read -r cpu caps name <<<"$case"
  line=$(variant "$cpu" "$caps" "$name")
  case $line in
    "" | *needs*) fail "$cpu, $caps: expected $name, got '$line'" ;;
    *) ok "$cpu has $name" ;;
  esac
done
for name in i8mm sdot bfdot; do
  line=$(variant cortex-a53 "" "panel_matmul $name")
  case $line in
    *"needs an Arm CPU with "*) ok "cortex-a53 has no $name" ;;
    *) fail "cortex-a53 has no $name: '$line'" ;;
  esac
done

# ---- tokens

same "the bundled model: the same ids" "$(native_run "$demo" $greedy)" "$(arm max run "$demo" $greedy 2>&1)"
# The codes of Q8_0 are too large for sdot as they are. Each program takes seconds to compile here, so there are four pairs.
for case in "q4_0:max::usdot and usmmla" "q4_0:cortex-a53::plain C" "q8_0:max::usdot and usmmla" "q8_0:max:-arm64_i8mm:sdot"; do
  IFS=: read -r type cpu caps name <<<"$case"
  want=$(CLEF_DEBUG=$CLEF_DEBUG,caps=-x86_amx native_run "$tmp/$type.gguf" $greedy) # AMX rounds activations otherwise
  same "$type by $name: the same ids" "$want" "$(CLEF_DEBUG=$CLEF_DEBUG,caps=$caps arm "$cpu" run "$tmp/$type.gguf" $greedy 2>&1)"
done
finish
