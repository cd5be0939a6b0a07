/* Reads what a configuration says of pictures. */
#include "model/sight/sight.h"

#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"

/* Families that clef reads pictures for, with the defaults of their classes in transformers. */
static const struct {
    const char *family;
    int32_t token;
    clef__sight_view view;
    int32_t sections[3], alternates; /* of an absent mrope_section; the first one -1: it is required */
} families[] = {
    {"llava", 32000, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"llava_next", 32000, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"gemma3", 262144, CLEF__SIGHT_PICTURE, {0}, 0},
    {"paligemma", 256000, CLEF__SIGHT_PROMPT, {0}, 0},
    {"idefics3", 128257, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"smolvlm", 128257, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"internvl", 151667, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"mistral3", 10, CLEF__SIGHT_CAUSAL, {0}, 0},
    {"qwen2_vl", 151655, CLEF__SIGHT_CAUSAL, {-1}, 0},
    {"qwen2_5_vl", 151655, CLEF__SIGHT_CAUSAL, {-1}, 0},
    {"qwen3_vl", 151655, CLEF__SIGHT_CAUSAL, {24, 20, 20}, 1},
    {"qwen3_vl_moe", 151655, CLEF__SIGHT_CAUSAL, {24, 20, 20}, 1},
    {"qwen3_5", 248056, CLEF__SIGHT_CAUSAL, {11, 11, 10}, 1},
    {"qwen3_5_moe", 248056, CLEF__SIGHT_CAUSAL, {11, 11, 10}, 1},
};

/* What is read. */
typedef struct reading {
    const json_t *outer, *inner;
    const clef_hparams *hp;
    const char *path;
    clef__sight *sight;
} reading;

static clef_status wrong(const reading *r, const char *what, clef_error *err)
{
    return clef__fail(err, CLEF_E_FORMAT, "%s/config.json: %s", r->path, what);
}

/* mrope_section: three numbers, which add up to the pairs that are rotated. */
static clef_status read_sections(const reading *r, clef_error *err)
{
    clef__sight *s = r->sight;
    const json_t *rope = json_object_get(r->inner, "rope_parameters");
    const json_t *list =
        json_object_get(rope ? rope : json_object_get(r->inner, "rope_scaling"), "mrope_section");
    int64_t sum = 0;
    if (s->sections[0] == 0)
        return CLEF_OK;
    if (json_is_array(list) && json_array_size(list) == 3)
        for (size_t i = 0; i < 3; i++)
            s->sections[i] = (int32_t)json_integer_value(json_array_get(list, i));
    else if (list || s->sections[0] < 0)
        return wrong(r, "mrope_section: expected three numbers", err);
    for (size_t i = 0; i < 3; i++)
        sum = s->sections[i] < 0 || sum < 0 ? -1 : sum + s->sections[i];
    return sum == r->hp->rope.dims / 2
               ? CLEF_OK
               : wrong(r, "mrope_section: expected numbers that add up to half of the rotated dims", err);
}

static clef_status read_token(const reading *r, clef_error *err)
{
    static const char *const keys[] = {"image_token_id", "image_token_index"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *id = json_object_get(r->outer, keys[i]);
        if (id && (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX))
            return wrong(r, "image_token_id: expected the id of a token", err);
        if (id)
            r->sight->token = (int32_t)json_integer_value(id);
    }
    return CLEF_OK;
}

clef_status clef__sight_read(const json_t *outer, const json_t *inner, const clef_hparams *hp,
                             const char *path, clef__sight **out, clef_error *err)
{
    const char *family = json_string_value(json_object_get(outer, "model_type"));
    const json_t *tower = json_object_get(outer, "vision_config"),
                 *deep = json_object_get(tower, "deepstack_visual_indexes");
    size_t i = 0;
    while (i < sizeof families / sizeof *families && (!family || strcmp(family, families[i].family) != 0))
        i++;
    if (i == sizeof families / sizeof *families || !json_is_object(tower))
        return CLEF_OK;
    clef__sight *s = *out = calloc(1, sizeof *s);
    const reading r = {outer, inner, hp, path, s};
    if (!s)
        return clef__fail(err, CLEF_E_NOMEM, "%s: no memory to open it", path);
    *s = (clef__sight){.family = families[i].family,
                       .token = families[i].token,
                       .view = families[i].view,
                       .alternates = families[i].alternates,
                       .n_deep = (int32_t)json_array_size(deep)};
    if (strncmp(family, "qwen3_vl", 8) == 0 && !deep)
        s->n_deep = 3;
    if (s->n_deep > hp->n_layers)
        return wrong(&r, "deepstack_visual_indexes: expected at most one for each layer", err);
    memcpy(s->sections, families[i].sections, sizeof s->sections);
    const clef_status status = read_token(&r, err);
    return status ? status : read_sections(&r, err);
}
