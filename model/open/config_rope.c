/* RoPE's parameters in a config.json (transformers' modeling_rope_utils.py names and defaults). */
#include <math.h>
#include <stdio.h>
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
    {"mrope", CLEF_ROPE_DEFAULT},
};

/* What is outside of the object with the parameters, or is the class's default. */
typedef struct rope_defaults {
    double theta, partial; /* 0: none; partial 0: the class rotates whole heads */
    int32_t original;      /* replaces what the object says; 0: none */
    int is_nested;         /* the object is that of one type of layer */
} rope_defaults;

static void set_type(clef_json_fields *f, const char *type, const char *arch, clef_rope_params *r)
{
    if (f->status != CLEF_OK)
        return;
    size_t i = 0;
    while (i < sizeof types / sizeof *types && strcmp(type, types[i].name) != 0)
        i++;
    const int is_su = strcmp(type, "su") == 0,    /* the name in the first files of Phi-3 */
        is_of_parts = strcmp(type, "mrope") == 0; /* in those of Qwen2-VL */
    if (i < sizeof types / sizeof *types && (!is_su || strcmp(arch, "phi3") == 0) &&
        (!is_of_parts || (strncmp(arch, "qwen2_", 6) == 0 && strstr(arch, "_vl"))))
        r->type = types[i].type;
    else
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                               "%s: %s.rope_type %.40s is not supported, known are: default linear dynamic "
                               "llama3 yarn longrope proportional",
                               f->file, f->within, type);
}

/* rope_type, or `type` before transformers 4.43. */
static void read_type(clef_json_fields *f, const char *arch, clef_rope_params *r)
{
    const char *key = clef__json_get(f, "rope_type") ? "rope_type" : "type";
    const char *type = clef__json_string(f, key, clef__json_get(f, key) ? NULL : "default");
    if (!type && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s.%s is null, expected a string", f->file,
                               f->within, key);
    set_type(f, type, arch, r);
}

/* Reads the fields of a type of scaling. n_context: max_position_embeddings. */
static void read_scaling(clef_json_fields *f, clef_rope_params *r, const rope_defaults *d, int32_t n_context)
{
    const double most = 1e6, least = 1e-6;
    r->original_context = d->original ? d->original
                                      : (int32_t)clef__json_int(f, "original_max_position_embeddings", 1,
                                                                CLEF_MAX_CONTEXT, n_context);
    const double implied = (double)n_context / r->original_context;
    switch (r->type) {
    case CLEF_ROPE_LLAMA3:
        r->low_freq_factor = clef__json_need_double(f, "low_freq_factor", least, most);
        r->high_freq_factor = clef__json_need_double(f, "high_freq_factor", least, most);
        break;
    case CLEF_ROPE_YARN:
        r->beta_fast = clef__json_double(f, "beta_fast", least, most, 32);
        r->beta_slow = clef__json_double(f, "beta_slow", least, most, 1);
        r->mscale = clef__json_double(f, "mscale", 0, most, 0);
        r->mscale_all_dim = clef__json_double(f, "mscale_all_dim", 0, most, 0);
        r->truncate = clef__json_bool(f, "truncate", 1) || d->is_nested; /* read from the outer object */
        break;
    case CLEF_ROPE_DYNAMIC:
        r->original_context = n_context;
        break;
    default:
        break;
    }
    if (r->type == CLEF_ROPE_YARN || r->type == CLEF_ROPE_LONGROPE)
        r->attention_factor = clef__json_double(f, "attention_factor", least, most, 0);
    if (r->type == CLEF_ROPE_LONGROPE || (r->type == CLEF_ROPE_YARN && clef__json_get(f, "factor")))
        r->factor = clef__json_double(f, "factor", 1, most, implied);
    else if (r->type == CLEF_ROPE_PROPORTIONAL)
        r->factor = clef__json_double(f, "factor", 1, most, 1);
    else if (r->type != CLEF_ROPE_DEFAULT)
        r->factor = clef__json_need_double(f, "factor", 1, most);
}

/* The part of each head that is rotated. */
static double read_partial(clef_json_fields *f, const rope_defaults *d, clef_rope_type type)
{
    const double x = clef__json_double(f, "partial_rotary_factor", 0, 1, d->partial > 0 ? d->partial : 1);
    if (x != 1 && d->partial == 0 && type != CLEF_ROPE_PROPORTIONAL && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_UNSUPPORTED,
                               "%s: partial_rotary_factor %g: expected 1: this architecture rotates whole "
                               "heads",
                               f->file, x);
    return x;
}

