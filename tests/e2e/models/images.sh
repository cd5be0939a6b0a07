#!/usr/bin/env bash
# clef run and clef chat with pictures: the ids of PyTorch for files, what is refused, and what a conversation has in the cache.
# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$(dirname "$0")/../lib.sh"
export CLEF_PROOF=0 CLEF_TUNE=0
vision=${CLEF_SHARED:-}/oracle/vision
printf 'P6 2 2 255 abcdefghijkl' >"$tmp/tiny.ppm"

refused "a model without pictures" 1 "pictures not supported" "$CLEF" run -p a -q --image "$tmp/tiny.ppm"
refused "a model without pictures, in a chat" 1 "pictures not supported" "$CLEF" chat -q --image "$tmp/tiny.ppm" --chat-template chatml
for flags in "--beams 2" "--ids 1" "--prompt-cache x"; do
  # shellcheck disable=SC2086
  refused "pictures with $flags" 2 "--image" "$CLEF" run $([[ $flags == --ids* ]] || echo -p a) -q $flags --image "$tmp/tiny.ppm"
done
[ -d "$vision" ] || finish

model=$vision/qwen2_vl picture=$vision/pictures/gradient.png
# ids CASE: the prompt, and the 16 ids that PyTorch generates after it.
python3 - "$model" >"$tmp/wanted" <<'END'
import json, struct, sys
folder = sys.argv[1]
with open(folder + "/expected.safetensors", "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    tensors, start = json.loads(f.read(n)), 8 + n
    def ids(name):
        begin, end = tensors[name]["data_offsets"]
        f.seek(start + begin)
        return struct.unpack("<%dq" % ((end - begin) // 8), f.read(end - begin))
    prompt, greedy = ids("one.input_ids"), ids("one.greedy_ids")
print(",".join(map(str, greedy[len(prompt):])))
print(json.load(open(folder + "/expected.json"))["prompts"]["one"])
END
wanted=$(head -n 1 "$tmp/wanted") prompt=$(tail -n +2 "$tmp/wanted"; echo x)
prompt=${prompt%$'\n'x}
same "the ids after a picture" "$wanted" "$("$CLEF" run "$model" -p "$prompt" -n 16 --ignore-eos --print-ids -q --exact --temp 0 --image "$picture")"
same "a picture that no mark places comes first" \
  "$("$CLEF" run "$model" -p '<|vision_start|><|image_pad|><|vision_end|>a' -n 4 --ignore-eos --print-ids -q --temp 0 --image "$picture")" \
  "$("$CLEF" run "$model" -p a -n 4 --ignore-eos --print-ids -q --temp 0 --image "$picture")"
refused "a mark without its picture" 1 "<|image_pad|> 2 times" "$CLEF" run "$model" -p '<|image_pad|><|image_pad|>' -q --image "$picture"
refused "a file that is no picture" 1 "config.json" "$CLEF" run "$model" -p a -q --image "$model/config.json"
refused "a file that is not there" 1 "nowhere.png" "$CLEF" run "$model" -p a -q --image "$tmp/nowhere.png"

cat >"$tmp/template" <<'END'
{%- for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}
{%- if c.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c.text }}{% endif %}{% endfor %}{% endif %}
{% endfor %}
END
echo 'What is <|image_pad|>?' | "$CLEF" chat "$model" --chat-template "$tmp/template" -n 4 --temp 0 --image "$picture" >"$tmp/answer" 2>"$tmp/said"
same "a mark in a message is text" "generated 4 tokens; -n ended the answer" "$(grep -o 'generated 4 tokens.*' "$tmp/said")"
finish
