# `clef graph`: the text form parses back to the same graph after every pass; JSON and DOT are what their readers take.
. "$(dirname "$0")/../lib.sh"

for pass in build verify fold merge drop fuse; do
  check "text after $pass" "$CLEF" graph --after $pass -o "$tmp/$pass.clef"
  same "text after $pass parses back" "$(cat "$tmp/$pass.clef")" "$("$CLEF" graph "$tmp/$pass.clef" --after build)"
done
same "fuse is the last pass" "$(cat "$tmp/fuse.clef")" "$("$CLEF" graph)"
same "-o writes what stdout gets" "$(cat "$tmp/fuse.clef")" "$("$CLEF" graph --format text)"
check "json" "$CLEF" graph --format json -o "$tmp/graph.json"
if command -v python3 >/dev/null; then
  check "json parses" python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["format"] == "clef-graph"' "$tmp/graph.json"
fi
check "dot" "$CLEF" graph --format dot -o "$tmp/graph.dot"
if command -v dot >/dev/null; then check "dot draws" dot -Tsvg "$tmp/graph.dot" -o "$tmp/graph.svg"; fi
# -o: a file that is there is replaced whole or stays as it was; a device is written to, not replaced.
for to in "$tmp/kept/file" "$tmp/new/file"; do
  mkdir "${to%/*}"
done
echo "something of the user's" >"$tmp/kept/file"
if (trap '' XFSZ; ulimit -f 1; "$CLEF" graph -o "$tmp/kept/file") >/dev/null 2>"$tmp/err"; then fail "a write that fails"; else ok "a write that fails"; fi
if grep -q "kept/file: .*cannot write" "$tmp/err"; then ok "is said"; else fail "is said: $(cat "$tmp/err")"; fi
same "and leaves the file as it was" "something of the user's" "$(cat "$tmp/kept/file")"
check "-o over a file" "$CLEF" graph -o "$tmp/kept/file"
same "replaces it" "$(cat "$tmp/fuse.clef")" "$(cat "$tmp/kept/file")"
if (trap '' XFSZ; ulimit -f 1; "$CLEF" graph -o "$tmp/new/file") 2>/dev/null; then fail "a new file that fails"; else ok "a new file that fails"; fi
same "nothing half-written is left" "file" "$(ls -A "$tmp/kept" "$tmp/new" | grep -v ':$' | grep .)"
same "-o /dev/stdout" "$(cat "$tmp/fuse.clef")" "$("$CLEF" graph -o /dev/stdout)"
if [ -c /dev/full ]; then
  refused "-o to a full disk" 1 "/dev/full" "$CLEF" graph -o /dev/full
  if [ -c /dev/full ]; then ok "/dev/full is left"; else fail "/dev/full is left"; fi
fi
# Pictures: a full disk is said, and leaves nothing.
if "$CLEF" graph -o "$tmp/drawn.svg" 2>"$tmp/err"; then
  mkdir "$tmp/full"
  for form in svg png; do
    refused "a full disk while a $form is drawn" 1 "o.$form write" \
      bash -c 'trap "" XFSZ; ulimit -f 4; exec "$@"' full "$CLEF" graph -o "$tmp/full/o.$form"
  done
  empty "nothing half-drawn is left" "$(ls -A "$tmp/full")"
else
  if grep -q "without Graphviz" "$tmp/err"; then ok "svg is refused: $(cat "$tmp/err")"; else fail "svg: $(cat "$tmp/err")"; fi
fi
# diff: nothing between a graph and its round trip; what a pass or a hand changed is named.
for pass in build verify fold merge drop fuse; do
  empty "diff of the round trip after $pass" "$("$CLEF" graph diff "@$pass" "$tmp/$pass.clef@build" 2>&1)"
done
got=$("$CLEF" graph diff "$tmp/drop.clef@build" "$tmp/fuse.clef@build")
if echo "$got" | grep -q '^> layer0.attn.heads = cached_attention(' && echo "$got" | grep -q '^- .* = softmax('; then ok "diff of two passes"
else fail "diff of two passes: $got"; fi
printf 'symbol T <= 4\ninput x f32 [T, 2]\na = neg(x)\nb = affine(a) scale=2\nc = exp(b)\noutput y = c\n' >"$tmp/a.clef"
printf 'symbol T <= 4\ninput x f32 [T, 2]\nz = neg(x)\nb = affine(z) scale=3\nc = exp(b)\nd = log(c)\noutput y = d\n' >"$tmp/b.clef"
same "diff by hand" "< b = affine(a) scale=2 : f32 [T, 2]|> b = affine(z) scale=3 : f32 [T, 2]|+ d = log(c) : f32 [T, 2]|< output y = c|> output y = d|# 0 removed, 1 added, 2 changed|" \
  "$("$CLEF" graph diff "$tmp/a.clef@build" "$tmp/b.clef@build" | tr '\n' '|')"
