# The command line: help, version, flags.
. "$(dirname "$0")/../lib.sh"

same "--version" "clef $(sed -n 's/^project(clef VERSION \([0-9.]*\).*/\1/p' "$CLEF_SOURCE/CMakeLists.txt")" "$("$CLEF" --version)"
check "help" "$CLEF" help
for command in $(sed -n 's/^COMMAND(\(.*\))/\1/p' "$CLEF_SOURCE/tools/cli/commands.def"); do
  check "help $command" "$CLEF" help "$command"
  same "$command --help is help $command" "$("$CLEF" help "$command")" "$("$CLEF" "$command" --help)"
  if "$CLEF" help | grep -q "^  $command "; then ok "help lists $command"; else fail "help lists $command"; fi
done
"$CLEF" >"$tmp/out" 2>"$tmp/err"
same "no command at all exits" 2 $?
empty "no command at all prints nothing on stdout" "$(cat "$tmp/out")"

refused "unknown command" 2 "rnu run" "$CLEF" rnu
refused "unknown command, nothing near" 2 "transmogrify help" "$CLEF" transmogrify
refused "unknown flag" 2 "--tmep --temp" "$CLEF" run --tmep 0 -p x
for flag in "-ngl 99" -ngl=99 "-tb 8" --threads-batch=8 --no-mmap -no-cnv; do
  # shellcheck disable=SC2086
  refused "llama.cpp's $flag" 2 "${flag%%[ =]*} llama.cpp" "$CLEF" run $flag -p x
done
refused "a text that begins with -" 2 "-5 --" "$CLEF" tokenize "$CLEF_SOURCE/share/demo" -5
check "a text after --" "$CLEF" tokenize "$CLEF_SOURCE/share/demo" -- -5
refused "unknown letter" 2 "-Z" "$CLEF" run -Z -p x
refused "a number that is none" 2 "-n an integer ten" "$CLEF" run -n ten -p x
refused "a number out of range" 2 "--top-p 0 1 2" "$CLEF" run --top-p 2 -p x
refused "a number out of range with =" 2 "--min-p -1" "$CLEF" run --min-p=-1 -p x
refused "a choice that is none" 2 "--gemm auto own clblast magic" "$CLEF" run --gemm magic -p x
refused "a value missing" 2 "--temp value" "$CLEF" run -p x --temp
refused "a value where none is taken" 2 "--echo yes" "$CLEF" run --echo=yes -p x
refused "no prompt" 2 "-p" "$CLEF" run
refused "two prompts" 2 "one" "$CLEF" run -p x --ids 1
refused "an argument too many" 2 "many two" "$CLEF" run one two -p x
refused "eval without files" 2 "--in" "$CLEF" eval
refused "a default from the environment that is none" 2 "CLEF_GEMM magic" env CLEF_GEMM=magic "$CLEF" run -p x
finish