/* Reads the object's parameters into r. */
static void read_params(clef_json_fields *f, const json_t *object, const char *within, const clef_hparams *hp,
                        const rope_defaults *d, clef_rope_params *r)
{
    clef_json_fields inner = {.object = object,
                              .file = f->file,
                              .within = within,
                              .seen = json_object(),
                              .err = f->err,
                              .status = f->status};
    if (f->status == CLEF_OK && (!object || !inner.seen))
        f->status = clef__fail(f->err, CLEF_E_NOMEM, "%s: no memory to read it", f->file);
    if (f->status != CLEF_OK) {
        json_decref(inner.seen);
        return;
    }
    *r = (clef_rope_params){.pairing = hp->rope.pairing};
    if (clef__json_get(&inner, "rope_theta") || d->theta == 0)
        r->theta = clef__json_need_double(&inner, "rope_theta", 1, 1e12);
    else
        r->theta = d->theta;
    read_type(&inner, hp->arch, r);
    read_scaling(&inner, r, d, hp->n_context);
    const double partial = read_partial(&inner, d, r->type);
    r->dims = (int32_t)(hp->head_dim * partial);
    if (r->type == CLEF_ROPE_PROPORTIONAL) {
        r->n_rotated_pairs = (int32_t)(partial * hp->head_dim / 2);
        r->dims = hp->head_dim;
    }
    clef__json_check_nulls(&inner);
    json_decref(inner.seen);
    f->status = inner.status;
}

const json_t *clef__rope_object(const json_t *config, const char **name)
{
    const json_t *scaling = json_object_get(config, "rope_scaling");
    const int is_old = json_object_size(scaling) > 0;
    *name = is_old ? "rope_scaling" : "rope_parameters";
    return is_old ? scaling : json_object_get(config, "rope_parameters");
}

/* The object with RoPE's parameters; NULL: there is none. */
static const json_t *find_object(clef_json_fields *f, const char **name)
{
    static const char *const both[] = {"rope_scaling", "rope_parameters"};
    for (int i = 0; i < 2; i++) {
        const json_t *object = clef__json_get(f, both[i]);
        if (object && !json_is_null(object) && !json_is_object(object) && f->status == CLEF_OK)
            f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s is %s, expected an object", f->file,
                                   both[i], clef__json_kind(object));
    }
    const json_t *object = clef__rope_object(f->object, name);
    return json_is_object(object) ? object : NULL;
}

/* A base of the frequencies; null is refused as there is no default for it. */
static double read_theta(clef_json_fields *f, const char *key, double missing)
{
    return key && clef__json_get(f, key) ? clef__json_need_double(f, key, 1, 1e12) : missing;
}

static void read_rope(clef_json_fields *f, clef_hparams *hp, const char *theta_key, double theta,
                      const char *partial_key, double partial)
{
    const char *name;
    const json_t *object = find_object(f, &name);
    json_t *empty = json_object();
    rope_defaults d = {.theta = read_theta(f, theta_key, theta), .partial = partial};
    const double outside = clef__json_double(f, partial_key, 0, 1, partial > 0 ? partial : 1);
    if (partial > 0)
        d.partial = outside;
    else if (outside != 1)
        clef__json_refuse(f, "partial_rotary_factor other than 1 is not supported: this architecture rotates "
                             "whole heads");
    if (partial > 0 && outside == 0)
        clef__json_refuse(f, "partial_rotary_factor 0 is not supported");
    d.original = (int32_t)clef__json_int(f, "original_max_position_embeddings", 1, CLEF_MAX_CONTEXT,
                                         strcmp(hp->arch, "phi3") == 0 ? 4096 : 0);
    if (json_object_get(object, "full_attention") || json_object_get(object, "sliding_attention"))
        clef__json_refuse(f, "parameters of RoPE for each type of layer are not supported for this "
                             "architecture");
    read_params(f, object ? object : empty, name, hp, &d, &hp->rope);
    json_decref(empty);
}

void clef__json_rope(clef_json_fields *f, clef_hparams *hp, double theta)
{
    read_rope(f, hp, "rope_theta", theta, "partial_rotary_factor", 0);
}

