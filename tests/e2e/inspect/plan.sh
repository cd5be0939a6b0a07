# `clef plan`: what it says is what a run then takes of the driver, byte by byte (counted by a layer between clef and the driver); its forms.
. "$(dirname "$0")/../lib.sh"
layer=$CLEF_BUILD/tests/count_layer.so
number() { sed -n "s/.*\"$2\": \\([0-9]*\\).*/\\1/p" "$1"; }
# What the driver is asked for: all but what lies in memory of the host's own.
sum_driver() {
  awk '{ for (i = 1; i <= NF; i++) { if ($i == "\"device_bytes\":") d += $(i + 1); if ($i == "\"packed_bytes\":") p += $(i + 1) } } END { print d - p }' "$1"
}
# taken NAME PLAN-FLAGS -- COMMAND...: the plan, and the peak of what the command holds.
taken() {
  local name=$1 plan=()
  shift
  while [ "$1" != -- ]; do plan+=("$1"); shift; done
  shift
  if ! "$CLEF" plan "${plan[@]}" --format json -o "$tmp/plan.json" 2>"$tmp/err"; then fail "$name: $(cat "$tmp/err")"; return; fi
  if ! OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts CLEF_CACHE_DIR= CLEF_TUNE=0 "$@" >"$tmp/out" 2>"$tmp/err"; then fail "$name: $(tail -n 1 "$tmp/err")"; return; fi
  same "$name" "$(sum_driver "$tmp/plan.json")" "$(sed -n 's/^peak_bytes //p' "$tmp/counts")"
}

export CLEF_TUNE=0
for c in 64 200; do
  taken "the demo, context $c" -c $c -- "$CLEF" run -c $c -p "a" -n 4 -q
done
taken "a cache of f16" -c 128 --kv-type f16 -- "$CLEF" run -c 128 --kv-type f16 -p "a" -n 4 -q
models=${CLEF_SHARED:-}/oracle/models
if [ -d "$models" ]; then
  for c in 48 120; do
    taken "llama, context $c" "$models/llama" -c $c -- "$CLEF" run "$models/llama" -c $c --ids 1,2,3 -n 4 --print-ids -q
    taken "marian, context $c" "$models/marian" -c $c --source-size 3 -- "$CLEF" run "$models/marian" -c $c --ids 1,2,3 -n 4 --print-ids -q
  done
fi

check "text" "$CLEF" plan -c 64 -o "$tmp/plan.txt"
check "json" "$CLEF" plan -c 64 -o "$tmp/plan.json"
check "svg" "$CLEF" plan -c 64 -o "$tmp/plan.svg"
check "html" "$CLEF" plan -c 64 -o "$tmp/plan.html"
same "the total of both" "$(awk '$1 == "total" { print $NF }' "$tmp/plan.txt")" "$(number "$tmp/plan.json" total_bytes | head -n 1)"
same "it is the sum of its lines" "$(awk '$1 == "total" { print $NF }' "$tmp/plan.txt")" \
  "$(sed -n 's/.*  *\([0-9][0-9]*\)\(  .*\)*$/\1/p' "$tmp/plan.txt" | awk 'BEGIN { want = 7 } n < want { n++; sum += $1 } END { printf "%d", sum }')"
# No two values that live at once share a byte, unless one took the other's place.
if command -v python3 >/dev/null; then
  check "values that live at once lie apart" python3 - "$tmp/plan.json" <<'END'
import json, sys
for part in json.load(open(sys.argv[1]))["parts"]:
    a = part["arena"]
    assert a and max(t["offset"] + t["bytes"] for t in a) == part["arena_bytes"]
    by_name = {t["name"]: t for t in a}
    def first_of(t):
        while "in_place_of" in t:
            t = by_name[t["in_place_of"]]
        return t
    for i, x in enumerate(a):
        for y in a[:i]:
            apart = x["offset"] + x["bytes"] <= y["offset"] or y["offset"] + y["bytes"] <= x["offset"]
            assert apart or x["last"] <= y["first"] or y["last"] <= x["first"] or first_of(x) is first_of(y), (x, y)
    assert part["live_peak_bytes"] <= part["arena_bytes"] <= part["unshared_bytes"]
END
fi
refused "a context beyond" 1 "" "$CLEF" plan -c 100000
ln -s "$CLEF_SOURCE/model/demo" "$tmp/a<b&c"
check "svg of a model with < and & in its name" "$CLEF" plan "$tmp/a<b&c" -c 64 -o "$tmp/marked.svg"
same "which are escaped" 1 "$(grep -c '>a&lt;b&amp;c, context' "$tmp/marked.svg")"
check "a page of it" "$CLEF" plan "$tmp/a<b&c" -c 64 -o "$tmp/marked.html"
same "likewise" 1 "$(grep -c '<title>a&lt;b&amp;c' "$tmp/marked.html")"
refused "an unknown form" 2 ".svg" "$CLEF" plan -o "$tmp/plan.gif"
finish
