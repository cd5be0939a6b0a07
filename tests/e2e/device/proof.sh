# Proof before use: what is wrong, hangs or crashes is set aside with one line, and the answer stays; nothing is proven twice.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 12 -q --print-ids"
export CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0
unset CLEF_PROOF CLEF_PROVER

want=$(CLEF_PROOF=0 "$CLEF" run "$demo" $greedy)
empty "CLEF_PROOF=0 proves nothing" "$(ls "$tmp/cache/proof" 2>/dev/null)"
same "--no-proof neither" "$want" "$("$CLEF" run "$demo" $greedy --no-proof)"
empty "and leaves nothing" "$(ls "$tmp/cache/proof" 2>/dev/null)"
for command in run embed similarity classify fill eval graph attention logits compare replay bench perplexity; do
  if "$CLEF" "$command" --help-all | grep -q -e --no-proof; then ok "$command takes --no-proof"; else fail "$command takes no --no-proof"; fi
done
"$CLEF" embed "$CLEF_SOURCE/tests/fixtures/tiny-bert" "a cat" -q --no-proof >"$tmp/out" || fail "embed --no-proof"
"$CLEF" logits "$demo" -p ROMEO: -q --no-proof >"$tmp/out" || fail "logits --no-proof"
empty "nor do embed and logits" "$(ls "$tmp/cache/proof" 2>/dev/null)"

