#!/usr/bin/env bash
# lab/offline where compilers or disassemblers fail: what is kept or written is whole, or as it was. No compiler is needed.
. "$CLEF_SOURCE/tests/e2e/lib.sh"
offline=$CLEF_SOURCE/lab/offline
for name in python3 sha256sum gzip; do command -v $name >/dev/null || skip "lab/offline needs $name"; done

# stopped NAME CODE WORDS ARGUMENT...: lab/offline stops with that code and says the words.
stopped() {
  local name=$1 code=$2 words=$3 got=0 word
  shift 3
  "$offline" "$@" >"$tmp/out" 2>&1 </dev/null || got=$?
  same "$name: exit code" "$code" "$got"
  for word in $words; do grep -qF -e "$word" "$tmp/out" || fail "$name: expected '$word' in: $(tail -n 3 "$tmp/out")"; done
}
stopped "an unknown option" 2 "--brief --speed --steps --check --validate --write --compare sm_80 --tabel" --tabel
echo "all targets" >"$tmp/table.csv"
stopped "an unknown chip" 2 "navi31 mali-g610 navi32" --mesa navi32
stopped "Mesa's driver does not predict" 2 "--mesa --speed" --mesa --speed
stopped "one target's figures in place of all" 2 "--write TARGET" --speed sm_89 --write "$tmp/table.csv"

# No compiler can be had.
mkdir -p "$tmp/bin"
for name in apt-get timeout; do
  printf '#!/bin/sh\nexit 1\n' >"$tmp/bin/$name"
  chmod +x "$tmp/bin/$name"
done
export CLEF_MATRIX_DIR=$tmp/matrix CLEF_MATRIX_BUILD=$CLEF_BUILD
PATH=$tmp/bin:$PATH stopped "no compilers" 1 "--write compilers none" --speed --write "$tmp/table.csv"
same "the file stays" "all targets" "$(cat "$tmp/table.csv")"
unset CLEF_MATRIX_DIR CLEF_MATRIX_BUILD

# ---- kept assembly
say() { echo "$*"; }
export home=$tmp/home out=$tmp/work kept=$tmp/kept at=$tmp/at wanted=sm_80
mkdir -p "$home" "$out/cl" "$kept" "$at"
. "$CLEF_SOURCE/lab/compile/compile.sh"
# disassembler TEXT CODE
disassembler() {
  printf '#!/bin/sh\nprintf "%%s" "%s"\nexit %d\n' "$1" "$2" >"$home/nvdisasm"
  chmod +x "$home/nvdisasm"
}
# keeps NAME WANTED: what is kept of an assembly
keeps() {
  local code=0
  rm -f "$tmp/kept.gz"
  keep_code sm_80 "$tmp/kept.gz" || code=$?
  same "$1" "$2" "$code $(if [ -e "$tmp/kept.gz" ]; then gzip -d <"$tmp/kept.gz"; else echo none; fi)"
}
disassembler code 0
keeps "a disassembly" "0 code"
disassembler code 1
keeps "a disassembler that fails" "1 none"
disassembler "" 0
keeps "a disassembler that prints nothing" "1 none"

# listed: the compilations that compile_listed asks for
listed() {
  compile_listed >/dev/null
  cut -d ' ' -f 1 "$out/jobs"
}
one() { :; }
export -f one
code=1
echo "kernel void k() {}" >"$out/cl/0000.cl"
echo "0000 sm_80" >"$out/cl/list"
echo "sm_80 x.sm_80" >"$out/compilers"
same "a program that is not kept" 0000 "$(listed)"
name=$kept/$(sha256sum "$out/cl/0000.cl" | cut -c 1-32).x.sm_80
echo "k 1 0 0 0 0" >"$name"
gzip -9 </dev/null >"$name.gz"
same "one whose kept assembly is empty" 0000 "$(listed)"
echo "some assembly that is not empty" | gzip -9 >"$name.gz"
empty "one that is kept" "$(listed)"
finish
