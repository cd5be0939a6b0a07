/* Whisper models of whisper.cpp (model/file/ggml.h). */
#include "model/file/ggml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/blocks.h"
#include "model/file/foreign.h"
#include "model/file/ggml_keys.h"

static const unsigned char magic[4] = {'l', 'm', 'g', 'g'};

/* A reader over the bytes; the first failure is kept, and later reads give zero. */
typedef struct reader {
    const unsigned char *data;
    size_t n, at;
    const char *name;
    clef_error *err;
    clef_status status;
} reader;

int clef__is_ggml(const void *data, size_t n_bytes)
{
    return n_bytes >= sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

static const unsigned char *take(reader *r, uint64_t n, const char *what)
{
    if (r->status != CLEF_OK)
        return NULL;
    if (n > r->n - r->at) {
        r->status =
            clef__fail(r->err, CLEF_E_FORMAT, "%s: offset %zu: %s takes %" PRIu64 " bytes, %zu remain",
                       r->name, r->at, what, n, r->n - r->at);
        return NULL;
    }
    const unsigned char *p = r->data + r->at;
    r->at += (size_t)n;
    return p;
}

/* A number from least to most. */
static int32_t take_int(reader *r, const char *what, int32_t least, int32_t most)
{
    const size_t at = r->at;
    const unsigned char *p = take(r, 4, what);
    const uint32_t bits =
        p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24
          : (uint32_t)least;
    const int32_t x = bits <= INT32_MAX ? (int32_t)bits : -1;
    if (r->status == CLEF_OK && (x < least || x > most))
        r->status = clef__fail(r->err, CLEF_E_FORMAT,
                               "%s: offset %zu: %s is %" PRId32 ", expected %" PRId32 " to %" PRId32, r->name,
                               at, what, x, least, most);
    return r->status == CLEF_OK ? x : least;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void take_head(reader *r, clef__ggml_head *h)
{
    enum { WIDTH = 1 << 16, LAYERS = 1024, TOKENS = 1 << 24, QUANTISED = 1000, VERSION = 2 };
    take(r, sizeof magic, "the magic");
    h->n_vocab = take_int(r, "n_vocab", 1, TOKENS);
    h->n_source = take_int(r, "n_audio_ctx", 1, WIDTH);
    h->d_model = take_int(r, "n_audio_state", 1, WIDTH);
    h->n_heads = take_int(r, "n_audio_head", 1, h->d_model);
    h->n_layers = take_int(r, "n_audio_layer", 1, LAYERS);
    h->n_context = take_int(r, "n_text_ctx", 1, WIDTH);
    take_int(r, "n_text_state", h->d_model, h->d_model);
    take_int(r, "n_text_head", h->n_heads, h->n_heads);
    h->n_decoder_layers = take_int(r, "n_text_layer", 1, LAYERS);
    h->n_mels = take_int(r, "n_mels", 1, 1024);
    const int32_t version = take_int(r, "ftype", 0, INT32_MAX) / QUANTISED;
    if (r->status == CLEF_OK && version != 0 && version != VERSION)
        r->status = clef__fail(r->err, CLEF_E_UNSUPPORTED,
                               "%s: quantised with version %" PRId32 " of ggml's formats, expected %d",
                               r->name, version, VERSION);
}

/* The filters are the paper's, which clef computes. */
static void take_filters(reader *r, const clef__ggml_head *h)
{
    enum { BINS = 201 }; /* of a Fourier transform of 400 samples */
    const int32_t n = take_int(r, "the number of mel filters", h->n_mels, h->n_mels);
    take_int(r, "the length of mel filters", BINS, BINS);
    take(r, (uint64_t)n * BINS * sizeof(float), "the mel filters");
}

static void take_tokens(reader *r, clef__ggml_head *h)
{
    enum { LONGEST = 1024 };
    h->n_tokens = take_int(r, "the number of tokens", 1, h->n_vocab);
    h->tokens = calloc((size_t)h->n_tokens, sizeof *h->tokens);
    if (!h->tokens && r->status == CLEF_OK)
        r->status = clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory for its tokens", r->name);
    for (int32_t i = 0; i < h->n_tokens && r->status == CLEF_OK; i++) {
        const int32_t n = take_int(r, "a token's length", 0, LONGEST);
        h->tokens[i] = (clef_gguf_string){(const char *)take(r, (uint64_t)n, "a token"), (size_t)n};
    }
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* OpenAI's names of a layer's parts, and GGUF's. */
static const char *const parts[][2] = {{"conv1", "conv1"},
                                       {"conv2", "conv2"},
                                       {"ln_post", "output_norm"},
                                       {"ln", "output_norm"},
                                       {"attn_ln", "attn_norm"},
                                       {"attn.query", "attn_q"},
                                       {"attn.key", "attn_k"},
                                       {"attn.value", "attn_v"},
                                       {"attn.out", "attn_o"},
                                       {"cross_attn_ln", "cross_attn_norm"},
                                       {"cross_attn.query", "cross_attn_q"},
                                       {"cross_attn.key", "cross_attn_k"},
                                       {"cross_attn.value", "cross_attn_v"},
                                       {"cross_attn.out", "cross_attn_o"},
                                       {"mlp_ln", "ffn_norm"},
                                       {"mlp.0", "ffn_up"},
                                       {"mlp.2", "ffn_down"}};
static const char *const singles[][2] = {{"encoder.positional_embedding", "enc.position_embd.weight"},
                                         {"decoder.positional_embedding", "dec.position_embd.weight"},
                                         {"decoder.token_embedding.weight", "token_embd.weight"}};

enum { NAME_BYTES = 64 };

/* "encoder.blocks.0.attn.query.weight" -> "enc.blk.0.attn_q.weight". 0: it is none of Whisper's. */
static int rename_tensor(const char *name, char out[2 * NAME_BYTES])
{
    char block[24] = "";
    int32_t layer;
    int n = 0;
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++)
        if (strcmp(name, singles[i][0]) == 0)
            return snprintf(out, 2 * NAME_BYTES, "%s", singles[i][1]) > 0;
    if (strncmp(name, "encoder.", 8) != 0 && strncmp(name, "decoder.", 8) != 0)
        return 0;
    const char *at = name + 8, *end = strrchr(at, '.');
    if (sscanf(at, "blocks.%6" SCNd32 ".%n", &layer, &n) == 1 && n > 0 && layer >= 0) {
        snprintf(block, sizeof block, "blk.%" PRId32 ".", layer);
        at += n;
    }
    if (!end || end <= at || (strcmp(end, ".weight") != 0 && strcmp(end, ".bias") != 0))
        return 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i][0]) == (size_t)(end - at) && strncmp(parts[i][0], at, (size_t)(end - at)) == 0)
            return snprintf(out, 2 * NAME_BYTES, "%.3s.%s%s%s", name, block, parts[i][1], end) > 0;
    return 0;
}

