# clef chat: one message without a terminal; in a terminal the commands, the history, a paste, Ctrl-C, and a context that is full.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 CLEF_HISTORY="$tmp/history"
demo=$CLEF_SOURCE/share/demo
chat() { "$CLEF" chat "$demo" --chat-template chatml --temp 0 "$@"; }

# ---- without a terminal: stdin is one message, stdout the answer alone

"$CLEF" run "$demo" -f <(printf '<|im_start|>user\nHello\nyou<|im_end|>\n<|im_start|>assistant\n') --temp 0 -n 12 -q >"$tmp/wanted"
printf 'Hello\nyou\n' | chat -n 12 -q >"$tmp/got"
same "the answer is what the model writes after the template" "$(cat "$tmp/wanted")" "$(cat "$tmp/got")"
printf 'Hello' | chat -n 3 >"$tmp/got" 2>"$tmp/err"
check "statistics on stderr" grep -q "generated 3 tokens; -n ended the answer" "$tmp/err"
printf 'Hello' | chat -q --choice yes,no >"$tmp/got"
check "a constraint" grep -qxE "yes|no" "$tmp/got"
cat >"$tmp/tools.json" <<'END'
[{"function": {"name": "pick", "parameters": {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "required": ["x"], "additionalProperties": false, "uniqueItems": true}}}]
END
echo hi | chat --tools "$tmp/tools.json" --tool-format hermes --tool-choice pick -n 200 >"$tmp/got" 2>"$tmp/err"
check "a call that must come" grep -qE '^\[.*"name":"pick","arguments":"\{.*x.*[12].*\}"\}\}' "$tmp/got"
refused "no such function" 1 "no function other" chat --tools "$tmp/tools.json" --tool-format hermes --tool-choice other
refused "no message" 1 "no message" chat -q
refused "no template" 1 "no chat template" "$CLEF" chat "$demo" -q
refused "no tool format" 1 "--tool-format" "$CLEF" chat "$demo" -q --chat-template chatml --tools <(echo '[]')
refused "system file" 1 "nowhere" chat -q --system @"$tmp/nowhere"
long=$(printf 'word %.0s' $(seq 150))
printf '%s' "$long" | chat -q -c 60 >"$tmp/got" 2>"$tmp/err"
same "a context that is full: exit 1" 1 $?
check "it says how full" grep -qE "has [0-9]+ tokens, and the context holds 60" "$tmp/err"
same "and nothing is answered" 0 "$(wc -c <"$tmp/got")"

# ---- in a terminal

command -v tmux >/dev/null || { echo "skipped the terminal: no tmux"; finish; }
screen() { tmux -L "clef$$" capture-pane -t c -p -S -500; }
# Waits until the screen holds the text so many times.
wait_for() {
  local i
  for i in $(seq 600); do
    if [ "$(screen | grep -cF -e "$1")" -ge "${2:-1}" ]; then return; fi
    sleep 0.1
  done
  fail "the terminal never showed '$1'"
  screen | grep -v '^$' | tail -n 20
}
keys() { tmux -L "clef$$" send-keys -t c "$@"; }
answers=0
# Sends a message, and waits for the line after its answer.
say() {
  keys "$@" Enter
  answers=$((answers + 1))
  wait_for "generated " $answers
}
trap 'tmux -L "clef$$" kill-server 2>/dev/null; rm -rf "$tmp"' EXIT
tmux -L "clef$$" -f /dev/null -u new-session -d -s c -x 150 -y 100 \
  "'$CLEF' chat '$demo' --chat-template chatml --temp 0 -n 8 -c 200 --system brief; echo exit \$?; sleep 600"
wait_for "/help lists the commands"
say "first ünï"
say "second"
check "only new tokens are computed" test "$(screen | grep -oE 'cached [0-9]+' | tail -1 | cut -d' ' -f2)" -gt 30
keys "/save $tmp/a.json" Enter
wait_for "5 messages saved"
check "the messages are OpenAI's" grep -q '"content": "first ünï"' "$tmp/a.json"
keys "/undo" Enter
wait_for "2 messages removed, 3 left"
say "/again"
keys Up Up Up Up C-a X
wait_for "> Xsecond"
say ""
keys "/save $tmp/b.json" Enter
wait_for "5 messages saved" 2
check "history and cursor keys" grep -q '"content": "Xsecond"' "$tmp/b.json"
keys "/reset" Enter
wait_for "empty but for the system message"
printf 'one\ntwo\nthree' | tmux -L "clef$$" load-buffer -
tmux -L "clef$$" paste-buffer -p -t c
wait_for "three"
say ""
keys '"""four' Enter
wait_for "..."
say 'five"""'
keys "/save $tmp/c.json" Enter
wait_for "5 messages saved" 3
check "a paste is one message" grep -q '"content": "one\\ntwo\\nthree"' "$tmp/c.json"
check "quotes are one message" grep -q '"content": "four\\nfive"' "$tmp/c.json"
keys "/load $tmp/a.json" Enter
wait_for "5 messages loaded"
keys "/prompt" Enter
wait_for "first ünï<|im_end|>"
keys "/set temperature 0.5" Enter
wait_for "temperature is 0.5"
keys "/set nonsense 1" Enter
wait_for "expected /set NAME VALUE"
keys "/nonsense" Enter
wait_for "no command /nonsense"
keys "$long" Enter
wait_for "the context holds 200"
keys "/undo" Enter
wait_for "1 messages removed"
keys "junk" C-c
wait_for "Ctrl-C once more"
keys "/exit" Enter
wait_for "exit 0"
check "the history is in its file" grep -q "Xsecond" "$tmp/history"
same "which only its owner reads" 600 "$(stat -c %a "$tmp/history")"
ok "the terminal: $answers answers"
finish
