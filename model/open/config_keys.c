/* Hyperparameters that GGUF's standard keys cannot express for every family, under clef's own keys
 * ("clef.activation"). They are written into every converted file, and read after all others. Readers that do
 * not know them use their knowledge of the family. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "model/open/arch.h"
#include "model/open/config_keys.h"

typedef enum number { INT, FLOAT, DOUBLE } number;

typedef struct own_key {
    const char *name;
    number type;
    size_t offset;
    double min, max;
} own_key;

static const double most = 1e12;

#define AT(field) offsetof(clef_hparams, field)
#define ROPE_AT(field) offsetof(clef_rope_params, field)

static const own_key keys[] = {
    {"activation", INT, AT(activation), CLEF_SILU, CLEF_RELU},
    {"parallel_residual", INT, AT(parallel_residual), 0, 1},
    {"tied_embeddings", INT, AT(tied_embeddings), 0, 1},
    {"d_embed", INT, AT(d_embed), 0, CLEF_MAX_WIDTH},
    {"position_offset", INT, AT(position_offset), 0, CLEF_MAX_CONTEXT},
    {"n_token_types", INT, AT(n_token_types), 0, CLEF_MAX_WIDTH},
    {"n_decoder_layers", INT, AT(n_decoder_layers), 0, CLEF_MAX_LAYERS},
    {"n_buckets", INT, AT(n_buckets), 0, CLEF_MAX_WIDTH},
    {"max_distance", INT, AT(max_distance), 0, CLEF_MAX_CONTEXT},
    {"gated", INT, AT(gated), 0, 1},
    {"decoder_start", INT, AT(decoder_start), -1, CLEF_MAX_VOCAB},
    {"pad", INT, AT(pad), -1, CLEF_MAX_VOCAB},
    {"sliding_window", INT, AT(sliding_window), 0, CLEF_MAX_CONTEXT},
    {"router", INT, AT(router), CLEF_ROUTER_ALL, CLEF_ROUTER_CHOSEN},
    {"d_ff_shared", INT, AT(d_ff_shared), 0, CLEF_MAX_WIDTH},
    {"full_head_dim", INT, AT(full_head_dim), 0, CLEF_MAX_HEAD_DIM},
    {"full_n_kv_heads", INT, AT(full_n_kv_heads), 0, CLEF_MAX_HEADS},
    {"head_dim", INT, AT(head_dim), 1, CLEF_MAX_HEAD_DIM},
    {"n_kv_heads", INT, AT(n_kv_heads), 1, CLEF_MAX_HEADS},
    {"double_shared_ff", INT, AT(double_shared_ff), 0, 1},
    {"norm_eps", FLOAT, AT(norm_eps), 0, 1},
    {"embed_scale", FLOAT, AT(embed_scale), 0, most},
    {"residual_scale", FLOAT, AT(residual_scale), 0, most},
    {"logit_scale", FLOAT, AT(logit_scale), 0, most},
    {"attention_scale", FLOAT, AT(attention_scale), 0, most},
    {"attention_softcap", FLOAT, AT(attention_softcap), 0, most},
    {"logit_softcap", FLOAT, AT(logit_softcap), 0, most},
    {"expert_scale", FLOAT, AT(expert_scale), 0, most},
    {"glu_alpha", FLOAT, AT(glu_alpha), 0, most},
    {"glu_limit", FLOAT, AT(glu_limit), 0, most},
    {NULL, INT, 0, 0, 0},
};

static const own_key rope_keys[] = {
    {"dims", INT, ROPE_AT(dims), 0, CLEF_MAX_HEAD_DIM},
    {"turning", INT, ROPE_AT(n_rotated_pairs), 0, CLEF_MAX_HEAD_DIM},
    {"type", INT, ROPE_AT(type), CLEF_ROPE_DEFAULT, CLEF_ROPE_PROPORTIONAL},
    {"theta", DOUBLE, ROPE_AT(theta), 0, most},
    {"factor", DOUBLE, ROPE_AT(factor), 0, most},
    {"low_freq_factor", DOUBLE, ROPE_AT(low_freq_factor), 0, most},
    {"high_freq_factor", DOUBLE, ROPE_AT(high_freq_factor), 0, most},
    {"beta_fast", DOUBLE, ROPE_AT(beta_fast), 0, most},
    {"beta_slow", DOUBLE, ROPE_AT(beta_slow), 0, most},
    {"mscale", DOUBLE, ROPE_AT(mscale), 0, most},
    {"mscale_all_dim", DOUBLE, ROPE_AT(mscale_all_dim), 0, most},
    {"truncate", INT, ROPE_AT(truncate), 0, 1},
    {"attention_factor", DOUBLE, ROPE_AT(attention_factor), 0, most},
    {"original_context", INT, ROPE_AT(original_context), 0, CLEF_MAX_CONTEXT},
    {NULL, INT, 0, 0, 0},
};

/* ---- writing --------------------------------------------------------------------------------- */

