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
  if ! OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts CLEF_CACHE_DIR=$no_cache CLEF_TUNE=0 "$@" >"$tmp/out" 2>"$tmp/err"; then fail "$name: $(tail -n 1 "$tmp/err")"; return; fi
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

# A batch: the pool, and what a run then takes.
printf '%s\n' a b c >"$tmp/prompts.txt"
taken "three sequences" --max-seqs 3 -c 128 -- "$CLEF" run --file "$tmp/prompts.txt" --max-seqs 3 -c 128 -n 4 -q
taken "a smaller pool" --max-seqs 3 -c 128 --kv-tokens 128 --step-tokens 64 -- \
  "$CLEF" run --file "$tmp/prompts.txt" --max-seqs 3 -c 128 --kv-tokens 128 --step-tokens 64 -n 4 -q
taken "with a draft" --max-seqs 3 -c 128 --draft "$CLEF_SOURCE/share/demo" -- \
  "$CLEF" run --file "$tmp/prompts.txt" --max-seqs 3 -c 128 --draft "$CLEF_SOURCE/share/demo" -n 4 -q
pool() { "$CLEF" plan "$@" --format json >"$tmp/pool.json"; for key in sequences positions pages bytes; do number "$tmp/pool.json" $key | head -n 1; done | tr '\n' ' '; sed -n 's/.*"limit": "\([^"]*\)".*/\1/p' "$tmp/pool.json"; }
page=$((2 * 64 * $(sed -n 's/.*"n_layer": *\([0-9]*\).*/\1/p' "$CLEF_SOURCE/share/demo/config.json") * $(sed -n 's/.*"n_embd": *\([0-9]*\).*/\1/p' "$CLEF_SOURCE/share/demo/config.json")))
same "its pool" "3 384 6 $((6 * 2 * page)) context of each sequence" "$(pool --max-seqs 3 -c 128 --kv-type f16)"
same "a pool of whole pages" "3 128 2 $((2 * 4 * page)) --kv-tokens" "$(pool --max-seqs 3 --kv-tokens 100 --kv-type f32)"
check "the pool as text" "$CLEF" plan --max-seqs 4 -o "$tmp/pool.txt"
same "names it" 1 "$(grep -c '^pool of 4 sequences' "$tmp/pool.txt")"
refused "--draft without --max-seqs" 2 "--draft --max-seqs" "$CLEF" plan --draft "$CLEF_SOURCE/share/demo"
refused "--kv-tokens without --max-seqs" 2 "--kv-tokens --max-seqs" "$CLEF" plan --kv-tokens 64
refused "--max-seqs with beams" 2 "--max-seqs --beams" "$CLEF" plan --max-seqs 2 --beams 2
if [ -d "$models/bert" ]; then refused "--max-seqs of an encoder" 1 "--max-seqs bert" "$CLEF" plan "$models/bert" --max-seqs 2; fi

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
ln -s "$CLEF_SOURCE/share/demo" "$tmp/a<b&c"
check "svg of a model with < and & in its name" "$CLEF" plan "$tmp/a<b&c" -c 64 -o "$tmp/marked.svg"
same "which are escaped" 1 "$(grep -c '>a&lt;b&amp;c, context' "$tmp/marked.svg")"
check "a page of it" "$CLEF" plan "$tmp/a<b&c" -c 64 -o "$tmp/marked.html"
same "likewise" 1 "$(grep -c '<title>a&lt;b&amp;c' "$tmp/marked.html")"
refused "an unknown form" 2 ".svg" "$CLEF" plan -o "$tmp/plan.gif"
finish
