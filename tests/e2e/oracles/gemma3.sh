# A real file, Gemma 3 270M as Q4_K_M, beside llama.cpp.
. "$(dirname "$0")/../lib.sh"
python=$(oracle llama) || skip "no llama.cpp here (tools/oracles llama)"
file=$(oracle gemma3-270m) || skip "no Gemma 3 270M here (tools/oracles gemma3-270m)"
"$python" "$CLEF_SOURCE/tests/e2e/oracles/gemma3.py" "$CLEF" "$file" "$CLEF_SOURCE/docs/ARCHITECTURE.md" "$tmp" 2>"$tmp/err" ||
  { fail "beside llama.cpp"; tail -n 5 "$tmp/err"; }
finish
