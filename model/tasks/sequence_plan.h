/* A plan that runs whole sequences of equal length, made for the longest one so far. Embedders and
 * classifiers use it. */
#ifndef CLEF_MODEL_SEQUENCE_PLAN_H
#define CLEF_MODEL_SEQUENCE_PLAN_H

#include "clef/model.h"
#include "model/plan_io.h"

/** The owner sets dev to max_tokens. clef__sequence_plan_finish() accepts it in any state, also zeroed. */
typedef struct clef_sequence_plan {
    clef_device    *dev;
    clef_model     *model;
    clef_build_opts build;  /* n_context, n_batch and n_sequences are set when the plan is made */
    clef_plan_opts  opts;
    int32_t         n_batch, max_tokens;
    int32_t         columns[2]; /* the output is these two columns of the graph's; 0, 0: all of it */

    clef_plan *plan;         /* NULL before the first use */
    int32_t    max_B, max_T; /* its bounds */
    clef__plan_io io;
    int32_t   *zeros;        /* [max_B]: the start position of each sequence, 0 */
} clef_sequence_plan;

/** Makes a plan for sequences of up to `longest` tokens, unless there is one. Its length is the next power of
 *  two, at least 64 and at most max_tokens. Its batch is n_batch, or less where that would be more than 16384
 *  tokens. */
clef_status clef__sequence_plan_for(clef_sequence_plan *p, int32_t longest, clef_error *err);
/** The size of the last axis of the graph's output, such as the number of classes. Statuses of
 *  clef_model_build(). */
clef_status clef__sequence_plan_width(const clef_sequence_plan *p, int32_t *width, clef_error *err);
/** Runs ids [B, T] (types: NULL, or [B, T]) and reads the output, n_bytes. The graph has one output. */
clef_status clef__sequence_plan_run(clef_sequence_plan *p, const int32_t *ids, const int32_t *types,
                                    int32_t B, int32_t T, float *out,
                                    size_t n_bytes, clef_error *err);
void        clef__sequence_plan_finish(clef_sequence_plan *p);

#endif
