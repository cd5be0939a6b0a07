/* Hyperparameters from a GGUF file's keys (ggml's docs/gguf.md, "Standardized key-value pairs"). */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/file/tensor_index.h"
#include "model/open/arch.h"
#include "model/open/config.h"
#include "model/open/config_keys.h"
#include "model/open/end_tokens.h"

static const clef_gguf_entry *find_entry(clef_gguf_keys *k, const char *key)
{
    const char *old = clef__key_old_name(key);
    snprintf(k->key, sizeof k->key, "%s.%s", k->arch, key);
    const clef_gguf_entry *e = k->status == CLEF_OK ? clef__gguf_find(k->gguf, k->key) : NULL;
    if (e) {
        k->gguf->is_read[e - k->gguf->entries] = 1;
        snprintf(k->key, sizeof k->key, "%.*s", (int)e->key.n_bytes, e->key.text);
    }
    if (e || !old || k->status != CLEF_OK)
        return e;
    return find_entry(k, old);
}

static int is_varied(const clef_gguf_keys *k, const char *key)
{
    const char *const *i = k->varied;
    while (i && *i && strcmp(*i, key) != 0)
        i++;
    return i && *i;
}

/* A number, or an array with one number for each layer. NULL when it is missing or wrong. */
static const clef_gguf_entry *find_number(clef_gguf_keys *k, const char *key, int needed)
{
    const clef_gguf_entry *e = find_entry(k, key);
    if (k->status != CLEF_OK)
        return NULL;
    if (!e) {
        if (needed)
            k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is missing", k->file, k->key);
        return NULL;
    }
    if (e->type == CLEF_GGUF_STRING || e->n == 0) {
        k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %s, expected a number", k->file, k->key,
                               e->type == CLEF_GGUF_STRING ? "a string" : "an empty array");
        return NULL;
    }
    for (uint64_t i = 1; i < e->n && !is_varied(k, key); i++)
        if (clef__gguf_item_float(e, i) != clef__gguf_item_float(e, 0)) {
            k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s differs from layer to layer",
                                   k->file, k->key);
            return NULL;
        }
    return e;
}

/* Item i of an entry; checks that it is from min to max. */
static int32_t checked_int(clef_gguf_keys *k, const clef_gguf_entry *e, uint64_t i, int32_t min, int32_t max)
{
    const int64_t x = clef__gguf_item_int(e, i);
    if (x >= min && x <= max)
        return (int32_t)x;
    k->status =
        clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %" PRId64 ", expected %" PRId32 " to %" PRId32,
                   k->file, k->key, x, min, max);
    return min;
}

int32_t clef__key_int(clef_gguf_keys *k, const char *key, int32_t min, int32_t max, int32_t missing)
{
    const clef_gguf_entry *e = find_number(k, key, missing == CLEF_KEY_NEEDED);
    if (!e)
        return missing == CLEF_KEY_NEEDED ? min : missing;
    return checked_int(k, e, 0, min, max);
}

int32_t clef__key_of_layer(clef_gguf_keys *k, const char *key, int32_t layer, int32_t min, int32_t max)
{
    const clef_gguf_entry *e = find_number(k, key, 0);
    if (!e)
        return 0;
    if (!e->is_array)
        return checked_int(k, e, 0, min, max);
    if ((uint64_t)layer < e->n)
        return checked_int(k, e, (uint64_t)layer, min, max);
    k->status =
        clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s has %" PRIu64 " numbers, expected one for each layer",
                   k->file, k->key, e->n);
    return min;
}

double clef__key_float(clef_gguf_keys *k, const char *key, double min, double max, double missing)
{
    const clef_gguf_entry *e = find_number(k, key, missing == (double)CLEF_KEY_NEEDED);
    if (!e)
        return missing == (double)CLEF_KEY_NEEDED ? min : missing;
    const double x = clef__gguf_item_float(e, 0);
    if (x >= min && x <= max) /* false for NaN */
        return x;
    k->status = clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s is %g, expected %g to %g", k->file, k->key, x,
                           min, max);
    return min;
}

