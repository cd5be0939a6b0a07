"""llama.cpp by its Python package, as the scripts beside it need it: exact, with a cache of f32 and one order of sums."""
import ctypes
import sys

import llama_cpp as lc
import numpy as np


@lc.llama_log_callback
def log(level, text, _):
    if level == 4:  # errors
        sys.stderr.buffer.write(text)


class Llama:
    """A model with one context of n_ctx positions; more are fields of llama_context_params."""

    def __init__(self, path, n_ctx, **more):
        lc.llama_log_set(log, ctypes.c_void_p(0))
        params = lc.llama_model_default_params()
        params.use_extra_bufts = False  # kernels that need the weights in another order
        self.model = lc.llama_model_load_from_file(path.encode(), params)
        if not self.model:
            sys.exit("llama.cpp does not open it")
        c = lc.llama_context_default_params()
        c.n_ctx = c.n_batch = c.n_ubatch = n_ctx
        c.n_threads = c.n_threads_batch = 1
        c.type_k = c.type_v = 0  # f32
        c.flash_attn_type = 0
        c.swa_full = True
        for name, value in more.items():
            setattr(c, name, value)
        self.context = lc.llama_init_from_model(self.model, c)
        self.vocab = lc.llama_model_get_vocab(self.model)

    def tokens(self, text):
        text = text.encode()
        out = (lc.llama_token * (len(text) + 8))()
        return list(out[:lc.llama_tokenize(self.vocab, text, len(text), out, len(out), True, True)])

    def run(self, ids, encode=False, wanted=None, first=0):
        """Reads ids as the positions from `first` on; the outputs of `wanted` of them, or of all, follow from logits() or hidden()."""
        b = lc.llama_batch_init(len(ids), 0, 1)
        b.n_tokens = len(ids)
        for i, x in enumerate(ids):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = int(x), first + i, 1, wanted is None or i in wanted
            b.seq_id[i][0] = 0
        code = (lc.llama_encode if encode else lc.llama_decode)(self.context, b)
        lc.llama_batch_free(b)
        if code:
            sys.exit("llama.cpp computes nothing of it")

    def logits(self, i):
        return np.ctypeslib.as_array(lc.llama_get_logits_ith(self.context, i), (lc.llama_vocab_n_tokens(self.vocab),))

    def hidden(self, i):
        return np.ctypeslib.as_array(lc.llama_get_embeddings_ith(self.context, i), (lc.llama_model_n_embd(self.model),))

    def forget(self):
        lc.llama_memory_clear(lc.llama_get_memory(self.context), True)
