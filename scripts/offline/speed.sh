# shellcheck shell=bash
# Sourced by tools/offline --speed: the launches of whole steps, compiled, and their speed as scripts/speed predicts it.
# shellcheck disable=SC2086
python3 scripts/speed/cards.py $wanted >"$out/wishes"
"$programs/list_launches" "$out/cl" <"$out/wishes"
awk 'FNR == NR { if ($1 == "card") target[$2] = $3; next }
  !(($3, $1) in seen) { seen[$3, $1] = 1; print $3, target[$1] }' "$out/wishes" "$out/cl/launches" >"$out/cl/list"
compile_listed
mkdir -p "$tables"
failed=0
python3 scripts/speed/predict.py "$out/cl/launches" "$kept" "$out/sums" "$out/compilers" "$out/cl" "$tables/speed.csv" || failed=1
python3 scripts/speed/report.py "$tables/speed.csv" "$tables/speed.md" ${to:+"$to"}
say "offline: all figures are in $tables/speed.csv, tables in $tables/speed.md"
