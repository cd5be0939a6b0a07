/* A plan that takes whole sequences of one length, made for the longest so far: what embedders and
 * classifiers run. */
#ifndef CLEF_MODEL_SEQUENCE_PLAN_H
#define CLEF_MODEL_SEQUENCE_PLAN_H

#include "clef/model.h"
#include "clef/plan.h"

/** dev to max_tokens are set by the owner. Finished by clef__sequence_plan_finish() in any state, zeroed
 *  too. */
typedef struct clef_sequence_plan {
    clef_device    *dev;
    clef_model     *model;
    clef_build_opts build;  /* n_context, n_batch and n_sequences are set when the plan is made */
    clef_plan_opts  opts;
    const char     *output; /* the name of what is read */
    int32_t         n_batch, max_tokens;

    clef_plan *plan;         /* NULL before the first use */
    int32_t    max_B, max_T; /* its bounds */
    int32_t    ids, types, pos, out, B, T, S; /* numbers of inputs (-1: none), output and symbols (0: none) */
    int32_t   *zeros;        /* [max_B]: positions to begin at */
} clef_sequence_plan;

/** Makes a plan for sequences of up to `longest` tokens, unless there is one: for the next power of two, from
 *  64 on, up to max_tokens; and for n_batch sequences, or fewer where they would be more than 16384
 *  tokens. */
clef_status clef__sequence_plan_for(clef_sequence_plan *p, int32_t longest, clef_error *err);
/** Runs ids [B, T] (types: NULL, or [B, T]) and reads the output, n_bytes. */
clef_status clef__sequence_plan_run(clef_sequence_plan *p, const int32_t *ids, const int32_t *types,
                                    int32_t B, int32_t T, float *out,
                                    size_t n_bytes, clef_error *err);
void        clef__sequence_plan_finish(clef_sequence_plan *p);

#endif
