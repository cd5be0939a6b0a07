# A device with memory of its own: each byte of a weight goes there once, through buffers that serve all weights.
. "$(dirname "$0")/../lib.sh"
layer=$CLEF_BUILD/tests/count_layer.so
if [ ! -e "$layer" ]; then skip "the layer $layer was not built"; fi
if ! command -v python3 >/dev/null; then skip "python3, which writes a model"; fi
# What is counted is loading: no measurements, no proofs, and no cache, for which PoCL would compile each program again.
export CLEF_TUNE=0 CLEF_PROOF=0 CLEF_CACHE_DIR=$no_cache CLEF_DEBUG=$CLEF_DEBUG,background=0,fused=0
python3 - "$CLEF_SOURCE/lab/speed" "$tmp/f16" <<'END'
import sys
sys.path.insert(0, sys.argv.pop(1))
import random_model as m
m.HIDDEN, m.INNER, m.HEADS, m.SHARED_HEADS, m.VOCABULARY = 512, 1536, 8, 2, 16384
m.CONFIG |= {"hidden_size": 512, "intermediate_size": 1536, "num_attention_heads": 8, "num_key_value_heads": 2, "vocab_size": 16384}
m.main()
END
check "as Q4_K" "$CLEF" quantize "$tmp/f16" "$tmp/q4_k.gguf" q4_k -q

count() { sed -n "s/^$1 //p" "$tmp/counts"; }
# It has pieces: the output matrix alone is larger than what one launch packs.
for model in f16 q4_k.gguf; do
  want=$("$CLEF" logits "$tmp/$model" --ids 1,2,3 --top 1 -q)
  got=$(CLEF_DEBUG=$CLEF_DEBUG,caps=-cpu:-unified_memory OPENCL_LAYERS=$layer CLEF_LAYER_OUT=$tmp/counts "$CLEF" logits "$tmp/$model" --ids 1,2,3 --top 1 -q)
  same "$model: the same tokens" "$(awk '{ print $1, $2 }' <<<"$want")" "$(awk '{ print $1, $2 }' <<<"$got")"
  weights=$("$CLEF" info "$tmp/$model" | awk '$2 ~ /^(f16|f32|q4_k|q6_k)$/' | wc -l)
  bytes=$(du -bs "$tmp/$model" | cut -f 1)
  sent=$(count device_bytes)
  check "$model: $sent bytes sent, of $bytes" test "$sent" -ge $((bytes * 9 / 10)) -a "$sent" -le $((bytes * 105 / 100))
  check "$model: $(count clCreateBuffer) buffers for $weights weights" test "$(count clCreateBuffer)" -le $((weights + 20))
done
finish
