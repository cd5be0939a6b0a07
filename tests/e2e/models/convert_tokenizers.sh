# clef convert: a folder's tokenizer, of every kind, gives the same ids from the GGUF file; one that GGUF cannot hold is refused.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
text=${CLEF_SHARED:-}/data/text

# The texts: some of each language, and what tokenizers trip over.
printf '%s\n' '  two  spaces <mask> and <s> </s> [MASK] [SEP]<extra_id_3> ' "1234567 don't I'LL na\303\257ve \357\254\201 \302\275 \343\202\253\343\202\231" \
  "$(printf '\t x<unk>y\r')" "caf$(printf 'e\314\201') \360\237\230\200\360\237\217\275" '▁ x ▁▁y' >"$tmp/text"
for file in "$text"/*.txt; do
  [ -e "$file" ] && [ "$(basename "$file")" != SOURCE.txt ] && head -c 30001 "$file" >>"$tmp/text"
done

# comes_back NAME MODEL WANTED FILE...: MODEL's folder with the FILEs (FROM=TO) in place of its tokenizer; WANTED is tokenizer.ggml.model.
comes_back() {
  local name=$1 model=$2 wanted=$3 file
  shift 3
  rm -rf "$tmp/folder"
  mkdir "$tmp/folder"
  cp "$model"/config.json "$model"/model.safetensors "$tmp/folder"
  chmod -R u+w "$tmp/folder"
  for file in "$@"; do cp "${file%=*}" "$tmp/folder/${file##*=}"; done
  check "$name converts" "$CLEF" convert "$tmp/folder" "$tmp/m.gguf" -q
  same "$name: the ids" "$("$CLEF" tokenize "$tmp/folder" - <"$tmp/text" | cksum)" "$("$CLEF" tokenize "$tmp/m.gguf" - <"$tmp/text" | cksum)"
  same "$name: its kind" "$wanted" "$("$CLEF" info "$tmp/m.gguf" | sed -n 's/^ *tokenizer.ggml.model = "\(.*\)"$/\1/p')"
}

demo=$CLEF_SOURCE/share/demo
comes_back "the demo" "$demo" gpt2 "$demo/tokenizer.json=tokenizer.json"
rm "$tmp/folder/tokenizer.json"
"$CLEF" convert "$tmp/folder" "$tmp/m.gguf" 2>"$tmp/err"
if grep -q "has no tokenizer" "$tmp/err"; then ok "a folder without a tokenizer is reported"; else fail "without a tokenizer: $(cat "$tmp/err")"; fi
echo '{"tokenizer_class":"BertTokenizer"}' >"$tmp/folder/tokenizer_config.json"
printf '[UNK]\n[CLS]\n[SEP]\n##[a]\n' >"$tmp/folder/vocab.txt"
"$CLEF" convert "$tmp/folder" "$tmp/m.gguf" 2>"$tmp/err"
if grep -q 'cannot say token 3, "##\[a\]"' "$tmp/err"; then ok "a token that GGUF cannot write is reported"; else fail "##[a]: $(cat "$tmp/err")"; fi
echo '{"tokenizer_class":"PreTrainedTokenizerFast"}' >"$tmp/folder/tokenizer_config.json"
echo '{"model":{"type":"Mystery"}}' >"$tmp/folder/tokenizer.json"
refused "an unknown model" 1 "Mystery known --no-tokenizer" "$CLEF" convert "$tmp/folder" "$tmp/x.gguf" -q
if [ -e "$tmp/x.gguf" ]; then fail "a refused call writes nothing"; else ok "a refused call writes nothing"; fi
check "without it" "$CLEF" convert "$tmp/folder" "$tmp/x.gguf" -q --no-tokenizer

bert=$CLEF_SOURCE/tests/fixtures/tiny-bert
if [ -e "$bert/modules.json" ]; then
  check "an embedder converts" "$CLEF" convert "$bert" "$tmp/bert.gguf" -q
  same "the same vector" "$("$CLEF" embed "$bert" "a text" -q)" "$("$CLEF" embed "$tmp/bert.gguf" "a text" -q)"
fi

files=${CLEF_SHARED:-}/data/tokenizers models=${CLEF_SHARED:-}/oracle/models
[ -d "$files" ] && [ -d "$models" ] || finish
comes_back "GPT-NeoX" "$models/gptneox" gpt2 "$files/gpt-neox/tokenizer.json=tokenizer.json"
comes_back "GPT-2" "$models/gpt2" gpt2 "$files/gpt2/tokenizer.json=tokenizer.json"
comes_back "GPT-2's pair" "$models/gpt2" gpt2 "$files/gpt2/vocab.json=vocab.json" "$files/gpt2/merges.txt=merges.txt"
comes_back "RoBERTa" "$models/roberta" gpt2 "$files/roberta/tokenizer.json=tokenizer.json"
comes_back "RoBERTa's pair" "$models/roberta" gpt2 "$files/roberta/vocab.json=vocab.json" "$files/roberta/merges.txt=merges.txt"
comes_back "Llama 2" "$models/llama" llama "$files/llama2/tokenizer.model=tokenizer.model" "$files/llama2/tokenizer_config.json=tokenizer_config.json"
comes_back "Mistral" "$models/mistral" llama "$files/mistral/tokenizer.model.v1=tokenizer.model"
comes_back "Mistral, third" "$models/mistral" llama "$files/mistral/tokenizer.model.v3=tokenizer.model"
comes_back "T5" "$models/t5" t5 "$files/t5/tokenizer.json=tokenizer.json" "$files/t5/tokenizer_config.json=tokenizer_config.json"
comes_back "T5's pieces" "$models/t5" t5 "$files/t5/spiece.model=spiece.model"
comes_back "BERT" "$models/bert" bert "$files/bert/bert-base-uncased-vocab.txt=vocab.txt"
comes_back "BERT, cased" "$models/bert" bert "$files/bert/bert-base-cased-vocab.txt=vocab.txt"
comes_back "SentencePiece's BPE" "$models/llama" llama "$files/sentencepiece/test_sentencepiece_bpe.model=tokenizer.model"
for name in ja_model model sentencepiece sentencepiece_no_bos; do
  comes_back "SentencePiece's $name" "$models/t5" t5 "$files/sentencepiece/test_$name.model=spiece.model"
done
finish
