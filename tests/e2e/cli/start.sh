# The first start builds kernels and can be interrupted while it does; it keeps them, so that the second start builds none.
. "$(dirname "$0")/../lib.sh"
export POCL_CACHE_DIR=$tmp/kernels CLEF_CACHE_DIR=$tmp/cache
mkdir -p "$POCL_CACHE_DIR"

# `timeout`: a shell's background jobs ignore SIGINT. --foreground: one signal, to clef alone; a second one would end it at once.
timeout --foreground --preserve-status -s INT 1 "$CLEF" run -p "ROMEO:" -n 200 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
same "Ctrl-C while kernels are built" 130 $?
empty "writes nothing" "$(cat "$tmp/out")"
if grep -q "interrupted" "$tmp/err"; then ok "and says so"; else fail "and says so: $(cat "$tmp/err")"; fi
# To the prover too, as a terminal does it: that it ended says nothing of the kernels.
timeout --preserve-status -s INT 2 "$CLEF" run -p "ROMEO:" -n 200 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
same "Ctrl-C to all processes" 130 $?
text=$("$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos -q 2>"$tmp/aside") || fail "after it a start exited $?: $(cat "$tmp/aside")"
same "a half-built cache is not an obstacle" "$text" \
  "$(env -u POCL_CACHE_DIR CLEF_CACHE_DIR=$no_cache "$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos -q)"

"$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
if grep -q "set aside" "$tmp/aside"; then fail "a prover that was interrupted: $(cat "$tmp/aside")"; else ok "sets no kernel aside"; fi
if grep -q "kernels 0 built, [1-9][0-9]* from the cache" "$tmp/err"; then ok "the next start builds no kernel"; else fail "the next start: $(cat "$tmp/err")"; fi

# As everybody has it: the prover writes clef's behind the command's back, and its end waits for nothing.
unset CLEF_PROVER
export POCL_CACHE_DIR=$tmp/driver CLEF_CACHE_DIR=$tmp/behind
mkdir -p "$POCL_CACHE_DIR"
CLEF_DEBUG=$CLEF_DEBUG,background=1 "$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos -q >"$tmp/out" 2>"$tmp/err"
same "a first start, kernels kept behind it" 0 $?
empty "nothing to say" "$(cat "$tmp/err")"
for _ in $(seq 4800); do
  before=$(ls "$CLEF_CACHE_DIR/programs" 2>/dev/null | wc -l)
  if [ "$before" -gt 10 ] && ! pgrep -f "selftest --prove $CLEF_CACHE_DIR/" >/dev/null; then break; fi
  sleep 0.25
done
same "no file of a proof is left but what was proven" 1 "$(find "$CLEF_CACHE_DIR/proof" -type f | wc -l)"
CLEF_PROVER=/nonexistent "$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos >"$tmp/again" 2>"$tmp/err"
same "the next start has the same text" "$(cat "$tmp/out")" "$(cat "$tmp/again")"
if grep -Eq "kernels [0-3] built, [1-9][0-9]* from the cache" "$tmp/err"; then ok "and finds what was kept"; else fail "and finds what was kept: $(cat "$tmp/err")"; fi
finish
