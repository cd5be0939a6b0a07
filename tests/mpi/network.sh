# `clef bench --network` under mpirun: the table, its reading by `clef plan`, and what is refused.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/lib.sh"
export CLEF_MPI=$library
printf '%s\n' "read_gb_s = 1000" "gflop_s = 50000" "launch_us = 0" "round_trip_us = 0" "memory_gb = 80" >"$tmp/gpu.txt"
for n in 2 3; do
  check "$n ranks" "${ranks[@]}" -n $n "$CLEF" bench --network
  "${ranks[@]}" -n $n "$CLEF" bench --network >"$tmp/table.txt" 2>"$tmp/err" </dev/null
  same "$n ranks: rank 0 prints one table" "1 8 13" "$(awk '/^# [0-9]* ranks/ { heads++ } /^ *[0-9]/ { rows++; n = NF } END { print heads, rows, n }' "$tmp/table.txt")"
  same "$n ranks: the least time is no more than the median" 0 \
    "$(awk '/^ *[0-9]/ { for (i = 2; i < NF; i += 2) if (!($i >= 0 && $i <= $(i + 1))) bad++ } END { print bad + 0 }' "$tmp/table.txt")"
  check "$n ranks: clef plan reads it" "$CLEF" plan --ranks $n --network "$tmp/table.txt" --device-profile "$tmp/gpu.txt"
done
if command -v python3 >/dev/null; then
  "${ranks[@]}" -n 2 "$CLEF" bench --network --json >"$tmp/lines.json" 2>"$tmp/err" </dev/null
  same "json: a line for each size of each exchange" 48 "$(python3 -c 'import json, sys; print(len([json.loads(l)["median_us"] for l in open(sys.argv[1])]))' "$tmp/lines.json")"
fi
refused "one process" 1 "mpirun" "$CLEF" bench --network
refused "with a model" 2 "--network" "$CLEF" bench --network "$CLEF_SOURCE/share/demo"
finish
