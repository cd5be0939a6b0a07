/* The sampling options that a model's files recommend. */
#include <math.h>
#include <string.h>

#include "model/open/model.h"

/* A name of clef_sampler_opts or clef_beam_opts, those of generation_config.json and of GGUF (NULL: none),
 * and the range. */
static const struct {
    const char *name, *json, *gguf;
    double lo, hi;
    int32_t draws; /* 1: nothing without do_sample */
} options[CLEF_N_SAMPLING] = {
    {"temperature", "temperature", "general.sampling.temp", 0, 100, 1},
    {"top_k", "top_k", "general.sampling.top_k", 0, INT32_MAX, 1},
    {"top_p", "top_p", "general.sampling.top_p", 0, 1, 1},
    {"min_p", "min_p", "general.sampling.min_p", 0, 1, 1},
    {"typical", "typical_p", "general.sampling.typical_p", 0, 1, 1},
    {"repeat_penalty", "repetition_penalty", "general.sampling.penalty_repeat", 0, 100, 0},
    {"length_penalty", "length_penalty", NULL, -100, 100, 0},
    {"early_stopping", "early_stopping", NULL, 0, 2, 0},
    {"repeat_last_n", NULL, "general.sampling.penalty_last_n", 1, INT32_MAX, 0},
};

static void keep(clef_model *m, int i, double value)
{
    if (value >= options[i].lo && value <= options[i].hi) { /* not NaN */
        m->has_sampling |= 1u << i;
        m->sampling[i] = value;
    }
}

/* early_stopping is false, true or "never". */
static double number_of(const json_t *value)
{
    const char *text = json_string_value(value);
    return json_is_number(value)                ? json_number_value(value)
           : json_is_boolean(value)             ? json_is_true(value)
           : text && strcmp(text, "never") == 0 ? 2
                                                : (double)NAN;
}

void clef__sampling_from_json(clef_model *m)
{
    const int draws = !json_is_false(json_object_get(m->generation, "do_sample"));
    for (int i = 0; i < CLEF_N_SAMPLING; i++)
        if (options[i].json && (draws || !options[i].draws))
            keep(m, i, number_of(json_object_get(m->generation, options[i].json)));
    if (json_is_number(json_object_get(m->generation, "repetition_penalty")))
        keep(m, CLEF_N_SAMPLING - 1, INT32_MAX); /* repeat_last_n: the whole text */
}

void clef__sampling_from_gguf(clef_model *m)
{
    for (int i = 0; i < CLEF_N_SAMPLING; i++)
        if (options[i].gguf)
            keep(m, i, clef__gguf_float(&m->gguf, options[i].gguf, (double)NAN));
}

const char *clef_model_samplers(const clef_model *m)
{
    static const char transformers[] = "penalties,dry,top_n_sigma,temperature,top_k,top_p,min_p,typical,xtc";
    uint32_t cuts = 0;
    for (int i = 0; i < CLEF_N_SAMPLING; i++)
        cuts |= options[i].draws ? m->has_sampling >> i & 1 : 0;
    return m->generation && cuts ? transformers : NULL;
}

const char *clef_model_generation(const clef_model *m, int32_t applied)
{
    return applied ? m->rules.applied : m->rules.ignored;
}

int32_t clef_model_sampling(const clef_model *m, const char *option, double *value)
{
    for (int i = 0; i < CLEF_N_SAMPLING; i++)
        if (m->has_sampling >> i & 1 && strcmp(options[i].name, option) == 0) {
            *value = m->sampling[i];
            return 1;
        }
    return 0;
}
