# clef embed, similarity, classify, fill, and clef run with an encoder-decoder; and the examples in C that do the same.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
bert=$CLEF_SOURCE/tests/fixtures/tiny-bert
t5=$CLEF_SOURCE/tests/fixtures/tiny-t5

# near NAME WANTED CAME: numbers within 2e-6.
near() {
  if awk -v a="$2" -v b="$3" 'BEGIN { d = a - b; exit !(b != "" && d < 2e-6 && d > -2e-6) }'; then ok "$1"; else fail "$1: expected $2, got $3"; fi
}
# list KEY: the numbers of a flat list in tiny.json, on a line.
list() { grep -o "\"$1\": \[[^]]*\]" "$CLEF_SOURCE/tests/fixtures/tiny.json" | sed 's/.*\[//; s/[],]/ /g'; }
folder() { cp -r "$bert" "$tmp/$1" && chmod -R u+w "$tmp/$1"; }

# ---- embed ----------------------------------------------------------------------------------------------------------------------------
printf 'the cat sleeps\nthe sea\r\n\na cat' >"$tmp/lines"
"$CLEF" embed "$bert" "he loves it ." --file "$tmp/lines" -q >"$tmp/plain" || fail "embed"
same "a line a text, those of the command line first" "5 16" "$(awk 'END { print NR, NF }' "$tmp/plain")"
near "rows have length 1" 1 "$(awk '{ for (i = 1; i <= NF; i++) s += $i * $i } END { printf "%.9f", s / NR }' "$tmp/plain")"
same "a text alone" "$(sed -n 2p "$tmp/plain" | cut -c 1-6)" "$("$CLEF" embed "$bert" "the cat sleeps" -q | cut -c 1-6)"
same "stdin" "$(sed -n 2p "$tmp/plain")" "$(head -1 "$tmp/lines" | "$CLEF" embed "$bert" -f - -q)"
"$CLEF" embed "$bert" "the sea" "a cat" --json -q >"$tmp/json"
for want in '^{"object": "list", "data": \[{"object": "embedding", "index": 0, "embedding": \[' '\]}, {"object": "embedding", "index": 1' \
  '"model": "tiny-bert", "usage": {"prompt_tokens": 8, "total_tokens": 8}}$'; do
  if grep -q -e "$want" "$tmp/json"; then ok "JSON has $want"; else fail "JSON has $want: $(cut -c 1-200 "$tmp/json")"; fi
done
"$CLEF" embed "$bert" "the sea" "a cat" --npy -q -o "$tmp/x.npy" || fail "--npy"
same "a NumPy file: its head" "934e554d505901007600" "$(head -c 10 "$tmp/x.npy" | od -An -tx1 | tr -d ' ')"
same "and its size" $((128 + 2 * 16 * 4)) "$(wc -c <"$tmp/x.npy")"
if head -c 128 "$tmp/x.npy" | grep -qaF "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 16), }"; then ok "and its shape"; else fail "and its shape"; fi
"$CLEF" embed "$bert" "the sea" --normalize no --pooling cls -q | tr ' ' '\n' >"$tmp/cls"
near "--pooling cls --normalize no" "$(grep -o '"cls": \[\[[^]]*\], \[[^]]*\], \[[^],]*' "$CLEF_SOURCE/tests/fixtures/tiny.json" | sed 's/.*\[//')" \
  "$(head -1 "$tmp/cls")"

