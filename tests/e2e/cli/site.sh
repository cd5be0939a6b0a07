# tools/site: a page for each command, op, format and header, links that lead somewhere, and an index for the search. Where MkDocs cannot be
# had, the pages are written and their links checked, and no more.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../browser.sh"
pages=$CLEF_SOURCE/build-site/pages
made=1
if timeout 300 "$CLEF_SOURCE/tools/site" >"$tmp/log" 2>&1; then
  ok "tools/site, whose links are checked"
elif grep -q "installing MkDocs.* failed" "$tmp/log"; then
  echo "skipped: the site itself: no MkDocs here"
  made=0
  check "the pages are written" python3 "$CLEF_SOURCE/packaging/site/pages.py" "$CLEF" "$tmp/site"
  pages=$tmp/site/pages
else
  fail "tools/site, whose links are checked"
  tail -n 20 "$tmp/log"
  finish
fi
same "a page a command" "$("$CLEF" help | grep '^  [a-z]' | grep -vc '^  help ')" "$(find "$pages/reference/commands" -name '*.md' | wc -l)"
same "a page a header" "$(find "$CLEF_SOURCE/include/clef" -name '*.h' | wc -l)" "$(find "$pages/reference/c" -name '*.md' | wc -l)"
same "a row an op" "$("$CLEF" ops | wc -l)" "$(grep -c '^| `' "$pages/reference/ops.md")"
same "a row a format" "$(grep -c '^#define FORMAT_[0-9]' "$CLEF_SOURCE/cl/formats.def")" "$(grep -c '^| [A-Z]' "$pages/reference/formats.md")"
same "all functions of the headers" "$(cat "$CLEF_SOURCE"/include/clef/*.h | grep -c '^CLEF_API')" "$(cat "$pages"/reference/c/*.md | grep -c '^CLEF_API')"
same "all pictures that pages show" "$(grep -ohE '!\[[^]]*\]\([^)]*\)' "$CLEF_SOURCE"/docs/*.md "$CLEF_SOURCE/README.md" | sed 's/.*pictures//' | sort -u | wc -l)" \
  "$(grep -c '^<figure' "$pages/gallery.md")"

[ $made = 1 ] || finish
html=$CLEF_SOURCE/build-site/html
same "a page for each" "$(find "$pages" -name '*.md' | wc -l)" "$(find "$html" -name '*.html' ! -name 404.html | wc -l)"
check "the search knows the ops" grep -q "reference/ops.html" "$html/search/search_index.json"
empty "nothing is loaded from elsewhere" "$(grep -rhoE '<(script|link|img)[^>]*(src|href)="?(https?:)?//[^" >]*' "$html" --include=*.html | grep -v 'rel="\?canonical' | sort -u | head -3)"
[ -n "$browser" ] || { echo "skipped: the pages in a browser: no chromium here"; finish; }
for page in index python reference/c/onnx; do usable "$page" "$html/$page.html"; done
finish