int clef__key_has(clef_gguf_keys *k, const char *key)
{
    return find_entry(k, key) != NULL;
}

/* Copies a string to out[capacity]; returns 0 and "" if the key is missing or is not a string. */
static int key_text(clef_gguf_keys *k, const char *key, char *out, size_t capacity)
{
    out[0] = 0;
    return find_entry(k, key) && clef__gguf_text(k->gguf, k->key, out, capacity);
}

void clef__key_layers(clef_gguf_keys *k, const char *key, int32_t n_layers, uint32_t *bits)
{
    const int32_t n_more = clef__key_int(k, "nextn_predict_layers", 0, CLEF_MAX_LAYERS, 0);
    const clef_gguf_entry *e = find_entry(k, key);
    if (k->status != CLEF_OK || !e)
        return;
    if (e->type == CLEF_GGUF_STRING || !e->is_array ||
        (e->n != (uint64_t)n_layers && e->n != (uint64_t)(n_layers + n_more))) {
        k->status = clef__fail(k->err, CLEF_E_FORMAT,
                               "%s: key %s is not a list with a number for each of %" PRId32 " layers",
                               k->file, k->key, n_layers);
        return;
    }
    memset(bits, 0, CLEF_MAX_LAYERS / 8);
    for (int32_t i = 0; i < n_layers; i++)
        if (clef__gguf_item_int(e, (uint64_t)i) != 0)
            bits[i / 32] |= 1u << (i % 32);
}

void clef__key_windows(clef_gguf_keys *k, clef_hparams *hp, int32_t first, int32_t missing)
{
    const clef_gguf_entry *e = find_entry(k, "attention.sliding_window_pattern");
    memset(hp->sliding_layers, 0, sizeof hp->sliding_layers);
    if (k->status == CLEF_OK && e && e->is_array)
        clef__key_layers(k, "attention.sliding_window_pattern", hp->n_layers, hp->sliding_layers);
    else
        clef__slide_but(hp, first,
                        clef__key_int(k, "attention.sliding_window_pattern", 1, CLEF_MAX_LAYERS, missing));
    for (int32_t i = 0; e && i < hp->n_layers && hp->sliding_window == 0 && k->status == CLEF_OK; i++)
        if (clef__layer_slides(hp, i))
            find_number(k, "attention.sliding_window", 1);
}

const clef_tensor_info *clef__gguf_tensor(const clef_gguf *gguf, const char *name)
{
    for (uint64_t i = 0; i < gguf->n_tensors; i++)
        if (strcmp(gguf->tensors[i].name, name) == 0)
            return &gguf->tensors[i];
    return NULL;
}

/* Reads the rows of the embedding; the key and the token list must agree with them. */
static void read_vocab(clef_gguf_keys *k, clef_hparams *hp)
{
    const clef_tensor_info *embedding = clef__gguf_tensor(k->gguf, "token_embd.weight");
    const clef_gguf_entry *tokens = clef__gguf_find(k->gguf, "tokenizer.ggml.tokens");
    const int32_t stated = clef__key_int(k, "vocab_size", 1, CLEF_MAX_VOCAB, 0);
    if (k->status != CLEF_OK)
        return;
    const int is_narrow =
        clef__weight_in_gguf(&clef__arch_find(hp->arch, 1)->weights, CLEF_W_EMBED_PROJECTION);
    if (embedding && (embedding->rank != 2 || (embedding->dims[1] != hp->d_model && !is_narrow) ||
                      embedding->dims[0] > CLEF_MAX_VOCAB)) {
        k->status = clef__fail(k->err, CLEF_E_FORMAT,
                               "%s: tensor token_embd.weight is [%" PRId64 ", %" PRId64 "] of rank %" PRId32
                               ", expected [vocabulary, %" PRId32 "]",
                               k->file, embedding->dims[0], embedding->dims[1], embedding->rank, hp->d_model);
        return;
    }
    const int64_t n = embedding                               ? embedding->dims[0]
                      : stated                                ? stated
                      : tokens && tokens->n <= CLEF_MAX_VOCAB ? (int64_t)tokens->n
                                                              : 0;
    if (n == 0)
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: the size of the vocabulary is unknown: no %s.vocab_size, token_embd.weight or "
                       "tokenizer.ggml.tokens",
                       k->file, k->arch);
    else if (stated && stated != n)
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: key %s.vocab_size is %" PRId32 ", but token_embd.weight has %" PRId64 " rows",
                       k->file, k->arch, stated, n);
    hp->n_vocab = (int32_t)n;
}

