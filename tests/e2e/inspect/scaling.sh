# `clef plan --ranks`: the parts of all ranks are the model, the numbers follow from the profile by hand, and what is refused.
. "$(dirname "$0")/../lib.sh"
shapes=$CLEF_SOURCE/examples/shapes
printf '%s\n' "# by hand" "name = a test" "read_gb_s = 1000" "gflop_s = 50000" "launch_us = 0" "round_trip_us = 0" "memory_gb = 80" >"$tmp/gpu.txt"
plan() { "$CLEF" plan "$@" --device-profile "$tmp/gpu.txt"; }
# value JSON TP PP PATH: one number of a layout.
value() {
  python3 - "$@" <<'END2'
import json, sys
layout = next(l for l in json.load(open(sys.argv[1]))["layouts"] if (l["tp"], l["pp"]) == (int(sys.argv[2]), int(sys.argv[3])))
for key in sys.argv[4].split("."): layout = layout[key]
print(layout)
END2
}

check "the script for Slurm is sound" bash -n "$CLEF_SOURCE/examples/slurm.sh"
code=0
bash "$CLEF_SOURCE/examples/slurm.sh" >"$tmp/out" 2>"$tmp/err" || code=$?
same "and says its usage" "2 1" "$code $(grep -c '^usage: sbatch' "$tmp/err")"
for key in $(sed -n 's/^\([a-z_]*\) =.*/\1/p' "$CLEF_SOURCE"/examples/devices/*.txt | sort -u); do
  if grep -q "^| \`$key\` |" "$CLEF_SOURCE/docs/scaling.md"; then ok "scaling.md has $key"; else fail "scaling.md has no $key"; fi
done

# Elements of weights in text form; each part has a name of its own, and what several ranks have whole counts once.
elements() {
  sed -n 's/^weight \("[^"]*"\|[^ ]*\) [a-z0-9_]* \[\(.*\)\]$/\1 \2/p' "$@" | sort -u |
    awk '{ n = 1; for (i = 2; i <= NF; i++) n *= $i; sum += n } END { printf "%.0f\n", sum }'
}
for shape in llama-8b llama-70b llama-405b moe-1t; do
  check "$shape: its graph" "$CLEF" graph "$shapes/$shape.json" -o "$tmp/whole.clef"
  for layout in "8 1" "4 2" "2 4" "1 8"; do
    read -r tp pp <<<"$layout"
    rm -f "$tmp"/part*.clef
    for r in 0 1 2 3 4 5 6 7; do "$CLEF" graph "$shapes/$shape.json" --rank $r/8 --tp "$tp" --pp "$pp" -o "$tmp/part$r.clef" || fail "rank $r"; done
    same "$shape: 8 ranks as $tp x $pp have the weights of the model" "$(elements "$tmp/whole.clef")" "$(elements "$tmp"/part*.clef)"
  done
done
same "Llama 70 B has that many" 70553706496 "$("$CLEF" graph "$shapes/llama-70b.json" -o "$tmp/whole.clef" && elements "$tmp/whole.clef")"

check "text" plan "$shapes/llama-8b.json" --ranks 8 --network 25Gbit,20us -o "$tmp/plan.txt"
same "has a row for each layout" "8 1|4 2|2 4|1 8|" "$(awk '$1 + $2 > 0 && $1 * $2 == 8 && NF >= 12 { printf "%s %s|", $1, $2 }' "$tmp/plan.txt")"
same "and names the best ones" 2 "$(grep -c '^best for .*: --tp' "$tmp/plan.txt")"
check "many ranks are quick" within 60 "$CLEF" plan "$shapes/llama-405b.json" --ranks 1024 --nodes 128 --network 100Gbit,5us \
  --device-profile "$tmp/gpu.txt"
if command -v python3 >/dev/null; then
  check "json" plan "$shapes/llama-70b.json" --ranks 8 --network 10GB,10us,0ns -c 1024 --format json -o "$tmp/plan.json"
  check "parses" python3 -m json.tool "$tmp/plan.json"
  # An all_reduce of 32 KiB among 8 ranks, directly: 10 us + 7 * 32768 B / 10 GB/s = 32.9 us; scattered: 2 * (10 us + 2.9 us) = 25.7 us.
  # 8 ranks of a stage are reported in 3 steps of 10 us; further stages hear it while the first computes. Llama 70 B has two all_reduces a layer,
  # and one of the embeddings.
  check "the network's time is that of the formula" python3 - "$tmp/plan.json" <<'END2'
import json, sys
plan = json.load(open(sys.argv[1]))
one = next(l for l in plan["layouts"] if l["tp"] == 8)
n = 8192 * 4
reduce = min(10e-6 + 7 * n / 10e9, 2 * (10e-6 + 7 * n / 8 / 10e9))
gather = 10e-6 + 7 * 128256 * 4 / 8 / 10e9 # of the logits
assert one["exchanges"] == 162, one["exchanges"]
wanted = 161 * reduce + gather + 30e-6
got = one["decode"]["network_seconds"]
assert abs(got - wanted) < 0.02 * wanted, (got, wanted)
# A decode step reads the rank's weights and its part of the cache; the table of embeddings only in rows.
whole_head = 128256 * 8192 * 2
low = (one["weight_bytes"] - whole_head) / 1e12
assert low < one["decode"]["compute_seconds"] < 1.1 * (one["weight_bytes"] + one["state_bytes"]) / 1e12, one
pipe = next(l for l in plan["layouts"] if l["pp"] == 8)
assert pipe["exchanges"] <= 4, pipe
assert abs(pipe["decode"]["network_seconds"] - (7 * (10e-6 + n / 10e9) + 10e-6)) < 2e-5, pipe
assert pipe["decode"]["compute_seconds"] > 4 * one["decode"]["compute_seconds"]
END2
  check "one rank" plan "$shapes/llama-8b.json" --ranks 1 --format json -o "$tmp/one.json"
  same "has all weights" "$(sed -n 's/.*"model": "llama-8b.json", "weight_bytes": \([0-9]*\).*/\1/p' "$tmp/one.json")" "$(value "$tmp/one.json" 1 1 weight_bytes)"
  same "and no network" 0 "$(value "$tmp/one.json" 1 1 decode.network_seconds)"
  check "rounded sums" plan "$shapes/llama-70b.json" --ranks 8 --tp 8 --wire f16 --network 1GB,10us --format json -o "$tmp/f16.json"
  check "sums as they are" plan "$shapes/llama-70b.json" --ranks 8 --tp 8 --network 1GB,10us --format json -o "$tmp/f32.json"
  check "are more bytes" python3 -c 'import sys; assert float(sys.argv[1]) < 0.8 * float(sys.argv[2]), sys.argv' \
    "$(value "$tmp/f16.json" 8 1 decode.sent_bytes)" "$(value "$tmp/f32.json" 8 1 decode.sent_bytes)"
  check "smaller weights" plan "$shapes/llama-70b.json" --dtype q4_k --ranks 8 --network 1GB,10us --format json -o "$tmp/q4.json"
  check "are a quarter" python3 -c 'import sys; assert 0.25 < float(sys.argv[1]) / float(sys.argv[2]) < 0.3, sys.argv' \
    "$(value "$tmp/q4.json" 8 1 weight_bytes)" "$(value "$tmp/f32.json" 8 1 weight_bytes)"
fi
check "the demo on two nodes" plan --ranks 4 --nodes 2 --network 1Gbit,50us --node-network 10GB,1us
check "three ranks of six heads" plan --ranks 3 --network 1Gbit,50us
# A table of clef bench --network is a network, too.
cat >"$tmp/table.txt" <<'END2'
# 4 ranks on 2 nodes; us, least and median
   bytes     all_reduce f32                f16                 q8         all_gather          broadcast               send
     256      20.0     30.0      20.0     30.0      20.0     30.0      20.0     30.0      20.0     30.0       9.0     10.0
 1000256   30000.0  30000.0   30000.0  30000.0   30000.0  30000.0   30000.0  30000.0   30000.0  30000.0    9000.0  10010.0
END2
same "a table's latency and rate" \
  "$(plan "$shapes/llama-8b.json" --ranks 4 --network 0.100025GB,10us,10us | awk 'NF >= 12 && $1 < 4 && $1 * $2 == 4 { printf "%.0f ", $7 }')" \
  "$(plan "$shapes/llama-8b.json" --ranks 4 --network "$tmp/table.txt" | awk 'NF >= 12 && $1 < 4 && $1 * $2 == 4 { printf "%.0f ", $7 }')"
# 4 ranks take the times of the table, which has sums that are slower than its messages.
same "a table of as many ranks is looked up" 1 \
  "$(plan "$shapes/llama-8b.json" --ranks 4 --network "$tmp/table.txt" | awk 'NF >= 12 && $1 == 4 && $2 == 1 { print ($7 > 35) }')"

refused "a shape's memory on a device" 1 "--ranks" "$CLEF" plan "$shapes/llama-8b.json"
refused "widths that the heads forbid" 2 "--tp" plan "$shapes/llama-8b.json" --ranks 6 --tp 0 --network 1GB,1us
same "are said in the table" 1 "$(plan "$shapes/llama-8b.json" --ranks 6 --network 1GB,1us | grep -c '^ *6 *1 refused: .*32 heads (8 of keys and values)')"
refused "no network" 1 "--network" plan "$shapes/llama-8b.json" --ranks 2
refused "no rate" 1 "25Gbit,20us" plan "$shapes/llama-8b.json" --ranks 2 --network 20us
refused "a rate without a unit" 1 "25Gbit,20us" plan "$shapes/llama-8b.json" --ranks 2 --network 25,20us
refused "no table" 1 "bench --network" plan "$shapes/llama-8b.json" --ranks 2 --network "$tmp/gpu.txt"
refused "nodes that do not divide" 1 "--ranks 4 --nodes 3" plan "$shapes/llama-8b.json" --ranks 4 --nodes 3 --network 1GB,1us
refused "not --tp times --pp" 1 "--tp --pp" plan "$shapes/llama-8b.json" --ranks 4 --tp 3 --network 1GB,1us
refused "--nodes alone" 2 "--nodes --ranks" "$CLEF" plan --nodes 2
refused "--ranks as a picture" 2 "svg" plan --ranks 2 --network 1GB,1us --format svg
refused "--ranks of a batch" 2 "--max-seqs" plan --ranks 2 --network 1GB,1us --max-seqs 2
printf 'read_gb_s = fast\n' >"$tmp/bad.txt"
refused "a profile with a word" 1 "bad.txt:1 read_gb_s" "$CLEF" plan --ranks 2 --network 1GB,1us --device-profile "$tmp/bad.txt"
printf 'read_gb_s = 5\n' >"$tmp/bad.txt"
refused "a profile with too little" 1 "bad.txt gflop_s" "$CLEF" plan --ranks 2 --network 1GB,1us --device-profile "$tmp/bad.txt"
printf 'speed = 5\n' >"$tmp/bad.txt"
refused "a profile with another key" 1 "bad.txt:1 speed" "$CLEF" plan --ranks 2 --network 1GB,1us --device-profile "$tmp/bad.txt"
refused "a profile that is not there" 1 "nowhere" "$CLEF" plan --ranks 2 --network 1GB,1us --device-profile "$tmp/nowhere"
check "a measured profile" "$CLEF" plan --write-device-profile "$tmp/here.txt"
check "is read" "$CLEF" plan --ranks 2 --network 1GB,1us --device-profile "$tmp/here.txt"
printf '{"model_type": "llama"' >"$tmp/config.json"
refused "half a config.json" 1 "config.json" "$CLEF" plan "$tmp/config.json" --ranks 1
refused "a run of a shape" 1 "" "$CLEF" run "$shapes/llama-8b.json" -p a -n 1
finish
