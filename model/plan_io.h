/* The inputs, outputs and symbols of plans of a model's graph. */
#ifndef CLEF_MODEL_PLAN_IO_H
#define CLEF_MODEL_PLAN_IO_H

#include "clef/plan.h"

/** Their names are those that model/build.c gives. A graph has some of them. */
#define CLEF__PLAN_INPUTS(X)                                                                                 \
    X(ids, "input_ids") X(features, "input_features") X(pos, "pos") X(types, "token_type_ids")               \
    X(order, "order") X(runs, "runs") X(pages, "pages") X(sliding_pages, "sliding_pages")                    \
    X(samples, "samples") X(source_pages, "source_pages") X(source_end, "source_end")                        \
    X(adapter, "adapter") X(sampling, "sampling") X(recent, "recent") X(hidden_in, "hidden")                 \
    X(pictures, "pictures") X(is_token, "is_token") X(time, "turn_time") X(height, "turn_height")            \
    X(width, "turn_width") X(sees, "sees") X(sees_from, "sees_from")
#define CLEF__PLAN_OUTPUTS(X)                                                                                \
    X(logits, "logits") X(token, "token") X(candidates, "candidates") X(scores, "candidate_scores") \
    X(hidden, "hidden") X(next_hidden, "next_hidden")
#define CLEF__PLAN_SYMBOLS(X) X(B, "B") X(T, "T") X(S, "S") X(M, "M") X(N, "N") X(U, "U")

/** Indices of inputs and outputs (-1: none), and numbers of symbols (0: none). */
typedef struct clef__plan_io {
#define CLEF_X(field, name) int32_t field;
    CLEF__PLAN_INPUTS(CLEF_X) CLEF__PLAN_OUTPUTS(CLEF_X) CLEF__PLAN_SYMBOLS(CLEF_X)
#undef CLEF_X
} clef__plan_io;

clef__plan_io clef__plan_io_of(const clef_plan *plan);

#endif
