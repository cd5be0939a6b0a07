/* The fields of a model's trainer. */
#ifndef CLEF_MODEL_TRAINER_H
#define CLEF_MODEL_TRAINER_H

#include "clef/train_model.h"
#include "model/open/fingerprint.h"
#include "model/open/model.h"
#include "model/open/published.h"

/** The matrices of one weight's adapter: numbers of the graph trainer's parameters. */
typedef struct clef__lora_parameters {
    const char *weight; /* the model's name of it */
    int32_t     a, b;
} clef__lora_parameters;

/** What this rank computes of a step: rows first_row .. of parts first_part .. */
typedef struct clef__row_share {
    int32_t n_rows, first_row;
    int32_t n_parts, first_part;
    int32_t rank, n_ranks;
} clef__row_share;

enum { CLEF__FINGERPRINT_TEXT = 2 * CLEF_SHA256_BYTES + 1 };

struct clef_model_trainer {
    clef_model_train_opts opts; /* of all ranks together */
    clef__row_share share;
    clef_model   *model;
    clef_trainer *trainer;
    int32_t      *ids;      /* room for this rank's rows of a part: seven arrays [share.n_rows, n_tokens] */
    float        *values;   /* room for the largest weight, made at first use */
    size_t        n_values;
    float        *begin;    /* while the trainer is made: what the graph reads last from the source */
    clef__lora_parameters *lora;
    int32_t       n_lora;
    clef__publisher publisher;
    char          data[CLEF__FINGERPRINT_TEXT]; /* the fingerprint of the data, or "" */
    char          fingerprint[CLEF__FINGERPRINT_TEXT]; /* of the model as it was opened */
};

/** The data of a tensor when the trainer was made, whatever was published since; NULL: of a joined one that
 *  was not read before. */
const void *clef__model_trainer_begin(const clef_model_trainer *t, const clef_tensor_info *info);
/** The parameter called `name`, -1 if there is none. */
int32_t     clef__model_trainer_find(const clef_model_trainer *t, const char *name);

#endif
