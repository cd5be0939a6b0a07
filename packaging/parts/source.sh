# shellcheck shell=bash
# Sourced by tools/packages: the tree as a source archive, and how checks are counted.

# copy_tree INTO: what is under version control and what is new, without what git ignores. An archive without .git is copied whole.
copy_tree() {
  mkdir -p "$1"
  if [ -e "$root/.git" ]; then
    git -C "$root" ls-files -z --cached --others --exclude-standard
  else
    find "$root" -path "$root/build*" -prune -o -type f -printf '%P\0'
  fi | while IFS= read -r -d '' path; do
    if [ -e "$root/$path" ]; then printf '%s\0' "$path"; fi # one that is deleted and not yet committed
  done | tar --create --directory "$root" --null --files-from - | tar --extract --directory "$1"
}

# make_source FOLDER: FOLDER/clef-VERSION, and the archive FOLDER/clef_VERSION.orig.tar.gz, which has no debian/.
make_source() {
  umask 022 # for all that is built from it, too: what is packed is for all users
  rm -rf "$1"
  mkdir -p "$1"
  copy_tree "$1/clef-$version"
  tar --create --directory "$1" --exclude "clef-$version/debian" --sort=name --format=ustar --owner=0 --group=0 --numeric-owner \
    --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX "clef-$version" | gzip -n -9 >"$1/clef_$version.orig.tar.gz"
}

n_passed=0
n_failed=0
passed() { echo "ok $*"; n_passed=$((n_passed + 1)); }
failed() { echo "FAIL $*"; n_failed=$((n_failed + 1)); }

# check NAME COMMAND...: the command succeeds. Its output goes to the log, and its end is shown when it fails.
check() {
  local name=$1 code=0
  shift
  "$@" >"$folder/check.out" 2>&1 </dev/null || code=$?
  { echo "# $name"; cat "$folder/check.out"; } >>"$log"
  if [ $code -eq 0 ]; then passed "$name"; else failed "$name: exit code $code"; tail -n 20 "$folder/check.out"; fi
}

# same NAME EXPECTED GOT
same() {
  if [ "$2" = "$3" ]; then passed "$1"; else failed "$1"; printf '  expected: %.600s\n  got:      %.600s\n' "$2" "$3"; fi
}

# report FUNCTION...: runs them, then prints the counts.
report() {
  local one
  for one in "$@"; do $one; done
  echo "$n_passed passed, $n_failed failed"
  [ $n_failed -eq 0 ]
}