long=$(printf 'the %.0s' {1..30})
refused "a text beyond the model's limit" 1 "text 1 32 20 --truncate" "$CLEF" embed "$bert" "a cat" "$long" -q
check "--truncate cuts it" "$CLEF" embed "$bert" "$long" --truncate
refused "no text" 2 "TEXT --file" "$CLEF" embed "$bert"
refused "an empty file" 1 "no line" "$CLEF" embed "$bert" -f /dev/null
refused "two forms" 2 "--json --npy" "$CLEF" embed "$bert" x --json --npy
refused "a folder that cannot be written to" 1 "$tmp/none/x" "$CLEF" embed "$bert" x -q -o "$tmp/none/x"
refused "an encoder-decoder" 1 "encoder-decoder" "$CLEF" embed "$t5" "a cat" -q
check "an empty text" "$CLEF" embed "$bert" ""
check "bytes that are not UTF-8" "$CLEF" embed "$bert" "$(printf 'a \xff\xc3 cat')"
folder lstm
sed -i 's/models.Normalize/models.LSTM/' "$tmp/lstm/modules.json"
refused "a module that clef has not" 1 "models.LSTM Pooling" "$CLEF" embed "$tmp/lstm" x -q
folder prompts
echo '{"prompts": {"query": "the ", "document": "a "}, "default_prompt_name": "query"}' >"$tmp/prompts/config_sentence_transformers.json"
same "a prompt by its name" "$("$CLEF" embed "$bert" "a sea" -q)" "$("$CLEF" embed "$tmp/prompts" "sea" --prompt-name document -q)"
same "the default prompt" "$("$CLEF" embed "$bert" "the sea" -q)" "$("$CLEF" embed "$tmp/prompts" "sea" -q)"
refused "a prompt that the model has not" 1 "prompt passage query document" "$CLEF" embed "$tmp/prompts" x --prompt-name passage -q
refused "a prompt, and none" 2 "--no-prompt --prompt-name" "$CLEF" embed "$tmp/prompts" x --prompt-name query --no-prompt -q
same "fewer dimensions" 5 "$("$CLEF" embed "$bert" "the sea" --dimensions 5 -q | wc -w)"
near "have length 1 again" 1 "$("$CLEF" embed "$bert" "the sea" --dimensions 5 -q | awk '{ for (i = 1; i <= NF; i++) s += $i * $i; print s }')"
refused "no dimensions" 2 "--dimensions 0" "$CLEF" embed "$bert" x --dimensions 0 -q
refused "too many dimensions" 1 "17 dimensions 1 16" "$CLEF" embed "$bert" x --dimensions 17 -q
refused "a range of one text" 2 "int8 --calibrate" "$CLEF" embed "$bert" x --precision int8 -q
refused "a model without vectors of tokens" 1 "colbert_linear.safetensors" "$CLEF" embed "$bert" x --kind multi -q
refused "tokens in bits" 2 "--kind sparse --precision" "$CLEF" embed "$bert" x --kind sparse --precision binary -q
refused "ranges for signs" 2 "--calibrate binary" "$CLEF" embed "$bert" x --precision binary --calibrate "$tmp/lines" -q
same "bytes by the ranges of other texts" "-128 127" \
  "$("$CLEF" embed "$bert" "the cat sleeps" -f "$tmp/lines" --precision int8 --calibrate "$tmp/lines" -q | tr ' ' '\n' | sort -n | sed -n '1p;$p' | xargs)"
same "signs as bits" "$("$CLEF" embed "$bert" "the sea" -q | awk '{ for (i = 1; i <= 16; i++) b = b ($i > 0); print b }')" \
  "$("$CLEF" embed "$bert" "the sea" --precision ubinary -q | awk '{ for (i = 1; i <= 2; i++) for (k = 128; k >= 1; k /= 2) b = b (int($i / k) % 2); print b }')"

same "similarity of equals" 1.000000 "$("$CLEF" similarity "$bert" "the sea" "the sea" -q)"
cosine=$("$CLEF" similarity "$bert" "the cat sleeps" "the sea" -q)
near "similarity is the product of the rows" "$(awk 'NR == 2 { n = split($0, a) } NR == 3 { for (i = 1; i <= n; i++) s += a[i] * $i } END { printf "%.6f", s }' "$tmp/plain")" "$cosine"

# ---- classify, fill -------------------------------------------------------------------------------------------------------------------
text="a dog walks in the old house ."
"$CLEF" classify "$bert" "$text" -q >"$tmp/classes" || fail "classify"
same "labels, the likeliest first" "$(list classes | tr ' ' '\n' | grep . | paste -d ' ' - <(printf 'bad\nso so\ngood\n') | sort -rg | cut -d ' ' -f 2-)" \
  "$(cut -f 1 "$tmp/classes")"
near "the first one's probability" "$(list classes | tr ' ' '\n' | sort -rg | head -1)" "$(head -1 "$tmp/classes" | cut -f 2)"
near "a pair of texts" "$(list pair_classes | tr ' ' '\n' | sort -rg | head -1)" "$("$CLEF" classify "$bert" "$text" "he loves it ." -q | head -1 | cut -f 2)"
if "$CLEF" classify "$bert" "$text" --json -q | grep -qE '^\[\{"label": "[a-z ]+", "score": 0\.[0-9]+\}, .*\}\]$'; then ok "as JSON"; else fail "as JSON"; fi

