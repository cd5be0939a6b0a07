# --strict: nothing runs otherwise than asked; the mistakes of -d; what `clef devices` says of speed and variants.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo
run="$CLEF run $demo -p ROMEO: --temp 0 --ignore-eos -n 8 -q --print-ids"
export CLEF_CACHE_DIR=$tmp/cache CLEF_TUNE=0
unset CLEF_PROOF CLEF_PROVER CLEF_DEVICE

want=$($run)
same "nothing set aside: it runs" "$want" "$($run --strict)"

# a variant that failed its proof: without --strict the next one serves
rm -rf "$tmp/cache/proof"
variant=$(awk -F'[ :]+' '$2 == "cached_attention" { print $3; exit }' <<<"$("$CLEF" devices --variants | grep -v 'needs ')")
export CLEF_DEBUG=$CLEF_DEBUG,break=cached_attention.$variant=wrong
same "$variant set aside" "$want" "$($run 2>/dev/null)"
refused "--strict says so" 1 "strict: layer0 $variant set aside would run by clef selftest" $run --strict
"$CLEF" devices --variants >"$tmp/devices"
if grep -q "cached_attention $variant: failed its proof" "$tmp/devices"; then ok "clef devices says so"; else fail "clef devices says so: $(grep cached_att "$tmp/devices")"; fi
CLEF_DEBUG=$CLEF_DEBUG,break=

# what was asked for does not fit
same "a forced variant that fits few rows" "$want" "$(CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,variant=cached_attention=cpu_decode $run)"
refused "--strict: it does not fit many" 1 "strict: cached_attention cpu_decode does not take its shape cpu_prefill" \
  env CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,variant=cached_attention=cpu_decode $run --strict
refused "--strict: the device cannot" 1 "strict: cpu_decode the device cannot" \
  env CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu,variant=cached_attention=cpu_decode $run --strict

# every variant is in the table, with a word on it
while IFS='(, )' read -r _ op variant _; do
  if grep -qE "^ +$op $variant(:|$)" "$tmp/devices"; then ok "devices: $op $variant"; else fail "devices: $op $variant"; fi
done < <(grep '^VARIANT(' "$CLEF_SOURCE/graph/variants.def")

# speed: unknown, then measured, then kept
grep -q 'speed not measured yet' "$tmp/devices" && ok "speed is unknown" || fail "speed is unknown"
check "measured now" sh -c "'$CLEF' devices --measure | grep -q 'GB/s.*measured now'"
check "kept" sh -c "'$CLEF' devices | grep -q 'GB/s.*measured earlier'"
check "kept, as JSON" sh -c "'$CLEF' devices --json | grep -q '\"measured\": *\"kept\"'"
for file in "$tmp"/cache/speed/*; do echo "clef speed 2 broken" >"$file"; done
check "a damaged file counts for none" sh -c "'$CLEF' devices | grep -q 'not measured yet'"

# -d
refused "a device number" 1 "\"9\" 0:0" "$CLEF" run "$demo" -p x -q -d 9
refused "a platform's number" 1 "\"7:0\" platforms 0:0" "$CLEF" run "$demo" -p x -q -d 7:0
refused "a device's number" 1 "\"0:7\" platform 0 no device 7" "$CLEF" run "$demo" -p x -q -d 0:7
refused "a name" 1 "nosuch there are 0:0" "$CLEF" run "$demo" -p x -q -d nosuch
export POCL_DEVICES="pthread basic"
if [ "$("$CLEF" devices | grep -c '^0:')" -eq 2 ]; then
  refused "a platform's name" 1 "platform of 2 0:0 0:1" "$CLEF" run "$demo" -p x -q -d "Portable"
fi
finish
