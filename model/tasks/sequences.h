/* Sequences that each become one row of numbers: an embedding, or the logits of classes. */
#ifndef CLEF_MODEL_SEQUENCES_H
#define CLEF_MODEL_SEQUENCES_H

#include "model/tasks/sequence_plan.h"

/** ids[i] [n_ids[i]], and the types of these tokens. */
typedef struct clef__sequences {
    const int32_t *const *ids, *const *types; /* types: NULL: all are 0 */
    const int32_t        *n_ids;
    int32_t               n;
} clef__sequences;

/** Checks the sequences and runs them: out [n, width] f32. Those of equal length run in one batch, so that
 *  nothing is computed for padding. `what` names a row in errors and to the plan's progress. CLEF_E_ARG (an
 *  id or a type that the model does not have, an empty sequence), CLEF_E_LIMIT (one beyond the plan's
 *  max_tokens), CLEF_E_CANCELLED, CLEF_E_NOT_FINITE, and statuses of clef__sequence_plan_for(). */
clef_status clef__sequences_run(clef_sequence_plan *plan, const clef__sequences *s, const char *what,
                                size_t width, float *out, clef_error *err);

#endif
