"""What llama.cpp computes of a GGUF file: llama_logits.py FILE IN.npz OUT.npy OUTPUT

IN has input_ids [1, n] and, for encoder-decoders, decoder_input_ids. OUTPUT is logits, or hidden_last for the hidden states."""
import sys

import numpy as np
from llama import Llama

path, given, out, output = sys.argv[1:]
inputs = np.load(given)
hidden = output == "hidden_last"
model = Llama(path, 128, **({"embeddings": True, "pooling_type": 0} if hidden else {}))
ids = inputs["input_ids"][0]
if "decoder_input_ids" in inputs:
    model.run(ids, encode=True)
    ids = inputs["decoder_input_ids"][0]
model.run(ids, encode=hidden)
np.save(out, np.array([[(model.hidden if hidden else model.logits)(i) for i in range(len(ids))]]))
