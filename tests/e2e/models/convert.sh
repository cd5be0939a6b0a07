# clef convert: a folder as a GGUF file gives the same logits, bit for bit in f32; wrong calls are refused and leave nothing.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_DEBUG=$CLEF_DEBUG,fused=0 # other tests prove kernels
demo=$CLEF_SOURCE/share/demo
greedy="-p ROMEO: --temp 0 --ignore-eos -n 24 -q --print-ids"
check "the demo" "$CLEF" convert "$demo" "$tmp/demo.gguf" -q
same "the demo keeps its ids" "$("$CLEF" run "$demo" $greedy)" "$("$CLEF" run "$tmp/demo.gguf" $greedy)"
check "in another type" "$CLEF" convert "$demo" "$tmp/q8.gguf" --type q8_0 -q
same "which its matrices have" 1 "$("$CLEF" info "$tmp/q8.gguf" | grep -c "blk.0.ffn_up.weight *q8_0")"

refused "an unknown type" 2 "q9_9 stored" "$CLEF" convert "$demo" "$tmp/x.gguf" --type q9_9
refused "one argument" 2 "convert" "$CLEF" convert "$demo"
refused "no folder" 1 "nowhere" "$CLEF" convert "$tmp/nowhere" "$tmp/x.gguf"
cp -r "$demo" "$tmp/broken"
sed -i 's/"n_layer": *[0-9]*/"n_layer": 99/' "$tmp/broken/config.json"
refused "a missing weight" 1 "is missing" "$CLEF" convert "$tmp/broken" "$tmp/x.gguf" -q
if [ -e "$tmp/x.gguf" ]; then fail "a refused call writes nothing"; else ok "a refused call writes nothing"; fi

models=${CLEF_SHARED:-}/oracle/models
[ -d "$models" ] || finish
python=$(find_python) || finish
near() {
  "$python" - "$@" <<'PY'
import sys
from safetensors.numpy import load_file
a, b = (load_file(p)["logits"] for p in sys.argv[1:])
print(abs(a - b).max(), "of", abs(a).max())
sys.exit(not abs(a - b).max() <= 1e-5 * abs(a).max())
PY
}
folders=("$models"/*/) number=0
for i in "${!folders[@]}"; do # each converts; those that are due compute, in the folder and as GGUF
  folder=${folders[i]}
  family=$(basename "$folder")
  "$python" - "$folder" "$tmp/in.safetensors" <<'PY' || { fail "$family: inputs"; continue; }
import sys
from safetensors.numpy import load_file, save_file
r = load_file(sys.argv[1] + "/expected.safetensors")
save_file({k: r[k] for k in ("input_ids", "attention_mask", "decoder_input_ids") if k in r}, sys.argv[2])
PY
  check "$family converts" "$CLEF" convert "$folder" "$tmp/m.gguf" -q
  in_turn "$i" ${#folders[@]} || continue
  "$CLEF" eval "$folder" --in "$tmp/in.safetensors" --out "$tmp/a.safetensors" >"$tmp/log" 2>&1 || fail "$family: $(tail -n 1 "$tmp/log")"
  "$CLEF" eval "$tmp/m.gguf" --in "$tmp/in.safetensors" --out "$tmp/b.safetensors" >"$tmp/log" 2>&1 || fail "$family: $(tail -n 1 "$tmp/log")"
  case $family in
    # GGUF has the heads of the linear attention in another order, so the output's products are added in another order.
    qwen3.5) check "$family: the same logits within 1e-5 of the largest" near "$tmp/a.safetensors" "$tmp/b.safetensors" ;;
    *) same "$family: the same logits" "$(cksum <"$tmp/a.safetensors")" "$(cksum <"$tmp/b.safetensors")" ;;
  esac
  rm -f "$tmp/m.gguf" "$tmp/a.safetensors" "$tmp/b.safetensors"
done
finish
