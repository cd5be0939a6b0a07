# `clef graph`: the text form parses back to the same graph after every pass; JSON and DOT are what their readers take.
. "$(dirname "$0")/lib.sh"

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
if grep -q cluster "$tmp/graph.dot"; then ok "layers are clusters"; else fail "layers are clusters"; fi
finish