# ---- rerank ---------------------------------------------------------------------------------------------------------------------------
one_label() { python3 "$CLEF_SOURCE/tests/fixtures/one_label.py" "$tmp/$1" || fail "a model of one label"; }
documents=("he loves it ." "the cat sleeps" "the sea")
one_label ranker
"$CLEF" convert "$tmp/ranker" "$tmp/ranker.gguf" -q || fail "a ranker as GGUF"
for model in "$tmp/ranker" "$tmp/ranker.gguf"; do
  "$CLEF" rerank "$model" "a cat" "${documents[@]}" -q >"$tmp/ranks" || fail "rerank"
  same "the best document first" "1 0 2 the sea" "$(cut -f 2 "$tmp/ranks" | tr '\n' ' ')$(tail -1 "$tmp/ranks" | cut -f 3)"
  near "its score" "$(list first_label | tr ' ' '\n' | grep . | sed -n 2p)" "$(head -1 "$tmp/ranks" | cut -f 1)"
done
printf 'the cat sleeps\nthe sea\n' >"$tmp/lines"
same "documents of a file, the best one" "$(head -1 "$tmp/ranks")" "$("$CLEF" rerank "$tmp/ranker" "a cat" "${documents[0]}" --file "$tmp/lines" --top 1 -q)"
if "$CLEF" rerank "$tmp/ranker" "a cat" "${documents[@]}" --json -q |
  grep -qE '"usage": \{"prompt_tokens": 24, "total_tokens": 24\}, "results": \[\{"index": 1, "relevance_score": 0\.68820'; then ok "rankings as JSON"; else fail "rankings as JSON"; fi
"$CLEF" rerank "$tmp/ranker" "a cat" "the sea" "$long" >"$tmp/ranks" 2>"$tmp/err" || fail "a long document"
if grep -q "1 of 2 documents were cut to the model's 20 tokens" "$tmp/err"; then ok "a cut document is told"; else fail "a cut document is told: $(cat "$tmp/err")"; fi
refused "a long document with --no-truncate" 1 "document 1 35 20" "$CLEF" rerank "$tmp/ranker" "a cat" "the sea" "$long" --no-truncate -q
cp -r "$tmp/ranker" "$tmp/logits"
echo '{"activation_fn": "torch.nn.modules.linear.Identity", "model_type": "CrossEncoder"}' >"$tmp/logits/config_sentence_transformers.json"
same "logits are the scores where the files say so" "$("$CLEF" rerank "$tmp/ranker" "a cat" "the sea" --raw -q)" "$("$CLEF" rerank "$tmp/logits" "a cat" "the sea" -q)"
sed -i 's/linear.Identity/activation.Tanh/' "$tmp/logits/config_sentence_transformers.json"
refused "another activation" 1 "Tanh Sigmoid Identity" "$CLEF" rerank "$tmp/logits" "a cat" "the sea" -q
refused "modules for vectors" 1 "Pooling Transformer" "$CLEF" rerank "$bert" "a cat" "the sea" -q
folder three
rm "$tmp/three/modules.json"
refused "a model of three labels" 1 "one label 3 classify" "$CLEF" rerank "$tmp/three" "a cat" "the sea" -q
refused "a model for rankings gives no vectors" 1 "rerank" "$CLEF" embed "$tmp/ranker.gguf" "a cat" -q
refused "no document" 2 "DOCUMENT --file" "$CLEF" rerank "$tmp/ranker" "a cat" -q