/* ggml's names of scalings. Llama 3's has none: its files contain divisors of the frequencies
 * (rope_freqs.weight). Without a type the scaling is linear (gguf.md), or longrope where its lists of
 * divisors are among the tensors; a factor of 0 or 1 means none. */
static clef_rope_type scaling_type(clef_gguf_keys *k)
{
    static const struct {
        const char *name;
        clef_rope_type type;
    } types[] = {{"linear", CLEF_ROPE_LINEAR},
                 {"none", CLEF_ROPE_DEFAULT},
                 {"yarn", CLEF_ROPE_YARN},
                 {"longrope", CLEF_ROPE_LONGROPE}};
    char name[40], shown[40];
    const int has_type = key_text(k, "rope.scaling.type", name, sizeof name);
    size_t i = 0;
    if (clef__gguf_tensor(k->gguf, "rope_factors_long.weight") ||
        clef__gguf_tensor(k->gguf, "rope_factors_short.weight"))
        return CLEF_ROPE_LONGROPE;
    while (has_type && i < sizeof types / sizeof *types && strcmp(types[i].name, name) != 0)
        i++;
    if (i < sizeof types / sizeof *types)
        return types[i].type;
    clef__config_text(name, shown, sizeof shown);
    if (k->status == CLEF_OK)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED,
                               "%s: key %s %s is not supported, known are: none linear yarn longrope",
                               k->file, k->key, shown);
    return CLEF_ROPE_DEFAULT;
}

/* What multiplies the rotated dims. llama.cpp multiplies YaRN's own factor by attn_factor; its converter
 * writes transformers' attention_factor, the whole of it, under another key. 0: the type's formula. */
static double attention_factor(clef_gguf_keys *k, const clef_rope_params *r)
{
    const double by = clef__key_float(k, "rope.scaling.attn_factor", 0, 1e6, 0),
                 whole = clef__key_float(k, "rope.scaling.yarn_attn_factor", 0, 1e6, 0);
    if (r->type == CLEF_ROPE_YARN && whole > 0)
        return whole;
    if (r->type == CLEF_ROPE_YARN && by > 0 && by != 1 &&
        clef__key_float(k, "rope.scaling.yarn_log_multiplier", 0, 100, 0) == 0)
        return by * (1 + 0.1 * log(r->factor));
    return by == 0 && r->type == CLEF_ROPE_LONGROPE ? 1 : by == 1 && r->type == CLEF_ROPE_YARN ? 0 : by;
}

static void read_rope_scaling(clef_gguf_keys *k, clef_hparams *hp)
{
    clef_rope_params *r = &hp->rope;
    const double factor = clef__key_float(k, "rope.scaling.factor", 0, 1e6, 1);
    const clef_rope_type type = scaling_type(k);
    r->original_context = clef__key_int(k, "rope.scaling.original_context_length", 0, CLEF_MAX_CONTEXT, 0);
    if (r->original_context == 0)
        r->original_context = hp->n_context;
    if (k->status == CLEF_OK && type != CLEF_ROPE_DEFAULT && factor > 0 && factor < 1)
        k->status =
            clef__fail(k->err, CLEF_E_UNSUPPORTED,
                       "%s: key %s.rope.scaling.factor is %g, expected at least 1", k->file, k->arch, factor);
    if (k->status == CLEF_OK && type == CLEF_ROPE_LONGROPE && factor > 1 &&
        !clef__gguf_find(k->gguf, "libclef.rope.type")) /* clef's own older files have this key */
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED,
                               "%s: key %s.rope.scaling.factor is %g, expected 1 with longrope's factors",
                               k->file, k->arch, factor);
    if (k->status != CLEF_OK)
        return;
    if (factor > 1 || type == CLEF_ROPE_LONGROPE)
        r->type = type;
    r->factor = factor > 1 && r->type != CLEF_ROPE_DEFAULT ? factor : 1;
    r->attention_factor = attention_factor(k, r);
    if (r->type == CLEF_ROPE_DEFAULT || r->type == CLEF_ROPE_LINEAR)
        return;
    r->beta_fast = clef__key_float(k, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, 32);
    r->beta_slow = clef__key_float(k, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, 1);
    r->truncate = r->type == CLEF_ROPE_YARN;
}