static void put_keys(clef_gguf_writer *w, const own_key *list, const char *prefix, const void *from)
{
    for (const own_key *k = list; k->name; k++) {
        const char *at = (const char *)from + k->offset;
        char name[64];
        snprintf(name, sizeof name, "clef.%s%s", prefix, k->name);
        if (k->type == INT)
            clef__gguf_put_i32(w, name, *(const int32_t *)(const void *)at);
        else if (k->type == FLOAT)
            clef__gguf_put_f32(w, name, *(const float *)(const void *)at);
        else
            clef__gguf_put_f64(w, name, *(const double *)(const void *)at);
    }
}

static void put_layers(clef_gguf_writer *w, const char *name, const uint32_t *bits, int32_t n_layers)
{
    clef__gguf_put_array(w, name, CLEF_GGUF_I32, (uint64_t)n_layers);
    for (int32_t i = 0; i < n_layers; i++)
        clef__gguf_add_i32(w, (int32_t)(bits[i / 32] >> (i % 32) & 1));
}

void clef__config_put_keys(clef_gguf_writer *w, const clef_hparams *hp)
{
    put_keys(w, keys, "", hp);
    put_keys(w, rope_keys, "rope.", &hp->rope);
    put_keys(w, rope_keys, "rope_sliding.", &hp->rope_sliding);
    if (hp->sliding_window > 0)
        put_layers(w, "clef.sliding_layers", hp->sliding_layers, hp->n_layers);
    put_layers(w, "clef.no_rope_layers", hp->no_rope_layers, hp->n_layers);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void get_keys(clef_gguf_keys *from, const own_key *list, const char *prefix, void *to)
{
    for (const own_key *k = list; k->name; k++) {
        char *at = (char *)to + k->offset, name[64];
        snprintf(name, sizeof name, "%s%s", prefix, k->name);
        if (!clef__key_has(from, name))
            continue;
        if (k->type == INT)
            *(int32_t *)(void *)at = clef__key_int(from, name, (int32_t)k->min, (int32_t)k->max, 0);
        else if (k->type == FLOAT)
            *(float *)(void *)at = (float)clef__key_float(from, name, k->min, k->max, 0);
        else
            *(double *)(void *)at = clef__key_float(from, name, k->min, k->max, 0);
    }
}

void clef__config_get_keys(clef_gguf_keys *k, clef_hparams *hp)
{
    clef_gguf_keys own = *k;
    own.arch = "clef";
    get_keys(&own, keys, "", hp);
    get_keys(&own, rope_keys, "rope.", &hp->rope);
    get_keys(&own, rope_keys, "rope_sliding.", &hp->rope_sliding);
    if (hp->rope_sliding.dims > 0)
        hp->rope_sliding.pairing = hp->rope.pairing;
    clef__key_layers(&own, "sliding_layers", hp->n_layers, hp->sliding_layers);
    clef__key_layers(&own, "no_rope_layers", hp->n_layers, hp->no_rope_layers);
    k->status = own.status;
}
