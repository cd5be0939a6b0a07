# shellcheck shell=bash
# Sourced by every script beside it. Prints one line a check, `ok …` or `FAIL …`; tests/count.awk counts them.
set -u
export CLEF_DEBUG=${CLEF_DEBUG:-}
: "${CLEF:?}" "${CLEF_SOURCE:?}" "${CLEF_BUILD:?}"
failures=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ok() { echo "ok $*"; }
fail() { echo "FAIL $*"; failures=$((failures + 1)); }
skip() { echo "skipped: $*"; exit 77; }
finish() {
  if ! [ -d "${CLEF_SHARED:-}" ] && grep -q CLEF_SHARED "$0"; then echo "skipped: what needs further models (CLEF_SHARED)"; fi
  exit $((failures > 0))
}

# check NAME COMMAND...: the command succeeds.
check() {
  local name=$1
  shift
  if "$@" >"$tmp/check.log" 2>&1; then ok "$name"; else fail "$name: $* exited $?"; tail -n 20 "$tmp/check.log"; fi
}

# in_turn NUMBER COUNT: whether entry NUMBER (from 0) of a long list of COUNT runs now, by CLEF_TEST_TURN, as is_in_turn() of tests/check.h
# says.
in_turn() {
  local turn=${CLEF_TEST_TURN:-1/1} i n
  i=${turn%/*} n=${turn#*/}
  [ $(($1 % n)) -eq $(((i - 1) % ($2 < n ? $2 : n))) ]
}

# A folder that clef cannot use as its cache, since its name is too long: programs are not stored there, for which PoCL would compile
# each again. An empty CLEF_CACHE_DIR means the default folder.
no_cache=/$(printf '%0600d' 0)

# within SECONDS COMMAND...: the command succeeds, with no more processor time than that. A busy machine changes nothing.
within() (
  ulimit -S -t "$1"
  shift
  "$@"
)

# same NAME WANTED CAME: texts that are equal. Two empty ones are not a success, for what should have been printed may have failed.
same() {
  if [ -z "$2" ]; then fail "$1: there is nothing to compare with; use 'empty' where nothing is expected"; return; fi
  if [ "$2" = "$3" ]; then ok "$1"; else fail "$1"; printf '  expected: %.600s\n  got:      %.600s\n' "$2" "$3"; fi
}

# empty NAME CAME
empty() {
  if [ -z "$2" ]; then ok "$1"; else fail "$1"; printf '  expected nothing, got: %.600s\n' "$2"; fi
}

# silent NAME COMMAND...: it succeeds, and prints nothing.
silent() {
  local name=$1 code=0
  shift
  "$@" >"$tmp/said" 2>&1 || code=$?
  if [ "$code" -eq 0 ]; then empty "$name" "$(cat "$tmp/said")"; else fail "$name: $* exited $code"; fi
}

# refused NAME CODE WORDS COMMAND...: exits with that code, prints nothing on stdout and one line on stderr that begins with "clef: " and
# holds each of the WORDS.
refused() {
  local name=$1 code=$2 words=$3 got=0 word
  shift 3
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || got=$?
  if [ "$got" -ne "$code" ]; then fail "$name: expected exit $code, got $got"; head -n 5 "$tmp/err"; return; fi
  if [ -s "$tmp/out" ]; then fail "$name: something on stdout"; return; fi
  if [ "$(wc -l <"$tmp/err")" -ne 1 ]; then fail "$name: expected one line on stderr"; head -n 5 "$tmp/err"; return; fi
  for word in "clef: " $words; do
    if ! grep -qF -e "$word" "$tmp/err"; then fail "$name: expected '$word' in: $(cat "$tmp/err")"; return; fi
  done
  ok "$name: $(cut -c 1-160 "$tmp/err")"
}

# find_python [MODULE...]: prints a Python that has numpy, safetensors and the modules: the first on the path, or one of a virtual environment
# outside the tree, which is made when it can be had.
find_python() {
  local venv candidate modules="numpy safetensors $*"
  venv=${XDG_CACHE_HOME:-$HOME/.cache}/clef-oracle${*:+-$(echo "$*" | tr ' ' -)}
  for candidate in "${CLEF_PYTHON:-}" python3 "$venv/bin/python"; do
    # shellcheck disable=SC2086
    if [ -n "$candidate" ] && "$candidate" -c "import $(echo $modules | tr ' ' ,)" 2>/dev/null; then echo "$candidate"; return; fi
  done
  command -v python3 >/dev/null || return
  echo "no Python with $modules: making one in $venv, with pip" >&2
  mkdir -p "${venv%/*}"
  # shellcheck disable=SC2086
  (
    flock 9 # another test may be making it
    imports="import $(echo $modules | tr ' ' ,)"
    "$venv/bin/python" -c "$imports" 2>/dev/null ||
      { python3 -m venv "$venv" >/dev/null 2>&1 && timeout 180 "$venv/bin/pip" install -q --disable-pip-version-check $modules >/dev/null 2>&1; }
    "$venv/bin/python" -c "$imports" 2>/dev/null && echo "$venv/bin/python"
  ) 9>"$venv.lock"
}

# oracle NAME: prints where it is (tools/oracles), or fails. For tests/e2e/oracles: tools/test --oracles makes it.
oracle() { "$CLEF_SOURCE/tools/oracles" --there "$1"; }

# json_case FILE KEY I: member KEY of case number I (from 1) of an expected.json: a list's numbers with commas between, or a text with its
# escapes resolved (and an x after it, which keeps line ends at its end alive).
json_case() {
  awk -v key="\"$2\":" -v want="$3" '
    $1 == key { n++ }
    $1 == key && n == want && /\[$/ { list = 1; next }
    $1 == key && n == want { sub(/^[^:]*: "/, ""); sub(/",?$/, ""); print; exit }
    list && /\]/ { exit }
    list { gsub(/[ ,]/, ""); printf "%s%s", comma, $0; comma = "," }' "$1" | sed 's/\\"/"/g' | { IFS= read -r line || :; printf '%bx' "$line"; }
}

# nan_model FOLDER: the model that comes with clef, the first number of position 3's embedding NaN: rows of layer 0's attention are NaN from the
# fourth on, what comes after it everywhere.
nan_model() {
  local file=$1/model.safetensors head at
  cp -r "$CLEF_SOURCE/share/demo" "$1" && chmod -R u+w "$1" || return
  head=$(od -An -tu4 -N4 "$file" | tr -d ' ')
  at=$(head -c $((head + 8)) "$file" | tail -c "$head" | sed 's/.*"transformer.wpe.weight":{[^}]*"data_offsets":\[\([0-9]*\),.*/\1/')
  printf '\000\176' | dd of="$file" bs=1 seek=$((8 + head + at + 3 * 192 * 2)) conv=notrunc 2>/dev/null
}

# Bytes of numbers, little-endian: u32 N, u64 N, and a GGUF string.
u32() { printf "\\x$(printf %02x $(($1 & 255)))\\x$(printf %02x $(($1 >> 8 & 255)))\\x$(printf %02x $(($1 >> 16 & 255)))\\x$(printf %02x $(($1 >> 24 & 255)))"; }
u64() { u32 $(($1 & 0xffffffff)); u32 $(($1 >> 32 & 0xffffffff)); }
gguf_string() { u64 ${#1}; printf %s "$1"; }
# safetensors HEADER: the head of a .safetensors file; its data follow.
safetensors() { u64 ${#1}; printf %s "$1"; }
