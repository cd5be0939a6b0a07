# Chat templates: where they come from, what they print, and what is refused.
. "$(dirname "$0")/../lib.sh"

printf '[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello <|im_end|>"}]' >"$tmp/talk.json"
render() { "$CLEF" template --messages "$tmp/talk.json" --date 2026-01-02 "$@"; }

same "chatml" "<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
Hello <|im_end|><|im_end|>
<|im_start|>assistant
x" "$(render --template chatml; printf x)"
same "without a generation prompt" "<|user|>
Hello <|im_end|><|end|>
x" "$(render --template phi3 --no-generation-prompt | tail -2; printf x)"
same "command-r" "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Hello <|im_end|><|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" "$(render --template command-r)"
same "a template itself" "1 Be brief." "$(render --template '1 {{ messages[0].content }}')"
refused "no file of this name" 1 "no such file" render --template "no such/file.jinja"
for name in llama2 llama3 mistral gemma zephyr; do
  check "$name" render --template $name --arg 'bos_token="<s>"' --arg 'eos_token="</s>"'
done
same "parts" '[{"from": "template", "text": "<"},
 {"from": "message", "text": "Be brief."},
 {"from": "template", "text": ">"}]' "$(printf '<{{ messages[0].content }}>' >"$tmp/t.jinja" && render --template "$tmp/t.jinja" --parts)"

# Tokens: what a message writes is never a special token, unless that is asked for.
printf '[{"role": "user", "content": "Now <|endoftext|> is"}]' >"$tmp/special.json"
printf '{{ messages[0].content }}<|endoftext|>' >"$tmp/t.jinja"
end=$("$CLEF" tokenize "$CLEF_SOURCE/share/demo" '<|endoftext|>' --no-special | tr -d '[]')
ids() { "$CLEF" template "$CLEF_SOURCE/share/demo" --template "$tmp/t.jinja" --messages "$tmp/special.json" --ids "$@"; }
count() { tr -d '[] ' | tr ',' '\n' | grep -cx "$end"; }
same "one special token, the template's" 1 "$(ids | count)"
same "it is the last" "$end" "$(ids | tr -d '[] \n' | sed 's/.*,//')"
same "as transformers" "$("$CLEF" tokenize "$CLEF_SOURCE/share/demo" 'Now <|endoftext|> is<|endoftext|>' --no-special)" "$(ids --special-in-content)"
refused "ids without a model" 2 "MODEL" render --template chatml --ids

# A model's own template: a file beats the config, tools take tool_use.
mkdir "$tmp/model"
refused "a model without a template" 1 "$tmp/model no chat template --template" render "$tmp/model"
printf '{"bos_token": {"content": "<b>"}, "chat_template": [{"name": "default", "template": "D{{ bos_token }}"}, {"name": "tool_use", "template": "T{{ tools | length }}"}]}' >"$tmp/model/tokenizer_config.json"
same "the config's default" "D<b>" "$(render "$tmp/model")"
echo '[{"type": "function", "function": {"name": "f"}}]' >"$tmp/tools.json"
same "tool_use with tools" "T1" "$(render "$tmp/model" --tools "$tmp/tools.json")"
same "by name" "T0" "$(render "$tmp/model" --template tool_use --arg 'tools=[]')"
printf 'J' >"$tmp/model/chat_template.jinja"
same "chat_template.jinja first" "J" "$(render "$tmp/model")"
refused "no such name" 1 "'nothing' chatml" render "$tmp/model" --template nothing

# What is wrong is named, with its line.
bad() { printf "$2" >"$tmp/bad.jinja" && refused "$1" 1 "$3" render --template "$tmp/bad.jinja"; }
bad "no end" 'a\n{%% if x %%}' "line 2 'elif'"
bad "an unknown filter" '{{ 1 | nothing }}' "line 1 'nothing'"
bad "include" '{%% include "x" %%}' "line 1 statement"
bad "__class__" '\n\n{{ "".__class__.x }}' "line 3 __class__ not allowed"
bad "an exception of its own" '{{ raise_exception("roles must alternate") }}' "roles must alternate"
bad "a loop without end" '{%% for a in range(90000) %%}{%% for b in "abc" * 300 %%}{%% endfor %%}{%% endfor %%}' "more than"
bad "macros that call themselves" '{%% macro f() %%}{{ f() }}{%% endmacro %%}{{ f() }}' "deeper than 100"
bad "a giant text" '{{ "x" * 1000000000 }}' "MiB"
bad "a giant range" '{%% for i in range(1000000000) %%}{%% endfor %%}' "100000"
refused "no messages" 2 "--messages" "$CLEF" template --template chatml
echo '{"role": 1}' >"$tmp/talk.json"
refused "messages that are not a list" 1 "messages array" render --template chatml
echo '[1]' >"$tmp/talk.json"
refused "a message that is not an object" 1 "messages item 0 object" render --template chatml
refused "a date that is none" 1 "2026-13-01 YYYY-MM-DD" "$CLEF" template --template chatml --messages "$tmp/talk.json" --date 2026-13-01
refused "an argument without a value" 2 "KEY=JSON" "$CLEF" template --template chatml --messages "$tmp/talk.json" --arg x

# Back: the message that an answer is. The template says how the model writes calls.
printf '<think>\nHm.\n</think>\n\nI look.\n<tool_call>\n{"name": "f", "arguments": {"x": 1.0}}\n</tool_call>' >"$tmp/answer"
message='{"role": "assistant",
 "content": "I look.",
 "reasoning_content": "Hm.",
 "tool_calls": [
  {"id": "call00000", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.0}"}}]}'
same "an answer" "$message" "$("$CLEF" template --parse "$tmp/answer" --tool-format hermes)"
printf 'writes <tool_call></tool_call>' >"$tmp/t.jinja"
same "by the template" "$message" "$("$CLEF" template --parse "$tmp/answer" --template "$tmp/t.jinja")"
refused "an unknown format" 1 "'hermse' hermes" "$CLEF" template --parse "$tmp/answer" --tool-format hermse
refused "no template and no format" 1 "--template" "$CLEF" template --parse "$tmp/answer"

# Where there are the oracle and Jinja: 35 templates by 11 conversations.
oracle=${CLEF_SHARED:-}/oracle/templates
if [ -f "$oracle/render.py" ] && python3 -c 'import jinja2; assert jinja2.__version__.startswith("3.1")' 2>/dev/null; then
  check "385 conversations beside Jinja" python3 "$oracle/render.py" --clef "$CLEF"
fi
finish
