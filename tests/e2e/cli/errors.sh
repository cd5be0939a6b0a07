# What goes wrong outside of clef is said in one line that names the subject, what was expected and what it got.
. "$(dirname "$0")/../lib.sh"
demo=$CLEF_SOURCE/share/demo

refused "a model that is missing" 1 "$tmp/none.gguf" "$CLEF" run "$tmp/none.gguf" -p x
refused "a folder without a model" 1 "$tmp" "$CLEF" run "$tmp" -p x
: >"$tmp/empty.gguf"
refused "an empty file" 1 "empty.gguf" "$CLEF" info "$tmp/empty.gguf"
printf 'this is not a model at all, just words' >"$tmp/words.gguf"
refused "a file that is not a model" 1 "words.gguf" "$CLEF" info "$tmp/words.gguf"

# One tensor of 1024 floats at an offset far beyond the file's end.
{
  printf GGUF; u32 3; u64 1; u64 1
  gguf_string general.architecture; u32 8; gguf_string llama
  gguf_string token_embd.weight; u32 1; u64 1024; u32 0; u64 1048576
  head -c 64 /dev/zero
} >"$tmp/beyond.gguf"
refused "a tensor beyond the file" 1 "beyond.gguf token_embd.weight" "$CLEF" info "$tmp/beyond.gguf"
head -c 60 "$tmp/beyond.gguf" >"$tmp/cut.gguf"
refused "a truncated GGUF" 1 "cut.gguf" "$CLEF" info "$tmp/cut.gguf"

mkdir "$tmp/short"
cp "$demo"/*.json "$demo/merges.txt" "$tmp/short/"
head -c 100000 "$demo/model.safetensors" >"$tmp/short/model.safetensors"
refused "truncated weights" 1 "model.safetensors" "$CLEF" run "$tmp/short" -p x

mkdir "$tmp/longer"
cp "$demo"/*.json "$demo/merges.txt" "$demo/model.safetensors" "$tmp/longer/"
sed -i 's/"n_positions": *[0-9]*/"n_positions": 4096/' "$tmp/longer/config.json"
refused "positions that the file has no rows for" 1 "wpe.weight 256 4096" "$CLEF" graph "$tmp/longer"

# A model of a family that clef does not have: what is in it, and which family is near.
mkdir "$tmp/other"
cp "$demo"/*.json "$demo/merges.txt" "$demo/model.safetensors" "$tmp/other/"
sed -i 's/"model_type": *"gpt2"/"model_type": "zzz"/' "$tmp/other/config.json"
if "$CLEF" info "$tmp/other" >"$tmp/shown" 2>"$tmp/err"; then fail "info of an unknown family succeeds"; fi
for line in "arch zzz" "n_positions = " "h.0.attn.c_attn.weight" " tensors, "; do
  grep -q "$line" "$tmp/shown" || fail "info of an unknown family shows no '$line'"
done
for line in "architecture zzz is not supported" "the nearest family is gpt2"; do
  grep -q "$line" "$tmp/err" || fail "info of an unknown family does not say '$line'"
done

many=$(seq -s ' ' 1 400)
refused "a prompt longer than the context" 1 "prompt context 256" "$CLEF" run -p "$many" -n 4
refused "a prompt longer than -c" 1 "prompt context 8" "$CLEF" run -c 8 -p "$many" -n 4
refused "an id beyond the vocabulary" 2 "--ids 1023 5000" "$CLEF" run --ids 1,5000 -n 4
refused "a prompt file that is missing" 1 "$tmp/none.txt" "$CLEF" run -f "$tmp/none.txt"
refused "a device that is not there" 1 "nosuch" "$CLEF" run -d nosuch -p x
refused "a device number that is not there" 1 "97:3" "$CLEF" run -d 97:3 -p x
mkdir "$tmp/vendors"
refused "no OpenCL platform" 1 "OpenCL" env OCL_ICD_VENDORS="$tmp/vendors/" "$CLEF" run -p x
refused "no OpenCL platform to list" 1 "OpenCL" env OCL_ICD_VENDORS="$tmp/vendors/" "$CLEF" devices
same "no OpenCL platform, as JSON" "[]" "$(OCL_ICD_VENDORS="$tmp/vendors/" "$CLEF" devices --json)"
refused "an unknown pass" 1 "polish" "$CLEF" graph --after polish
refused "an unknown tap" 1 "nothing_like_that" "$CLEF" graph --tap nothing_like_that
refused "a graph that does not parse" 1 "bad.clef 2" bash -c 'printf "input x f32 [2]\ny = softmacks(x)\n" >"$1/bad.clef"; exec "$2" graph "$1/bad.clef"' - "$tmp" "$CLEF"
refused "a folder that cannot be written to" 1 "$tmp/no/such" "$CLEF" graph -o "$tmp/no/such/file"
if [ -c /dev/full ]; then refused "a full disk" 1 "stdout" bash -c 'exec "$1" info >/dev/full' - "$CLEF"; fi
finish
