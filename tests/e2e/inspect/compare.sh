# `clef compare` names the first node that differs and saves it; `clef replay` runs it again; --stats stops at a NaN.
. "$(dirname "$0")/../lib.sh"
export CLEF_TUNE=0
text="Once upon a time there was a cat"
compare() { "$CLEF" compare "$@" -q 2>&1; }

check "record" "$CLEF" compare -p "$text" -q --record "$tmp/ref.safetensors"
case $(compare -p "$text" --reference "$tmp/ref.safetensors") in
  *" values agree, the worst within 0") ok "a run agrees with its own record" ;;
  *) fail "a run agrees with its own record: $(compare -p "$text" --reference "$tmp/ref.safetensors")" ;;
esac
same "a record has its own input" "$(compare -p "$text" --reference "$tmp/ref.safetensors")" "$(compare --reference "$tmp/ref.safetensors")"
refused "another text's record" 1 "embed.positions 10, 2, another text" "$CLEF" compare -p "a b" -q --reference "$tmp/ref.safetensors"
case $(compare -p "$text" --gemm-b own) in *" values agree, "*) ok "two ways of multiplying agree" ;; *) fail "two ways of multiplying agree" ;; esac
case $(compare -p "$text" --gemm-b own --after fuse) in *" values agree, "*) ok "after fuse too" ;; *) fail "after fuse too" ;; esac
compare -p "$text" --stats >"$tmp/stats"
same "--stats has a line a value" "$(compare -p "$text" --gemm-b own | awk '{ print $1 }')" "$(($(wc -l <"$tmp/stats") - 1))"
same "no NaN" 0 "$(awk 'NR > 1 && $7 > 0' "$tmp/stats" | wc -l | tr -d ' ')"

# A weight of layer 1 is changed in a copy of a model: its first product is named, saved, and wrong again when it is replayed.
python=$(find_python)
models=${CLEF_SHARED:-}/oracle/models
if [ -n "$python" ] && [ -d "$models" ]; then
  "$python" - "$models/llama" "$tmp" <<'END'
import shutil, sys, numpy as np
from safetensors.numpy import load_file, save_file
src, tmp = sys.argv[1:]
w = load_file(src + "/model.safetensors")
for name, change in (("flip", lambda x: -x), ("nan", lambda x: np.where(np.arange(x.size).reshape(x.shape) == 7, np.nan, x).astype(x.dtype))):
    shutil.copytree(src, f"{tmp}/{name}")
    save_file({**w, "model.layers.1.mlp.up_proj.weight": change(w["model.layers.1.mlp.up_proj.weight"])}, f"{tmp}/{name}/model.safetensors")
END
  ids=5,9,17,33,2,80
  node=$("$CLEF" graph "$models/llama" --after drop | sed -n 's/^\(layer1[^ ]*\) = matmul(.*layers\.1\.mlp\.up_proj\.weight.*/\1/p')
  check "a record of the model" "$CLEF" compare "$models/llama" --ids $ids -q --record "$tmp/llama.safetensors"
  got=$(cd "$tmp" && compare "$tmp/flip" --ids $ids --reference "$tmp/llama.safetensors")
  case $got in "$node is the first value out of tolerance"*) ok "a flipped weight: $got" ;; *) fail "a flipped weight: expected $node: $got" ;; esac
  if "$CLEF" replay "$tmp/compare.clef" >"$tmp/replay"; then fail "the case is wrong again"; else ok "the case is wrong again: $(tail -n 1 "$tmp/replay")"; fi
  got=$(compare "$models/llama" --ids $ids --model-b "$tmp/flip" --save "$tmp/case.clef")
  case $got in "$node is the first value out of tolerance"*) ok "two models: $got" ;; *) fail "two models: expected $node: $got" ;; esac
  # What is right is right again: the sound model's own node, with the sound model's value.
  "$python" - "$tmp" <<'END'
import sys
from safetensors.numpy import load_file, save_file
tmp = sys.argv[1]
case = load_file(tmp + "/case.clef.safetensors")
node = [l.split('"')[1] for l in open(tmp + "/case.clef") if l.startswith("output")][0]
save_file({**case, "expected": load_file(tmp + "/llama.safetensors")[node]}, tmp + "/case.clef.safetensors")
END
  check "a case that is right" "$CLEF" replay "$tmp/case.clef"
  # Attention over the cache, whose inputs are states.
  "$CLEF" compare "$models/llama" --ids $ids -q --after fuse --model-b "$models/llama" --tol 0 --save "$tmp/none.clef" >"$tmp/log"
  got=$(compare "$tmp/nan" --ids $ids --stats | tail -n 1)
  case $got in *"$node (matmul) is the first value with a NaN; its inputs: layer1."*) ok "--stats: $got" ;; *) fail "--stats: expected $node: $got" ;; esac
  # An encoder-decoder: the other side takes what the first one's decoder said, and so does a run against a record.
  "$python" - "$models/t5" "$tmp/t5" <<'END'
