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
# -o: a file that stands there is replaced whole or stays as it was; a device is written to, not replaced.
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
  same "nothing half-drawn is left" "" "$(ls -A "$tmp/full")"
else
  if grep -q "without Graphviz" "$tmp/err"; then ok "svg is refused: $(cat "$tmp/err")"; else fail "svg: $(cat "$tmp/err")"; fi
fi
# diff: nothing between a graph and its round trip; what a pass or a hand changed is named.
for pass in build verify fold merge drop fuse; do
  same "diff of the round trip after $pass" "" "$("$CLEF" graph diff "@$pass" "$tmp/$pass.clef@build" 2>&1)"
done
came=$("$CLEF" graph diff "$tmp/drop.clef@build" "$tmp/fuse.clef@build")
if echo "$came" | grep -q '^> layer0.attn.heads = cached_attention(' && echo "$came" | grep -q '^- .* = softmax('; then ok "diff of two passes"
else fail "diff of two passes: $came"; fi
printf 'symbol T <= 4\ninput x f32 [T, 2]\na = neg(x)\nb = affine(a) scale=2\nc = exp(b)\noutput y = c\n' >"$tmp/a.clef"
printf 'symbol T <= 4\ninput x f32 [T, 2]\nz = neg(x)\nb = affine(z) scale=3\nc = exp(b)\nd = log(c)\noutput y = d\n' >"$tmp/b.clef"
same "diff by hand" "< b = affine(a) scale=2 : f32 [T, 2]|> b = affine(z) scale=3 : f32 [T, 2]|+ d = log(c) : f32 [T, 2]|< output y = c|> output y = d|# 0 removed, 1 added, 2 changed|" \
  "$("$CLEF" graph diff "$tmp/a.clef@build" "$tmp/b.clef@build" | tr '\n' '|')"
code=0
"$CLEF" graph diff "$tmp/a.clef@build" "$tmp/b.clef@build" -o "$tmp/ab.diff" >"$tmp/out" || code=$?
same "diff -o: exit code, stdout, the file" "1 0 # 0 removed, 1 added, 2 changed" "$code $(wc -c <"$tmp/out" | tr -d ' ') $(tail -n 1 "$tmp/ab.diff")"
for flag in "--symbols T=2" "--format json" "--expand 0" --profile "--weights beside"; do
  # shellcheck disable=SC2086
  refused "diff $flag" 2 "${flag%% *}" "$CLEF" graph diff "$tmp/a.clef" "$tmp/b.clef" $flag
done
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
same "is a page" "<!DOCTYPE html>" "$(head -n 1 "$tmp/named.html")"
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
if grep -q cluster "$tmp/graph.dot"; then ok "layers are clusters"; else fail "layers are clusters"; fi
finish