void clef__json_partial_rope(clef_json_fields *f, clef_hparams *hp, double theta, double partial)
{
    read_rope(f, hp, "rope_theta", theta, "partial_rotary_factor", partial);
}

void clef__json_neox_rope(clef_json_fields *f, clef_hparams *hp, double theta, double partial)
{
    read_rope(f, hp, "rotary_emb_base", theta, "rotary_pct", partial);
}

/* The parameters of one type of layer: those of rope_parameters, with those of rope_scaling over them. */
static void read_layer_rope(clef_json_fields *f, clef_hparams *hp, const char *type, const json_t *over,
                            const rope_defaults *d, clef_rope_params *r)
{
    char within[64];
    const json_t *stored = json_object_get(clef__json_get(f, "rope_parameters"), type);
    json_t *own = stored && json_is_object(stored) ? json_copy((json_t *)(uintptr_t)stored) : json_object();
    snprintf(within, sizeof within, "rope_parameters.%s", type);
    if (stored && !json_is_null(stored) && !json_is_object(stored) && f->status == CLEF_OK)
        f->status = clef__fail(f->err, CLEF_E_FORMAT, "%s: %s is %s, expected an object", f->file, within,
                               clef__json_kind(stored));
    if (over && json_object_get(over, "type") && !json_object_get(over, "rope_type"))
        clef__json_refuse(f, "rope_scaling.type: expected rope_type: this architecture reads no other name");
    if (over && own)
        json_object_update(own, (json_t *)(uintptr_t)over);
    read_params(f, own, within, hp, d, r);
    if (r->type == CLEF_ROPE_LONGROPE)
        clef__json_refuse(f, "longrope for one type of layer is not supported");
    json_decref(own);
}

/* Refuses what is not an object, and parameters that are not for a type of layer. */
static void check_layer_ropes(clef_json_fields *f, const clef_layer_ropes *keys, const json_t *parameters)
{
    const json_t *full = json_object_get(parameters, "full_attention"),
                 *sliding = json_object_get(parameters, "sliding_attention");
    const char *name;
    find_object(f, &name);
    if (json_object_size(parameters) > 0 && !full && !sliding)
        clef__json_refuse(f, "rope_parameters: expected full_attention and sliding_attention");
    if (keys->needs_both && (!json_is_object(full) || !json_is_object(sliding)))
        clef__json_refuse(f, "rope_parameters: expected full_attention and sliding_attention");
    if (keys->partial == 0 && clef__json_double(f, "partial_rotary_factor", 0, 1, 1) != 1)
        clef__json_refuse(f, "partial_rotary_factor other than 1 is not supported");
}

void clef__json_layer_ropes(clef_json_fields *f, clef_hparams *hp, const clef_layer_ropes *keys)
{
    const json_t *parameters = clef__json_get(f, "rope_parameters"),
                 *scaling = clef__json_get(f, "rope_scaling");
    const rope_defaults full = {.theta = read_theta(f, keys->full_key, keys->full_theta),
                                .partial = keys->partial,
                                .is_nested = 1},
                        sliding = {.theta = read_theta(f, keys->sliding_key, keys->sliding_theta),
                                   .partial = keys->partial,
                                   .is_nested = 1};
    const int32_t head_dim = hp->head_dim;
    check_layer_ropes(f, keys, parameters);
    scaling = json_is_object(scaling) ? scaling : NULL;
    hp->head_dim = keys->full_head_dim ? keys->full_head_dim : head_dim;
    read_layer_rope(f, hp, "full_attention", scaling, &full, &hp->rope);
    hp->head_dim = head_dim;
    read_layer_rope(f, hp, "sliding_attention", keys->scale_both ? scaling : NULL, &sliding,
                    &hp->rope_sliding);
}

void clef__rope_raise_context(clef_hparams *hp)
{
    const clef_rope_params *r = &hp->rope;
    if (r->dims == 0 || hp->rope_sliding.dims > 0 ||
        (r->type != CLEF_ROPE_LINEAR && r->type != CLEF_ROPE_DYNAMIC && r->type != CLEF_ROPE_YARN))
        return;
    const double from = r->type == CLEF_ROPE_YARN ? r->original_context : hp->n_context,
                 to = floor(from * r->factor);
    if (to > hp->n_context)
        hp->n_context = to < CLEF_MAX_CONTEXT ? (int32_t)to : CLEF_MAX_CONTEXT;
}