same "proven, the ids are the same" "$want" "$("$CLEF" run "$demo" $greedy 2>"$tmp/err")"
empty "with nothing to say" "$(cat "$tmp/err")"
same "one file of proofs" 1 "$(find "$tmp/cache/proof" -type f | wc -l)"
# The lines of the file of proofs that say of a kernel what the words do not: the first line is the version, those with # are the device.
others_than() { tail -q -n +2 "$tmp"/cache/proof/*.txt 2>/dev/null | grep -vE "^#| ($1) "; }
empty "and all right" "$(others_than right)"
before=$(cksum "$tmp"/cache/proof/*.txt)
# A prover that leaves a trace: a second start must not call it.
printf '#!/bin/sh\ntouch "%s"\nexec "%s" "$@"\n' "$tmp/called" "$CLEF" >"$tmp/prover"
chmod +x "$tmp/prover"
same "a second start" "$want" "$(CLEF_PROVER=$tmp/prover "$CLEF" run "$demo" $greedy)"
if [ -e "$tmp/called" ]; then fail "proves nothing again"; else ok "proves nothing again"; fi
same "its file is as it was" "$before" "$(cksum "$tmp"/cache/proof/*.txt)"

# The variant that serves decode on CPUs with vectors; elsewhere another one serves and the break is not seen.
variant=cached_attention.cpu_decode
grep -q " cached_attention cpu_decode " "$tmp"/cache/proof/*.txt || variant=$(awk '$3 != "-" { print $2 "." $3; exit }' "$tmp"/cache/proof/*.txt)
for how in wrong crash; do
  rm -rf "$tmp/cache/proof"
  got=$(CLEF_DEBUG=$CLEF_DEBUG,break=$variant=$how "$CLEF" run "$demo" $greedy 2>"$tmp/err")
  same "$how: the ids are the same" "$want" "$got"
  same "$how: one line says so" 1 "$(grep -c "${variant/./ } .*set aside" "$tmp/err")"
  echo "$how: $(cat "$tmp/err")"
  got=$(CLEF_DEBUG=$CLEF_DEBUG,break=$variant=$how CLEF_PROVER=$tmp/prover "$CLEF" run "$demo" $greedy 2>"$tmp/err")
  same "$how: again, the ids are the same" "$want" "$got"
  if [ -e "$tmp/called" ]; then fail "$how: remembered"; else ok "$how: remembered"; fi
done

# What packs weights is proven before its readers: they are not blamed for it.
rm -rf "$tmp/cache/proof"
as_gpu() { CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu "$@"; }
after=$(as_gpu "$CLEF" run "$demo" $greedy --no-proof)
same "a wrong pack: the ids are the same" "$after" "$(CLEF_DEBUG=$CLEF_DEBUG,break=pack.groups=wrong as_gpu "$CLEF" run "$demo" $greedy 2>"$tmp/err")"
same "it alone is set aside" "pack groups wrong" "$(others_than right | awk '{ print $2, $3, $4 }')"
rm -rf "$tmp/cache/proof"

# A hang is a suspicion: the next start tries again. proof_seconds counts the prover's own time, so that other load does not matter.
again() { rm -f "$tmp/called"; CLEF_PROVER=$tmp/prover "$CLEF" run "$demo" $greedy 2>"$tmp/err"; }
called() { if [ -e "$tmp/called" ]; then echo yes; else echo no; fi; }
for how in hang spin; do
  rm -rf "$tmp/cache/proof"
  got=$(CLEF_DEBUG=$CLEF_DEBUG,break=$variant=$how,proof_seconds=4 "$CLEF" run "$demo" $greedy 2>"$tmp/err")
  same "$how: the ids are the same" "$want" "$got"
  same "$how: one line says so" 1 "$(grep -c "${variant/./ } does not come back .*set aside" "$tmp/err")"
  echo "$how: $(cat "$tmp/err")"
done
proofs=$(echo "$tmp"/cache/proof/*.txt)
same "noted as of one occasion" 1 "$(awk '$4 == "hung" { print $6 }' "$proofs" | sort -u)"
got=$(CLEF_DEBUG=$CLEF_DEBUG,break=$variant=hang,proof_seconds=4 again)
same "a second start tries again" "yes $want" "$(called) $got"
empty "says nothing" "$(cat "$tmp/err")"
same "and notes a second occasion" 2 "$(awk '$4 == "hung" { print $6 }' "$proofs" | sort -u)"
cp "$proofs" "$tmp/proofs"
sed -i 's/\( hung [^ ]*\) 2 /\1 3 /' "$proofs"
same "after three it is not tried again" "no $want" "$(got=$(again); echo "$(called) $got")"
sed -i 's/\( hung [^ ]* 3\) .*/\1 1000/' "$proofs"
same "a week later it is" "yes $want" "$(got=$(again); echo "$(called) $got")"
sed '1s/ [^ ]*$/ 0.0/; s/\( hung [^ ]*\) 2 /\1 3 /' "$tmp/proofs" >"$proofs"
same "and by another version of clef" "yes $want" "$(got=$(again); echo "$(called) $got")"
empty "then it is right" "$(others_than right)"

# A prover that is stopped for a while, or ended by somebody else, says nothing of the kernels.
stops="\"$CLEF\" \"\$@\" & sleep 0.3; kill -STOP \$! 2>/dev/null; sleep 8; kill -CONT \$! 2>/dev/null; wait \$!"
dies="mkdir \"$tmp/once\" 2>/dev/null || exec \"$CLEF\" \"\$@\"; \"$CLEF\" \"\$@\" & sleep 0.3; kill -KILL \$! \$\$ 2>/dev/null"
no_memory="ulimit -v 500000; exec \"$CLEF\" \"\$@\""
for how in stops dies no_memory; do
  rm -rf "$tmp/cache/proof" "$tmp/once"
  printf '#!/bin/sh\n%s\n' "${!how}" >"$tmp/$how" && chmod +x "$tmp/$how"
  got=$(CLEF_PROVER=$tmp/$how CLEF_DEBUG=$CLEF_DEBUG,proof_seconds=4 "$CLEF" run "$demo" $greedy 2>"$tmp/err")
  same "a prover that $how: the ids are the same" "$want" "$got"
  empty "a prover that $how: nothing is said" "$(cat "$tmp/err")"
  empty "a prover that $how: nothing is set aside" "$(others_than "right|untried")"
  same "a prover that $how: the next start" "$want" "$("$CLEF" run "$demo" $greedy 2>&1)"
done

# An op without another kernel goes on while its hang is a suspicion. (The plan's own process is not broken.)
rm -rf "$tmp/cache/proof"
printf '#!/bin/sh\nCLEF_DEBUG=$CLEF_DEBUG,break=gather=hang exec "%s" "$@"\n' "$CLEF" >"$tmp/hangs"
chmod +x "$tmp/hangs"
got=$(CLEF_PROVER=$tmp/hangs CLEF_DEBUG=$CLEF_DEBUG,fused=0,proof_seconds=4 "$CLEF" run "$demo" $greedy 2>"$tmp/err")
same "an op without another kernel hangs: the ids" "$want" "$got"
same "one line says so" "1 1" "$(grep -c "gather has no other kernel" "$tmp/err") $(wc -l <"$tmp/err")"
refused "--strict refuses" 1 "strict gather" env CLEF_PROVER=$tmp/hangs CLEF_DEBUG=$CLEF_DEBUG,proof_seconds=1 "$CLEF" run "$demo" $greedy --strict
same "and nothing is left when it is right" "$want" "$("$CLEF" run "$demo" $greedy 2>&1)"

rm -rf "$tmp/cache/proof"
refused "an op without another kernel" 1 "gather CLEF_PROOF=0" env CLEF_DEBUG=$CLEF_DEBUG,break=gather=wrong "$CLEF" run "$demo" $greedy
rm -rf "$tmp/cache/proof"
same "a prover that is none is as none" "$want" "$(CLEF_PROVER=/nonexistent "$CLEF" run "$demo" $greedy)"

# The self-test.
if "$CLEF" selftest --op rope -q >"$tmp/table" 2>"$tmp/err"; then ok "selftest of one op"; else fail "selftest: $(cat "$tmp/err")"; fi
same "a row for it" 1 "$(grep -c "^rope .* ok" "$tmp/table")"
"$CLEF" selftest --op softmax --all -q >"$tmp/table" || fail "selftest --all"
same "--all has a row for every variant" "$(sed -n 's/^VARIANT(softmax, \(.*\))/\1/p' "$CLEF_SOURCE/graph/lower/variants.def" | grep . || echo -)" \
  "$(awk '$1 == "softmax" { print $2 }' "$tmp/table")"
if CLEF_DEBUG=$CLEF_DEBUG,break=rope=wrong "$CLEF" selftest --op rope -q >"$tmp/table" 2>"$tmp/err"; then fail "selftest of a broken op"; else ok "selftest of a broken op"; fi
same "FAILED is in its row" 1 "$(grep -c "^rope .* FAILED" "$tmp/table")"
CLEF_DEBUG=$CLEF_DEBUG,break=rope=crash "$CLEF" selftest --op rope,positions -q >"$tmp/table" 2>"$tmp/err"
same "an op that ends its process is a row" 1 "$(grep -c "^rope .* FAILED: its process ended" "$tmp/table")"
same "and the next op is tested" 1 "$(grep -c "^positions .* ok" "$tmp/table")"
refused "no such op" 1 "nonsense" "$CLEF" selftest --op nonsense -q
finish