code=0
"$CLEF" graph diff "$tmp/a.clef@build" "$tmp/b.clef@build" -o "$tmp/ab.diff" >"$tmp/out" || code=$?
same "diff -o: exit code, stdout, the file" "1 0 # 0 removed, 1 added, 2 changed" "$code $(wc -c <"$tmp/out" | tr -d ' ') $(tail -n 1 "$tmp/ab.diff")"
for flag in "--symbols T=2" "--format json" "--expand 0" --profile "--weights beside" "--tp 2" "--pp 2" "--rank 0/2"; do
  # shellcheck disable=SC2086
  refused "diff $flag" 2 "${flag%% *}" "$CLEF" graph diff "$tmp/a.clef" "$tmp/b.clef" $flag
done
refused "diff as a picture" 2 "html" "$CLEF" graph diff "$tmp/a.clef" "$tmp/b.clef" -o "$tmp/ab.svg"
refused "diff of nothing" 1 "nowhere" "$CLEF" graph diff "$tmp/a.clef" "$tmp/nowhere.clef"
refused "two models" 2 "diff A B" "$CLEF" graph "$tmp/a.clef" "$tmp/b.clef"
refused "a device without --profile" 2 "needs --profile" "$CLEF" graph -d 0:0 "$tmp/a.clef"
# Every oracle model, at every pass.
if [ -d "${CLEF_SHARED:-}/oracle/models" ]; then
  for model in "$CLEF_SHARED"/oracle/models/*/; do
    name=$(basename "$model") wrong=
    for pass in build verify fold merge drop fuse; do
      "$CLEF" graph "$model" --after $pass -o "$tmp/m.clef" && "$CLEF" graph "$tmp/m.clef" --after build -o "$tmp/again.clef" &&
        cmp -s "$tmp/m.clef" "$tmp/again.clef" && [ -z "$("$CLEF" graph diff "$model@$pass" "$tmp/m.clef@build")" ] || wrong="$wrong $pass"
    done
    if [ -z "$wrong" ]; then ok "$name parses back after every pass"; else fail "$name does not parse back after$wrong"; fi
  done
fi
# -o FILE says the form.
for form in json dot; do
  check "-o of a .$form" "$CLEF" graph -o "$tmp/named.$form"
  same "is that form" "$("$CLEF" graph --format $form | cksum)" "$(cksum <"$tmp/named.$form")"
done
check "-o of a .html" "$CLEF" graph -o "$tmp/named.html"
same "is a page" "<!doctype html>" "$(head -n 1 "$tmp/named.html")"
check "--format goes before the name" "$CLEF" graph --format text -o "$tmp/named.json"
same "and is written" "$(cat "$tmp/fuse.clef")" "$(cat "$tmp/named.json")"
mkdir "$tmp/some.dir"
check "a folder's name says no form" "$CLEF" graph -o "$tmp/some.dir/file"
refused "an unknown form" 2 ".gif .svg .clef" "$CLEF" graph -o "$tmp/g.gif"
# --expand: of pictures, and of layers that are there.
check "--expand of a layer" "$CLEF" graph --format dot --expand 0 -o "$tmp/one.dot"
same "shows that one" 1 "$(grep -c cluster "$tmp/one.dot")"
refused "--expand of no layer" 1 "layer 99" "$CLEF" graph --expand 99 -o "$tmp/99.dot"
if [ -e "$tmp/99.dot" ]; then fail "and nothing is written"; else ok "and nothing is written"; fi
for form in text json html onnx; do refused "--expand of $form" 1 "--expand $form" "$CLEF" graph --format $form --expand 0; done
# --rank: what one rank of several runs. Text parses back, also of a rank that has no output.
for rank in "0/2" "1/2 --tp 2" "0/4 --pp 2" "1/4 --tp 2 --pp 2" "3/4 --tp 2" "5/6 --pp 6"; do
  # shellcheck disable=SC2086
  check "rank $rank" "$CLEF" graph --rank $rank -o "$tmp/rank.clef"
  same "rank $rank parses back" "$(cat "$tmp/rank.clef")" "$("$CLEF" graph "$tmp/rank.clef" --after build)"
  same "rank $rank survives the passes" 0 "$("$CLEF" graph "$tmp/rank.clef" >"$tmp/again.clef" 2>&1; echo $?)"
done
same "rank 5 of 6 stages has one layer" 5 "$("$CLEF" graph --rank 5/6 --pp 6 | sed -n 's/^layer\([0-9]*\)\..* = matmul.*/\1/p' | sort -u)"
same "--tp and --pp follow from each other" "$("$CLEF" graph --rank 2/6 --tp 2 --pp 3 | cksum)" "$("$CLEF" graph --rank 2/6 --pp 3 | cksum)"
for form in json dot html; do check "a rank as $form" "$CLEF" graph --rank 1/2 -o "$tmp/rank.$form"; done
# All ranks side by side: collectives of a number on one height, messages as arrows.
check "four ranks" "$CLEF" graph --tp 2 --pp 2 -o "$tmp/ranks.dot"
same "have four headings" 4 "$(grep -c 'shape=plaintext' "$tmp/ranks.dot")"
same "two messages" 2 "$(grep -c 'penwidth=2' "$tmp/ranks.dot")"
same "and bands between the ranks of a stage alone" "r0 r1|r2 r3|" \
  "$(sed -n 's/^ *\(r[0-9]*\)[a-z].* -> \(r[0-9]*\)[a-z].*penwidth=5.*/\1 \2/p' "$tmp/ranks.dot" | sort -u | tr '\n' '|')"
