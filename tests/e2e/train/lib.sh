# shellcheck shell=bash
# Sourced by the scripts of training on several ranks, after ../lib.sh.
. "$CLEF_SOURCE/tests/mpi/lib.sh"
[ -e "$library" ] || skip "clef was built without MPI"

awk 'BEGIN { for (i = 0; i < 3000; i++) { a = i * 7 % 10; b = i * 3 % 10; printf "%d + %d = %d\n", a, b, a + b } }' >"$tmp/sums.txt"
cat >"$tmp/gpt2.json" <<'J'
{"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
J
# What every run of these scripts has, unless later flags say otherwise.
small=(--new "$tmp/gpt2.json" --tokenizer train:300 --data "$tmp/sums.txt" -c 32 -b 8 -n 10 -r 0.01 --dropout 0.1 -q)

# train N OUT FLAGS...: on N ranks; on one without mpirun.
train() {
  local n=$1 out=$2 start=()
  shift 2
  [ "$n" = 1 ] || start=("${ranks[@]}" -n "$n")
  "${start[@]}" "$CLEF" train "$@" -o "$out"
}

# weights OUT: a hash of them.
weights() { sha256sum <"$1/model.safetensors"; }

# losses OUT: of the steps and the evaluations, by their order.
losses() { grep -oE '"event": "(step|eval)", "step": [0-9]*, "loss": [0-9.e+-]*' "$1.train/log.jsonl" | sed 's/.*"event": //; s/[",:]//g'; }

# same_losses NAME OUT OTHER [TOLERANCE]: the same steps, with losses that differ by 1e-5 at most.
same_losses() {
  losses "$2" >"$tmp/one" && losses "$3" >"$tmp/other"
  if paste "$tmp/one" "$tmp/other" | awk -v most="${4:-1e-5}" '
      { if ($1 != $6 || $3 != $8) wrong = 1; d = ($5 - $10) / $5; d = d < 0 ? -d : d; worst = d > worst ? d : worst }
      END { printf "%d losses, largest difference %.1e\n", NR, worst; exit !(NR > 0 && !wrong && worst <= most) }' >"$tmp/worst"; then
    ok "$1: $(cat "$tmp/worst")"
  else
    fail "$1: $(cat "$tmp/worst")"
  fi
}

# What clef itself wrote to stderr; mpirun adds lines of its own.
own_lines() { grep '^clef: ' "$tmp/err"; }

# stops NAME WORDS COMMAND...: fails, and one line of clef has each of the words.
stops() {
  local name=$1 words=$2 word
  shift 2
  if "$@" >"$tmp/out" 2>"$tmp/err" </dev/null; then fail "$name: it succeeded"; return; fi
  if [ "$(own_lines | wc -l)" -ne 1 ]; then fail "$name: expected one line of clef"; cat "$tmp/err"; return; fi
  for word in $words; do
    own_lines | grep -qF -e "$word" || { fail "$name: expected '$word' in: $(own_lines)"; return; }
  done
  ok "$name: $(own_lines | cut -c 1-200)"
}
