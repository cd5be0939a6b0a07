# The first start builds kernels and can be interrupted while it does; it keeps them, so that the second start builds none. The driver's own
# cache is off.
. "$(dirname "$0")/lib.sh"
export POCL_KERNEL_CACHE=0 CLEF_CACHE_DIR=$tmp/cache

# `timeout`: a shell's background jobs ignore SIGINT. --foreground: one signal, to clef alone; a second one would end it at once.
timeout --foreground --preserve-status -s INT 1 "$CLEF" run -p "ROMEO:" -n 200 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
same "Ctrl-C while kernels are built" 130 $?
same "writes nothing" "" "$(cat "$tmp/out")"
if grep -q "interrupted" "$tmp/err"; then ok "and says so"; else fail "and says so: $(cat "$tmp/err")"; fi
# To the prover too, as a terminal does it: that it ended says nothing of the kernels.
timeout --preserve-status -s INT 2 "$CLEF" run -p "ROMEO:" -n 200 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
same "Ctrl-C to all processes" 130 $?
same "a half-built cache is no obstacle" "$("$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos -q 2>"$tmp/aside")" \
  "$(CLEF_CACHE_DIR= "$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos -q)"

"$CLEF" run -p "ROMEO:" -n 8 --temp 0 --ignore-eos >"$tmp/out" 2>"$tmp/err"
if grep -q "set aside" "$tmp/aside"; then fail "a prover that was interrupted: $(cat "$tmp/aside")"; else ok "sets no kernel aside"; fi
if grep -q "kernels 0 built, [1-9][0-9]* from the cache" "$tmp/err"; then ok "the next start builds no kernel"; else fail "the next start: $(cat "$tmp/err")"; fi
finish