static void read_rope(clef_gguf_keys *k, const clef_arch *arch, clef_hparams *hp)
{
    if (hp->rope.dims == 0)
        hp->rope.dims = hp->head_dim;
    hp->rope.pairing = arch->gguf_pairing;
    read_rope_scaling(k, hp);
    if (hp->rope_sliding.theta == 0 || hp->rope_sliding.theta == hp->rope.theta) {
        hp->rope_sliding = (clef_rope_params){0};
        return;
    }
    if (hp->rope_sliding.dims == 0)
        hp->rope_sliding.dims = hp->rope.dims;
    hp->rope_sliding.pairing = arch->gguf_pairing;
}

static int32_t token_id(const clef_gguf *gguf, const char *key)
{
    const int64_t id = clef__gguf_int(gguf, key, -1);
    return id >= 0 && id <= INT32_MAX ? (int32_t)id : -1; /* 2^32 - 1 means none */
}

static void read_marks(const clef_gguf *gguf, clef_hparams *hp)
{
    static const char *const more[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    const clef_gguf_entry *others = clef__gguf_find(gguf, CLEF_KEY_MORE_ENDS);
    hp->bos = token_id(gguf, "tokenizer.ggml.bos_token_id");
    hp->eos = token_id(gguf, "tokenizer.ggml.eos_token_id");
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        clef__add_end(hp, token_id(gguf, more[i]));
    for (uint64_t i = 0; others && others->type != CLEF_GGUF_STRING && i < others->n; i++)
        clef__add_end(hp, clef__gguf_item_int(others, i));
    clef__end_tokens_of_gguf(gguf, hp);
}

static void read_experts(clef_gguf_keys *k, clef_hparams *hp)
{
    clef__key_int(k, "expert_used_count", 1, CLEF_MAX_EXPERTS_USED, CLEF_KEY_NEEDED);
    if (hp->d_ff_expert == 0)
        hp->d_ff_expert = hp->d_ff;
}

clef_router clef__key_router(clef_gguf_keys *k, clef_router missing)
{
    const int is_sigmoid = missing == CLEF_ROUTER_SIGMOID || missing == CLEF_ROUTER_SIGMOID_NORMED,
              is_normed = missing == CLEF_ROUTER_NORMED || missing == CLEF_ROUTER_SIGMOID_NORMED;
    const int32_t function = clef__key_int(k, "expert_gating_func", 0, 3, 0),
                  normed = clef__key_int(k, "expert_weights_norm", 0, 1, is_normed);
    if (function == 3)
        return CLEF_ROUTER_CHOSEN;
    if (function ? function == 2 : is_sigmoid)
        return normed ? CLEF_ROUTER_SIGMOID_NORMED : CLEF_ROUTER_SIGMOID;
    return normed ? CLEF_ROUTER_NORMED : CLEF_ROUTER_ALL;
}

void clef__key_routed(clef_gguf_keys *k, clef_hparams *hp, clef_router missing)
{
    const int32_t n_shared = clef__key_int(k, "expert_shared_count", 0, 256, 0),
                  width = clef__key_int(k, "expert_shared_feed_forward_length", 0, CLEF_MAX_WIDTH, 0);
    hp->router = clef__key_router(k, missing);
    hp->d_ff_shared = n_shared ? n_shared * hp->d_ff_expert : width;
    hp->n_expert_groups = clef__key_int(k, "expert_group_count", 0, CLEF_MAX_EXPERTS, 0);
    hp->n_groups_used = clef__key_int(k, "expert_group_used_count", 0, CLEF_MAX_EXPERTS_USED, 0);
    if (k->status == CLEF_OK && hp->n_expert_groups > 1 &&
        (hp->n_experts % hp->n_expert_groups != 0 || hp->n_groups_used < 1 ||
         hp->n_groups_used > hp->n_expert_groups))
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT,
                       "%s: %" PRId32 " experts in %" PRId32 " groups, of which a token uses %" PRId32,
                       k->file, hp->n_experts, hp->n_expert_groups, hp->n_groups_used);
}

