# `clef logits`: what a model expected, against `clef eval`'s logits (with Python) and `clef perplexity`; the curve.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
text="Once upon a time there was a little cat who liked to play in the garden."
check "text" "$CLEF" logits -p "$text" -q -o "$tmp/l.txt"
check "json" "$CLEF" logits -p "$text" -q --top 10 -o "$tmp/l.json"
check "html" "$CLEF" logits -p "$text" -q -o "$tmp/l.html"
check "svg" "$CLEF" logits -p "$text" -q -o "$tmp/l.svg"
printf %s "$text" >"$tmp/text"
"$CLEF" perplexity "$tmp/text" -q --exact --curve "$tmp/curve.svg" >"$tmp/perplexity"
same "the perplexity is that of clef perplexity" "$(awk '/^perplexity/ { printf "%.3f", $2 }' "$tmp/perplexity")" \
  "$(awk '/^perplexity/ { printf "%.3f", $2 }' "$tmp/l.txt")"
for f in l curve; do
  if head -n 1 "$tmp/$f.svg" | grep -q '^<svg ' && tail -n 1 "$tmp/$f.svg" | grep -q '</svg>'; then ok "$f.svg is one"; else fail "$f.svg is one"; fi
done
same "a curve has a point a token" "$(awk '/tokens scored/ { print $1 }' "$tmp/perplexity")" \
  "$(sed -n 's/.*stroke-width="2" points="\([^"]*\)".*/\1/p' "$tmp/curve.svg" | wc -w | tr -d ' ')"
nan_model "$tmp/nan"
check "text of a model with NaN" "$CLEF" logits "$tmp/nan" -p "$text" -q -o "$tmp/nan.txt"
same "it is reported" "perplexity NaN, NaN bits" "$(grep -o '^perplexity NaN, NaN bits' "$tmp/nan.txt")"
same "at every token but the first" "$(awk '/tokens scored/ { print $(NF - 2) }' "$tmp/l.txt")" "$(grep -c '^ *[0-9]* *NaN *NaN *NaN  ' "$tmp/nan.txt")"
check "json of it" "$CLEF" logits "$tmp/nan" -p "$text" -q -o "$tmp/nan.json"
if command -v python3 >/dev/null; then
  check "is JSON" python3 -c 'import json, sys; d = json.load(open(sys.argv[1]), parse_constant=lambda x: 1 / 0); assert d["tokens"][5]["rank"] is None' "$tmp/nan.json"
fi
refused "a curve of it" 1 "not a number" "$CLEF" logits "$tmp/nan" -p "$text" -q -o "$tmp/nan.svg"
refused "no text" 1 "-p TEXT" "$CLEF" logits -q
refused "one token" 1 "expected at least two" "$CLEF" logits --ids 5 -q
printf old >"$tmp/real.txt"
ln -s real.txt "$tmp/link.txt"
check "through a link" "$CLEF" logits -p "$text" -q -o "$tmp/link.txt"
if [ -L "$tmp/link.txt" ] && cmp -s "$tmp/real.txt" "$tmp/l.txt"; then ok "the file that it names is replaced"; else fail "the file that it names is replaced"; fi
# A long text: while it builds, PoCL, too, writes files, of up to 200 KiB.
(trap '' XFSZ; ulimit -f 300; "$CLEF" logits --ids "$(seq -s , 1 250)" -q --top 100 --format json -o "$tmp/link.txt") 2>"$tmp/full"
if cmp -s "$tmp/real.txt" "$tmp/l.txt" && grep -q 'cannot write\|link.txt' "$tmp/full"; then ok "whole when the disk is full"; else fail "whole when the disk is full"; fi
refused "more than the vocabulary" 2 "--top" "$CLEF" logits -p "$text" --top 101
refused "a curve that cannot be written" 1 "nowhere" "$CLEF" perplexity "$tmp/text" -q --curve "$tmp/nowhere/c.svg"
printf a >"$tmp/one"
refused "an unknown form" 2 ".html" "$CLEF" logits -p "$text" -o "$tmp/l.gif"

python=$(find_python)
if [ -n "$python" ]; then
  cat >"$tmp/check.py" <<'END'
import json, subprocess, sys, numpy as np
from safetensors.numpy import load_file, save_file
clef, model, tmp = sys.argv[1:4]
d = json.load(open(tmp + "/l.json"))
ids = np.array([[t["id"] for t in d["tokens"]]], np.int32)
save_file({"input_ids": ids}, tmp + "/in.safetensors")
subprocess.run([clef, "eval", model, "--in", tmp + "/in.safetensors", "--out", tmp + "/out.safetensors", "--exact", "-q"], check=True)
x = load_file(tmp + "/out.safetensors")["logits"][0].astype(np.float64)
p = np.exp(x - x.max(-1, keepdims=True)); p /= p.sum(-1, keepdims=True)
for i, t in enumerate(d["tokens"][1:]):
    q = p[i]
    assert abs(t["p"] - q[t["id"]]) < 1e-5 and abs(t["bits"] + np.log2(q[t["id"]])) < 1e-3, (i, t)
    assert t["rank"] == 1 + (q > q[t["id"]]).sum(), (i, t["rank"])
    order = np.argsort(-q, kind="stable")[:10]
    assert [g["id"] for g in t["top"]] == order.tolist(), (i, t["top"], order)
    assert np.allclose([g["p"] for g in t["top"]], q[order], atol=1e-5)
print(len(d["tokens"]) - 1)
END
  same "probabilities, ranks and the likeliest ten are those of the logits" "$(awk '/tokens scored/ { print $(NF - 2) }' "$tmp/l.txt")" \
    "$("$python" "$tmp/check.py" "$CLEF" "$CLEF_SOURCE/share/demo" "$tmp" 2>&1 | tail -n 1)"
fi
finish
