# clef classify and clef embed with pictures, on tiny random models; tests/fixtures/tiny_vision.json has what transformers gives.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
vit=$CLEF_SOURCE/tests/fixtures/tiny-vit
clip=$CLEF_SOURCE/tests/fixtures/tiny-clip
pictures=$CLEF_SOURCE/tests/fixtures/pictures
if "$CLEF" embed "$vit" --image "$pictures/harsh.ppm" -q 2>&1 | grep -q "built without"; then skip "this clef reads no pictures"; fi

# expected KEY: the numbers of a list in tiny_vision.json, on a line.
expected() { tr -d '\n' <"$CLEF_SOURCE/tests/fixtures/tiny_vision.json" | grep -o "\"$1\": \[[^]]*\]" | sed 's/.*\[//; s/[],]/ /g'; }
# near NAME "EXPECTED NUMBERS" "GOT": within 3e-6.
near() {
  if echo "$2 | $3" | awk '{ n = (NF - 1) / 2; bad = NF < 3 || $(n + 1) != "|"
      for (i = 1; i <= n; i++) { d = $i - $(i + n + 1); if (d > 3e-6 || d < -3e-6) bad = 1 } exit bad }'; then ok "$1"
  else fail "$1: expected $2, got $3"; fi
}
# p LABEL.. reads "label p" lines and prints the probabilities in that order.
p() { awk -F'\t' -v labels="$1" '{ p[$(NF - 1)] = $NF } END { n = split(labels, l, ","); for (i = 1; i <= n; i++) printf "%s ", p[l[i]] }'; }

near "classes of a PPM" "$(expected vit.harsh.ppm)" "$("$CLEF" classify "$vit" --image "$pictures/harsh.ppm" -q | p "cat,dog,a house,sea")"
same "stdin" "$("$CLEF" classify "$vit" --image "$pictures/harsh.ppm" -q)" "$("$CLEF" classify "$vit" -i - -q <"$pictures/harsh.ppm")"
"$CLEF" classify "$vit" -i "$pictures/harsh.ppm" -i "$pictures/turned1.png.ppm" --json -q >"$tmp/json" || fail "--json"
same "a line of JSON a picture" "2 4" "$(wc -l <"$tmp/json") $(head -1 "$tmp/json" | grep -o '"score"' | wc -l)"
near "a vector" "$(expected vit.vector.harsh.ppm)" "$("$CLEF" embed "$vit" --image "$pictures/harsh.ppm" -q)"
near "a vector of CLIP" "$(expected clip.vector.harsh.ppm)" "$("$CLEF" embed "$clip" -i "$pictures/harsh.ppm" --normalize yes -q)"
near "classes that are named" "$(expected clip.harsh.ppm)" \
  "$("$CLEF" classify "$clip" -i "$pictures/harsh.ppm" --classes "a cat, a dog,the sea" -q | p "a cat,a dog,the sea")"
same "a template" "$("$CLEF" classify "$clip" -i "$pictures/harsh.ppm" --classes "a cat,a dog" -q | cut -f 2)" \
  "$("$CLEF" classify "$clip" -i "$pictures/harsh.ppm" --classes "cat,dog" --template "a {}" -q | cut -f 2)"
same "a vector of a text has as many numbers" 12 "$("$CLEF" embed "$clip" "a cat" -q | wc -w)"
check "its graph" "$CLEF" graph "$vit" -o "$tmp/graph.json"
check "its description" "$CLEF" info "$vit"

refused "a text for ViT" 1 "vit reads pictures --image" "$CLEF" classify "$vit" "a cat" -q
refused "a vector of a text" 1 "vit reads pictures --image" "$CLEF" embed "$vit" "a cat" -q
refused "a picture for a model of texts" 1 "reads pictures no encoder" "$CLEF" classify "$CLEF_SOURCE/tests/fixtures/tiny-bert" -i "$pictures/harsh.ppm" -q
refused "CLIP without classes" 1 "no classes --classes" "$CLEF" classify "$clip" -i "$pictures/harsh.ppm" -q
refused "classes of ViT" 1 "--classes CLIP" "$CLEF" classify "$vit" -i "$pictures/harsh.ppm" --classes "a,b" -q
refused "a picture and a text" 2 "not both" "$CLEF" classify "$vit" "a cat" -i "$pictures/harsh.ppm"
refused "no picture and no text" 2 "TEXT --image" "$CLEF" classify "$vit"
refused "an empty class" 2 "--classes empty" "$CLEF" classify "$clip" -i "$pictures/harsh.ppm" --classes "a,,b"
refused "a template without a place" 2 "--template {}" "$CLEF" classify "$clip" -i "$pictures/harsh.ppm" --classes "a" --template "x"
refused "what is no picture" 1 "not a picture" "$CLEF" classify "$vit" -i "$vit/config.json" -q
cp -r "$vit" "$tmp/other" && chmod -R u+w "$tmp/other"
sed -i 's/"do_rescale"/"do_pad": true, "do_rescale"/' "$tmp/other/preprocessor_config.json"
refused "a key that clef has not" 1 "do_pad" "$CLEF" classify "$tmp/other" -i "$pictures/harsh.ppm" -q
rm "$tmp/other/preprocessor_config.json"
refused "a folder without the file" 1 "preprocessor_config.json" "$CLEF" classify "$tmp/other" -i "$pictures/harsh.ppm" -q
for model in "$vit" "$clip"; do refused "a conversion to GGUF" 1 "GGUF" "$CLEF" convert "$model" "$tmp/x.gguf" -q; done
finish
