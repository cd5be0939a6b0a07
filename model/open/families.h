/* How models of each family are started anew: what transformers' classes have and how they begin. */
#ifndef CLEF_MODEL_OPEN_FAMILIES_H
#define CLEF_MODEL_OPEN_FAMILIES_H

#include "model/open/arch.h"

typedef struct clef__new_family {
    const char *model_type, *architecture; /* "gpt2", "GPT2LMHeadModel" */
    const char *range_key;                 /* of the standard deviation in config.json, and its default */
    double      range;
    /* the padding token's row of the embedding begins as zeros: its id if the configuration has none, -1: no
     * id, -2: no row is zero */
    int32_t     pad;
    /** 1 when the model has a weight that the graph's builder can do without. */
    int (*has)(const json_t *config, clef_role role, const char *suffix);
    /** The standard deviation of a matrix. NULL: `range` for all. */
    double (*deviation)(const clef_hparams *hp, clef_role role, double range);
} clef__new_family;

/** NULL if models of that type cannot be started. */
const clef__new_family *clef__new_family_find(const char *model_type);

#endif