static void read_attention(clef_gguf_keys *k, clef_hparams *hp)
{
    if (hp->n_heads == 0 && !clef__weight_in_gguf(&clef__arch_find(hp->arch, 1)->weights, CLEF_W_ATTN_Q))
        hp->n_heads = 1; /* a family without attention */
    else if (hp->n_heads == 0 && k->status == CLEF_OK)
        k->status =
            clef__fail(k->err, CLEF_E_FORMAT, "%s: key %s.attention.head_count is 0", k->file, k->arch);
    if (k->status != CLEF_OK)
        return;
    if (hp->n_kv_heads == 0)
        hp->n_kv_heads = hp->n_heads;
    hp->head_dim = clef__key_int(k, "attention.key_length", 1, CLEF_MAX_HEAD_DIM, 0);
    if (k->status == CLEF_OK && hp->head_dim == 0) {
        if (hp->d_model % hp->n_heads != 0)
            k->status = clef__fail(k->err, CLEF_E_FORMAT,
                                   "%s: no key %s.attention.key_length, and embedding_length %" PRId32
                                   " is not a multiple of head_count %" PRId32,
                                   k->file, k->arch, hp->d_model, hp->n_heads);
        hp->head_dim = hp->d_model / hp->n_heads;
    }
    const int32_t value_length =
        clef__key_int(k, "attention.value_length", 1, CLEF_MAX_HEAD_DIM, hp->head_dim);
    const clef_arch *arch = clef__arch_find(hp->arch, 1);
    if (value_length != hp->head_dim &&
        (arch->v_widths || clef__weight_in_gguf(&arch->weights, CLEF_W_ATTN_KV_B)))
        hp->v_head_dim = value_length;
    else if (k->status == CLEF_OK && value_length != hp->head_dim)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED,
                               "%s: key %s is %" PRId32 ", which differs from key_length %" PRId32, k->file,
                               k->key, value_length, hp->head_dim);
    hp->sliding_window = clef__key_int(k, "attention.sliding_window", 0, CLEF_MAX_CONTEXT, 0);
    if (hp->sliding_window > 0)
        clef__slide_layers(hp, 0, 1);
    if (hp->n_experts > 0)
        read_experts(k, hp);
    if (hp->d_ff == 0 && hp->n_experts > 0)
        hp->d_ff = hp->d_ff_expert;
    find_number(k, "feed_forward_length", hp->d_ff == 0);
}