same "layers that are alike are one node" "layers 0 to 2|layers 3 to 4|layer 5|" \
  "$(sed -n 's/^ *r[02]l.*label="\(layer[^,\\]*\).*/\1/p' "$tmp/ranks.dot" | tr '\n' '|')"
check "--expand" "$CLEF" graph --tp 2 --pp 2 --expand 1 -o "$tmp/one.dot"
same "shows the layer's collectives" 4 "$(grep -c 'label="all_reduce.nlayer1' "$tmp/one.dot")"
check "--expand all" "$CLEF" graph --tp 3 --expand all -o "$tmp/all.dot"
same "leaves no layer folded" 0 "$(grep -c 'label="layers* [0-9]' "$tmp/all.dot")"
if command -v dot >/dev/null; then
  for form in ranks one all; do empty "dot draws it without a word: $form" "$(dot -Tsvg "$tmp/$form.dot" -o "$tmp/ranks.svg" 2>&1)"; done
  same "columns are in the order of ranks" "r0 r1 r2 r3 " "$(dot -Tplain "$tmp/ranks.dot" | awk '$1 == "node" && $2 ~ /^r[0-9]+$/ { print $3, $2 }' |
    sort -n | awk '{ printf "%s ", $2 }')"
fi
refused "rank 4 of 4" 1 "--rank 4/4 rank 3" "$CLEF" graph --rank 4/4
refused "a rank of how many" 1 "--rank R/N" "$CLEF" graph --rank 1
refused "a rank below 0" 1 "--rank R/N" "$CLEF" graph --rank -1/4
refused "4 ranks as 3 and some" 1 "4 --tp 3" "$CLEF" graph --rank 1/4 --tp 3
refused "4 ranks for 6 heads" 1 "6 heads 1, 2, 3, 6" "$CLEF" graph --rank 1/4
refused "8 stages of 6 layers" 1 "6 layers" "$CLEF" graph --rank 0/8 --pp 8
refused "all ranks as text" 1 "--rank R/N" "$CLEF" graph --tp 2
refused "all ranks as json" 1 "json --rank R/N" "$CLEF" graph --tp 2 --format json
refused "too many columns" 1 "16" "$CLEF" graph --tp 3 --pp 6 --format dot
refused "a rank as ONNX" 1 "--rank onnx" "$CLEF" graph --rank 0/2 --format onnx
refused "--expand of no layer of the ranks" 1 "layer 99" "$CLEF" graph --tp 2 --expand 99 --format dot
if grep -q cluster "$tmp/graph.dot"; then ok "layers are clusters"; else fail "layers are clusters"; fi
finish
