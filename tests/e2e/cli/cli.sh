# The command line: help, version, flags.
. "$(dirname "$0")/../lib.sh"

same "--version" "clef $(sed -n 's/^project(clef VERSION \([0-9.]*\).*/\1/p' "$CLEF_SOURCE/CMakeLists.txt")" "$("$CLEF" --version)"
check "help" "$CLEF" help
flags() { grep -oE '^  (-.,|   ) --[a-z0-9-]+' | grep -oE '[-][-].*' | sort; }
for command in $(sed -n 's/^COMMAND(\(.*\))/\1/p' "$CLEF_SOURCE/tools/cli/commands.def"); do
  check "help $command" "$CLEF" help "$command"
  first=$("$CLEF" help "$command")
  all=$("$CLEF" help "$command" --all)
  same "$command --help is help $command" "$first" "$("$CLEF" "$command" --help)"
  same "$command --help-all is help $command --all" "$all" "$("$CLEF" "$command" --help-all)"
  n=$(flags <<<"$first" | wc -l)
  if [ "$n" -le 20 ]; then ok "$command: 20 flags on the first page at most"; else fail "$command: $n flags on the first page"; fi
  same "$command: help --all has every flag" "$("$CLEF" help --man 2000-01-01 "$command" | sed -n '/^\.SH OPTIONS/,/^\.SH EXIT/{s/\\f.//g;s/\\//gp}' |
    grep -oE '^(-., )?--[a-z0-9-]+' | grep -oE '[-][-].*' | grep -vx -e --help-all | sort)" "$(flags <<<"$all")"
  empty "$command: and those of the first page" "$(comm -13 <(flags <<<"$all") <(flags <<<"$first") | grep -vx -e --help-all)"
  if "$CLEF" help | grep -q "^  $command "; then ok "help lists $command"; else fail "help lists $command"; fi
done
for file in $(cd "$CLEF_SOURCE" && grep -lE '^    \.first =' tools/cmd/*.c train/command/*.c); do
  command=$(sed -n 's/^const cli_command cli_command_\([a-z]*\) = {/\1/p' "$CLEF_SOURCE/$file")
  same "$command: the flags of its first page exist" \
    "$(awk '/^    \.first =/ { on = 1 } on { print; if (/",$/) exit }' "$CLEF_SOURCE/$file" | grep -o '"[^"]*"' | tr -d '"' | wc -w)" \
    "$(($("$CLEF" help "$command" | flags | wc -l) - 2))"
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
refused "an argument where there is none" 2 "too many softmax expected none" "$CLEF" ops softmax
# Flags that need others, exclude others, or take values of another form: exit code, words, arguments.
while IFS='|' read -r code words arguments; do
  # shellcheck disable=SC2086
  refused "$arguments" "$code" "$words" "$CLEF" $arguments
done <<'E'
2|--product 3x4 MxNxK|bench --product 3x4
2|--report excludes --json|bench --report x --json
2|--batch excludes --profile|bench --batch 1 --profile
2|--spec excludes --batch|bench --spec ngram --batch 1
2|--json or --md not both|bench --json --md
2|--json or --npy not both|embed --json --npy x
1|--symbols NAME=NUMBER 'T'|graph --symbols T
1|--expand dot svg png json|graph --expand 1 --format json
1|--rank R/N '4'|graph --rank 4
1|--rank not --train|graph --rank 0/2 --train
1|--ranks --network RATE,LATENCY|plan --ranks 2
2|--network needs --ranks|plan --network 25Gbit,20us
2|--ranks excludes --max-seqs|plan --ranks 2 --max-seqs 2 --network 25Gbit,20us
2|--step-tokens needs --max-seqs|plan --step-tokens 8
2|--max-seqs needs --file|run --max-seqs 2 -p x
2|--image excludes --beams|run --image x.png --beams 2 -p x
2|--tap --tap-out together|run --tap x -p x
2|--constrain-after needs --json-schema|run --constrain-after x -p x
2|--stop excludes --beams|run --stop x --beams 2 -p x
2|--n-best 3 --beams 2|run --n-best 3 --beams 2 -p x
2|--strict-schema --json-schema|run --strict-schema -p x
2|--spec-max-seqs needs --max-seqs --file|run --spec-max-seqs 1 -p x
2|expected --probs|sample
2|--tls-cert --tls-key together|serve --tls-cert x
2|--special expected --train|tokenize --special x y
1|--head 99 heads 0 5|attention --head 99 -q -p x
2|--patch --image|attention --patch 1,1 -p x
2|expected MODEL --new --tokenizer|train
2|expected --data|train --new x --tokenizer y
2|expected -o OUT|train --new x --tokenizer y --data z
2|expected LOG|train plot
2|--tools excludes other|grammar --tools x --json
2|--grammar --json-schema --regex --choice --cases|grammar
2|--messages --parse|template
2|--ids MODEL|template --ids --parse x
E
refused "eval without files" 2 "--in" "$CLEF" eval
refused "a default from the environment that is none" 2 "CLEF_GEMM magic" env CLEF_GEMM=magic "$CLEF" run -p x
finish
