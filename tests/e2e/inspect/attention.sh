# `clef attention`: every form of it, what it refuses, and its numbers against PyTorch's (with ../shared and Python).
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
text="Once upon a time there was a cat"
check "summaries" "$CLEF" attention -p "$text" -q -o "$tmp/a.txt"
check "blocks of one head" "$CLEF" attention -p "$text" -q --layer 0 --head 0 -o "$tmp/blocks.txt"
if grep -q '//$' "$tmp/blocks.txt"; then ok "masked cells are seen"; else fail "masked cells are seen"; fi
same "a map has no escapes outside a terminal" 0 "$(grep -c "$(printf '\033')" "$tmp/blocks.txt")"
check "json" "$CLEF" attention -p "$text" -q -o "$tmp/a.json"
check "npy" "$CLEF" attention -p "$text" -q -o "$tmp/a.npy"
same "npy's magic" "NUMPY" "$(head -c 6 "$tmp/a.npy" | tail -c 5)"
check "html" "$CLEF" attention -p "$text" -q -o "$tmp/a.html"
if "$CLEF" attention -p "$text" -q -o "$tmp/a.svg" 2>"$tmp/err"; then
  ok "svg"
  yes "Once upon a time" | head -n 40 >"$tmp/long"
  check "svg of many tokens" "$CLEF" attention -f "$tmp/long" -q -o "$tmp/long.svg"
  same "all heads of it take less than 8 MB" 1 $(($(wc -c <"$tmp/long.svg") < 8000000))
  same "a map each" "$(grep -c "^layer" "$tmp/a.txt")" "$(grep -c "<image " "$tmp/long.svg")"
  check "png" "$CLEF" attention -p "$text" -q --layer 1 -o "$tmp/a.png"
  same "png's magic" "PNG" "$(head -c 4 "$tmp/a.png" | tail -c 3)"
else
  if grep -q "without cairo" "$tmp/err"; then ok "svg is refused: $(cat "$tmp/err")"; else fail "svg: $(cat "$tmp/err")"; fi
fi
# NaN: null in JSON, and reported in the terminal.
nan_model "$tmp/nan"
check "json of a model with NaN" "$CLEF" attention "$tmp/nan" -p "$text" -q -o "$tmp/nan.json"
same "has no nan" 0 "$(grep -ci 'nan[,] \|nan]' "$tmp/nan.json")"
same "has null in the fourth row" "[null,null,null,null" "$(grep -m 1 -o '\[null,null,null,null' "$tmp/nan.json" | head -n 1)"
if command -v python3 >/dev/null; then
  check "and is JSON" python3 -c 'import json, sys; json.load(open(sys.argv[1]), parse_constant=lambda x: 1 / 0)' "$tmp/nan.json"
fi
check "blocks with NaN" "$CLEF" attention "$tmp/nan" -p "$text" -q --layer 0 --head 0 -o "$tmp/nan.txt"
same "rows without and with NaN" "3 $(($(grep -c '//$\|NN$' "$tmp/nan.txt") - 3))" "$(grep -c '^ .*[^N/]//' "$tmp/nan.txt") $(grep -c 'NNNN' "$tmp/nan.txt")"
same "the means of it" 3 "$(grep '^layer0.attention   ' "$tmp/nan.txt" | grep -o NaN | wc -l | tr -d ' ')"
# A picture: heads over it, and what they see.
vit=$CLEF_SOURCE/tests/fixtures/tiny-vit picture=$CLEF_SOURCE/tests/fixtures/pictures/harsh.ppm
"$CLEF" attention "$vit" --image "$picture" --layer 1 --head 0 --patch 1,2 -q -o "$tmp/v.txt" 2>"$tmp/err" || cat "$tmp/err"
if ! grep -q "built without" "$tmp/err"; then
  same "a grid of patches" "3 1" "$(grep -c '^......$' "$tmp/v.txt") $(grep -c 'that patch 1,2 sees' "$tmp/v.txt")"
  check "json of a picture" "$CLEF" attention "$vit" -q --image "$picture" -o "$tmp/v.json"
  same "has the grid" '"rows": 3, "columns": 3, "special_tokens": 1, "query": 0' "$(grep -o '"rows".*"query": 0' "$tmp/v.json")"
  check "npy of a picture" "$CLEF" attention "$vit" -q --image - -o "$tmp/v.npy" <"$picture"
  same "its shape" "(2, 2, 10, 10)" "$(head -c 128 "$tmp/v.npy" | tail -c +9 | grep -ao '([0-9, ]*)')"
  if [ -s "$tmp/a.svg" ]; then
    for format in svg png; do check "$format of a picture" "$CLEF" attention "$vit" -q --image "$picture" --patch 0,0 -o "$tmp/v.$format"; done
    same "what four heads see, and one picture below them" "5" "$(grep -c "<image " "$tmp/v.svg")"
  fi
  refused "a patch beyond" 1 "--patch 2,2 3,0" "$CLEF" attention "$vit" --image "$picture" --patch 3,0 -q
  refused "a patch of a text" 2 "--image" "$CLEF" attention -p a --patch 1,1 -q
  refused "a picture for a model of texts" 1 "--image reads pictures" "$CLEF" attention --image "$picture" -q
  refused "a text for a model of pictures" 1 "--image" "$CLEF" attention "$vit" -p a -q
fi
refused "no text" 1 "-p TEXT" "$CLEF" attention -q
refused "two texts" 1 "got 2" "$CLEF" attention -p a --ids 1 -q
refused "a layer beyond" 1 "layer 999" "$CLEF" attention -p "$text" -q --layer 999
refused "a head beyond" 1 "head 99" "$CLEF" attention -p "$text" -q --head 99
refused "ids beyond" 1 "expected ids" "$CLEF" attention --ids 1,99999999 -q
refused "ids that are none" 1 "--ids" "$CLEF" attention --ids 1,x -q
refused "an unknown form" 2 ".json" "$CLEF" attention -p "$text" -o "$tmp/a.gif"
refused "--target of a decoder" 1 "needs an encoder-decoder" "$CLEF" attention -p "$text" --target b -q

[ -d "${CLEF_SHARED:-}/oracle/models" ] || finish
python=$(find_python)
[ -n "$python" ] || { echo "no Python with numpy and safetensors: PyTorch's weights are not compared"; finish; }
"$python" "$CLEF_SOURCE/tests/e2e/inspect/attention.py" "$CLEF" "$CLEF_SHARED/oracle/models" gpt2 llama bert t5 marian \
  >"$tmp/log" 2>&1 || failures=$((failures + 1))
cat "$tmp/log"
grep -q "^[0-9]* passed, " "$tmp/log" || fail "attention.py did not finish"
finish
