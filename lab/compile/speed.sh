# shellcheck shell=bash disable=SC2154,SC2034 # variables of lab/offline
# Sourced by lab/offline --speed: the launches of whole steps, compiled, and their speed as lab/speed predicts it. With
# --validate, kernels of clpeak and CLBlast are, and are held against published measurements.
failed=0
if ! python3 -c 'import tomllib' 2>/dev/null; then
  say "offline: --speed skipped: Python 3.11 is not installed"
  return
fi
mkdir -p "$tables"
if [ -n "$validate" ]; then
  unpacked clpeak clpeak || { say "offline: --validate: clpeak (Debian) cannot be had"; exit 1; }
  unpacked clblast libclblast1 || { say "offline: --validate: libclblast1 (Debian) cannot be had"; exit 1; }
  python3 lab/speed/validate.py programs "$home/clpeak/usr/bin/clpeak" \
    "$(find "$home/clblast" -type f -name 'libclblast.so.*' | head -n 1)" "$out/cl"
  compile_listed
  python3 lab/speed/validate.py table "$out/cl" "$kept" "$out/sums" "$out/compilers" ${to:+"$to"} || failed=1
  return
fi
# shellcheck disable=SC2086
python3 lab/speed/cards.py ${brief:+--brief} $steps $wanted >"$out/wishes"
"$programs/list_launches" "$out/cl" <"$out/wishes"
awk 'FNR == NR { if ($1 == "card") target[$2] = $3; next }
  !(($3, $1) in seen) { seen[$3, $1] = 1; print $3, target[$1] }' "$out/wishes" "$out/cl/launches" >"$out/cl/list"
compile_listed
while read -r number target; do
  if [ -e "$out/$number.$target" ]; then
    say "offline: $target: a program with $(options_of "$out/cl/$number.cl") does not compile"
    say_why "$number" "$target"
  fi
done <"$out/cl/list"
python3 lab/speed/predict.py "$out/cl/launches" "$kept" "$out/sums" "$out/compilers" "$out/cl" "$tables/speed.csv" || failed=1
shares=lab/kernels/speed.csv
document=
if [ $failed = 1 ] && [ -n "$to" ]; then
  say "offline: $to is not written, since the prediction failed"
  to=
fi
case $to in
  *.csv) python3 lab/speed/check.py "$tables/speed.csv" "$to" lab/kernels/allow-speed --write ;;
  *) document=$to ;;
esac
python3 lab/speed/report.py "$tables/speed.csv" "$tables/speed.md" ${document:+"$document"}
say "offline: all figures are in $tables/speed.csv, tables in $tables/speed.md"
if [ -n "$check" ]; then
  python3 lab/speed/check.py "$tables/speed.csv" $shares lab/kernels/allow-speed "$out/wishes" || failed=1
fi
