/* Hyperparameters from a GGUF file's keys (ggml's docs/gguf.md, "Standardized key-value pairs"). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model/config.h"
#include "model/tensor_index.h"

/* Reads keys of one architecture ("llama." is put before them) and keeps the first error. */
typedef struct keys {
    const clef_gguf *gguf;
    const char *arch, *file;
    clef_error *err;
    clef_status status;
    char key[96]; /* the last one looked up */
} keys;

static const clef_gguf_entry *find(keys *k, const char *key)
{
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, key);
    return k->status == CLEF_OK ? clef__gguf_find(k->gguf, k->key) : NULL;
}

enum { NEEDED = -1 }; /* as `missing` of read_int and read_float: the key must be there */

/* A number, or an array (one item a layer) whose items are all the same. NULL when it is missing or wrong. */
static const clef_gguf_entry *find_number(keys *k, const char *key, int needed)
{
    const clef_gguf_entry *e = find(k, key);
    if (k->status != CLEF_OK)
        return NULL;
    if (!e) {
        if (needed)
            k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is missing", k->file, k->key);
        return NULL;
    }
    if (e->type == CLEF_GGUF_STRING || e->n == 0) {
        k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %s, wanted a number", k->file, k->key,
                               e->type == CLEF_GGUF_STRING ? "a string" : "an empty array");
        return NULL;
    }
    for (uint64_t i = 1; i < e->n; i++)
        if (clef__gguf_item_float(e, i) != clef__gguf_item_float(e, 0)) {
            k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s differs from layer to layer", k->file, k->key);
            return NULL;
        }
    return e;
}

static int32_t read_int(keys *k, const char *key, int32_t min, int32_t max, int32_t missing)
{
    const clef_gguf_entry *e = find_number(k, key, missing == NEEDED);
    if (!e)
        return missing == NEEDED ? min : missing;
    const int64_t x = clef__gguf_item_int(e, 0);
    if (x >= min && x <= max)
        return (int32_t)x;
    k->status =
        clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %" PRId64 ", wanted %" PRId32 " to %" PRId32, k->file, k->key, x, min, max);
    return min;
}

static double read_float(keys *k, const char *key, double min, double max, double missing)
{
    const clef_gguf_entry *e = find_number(k, key, missing == NEEDED);
    if (!e)
        return missing == NEEDED ? min : missing;
    const double x = clef__gguf_item_float(e, 0);
    if (x >= min && x <= max) /* false for NaN */
        return x;
    k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %g, wanted %g to %g", k->file, k->key, x, min, max);
    return min;
}

static const clef_tensor_info *find_tensor(const clef_gguf *gguf, const char *name)
{
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        if (strcmp(gguf->tensors[i].name, name) == 0)
            return &gguf->tensors[i];
    return NULL;
}

/* The embedding's rows, which the key and the token list must not contradict. */
static void read_vocab(keys *k, clef_hparams *hp)
{
    const clef_tensor_info *embedding = find_tensor(k->gguf, "token_embd.weight");
    const clef_gguf_entry *tokens = clef__gguf_find(k->gguf, "tokenizer.ggml.tokens");
    const int32_t stated = read_int(k, "vocab_size", 1, CLEF_MAX_VOCAB, 0);
    if (k->status != CLEF_OK)
        return;
    if (embedding && (embedding->rank != 2 || embedding->dims[1] != hp->d_model || embedding->dims[0] > CLEF_MAX_VOCAB)) {
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: tensor token_embd.weight is [%" PRId64 ", %" PRId64 "] of rank %" PRId32 ", wanted [vocabulary, %" PRId32 "]",
                       k->file, embedding->dims[0], embedding->dims[1], embedding->rank, hp->d_model);
        return;
    }
    const int64_t n = embedding ? embedding->dims[0] : stated ? stated : tokens && tokens->n <= CLEF_MAX_VOCAB ? (int64_t)tokens->n : 0;
    if (n == 0)
        k->status = clef__fail(k->err, CLEF_E_FORMAT,
                               "%s: says nowhere how large its vocabulary is: no %s.vocab_size, token_embd.weight or "
                               "tokenizer.ggml.tokens",
                               k->file, k->arch);
    else if (stated && stated != n)
        k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s.vocab_size is %" PRId32 ", but token_embd.weight has %" PRId64 " rows",
                               k->file, k->arch, stated, n);
    hp->n_vocab = (int32_t)n;
}