/* The key of the family's kind of norm; else the other. */
static float read_epsilon(clef_gguf_keys *k, const clef_arch *arch)
{
    static const char *const names[] = {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"};
    const char *own = names[arch->layer_norms ? 1 : 0], *other = names[arch->layer_norms ? 0 : 1];
    const double eps = clef__key_float(k, other, 0, 1, 2);
    return (float)clef__key_float(k, own, 0, 1, eps <= 1 ? eps : CLEF_KEY_NEEDED);
}

/* Keys without which llama.cpp does not open a file either. */
static void need_sizes(clef_gguf_keys *k)
{
    static const char *const needed[] = {"block_count", "context_length", "embedding_length",
                                         "attention.head_count"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        find_number(k, needed[i], 1);
}

/* Layers that predict further tokens, at the end; the model's own layers are before them. */
static void leave_out_nextn(clef_gguf_keys *k, clef_hparams *hp)
{
    hp->n_layers -= clef__key_int(k, "nextn_predict_layers", 0, hp->n_layers - 1, 0);
}

/* Encoders see all tokens, decoders those before. */
static void check_causal(clef_gguf_keys *k, const clef_arch *arch)
{
    const int causal = arch->kind != CLEF_ENCODER;
    if (clef__key_int(k, "attention.causal", 0, 1, causal) != causal && k->status == CLEF_OK)
        k->status = clef__fail(k->err, CLEF_E_UNSUPPORTED, "%s: key %s is %d, expected %d for %s", k->file,
                               k->key, !causal, causal, k->arch);
}

static const struct {
    const char *name;
    clef_activation activation;
} activations[] = {{"silu", CLEF_SILU},           {"gelu", CLEF_GELU},
                   {"gelu_tanh", CLEF_GELU_TANH}, {"relu", CLEF_RELU},
                   {"swiglu", CLEF_SILU},         {"geglu", CLEF_GELU},
                   {"swish", CLEF_SILU},          {"gelu_pytorch_tanh", CLEF_GELU_TANH},
                   {"gelu_new", CLEF_GELU_TANH},  {"relu2", CLEF_RELU2},
                   {"relu_sqr", CLEF_RELU2}};

const char *clef__gguf_activation(clef_activation activation)
{
    size_t i = 0;
    while (activations[i].activation != activation)
        i++;
    return activations[i].name;
}

/* The feed-forward's function, where a file states another than the family's. */
static void read_activation(clef_gguf_keys *k, clef_hparams *hp)
{
    enum { N = sizeof activations / sizeof *activations };
    char name[40], shown[40];
    size_t i = 0;
    if (!key_text(k, "hidden_activation", name, sizeof name))
        return;
    while (i < N && strcmp(activations[i].name, name) != 0)
        i++;
    clef__config_text(name, shown, sizeof shown);
    if (i < N)
        hp->activation = activations[i].activation;
    else if (k->status == CLEF_OK)
        k->status =
            clef__fail(k->err, CLEF_E_UNSUPPORTED,
                       "%s: key %s is %s, known are: silu gelu gelu_tanh relu relu2", k->file, k->key, shown);
}

clef_status clef__config_from_gguf(const clef_gguf *gguf, const char *file, clef_hparams *hp, clef_error *err)
{
    char text[sizeof hp->name + 8]; /* longer than the field, so that clef__config_text() cuts it */
    if (!clef__gguf_text(gguf, "general.architecture", text, sizeof text))
        return clef__fail(err, CLEF_E_FORMAT, "%s: key general.architecture is missing or not a string",
                          file);
    clef__config_text(text, hp->arch, sizeof hp->arch);
    const clef_arch *arch = clef__arch_find(hp->arch, 1);
    if (!arch)
        return clef__arch_unknown(hp->arch, 1, file, err);
    if (clef__gguf_text(gguf, "general.name", text, sizeof text))
        clef__config_text(text, hp->name, sizeof hp->name);

    clef_gguf_keys k = {
        .gguf = gguf, .arch = hp->arch, .file = file, .err = err, .varied = arch->gguf_varied};
    need_sizes(&k);
    hp->rope.theta = 10000;
    clef__config_read_standard(&k, arch, hp);
    if (k.status != CLEF_OK)
        return k.status;
    leave_out_nextn(&k, hp);
    hp->norm_eps = read_epsilon(&k, arch);
    check_causal(&k, arch);
    read_attention(&k, hp);
    read_vocab(&k, hp);
    read_rope(&k, arch, hp);
    hp->forced_bos = -1;
    hp->activation = arch->gguf_activation;
    hp->tied_embeddings = clef__gguf_tensor(gguf, "output.weight") == NULL;
    const clef_tensor_info *types = clef__gguf_tensor(gguf, "token_types.weight");
    if (types && types->rank == 2 && types->dims[0] <= CLEF_MAX_WIDTH)
        hp->n_token_types = (int32_t)types->dims[0];
    if (k.status == CLEF_OK && arch->read_gguf)
        arch->read_gguf(&k, hp);
    read_activation(&k, hp);
    clef__config_get_keys(&k, hp);
    clef__gguf_check_unread(&k);
    if (k.status != CLEF_OK)
        return k.status;
    read_marks(gguf, hp);
    return clef__config_check(hp, file, err);
}
