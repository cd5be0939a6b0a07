# The text model of a folder whose model also sees pictures: the logits of the same model alone, and what is left out is said.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
python=$(find_python) || skip "no Python with numpy and safetensors"
mkdir "$tmp/models"
check "the models are written" "$python" "$(dirname "$0")/wrapper.py" "$tmp/models"
logits() { "$CLEF" eval "$1" --in "$tmp/models/in.safetensors" --out "$tmp/out.safetensors" -q >"$tmp/log" 2>&1 || tail -n 1 "$tmp/log"; cksum <"$tmp/out.safetensors"; }
plain=$(logits "$tmp/models/plain")
for i in 0 1 2 3; do
  same "form $i has the text model's logits" "$plain" "$(logits "$tmp/models/$i")"
  "$CLEF" info "$tmp/models/$i" >/dev/null 2>"$tmp/log"
  same "form $i: its tower is left out" 1 "$(grep -c 'left out: \(model\.visual\|vision_tower\|visual\)$' "$tmp/log")"
  check "form $i converts" "$CLEF" convert "$tmp/models/$i" "$tmp/m.gguf" -q
  same "form $i has the same logits as GGUF" "$plain" "$(logits "$tmp/m.gguf")"
done
same "sizes that a class has by itself" "$(logits "$tmp/models/whole")" "$(logits "$tmp/models/partial")"
"$CLEF" info "$tmp/models/plain" >/dev/null 2>"$tmp/log"
same "nothing is left out of the text model" 0 "$(grep -c 'left out' "$tmp/log")"
check "a class that ties its matrices by default" "$CLEF" eval "$tmp/models/tied" --in "$tmp/models/in.safetensors" --out "$tmp/x.safetensors" -q
refused "a tensor of the text model that nothing reads" 1 "strange" \
  "$CLEF" eval "$tmp/models/strange" --in "$tmp/models/in.safetensors" --out "$tmp/x.safetensors" -q
finish