# ---- labels of tokens -----------------------------------------------------------------------------------------------------------------
folder tokens
sed -i 's/BertForMaskedLM/BertForTokenClassification/' "$tmp/tokens/config.json"
same "a line a token" "a dog walks in the old house ." "$("$CLEF" classify "$tmp/tokens" "$text" -q | cut -f 1 | paste -sd ' ')"
"$CLEF" fill "$bert" "the cat <mask> in the sea" -n 3 -q >"$tmp/fill" || fail "fill"
same "what fills a mask" "$(grep -o '"fill": \[\[.*\]\]' "$CLEF_SOURCE/tests/fixtures/tiny.json" | grep -o '\["[a-z#.]*"' | head -3 | tr -d '["')" "$(cut -f 2 "$tmp/fill")"
same "and the text with it" "the cat $(head -1 "$tmp/fill" | cut -f 2) in the sea" "$(head -1 "$tmp/fill" | cut -f 3)"
same "[MASK] is the same" "$(cat "$tmp/fill")" "$("$CLEF" fill "$bert" "the cat [MASK] in the sea" -n 3 -q)"
same "two places" 5 "$("$CLEF" fill "$bert" "the <mask> <mask>" -n 2 -q | wc -l)"
check "the graph of a model of classes alone" "$CLEF" graph "$tmp/ranker" -o "$tmp/ranker.clef"
same "ends with them" "output logits" "$(grep ^output "$tmp/ranker.clef" | cut -d ' ' -f 1-2)"
same "as many as there are" "[B, 1]" "$(grep -o 'logits.*\[B, 1\]' "$tmp/ranker.clef" | grep -o '\[B, 1\]' | head -1)"
refused "classes in place of words" 1 "language model classes" "$CLEF" fill "$tmp/ranker" "the [MASK]" -q
refused "no place to fill" 1 "<mask>" "$CLEF" fill "$bert" "the cat" -q
refused "no encoder" 1 "gpt2 encoder" "$CLEF" fill "$CLEF_SOURCE/share/demo" "a <mask>" -q
mkdir "$tmp/classes_alone"
cp "$CLEF_SOURCE"/share/demo/* "$tmp/classes_alone/"
chmod -R u+w "$tmp/classes_alone"
sed -i 's/GPT2LMHeadModel/GPT2ForSequenceClassification/' "$tmp/classes_alone/config.json"
refused "no language model, though the embedding could be its matrix" 1 "language model classification" "$CLEF" run "$tmp/classes_alone" -p a -n 1 -q
refused "no classifier" 1 "score.weight" "$CLEF" classify "$CLEF_SOURCE/share/demo" "a" -q
refused "a text too long to classify" 1 "32 24 --truncate" "$CLEF" classify "$bert" "$long" -q

# ---- run, of an encoder-decoder -------------------------------------------------------------------------------------------------------
same "greedy" "$(list greedy | tr -s ' ' ',' | sed 's/,$//')" "$("$CLEF" run "$t5" -p "$text" --temp 0 -n 12 --print-ids -q)"
same "beams, the best four" "$(grep -o '"n_beams": 4, "length_penalty": 1, [^[]*"ids": \[\[[^a-z]*\]\]' "$CLEF_SOURCE/tests/fixtures/tiny.json" |
  sed 's/.*\[\[//; s/\]\]//; s/\], \[/;/g; s/ //g' | tr ';' '\n')" "$("$CLEF" run "$t5" -p "$text" --beams 4 --n-best 4 -n 12 --print-ids -q)"
check "sampling" "$CLEF" run "$t5" -p "$text" --temp 1 --seed 3 -n 8
refused "more texts than beams" 2 "--n-best 3 --beams 2" "$CLEF" run "$t5" -p x --beams 2 --n-best 3
refused "a target that is not a token" 1 "fra_Latn" "$CLEF" run "$t5" -p x --target fra_Latn -q
refused "a target of a decoder" 2 "--target gpt2" "$CLEF" run -p x --target the -q
same "a target begins the text" "$("$CLEF" run "$t5" -p "$text" --target the --temp 0 -n 1 --print-ids -q | grep -c '^[0-9]*$')" 1
refused "a source beyond the model's limit" 1 "source 2048" "$CLEF" run "$t5" -p "$(printf 'the %.0s' {1..2100})" -q

# ---- the examples ---------------------------------------------------------------------------------------------------------------------
flags=
if [ -n "${CLEF_SANITIZE:-}" ]; then flags=-fsanitize=$CLEF_SANITIZE; fi
for example in embed translate; do
  # shellcheck disable=SC2086
  check "examples/$example.c builds" "${CC:-cc}" -std=c17 -Wall -Wextra -Werror -I"$CLEF_SOURCE/include" "$CLEF_SOURCE/examples/$example.c" \
    -o "$tmp/$example" -L"$CLEF_BUILD" -lclef -Wl,-rpath,"$CLEF_BUILD" $flags
done
same "examples/embed.c" "$cosine  the sea" "$("$tmp/embed" "$bert" "the cat sleeps" "the sea")"
same "examples/translate.c" "$("$CLEF" run "$t5" -p "$text" --beams 4 -n 64 -q)" "$("$tmp/translate" "$t5" "$text")"
finish