/* Reads a tensor's dims, the innermost first. A bias of a convolution has one more, of 1. */
static void take_dims(reader *r, clef_tensor_info *t, int32_t rank, uint64_t *n)
{
    *n = 1;
    t->rank = rank;
    for (int32_t i = 0; i < rank; i++) {
        const int32_t dim = take_int(r, "a tensor's dim", 1, INT32_MAX);
        t->dims[rank - 1 - i] = dim;
        if (r->status == CLEF_OK && *n > UINT64_MAX / 64 / (uint64_t)dim)
            r->status =
                clef__fail(r->err, CLEF_E_FORMAT, "%s: offset %zu: dims that overflow", r->name, r->at);
        else
            *n *= (uint64_t)dim;
    }
}

static void take_tensor(reader *r, clef_tensor_info *t, char **name)
{
    char stored[NAME_BYTES] = "", renamed[2 * NAME_BYTES];
    uint64_t n;
    const size_t at = r->at;
    const int32_t rank = take_int(r, "a tensor's rank", 1, 3),
                  n_name = take_int(r, "a tensor's name", 1, NAME_BYTES - 1),
                  type = take_int(r, "a tensor's type", 0, 255);
    take_dims(r, t, rank, &n);
    const unsigned char *text = take(r, (uint64_t)n_name, "a tensor's name");
    if (!text)
        return;
    memcpy(stored, text, (size_t)n_name);
    t->dtype = clef__dtype_of_ggml((uint32_t)type);
    if (!rename_tensor(stored, renamed))
        r->status = clef__fail(r->err, CLEF_E_FORMAT,
                               "%s: offset %zu: a tensor whose name is none of whisper.cpp's", r->name, at);
    else if (t->dtype == CLEF_N_DTYPES)
        r->status = clef__fail(r->err, CLEF_E_UNSUPPORTED,
                               "%s: tensor %s has ggml's type %" PRId32 ", which clef does not decode",
                               r->name, stored, type);
    else if (t->dims[t->rank - 1] % clef_dtype_block_elems(t->dtype) != 0)
        r->status =
            clef__fail(r->err, CLEF_E_FORMAT,
                       "%s: tensor %s has rows of %" PRId64 ", expected a multiple of %" PRId64 " for %s",
                       r->name, stored, t->dims[t->rank - 1], (int64_t)clef_dtype_block_elems(t->dtype),
                       clef_dtype_name(t->dtype));
    if (r->status != CLEF_OK)
        return;
    t->n_bytes = n / (uint64_t)clef_dtype_block_elems(t->dtype) * (uint64_t)clef_dtype_block_bytes(t->dtype);
    t->data = take(r, t->n_bytes, stored);
    *name = malloc(strlen(renamed) + 1);
    if (!*name) {
        r->status = clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory for a tensor's name", r->name);
        return;
    }
    t->name = strcpy(*name, renamed);
    if (t->rank == 2 && t->dims[1] == 1) {
        t->rank = 1;
        t->dims[1] = 0;
    }
}