import shutil, sys
from safetensors.numpy import load_file, save_file
src, to = sys.argv[1:]
name = "decoder.block.1.layer.2.DenseReluDense.wo.weight"
w = load_file(src + "/model.safetensors")
shutil.copytree(src, to)
save_file({**w, name: w[name] * -3}, to + "/model.safetensors")
END
  ids=5,6,7,1
  node=$("$CLEF" graph "$models/t5" --after drop |
    sed -n 's/^\(decoder\.layer1[^ ]*\) = matmul(.*decoder\.block\.1\.layer\.2\.DenseReluDense\.wo\.weight.*/\1/p')
  check "a record of an encoder-decoder" "$CLEF" compare "$models/t5" --ids $ids -q --record "$tmp/t5.safetensors"
  for other in "$models/t5 --ids $ids --model-b $tmp/t5" "$tmp/t5 --ids $ids --reference $tmp/t5.safetensors" \
    "$tmp/t5 --reference $tmp/t5.safetensors"; do
    # shellcheck disable=SC2086
    got=$(compare $other --save "$tmp/t5.clef")
    case $got in "$node is the first value out of tolerance"*) ok "an encoder-decoder: $got" ;; *) fail "an encoder-decoder: expected $node: $got" ;; esac
  done
  # The mask is of both sides, and of a record.
  "$python" -c 'import sys, numpy as np; from safetensors.numpy import save_file
save_file({"input_ids": np.array([[5, 6, 7, 1]]), "attention_mask": np.array([[1, 1, 1, 0]])}, sys.argv[1])' "$tmp/masked"
  check "a record with a mask" "$CLEF" compare "$models/bert" --in "$tmp/masked" -q --record "$tmp/bert.safetensors"
  for other in "--reference $tmp/bert.safetensors" "--in $tmp/masked --model-b $models/bert"; do
    # shellcheck disable=SC2086
    same "a mask: ${other%% *}" "73 values agree, the worst within 0" "$(compare "$models/bert" $other --tol 0)"
  done
  # What cannot be saved is named all the same.
  got=$(compare "$models/llama" --ids $ids --model-b "$tmp/flip" --save "$tmp/nowhere/x.clef")
  case $got in
    layer1.*" is the first value out of tolerance: error "*"not saved: "*nowhere*) ok "no place to save" ;;
    *) fail "no place to save: $got" ;;
  esac
  check "a record of experts" "$CLEF" compare "$models/mixtral" --ids $ids -q --record "$tmp/experts"
  "$python" -c 'import sys; from safetensors.numpy import load_file, save_file
w = load_file(sys.argv[1]); save_file({**w, "layer1.mlp.experts.gate": w["layer1.mlp.experts.gate"] * 2}, sys.argv[1])' "$tmp/experts"
  got=$(compare "$models/mixtral" --reference "$tmp/experts" --save "$tmp/experts.clef")
  case $got in
    "layer1.mlp.experts.gate is the first value out of tolerance: error 0.5,"*"not saved: "*experts*) ok "experts" ;;
    *) fail "experts: $got" ;;
  esac
  # The other model has the same graph, whatever its weights' names and types.
  "$CLEF" quantize "$models/gpt2" "$tmp/gpt2.gguf" q8_0 --no-tokenizer >"$tmp/log" 2>&1
  same "the same model as GGUF" "56 values agree" \
    "$(compare "$models/gpt2" --ids $ids --model-b "$tmp/gpt2.gguf" --tol 0.5 | cut -d , -f 1)"
  refused "another graph" 1 "--model-b mistral expected the graph layer0.reshape_0" \
    "$CLEF" compare "$models/llama" --ids $ids -q --model-b "$models/mistral"
  cp -r "$models/llama" "$tmp/short"
  sed 's/"num_hidden_layers": 3/"num_hidden_layers": 2/' "$models/llama/config.json" >"$tmp/short/config.json"
  "$python" - "$tmp/short/model.safetensors" <<'END'
import sys
from safetensors.numpy import load_file, save_file
save_file({k: v for k, v in load_file(sys.argv[1]).items() if ".layers.2." not in k}, sys.argv[1])
END
  refused "a graph with more" 1 "--model-b flip expected the graph of nodes" "$CLEF" compare "$tmp/short" --ids $ids -q --model-b "$tmp/flip"
  # PyTorch's attention weights, logits and last hidden states.
  "$python" - "$models/gpt2" "$tmp" <<'END'
import sys
from safetensors.numpy import load_file, save_file
ref = load_file(sys.argv[1] + "/expected.safetensors")
save_file({k: ref[k][:1] for k in ("input_ids", "attention_0", "hidden_last", "logits")}, sys.argv[2] + "/torch.safetensors")
END
  same "PyTorch's reference" "3 values agree" "$(compare "$models/gpt2" --reference "$tmp/torch.safetensors" --tol 1e-4 | cut -d , -f 1)"
fi

refused "nothing to compare with" 2 "expected --reference" "$CLEF" compare -p a
refused "two other sides" 2 "got both" "$CLEF" compare -p a --reference x --gemm-b own
refused "a reference that is not there" 1 "nowhere" "$CLEF" compare -p a -q --reference "$tmp/nowhere"
refused "a case that is not there" 1 "nowhere" "$CLEF" replay "$tmp/nowhere.clef"
printf 'input x f32 [2]\noutput y = x\n' >"$tmp/lonely.clef"
refused "a case without its tensors" 1 "lonely.clef.safetensors" "$CLEF" replay "$tmp/lonely.clef"
finish
