#!/usr/bin/env python3
"""Records what PyTorch computes in a Hugging Face model, for `clef compare MODEL --reference FILE`.

usage: record_reference.py FOLDER FILE.safetensors TEXT       or TEXT as ids: --ids 5,9,17
Writes input_ids and, by clef's names, layerN.out (what layer N leaves in the residual stream), layerN.attention, hidden_last and logits of the
text. Decoders and encoders. needs: pip install torch transformers safetensors
"""
import sys
import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

if len(sys.argv) not in (4, 5) or (len(sys.argv) == 5) != (sys.argv[3] == "--ids"):
    sys.exit(__doc__)
folder, path = sys.argv[1:3]
names = " ".join(AutoConfig.from_pretrained(folder).architectures or [])
kind = AutoModelForMaskedLM if "MaskedLM" in names or "PreTraining" in names else AutoModelForCausalLM
model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
if len(sys.argv) == 5:
    ids = torch.tensor([[int(x) for x in sys.argv[4].split(",")]])
else:
    ids = AutoTokenizer.from_pretrained(folder)(sys.argv[3], return_tensors="pt").input_ids

# hidden_states has the embeddings first, and the last one behind the final norm where the model has such a norm.
with torch.no_grad():
    out = model(input_ids=ids, output_hidden_states=True, output_attentions=True)
tensors = {"input_ids": ids.to(torch.int32), "logits": out.logits, "hidden_last": out.hidden_states[-1]}
tensors.update({f"layer{i}.out": h for i, h in enumerate(out.hidden_states[1:-1])})
tensors.update({f"layer{i}.attention": a for i, a in enumerate(out.attentions or []) if a is not None})
save_file({k: v.contiguous().clone() for k, v in tensors.items()}, path)
print(f"{path}: {', '.join(sorted(tensors))}")