static void take_tensors(reader *r, clef_gguf *g)
{
    size_t room = 0;
    while (r->status == CLEF_OK && r->at < r->n) {
        if (g->n_tensors == room) {
            room = 2 * room + 64;
            clef_tensor_info *tensors = realloc(g->tensors, room * sizeof *tensors);
            g->tensors = tensors ? tensors : g->tensors;
            char **names = realloc(g->tensor_names, room * sizeof *names);
            g->tensor_names = names ? names : g->tensor_names;
            if (!tensors || !names) {
                r->status = clef__fail(r->err, CLEF_E_NOMEM, "%s: no memory for its tensors", r->name);
                return;
            }
        }
        g->tensors[g->n_tensors] = (clef_tensor_info){0};
        g->tensor_names[g->n_tensors] = NULL;
        g->n_tensors++; /* counted first, so that close() frees a partly read one */
        take_tensor(r, &g->tensors[g->n_tensors - 1], &g->tensor_names[g->n_tensors - 1]);
    }
}

/* Whether the head is one of Whisper's: llama.cpp's oldest files have the same magic. */
static int is_whisper(const reader *r)
{
    enum { INTS = 11 };
    reader head = *r;
    int32_t x[INTS] = {0};
    head.err = NULL;
    head.at = sizeof magic;
    for (int i = 0; i < INTS; i++)
        x[i] = take_int(&head, "a number", 0, INT32_MAX);
    return head.status == CLEF_OK && x[2] == x[6] && x[3] == x[7] && (x[9] == 80 || x[9] == 128);
}

static clef_status not_whisper(const reader *r)
{
    const clef_status s = clef__foreign(r->data, r->n, r->name, "a GGUF file, or one of whisper.cpp", r->err);
    return s ? s : clef__fail(r->err, CLEF_E_FORMAT, "%s: is not a file of whisper.cpp", r->name);
}

clef_status clef__ggml_parse(const void *data, size_t n_bytes, const char *name, clef_gguf *out,
                             clef_error *err)
{
    reader r = {.data = data, .n = n_bytes, .name = name, .err = err};
    clef__ggml_head head = {0};
    clef_gguf file = {0};
    *out = (clef_gguf){0};
    if (!clef__is_ggml(data, n_bytes) || !is_whisper(&r))
        return not_whisper(&r);
    take_head(&r, &head);
    take_filters(&r, &head);
    take_tokens(&r, &head);
    take_tensors(&r, &file);
    clef_status s = r.status;
    if (s == CLEF_OK)
        s = clef__ggml_keys(&head, &file, name, out, err);
    free(head.tokens);
    if (s != CLEF_OK) {
        clef__gguf_close(&file);
        return s;
    }
    free(out->tensors);
    free(out->tensor_names);
    out->tensors = file.tensors;
    out->tensor_names = file.tensor_names;
    out->n_tensors = file.n_tensors;
    return CLEF_OK;
}
