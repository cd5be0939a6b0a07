# tools/release: two runs give the same bytes, the version is in all that they make, and what is wrong or interrupted leaves nothing.
. "$(dirname "$0")/../lib.sh"
made=$CLEF_SOURCE/build-release
version=987.0.$$
trap 'rm -rf "$tmp" "$made/$version" "$made/$version.part"' EXIT
release() { "$CLEF_SOURCE/tools/release" "$@" --dry-run --no-tests; }
# not_made NAME CODE WORDS ARGUMENTS...: exits with that code, and says the words.
not_made() {
  local name=$1 code=$2 words=$3 got=0
  shift 3
  "$CLEF_SOURCE/tools/release" "$@" >"$tmp/out" 2>&1 </dev/null || got=$?
  if [ $got -eq "$code" ] && grep -qF -e "$words" "$tmp/out"; then ok "$name"; else fail "$name: exit $got"; tail -n 3 "$tmp/out"; fi
}

not_made "no version" 2 "expected a version such as 1.0.0, got ''"
not_made "no semantic version" 2 "got '1.0'" 1.0 --dry-run
not_made "an older version" 1 "expected a version from" 0.0.1 --dry-run
not_made "an unknown part" 2 "got 'rpm'" $version --dry-run --only source,rpm
not_made "a release without a homepage" 2 "--homepage: expected a URL" $version
not_made "a flag without its value" 2 "--only: expected a value" $version --only

check "a dry run" release $version --only source
cp "$made/$version/SHA256SUMS" "$tmp/first"
sleep 1 # a second later all times would be others
check "a second one" release $version --only source
same "gives the same sums" "$(cat "$tmp/first")" "$(cat "$made/$version/SHA256SUMS")"
check "which are those of the files" sh -c "cd '$made/$version' && sha256sum --check --strict --quiet SHA256SUMS"
same "and name all of them" "$(cd "$made/$version" && ls | grep -v SHA256SUMS)" "$(sed 's/.*  //' "$made/$version/SHA256SUMS")"
tar --extract --gzip --to-stdout --file "$made/$version/clef_$version.orig.tar.gz" "clef-$version/CMakeLists.txt" >"$tmp/cmake"
same "the source has the version" 1 "$(grep -c "^project(clef VERSION $version " "$tmp/cmake")"
check "the notes are those of the changelog" grep -q "^- " "$made/$version/NOTES.md"
same "the SBOM has the libraries of cmake/sbom.cmake and the sum of the source" \
  "$(grep -c '^clef_sbom_library' "$CLEF_SOURCE/cmake/sbom.cmake") 1" "$(python3 - "$made/$version" <<'P'
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
sums = [line.split()[0] for line in (folder / "SHA256SUMS").read_text().splitlines() if line.endswith(".orig.tar.gz")]
sbom = json.loads(next(folder.glob("*.spdx.json")).read_text())
ids = {p["SPDXID"] for p in sbom["packages"]} | {"SPDXRef-DOCUMENT"}
assert all(r[k] in ids for r in sbom["relationships"] for k in ("spdxElementId", "relatedSpdxElement"))
uses = {r["relatedSpdxElement"] for r in sbom["relationships"] if r["relationshipType"] == "DEPENDS_ON"}
print(len(uses), [c["checksumValue"] for p in sbom["packages"] for c in p.get("checksums", [])].count(sums[0]))
P
)"

rm -rf "${made:?}/$version"
"$CLEF_SOURCE/tools/release" $version --dry-run --no-tests --only wheel >"$tmp/out" 2>&1 &
process=$!
while kill -0 $process 2>/dev/null && ! grep -q "^release: " "$tmp/out"; do sleep 0.05; done
kill -TERM $process
code=0
wait $process || code=$?
same "the source is made first, since what is published names it" "release: source" "$(grep -m 1 "^release: " "$tmp/out")"
same "one that is interrupted exits so" 143 $code
empty "and leaves nothing" "$(cd "$made" && ls -d -- "$version"* 2>/dev/null)"
finish
