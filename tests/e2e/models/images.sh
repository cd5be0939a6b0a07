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
# oracle MODEL CASE: the 16 ids that PyTorch generates after the case's prompt, then its pictures on a line, then the prompt.
oracle() {
  python3 - "$1" "$2" <<'END'
import json, struct, sys
folder, case = sys.argv[1:]
with open(folder + "/expected.safetensors", "rb") as f:
    n, = struct.unpack("<Q", f.read(8))
    tensors, start = json.loads(f.read(n)), 8 + n
    def ids(name):
        begin, end = tensors[name]["data_offsets"]
        f.seek(start + begin)
        return struct.unpack("<%dq" % ((end - begin) // 8), f.read(end - begin))
    prompt, greedy = ids(case + ".input_ids"), ids(case + ".greedy_ids")
note = json.load(open(folder + "/expected.json"))
print(",".join(map(str, greedy[len(prompt):])))
print(*note["pictures"][case])
print(note["prompts"][case])
END
}
# The whole way of a picture: file, pixels, tower, text.
families=(qwen2_vl llava llava_next gemma3 paligemma idefics3 smolvlm internvl)
for i in "${!families[@]}"; do
  in_turn "$i" "${#families[@]}" || continue
  oracle "$vision/${families[i]}" two >"$tmp/wanted"
  prompt=$(tail -n +3 "$tmp/wanted"; echo x) images=()
  for name in $(sed -n 2p "$tmp/wanted"); do images+=(--image "$vision/pictures/$name"); done
  same "the ids after pictures, ${families[i]}" "$(head -n 1 "$tmp/wanted")" \
    "$("$CLEF" run "$vision/${families[i]}" -p "${prompt%$'\n'x}" -n 16 --ignore-eos --print-ids -q --exact --temp 0 "${images[@]}")"
done
# A GGUF file with the file of its tower.
python3 "$(dirname "$0")/mmproj.py" "$vision/gemma3" "$tmp/mmproj.gguf"
"$CLEF" convert "$vision/gemma3" "$tmp/gemma3.gguf" -q
oracle "$vision/gemma3" one >"$tmp/wanted"
prompt=$(tail -n +3 "$tmp/wanted"; echo x)
by_gguf() {
  "$CLEF" run "$tmp/gemma3.gguf" --mmproj "$tmp/$1.gguf" -p "${prompt%$'\n'x}" -n 16 --ignore-eos --print-ids -q --exact --temp 0 --image "$picture"
}
for kind in old scale4 unscaled silu; do python3 "$(dirname "$0")/mmproj.py" "$vision/gemma3" "$tmp/$kind.gguf" "$kind"; done
same "the ids after a picture, by GGUF" "$(head -n 1 "$tmp/wanted")" "$(by_gguf mmproj)"
same "the ids by the names of earlier converters" "$(head -n 1 "$tmp/wanted")" "$(by_gguf old)"
same "squares of patches that the file does not say" "$(by_gguf scale4 || echo failed)" "$(by_gguf unscaled)"
refused "a tower of another activation" 1 "silu.gguf clip.use_silu GELU" by_gguf silu
refused "GGUF without its tower" 1 "gemma3.gguf --mmproj" "$CLEF" run "$tmp/gemma3.gguf" -p a -q --image "$picture"
refused "a tower that is a text model" 1 "clip gemma3" "$CLEF" run "$tmp/gemma3.gguf" --mmproj "$tmp/gemma3.gguf" -p a -q --image "$picture"
refused "a tower that is not there" 1 "nowhere" "$CLEF" run "$tmp/gemma3.gguf" --mmproj "$tmp/nowhere" -p a -q --image "$picture"
refused "a tower for a folder" 1 "folder" "$CLEF" run "$model" --mmproj "$tmp/mmproj.gguf" -p a -q --image "$picture"
"$CLEF" convert "$vision/llava" "$tmp/llava.gguf" -q
refused "the tower of another model" 1 "gemma3 llama" "$CLEF" run "$tmp/llava.gguf" --mmproj "$tmp/mmproj.gguf" -p a -q --image "$picture"

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
