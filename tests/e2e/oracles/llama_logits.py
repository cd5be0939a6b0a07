"""What llama.cpp computes of a GGUF file: llama_logits.py FILE IN.npz OUT.npy OUTPUT

IN has input_ids [1, n] and, for encoder-decoders, decoder_input_ids. OUTPUT is logits, or hidden_last for the hidden states."""
import ctypes
import sys

import llama_cpp as lc
import numpy as np

path, given, out, output = sys.argv[1:]
inputs = np.load(given)


@lc.llama_log_callback
def log(level, text, _):
    if level == 4:  # errors
        sys.stderr.buffer.write(text)


def batch(ids):
    b = lc.llama_batch_init(len(ids), 0, 1)
    b.n_tokens = len(ids)
    for i, x in enumerate(ids):
        b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = int(x), i, 1, 1
        b.seq_id[i][0] = 0
    return b


lc.llama_log_set(log, ctypes.c_void_p(0))
params = lc.llama_model_default_params()
params.use_extra_bufts = False  # kernels that need the weights in another order
model = lc.llama_model_load_from_file(path.encode(), params)
if not model:
    sys.exit("llama.cpp does not open it")
c = lc.llama_context_default_params()
c.n_ctx = c.n_batch = c.n_ubatch = 128
c.n_threads = c.n_threads_batch = 1
c.type_k = c.type_v = 0  # f32
c.flash_attn_type = 0
c.swa_full = True
if output == "hidden_last":
    c.embeddings, c.pooling_type = True, 0
context = lc.llama_init_from_model(model, c)
ids = inputs["input_ids"][0]
if "decoder_input_ids" in inputs:
    if lc.llama_encode(context, batch(ids)):
        sys.exit("llama_encode failed")
    ids = inputs["decoder_input_ids"][0]
run = lc.llama_encode if output == "hidden_last" else lc.llama_decode
if run(context, batch(ids)):
    sys.exit("llama.cpp computes nothing of it")
if output == "logits":
    get, width = lc.llama_get_logits_ith, lc.llama_vocab_n_tokens(lc.llama_model_get_vocab(model))
else:
    get, width = lc.llama_get_embeddings_ith, lc.llama_model_n_embd(model)
np.save(out, np.array([[np.ctypeslib.as_array(get(context, i), (width,)) for i in range(len(ids))]]))
