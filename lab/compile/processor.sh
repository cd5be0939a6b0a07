# shellcheck shell=bash disable=SC2154,SC2034 # variables of lab/offline
# Sourced by lab/offline --speed --validate-processor: the time of clef's kernels on this machine's processor, as PoCL runs them,
# beside what llvm-mca says of their code.
failed=0
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  say "offline: --validate-processor skipped: Python 3.11 is not installed"
  return
fi
mca=llvm-mca libraries=
if unpacked llvm-mca llvm-19 libllvm19; then # newer than the system's, which may not know the processor
  mca=$(find "$home/llvm-mca/usr/lib" -path '*/bin/llvm-mca' | head -n 1)
  libraries=$(dirname "$(find "$home/llvm-mca/usr/lib" -type f -name 'libLLVM.so*' | head -n 1)")
fi
python3 lab/speed/processor.py "${CLEF_MATRIX_BUILD:-build}/clef" "$out/processor" "$mca" ${libraries:+"$libraries"} \
  ${to:+--document "$to"} || failed=1
