/* The sampling options that a model's files recommend. */
#include <math.h>
#include <string.h>

#include "model/open/model.h"

/* A name of clef_sampler_opts, those of generation_config.json and of GGUF, and the range. */
static const struct {
    const char *name, *json, *gguf;
    double lo, hi;
} options[CLEF_N_SAMPLING] = {
    {"temperature", "temperature", "general.sampling.temp", 0, 100},
    {"top_k", "top_k", "general.sampling.top_k", 0, INT32_MAX},
    {"top_p", "top_p", "general.sampling.top_p", 0, 1},
    {"min_p", "min_p", "general.sampling.min_p", 0, 1},
    {"typical", "typical_p", "general.sampling.typical_p", 0, 1},
    {"repeat_penalty", "repetition_penalty", "general.sampling.penalty_repeat", 0, 100},
};

static void keep(clef_model *m, int i, double value)
{
    if (value >= options[i].lo && value <= options[i].hi) { /* not NaN */
        m->has_sampling |= 1u << i;
        m->sampling[i] = value;
    }
}

void clef__sampling_from_json(clef_model *m, const json_t *generation)
{
    if (json_is_false(json_object_get(generation, "do_sample")))
        return;
    for (int i = 0; i < CLEF_N_SAMPLING; i++) {
        const json_t *value = json_object_get(generation, options[i].json);
        if (json_is_number(value))
            keep(m, i, json_number_value(value));
    }
}

void clef__sampling_from_gguf(clef_model *m)
{
    for (int i = 0; i < CLEF_N_SAMPLING; i++)
        keep(m, i, clef__gguf_float(&m->gguf, options[i].gguf, (double)NAN));
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
