/* RoPE's parameters in a config.json (transformers' modeling_rope_utils.py names and defaults). */
#include <math.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/config.h"

static const struct {
    const char *name;
    clef_rope_type type;
} types[] = {
    {"default", CLEF_ROPE_DEFAULT}, {"linear", CLEF_ROPE_LINEAR},
    {"dynamic", CLEF_ROPE_DYNAMIC}, {"llama3", CLEF_ROPE_LLAMA3},
    {"yarn", CLEF_ROPE_YARN},       {"longrope", CLEF_ROPE_LONGROPE},
    {"su", CLEF_ROPE_LONGROPE},     {"proportional", CLEF_ROPE_PROPORTIONAL},
};

static void read_type(clef_json_fields *f, clef_rope_params *r)
{
    const char *type = clef__json_string(f, "rope_type", clef__json_string(f, "type", "default"));
    if (f->status != CLEF_OK)
        return;
    size_t i = 0;
    while (i < sizeof types / sizeof *types && strcmp(type, types[i].name) != 0)
        i++;
    if (i < sizeof types / sizeof *types)
        r->type = types[i].type;
    else
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                               "%s: %s.rope_type %.40s is not supported, known are: default linear dynamic "
                               "llama3 yarn longrope proportional",
                               f->file, f->within, type);
}

/* Reads the fields of a type of scaling. The original context length is among them, or (longrope) next to
 * rope_scaling. */
static void read_scaling(clef_json_fields *f, clef_rope_params *r, int32_t original, int32_t n_context)
{
    const double most = 1e6;
    r->original_context = (int32_t)clef__json_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT,
                                                  original ? original : n_context);
    switch (r->type) {
    case CLEF_ROPE_LLAMA3:
        r->low_freq_factor = clef__json_need_double(f, "low_freq_factor", 1e-6, most);
        r->high_freq_factor = clef__json_need_double(f, "high_freq_factor", 1e-6, most);
        clef__json_need_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT);
        break;
    case CLEF_ROPE_YARN:
        r->beta_fast = clef__json_double(f, "beta_fast", 1e-6, most, 32);
        r->beta_slow = clef__json_double(f, "beta_slow", 1e-6, most, 1);
        r->mscale = clef__json_double(f, "mscale", 0, most, 0);
        r->mscale_all_dim = clef__json_double(f, "mscale_all_dim", 0, most, 0);
        r->truncate = clef__json_bool(f, "truncate", 1);
        break;
    default:
        break;
    }
    r->attention_factor = clef__json_double(f, "attention_factor", 0, most, 0);
    if (r->type == CLEF_ROPE_LONGROPE || r->type == CLEF_ROPE_PROPORTIONAL)
        r->factor =
            clef__json_double(f, "factor", 1, most,
                              r->type == CLEF_ROPE_LONGROPE ? (double)n_context / r->original_context : 1);
    else if (r->type != CLEF_ROPE_DEFAULT)
        r->factor = clef__json_need_double(f, "factor", 1, most);
}

/* Reads the object's parameters into r. theta and partial: the defaults. */
static void read_params(clef_json_fields *f, const json_t *object, const char *within, const clef_hparams *hp,
                        double theta, double partial, clef_rope_params *r)
{
    const int32_t original =
        (int32_t)clef__json_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT, 0);
    clef_json_fields inner = {
        .object = object, .file = f->file, .within = within, .err = f->err, .status = f->status};
    if (f->status != CLEF_OK)
        return;
    if (!json_is_object(object)) {
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s is %s, expected an object", f->file, within,
                               clef__json_kind(object));
        return;
    }
    *r = (clef_rope_params){.pairing = hp->rope.pairing};
    r->theta = clef__json_double(&inner, "rope_theta", 1, 1e12, theta);
    partial = clef__json_double(&inner, "partial_rotary_factor", 0, 1, partial);
    read_type(&inner, r);
    read_scaling(&inner, r, original, hp->n_context);
    r->dims = (int32_t)(hp->head_dim * partial);
    if (r->type == CLEF_ROPE_PROPORTIONAL) {
        r->n_rotated_pairs = (int32_t)(partial * hp->head_dim / 2);
        r->dims = hp->head_dim;
    }
    f->status = inner.status;
}

void clef__json_rope(clef_json_fields *f, clef_hparams *hp, double theta, double partial)
{
    const char *within = clef__json_has(f, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const json_t *object = json_object_get(f->object, within),
                 *full = json_object_get(object, "full_attention");
    theta = clef__json_double(f, "rope_theta", 1, 1e12, theta);
    partial = clef__json_double(f, "partial_rotary_factor", 0, 1, partial);
    if (f->status != CLEF_OK)
        return;
    if (!clef__json_has(f, within)) {
        hp->rope = (clef_rope_params){
            .dims = (int32_t)(hp->head_dim * partial), .pairing = hp->rope.pairing, .theta = theta};
        return;
    }
    if (full && !json_is_null(full)) { /* each type of layer has its own */
        read_params(f, full, "rope_parameters.full_attention", hp, theta, partial, &hp->rope);
        if (json_object_get(object, "sliding_attention"))
            read_params(f, json_object_get(object, "sliding_attention"), "rope_parameters.sliding_attention",
                        hp, theta, partial, &hp->rope_sliding);
        return;
    }
    read_params(f, object, within, hp, theta, partial, &hp->rope);
}