static void read_rope(keys *k, clef_hparams *hp)
{
    char key[96], type[40];
    hp->rope_theta = read_float(k, "rope.freq_base", 1, 1e12, 10000);
    hp->rope_dims = read_int(k, "rope.dimension_count", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
    hp->rope_pairing = strcmp(hp->arch, "llama") == 0 ? CLEF_ROPE_PAIRS : CLEF_ROPE_HALVES;
    const double factor = read_float(k, "rope.scaling.factor", 0, 1e6, 1);
    snprintf(key, sizeof key, "%s.rope.scaling.type", k->arch);
    const int has_type = clef__gguf_text(k->gguf, key, type, sizeof type);
    if (k->status != CLEF_OK || (has_type && strcmp(type, "none") == 0))
        return;
    if (has_type && strcmp(type, "linear") != 0) {
        char shown[40];
        clef__config_text(type, shown, sizeof shown);
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s %s is not supported, known are: none linear", k->file, key, shown);
        return;
    }
    if (factor > 0 && factor < 1) {
        k->status =
            clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s.rope.scaling.factor is %g, wanted at least 1", k->file, k->arch, factor);
        return;
    }
    if (factor > 1) /* without a type the factor is linear (gguf.md); 0 and 1 say nothing */
        hp->rope_linear_factor = factor;
    hp->rope_original_context = read_int(k, "rope.scaling.original_context_length", 0, CLEF_MAX_CONTEXT, 0);
}

static int32_t token_id(const clef_gguf *gguf, const char *key)
{
    const int64_t id = clef__gguf_int(gguf, key, -1);
    return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1; /* 2^32 - 1 stands for none */
}

static void read_marks(const clef_gguf *gguf, clef_hparams *hp)
{
    static const char *const more[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    hp->bos = token_id(gguf, "tokenizer.ggml.bos_token_id");
    hp->eos = token_id(gguf, "tokenizer.ggml.eos_token_id");
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        const int32_t id = token_id(gguf, more[i]);
        if (id >= 0 && id != hp->eos)
            hp->eos_more[hp->n_eos_more++] = id;
    }
}

static void read_attention(keys *k, clef_hparams *hp)
{
    hp->n_heads = read_int(k, "attention.head_count", 1, CLEF_MAX_HEADS, NEEDED);
    hp->n_kv_heads = read_int(k, "attention.head_count_kv", 1, CLEF_MAX_HEADS, hp->n_heads);
    hp->head_dim = read_int(k, "attention.key_length", 1, CLEF_MAX_HEAD_DIM, 0);
    if (k->status == CLEF_OK && hp->head_dim == 0) {
        if (hp->d_model % hp->n_heads != 0)
            k->status =
                clef__fail(k->err, CLEF_E_FORMAT,
                           "%s: no key %s.attention.key_length, and embedding_length %" PRId32 " is no multiple of head_count %" PRId32,
                           k->file, k->arch, hp->d_model, hp->n_heads);
        hp->head_dim = hp->d_model / hp->n_heads;
    }
    const int32_t value_length = read_int(k, "attention.value_length", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
    if (k->status == CLEF_OK && value_length != hp->head_dim)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s is %" PRId32 ", which differs from key_length %" PRId32, k->file,
                               k->key, value_length, hp->head_dim);
    hp->sliding_window = read_int(k, "attention.sliding_window", 0, CLEF_MAX_CONTEXT, 0);
    const int32_t n_experts = read_int(k, "expert_count", 0, INT32_MAX, 0);
    if (k->status == CLEF_OK && n_experts > 0)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s is %" PRId32 ": mixtures of experts are not supported", k->file,
                               k->key, n_experts);
}

clef_status clef__config_from_gguf(const clef_gguf *gguf, const char *file, clef_hparams *hp, clef_error *err)
{
    static const char *const archs[] = {"gpt2", "llama", "qwen2", "qwen3"};
    char text[sizeof hp->name + 8]; /* longer, so that clef__config_text() is the one to cut */
    if (!clef__gguf_text(gguf, "general.architecture", text, sizeof text))
        return clef__fail(err, CLEF_E_FORMAT, "%s: key general.architecture is missing or no string", file);
    clef__config_text(text, hp->arch, sizeof hp->arch);
    clef_status status = clef__config_check_arch(hp->arch, file, err);
    if (status != CLEF_OK)
        return status;
    size_t i = 0;
    while (i < sizeof archs / sizeof *archs && strcmp(archs[i], hp->arch) != 0)
        i++;
    if (i == sizeof archs / sizeof *archs)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s: architecture %s is only supported as a Hugging Face folder", file, hp->arch);
    if (clef__gguf_text(gguf, "general.name", text, sizeof text))
        clef__config_text(text, hp->name, sizeof hp->name);

    const int is_gpt2 = strcmp(hp->arch, "gpt2") == 0;
    keys k = {.gguf = gguf, .arch = hp->arch, .file = file, .err = err};
    hp->n_layers = read_int(&k, "block_count", 1, CLEF_MAX_LAYERS, NEEDED);
    hp->n_context = read_int(&k, "context_length", 1, CLEF_MAX_CONTEXT, NEEDED);
    hp->d_model = read_int(&k, "embedding_length", 1, CLEF_MAX_WIDTH, NEEDED);
    hp->d_ff = read_int(&k, "feed_forward_length", 1, CLEF_MAX_WIDTH, NEEDED);
    hp->norm_eps = (float)read_float(&k, is_gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0, 1, NEEDED);
    read_attention(&k, hp);
    read_vocab(&k, hp);
    if (!is_gpt2)
        read_rope(&k, hp);
    if (k.status != CLEF_OK)
        return k.status;
    read_marks(gguf, hp);
    hp->tied_embeddings = find_tensor(gguf, "output.weight") == NULL;
    return clef__config_check(hp, file, err);
}
