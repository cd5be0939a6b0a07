/* Weights that a folder stores in another form than clef reads them: each expert's matrix alone, or MXFP4's
 * blocks apart from their scales. They are found when the model is opened and put together in memory when the
 * weight is first asked for; the files stay as they are. */
#ifndef CLEF_MODEL_JOINED_H
#define CLEF_MODEL_JOINED_H

#include "clef/model.h"

/** One way of putting together. */
typedef struct clef_join {
    /** Dtype, rank and dims of the result for `of` (and `with`, or NULL) into *out; 0 when they do not
     *  fit. */
    int (*shape)(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                 clef_tensor_info *out);
    /** Fills matrix i of the result, which begins at `to`. */
    void (*fill)(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                 int64_t i, unsigned char *to);
} clef_join;

/** [E, K, N] -> [E, N / step, K]: columns first, first + step, ... as rows. */
extern const clef_join clef__join_columns;
/** [E, N] -> [E, N / step]: elements first, first + step, ... of each row. */
extern const clef_join clef__join_elements;
/** blocks U8 [E, N, K / 32, 16] with scales U8 [E, N, K / 32] -> MXFP4 [E, N / step, K]: rows first, first +
 *  step, ... The pair of elements of a byte is (2i, 2i + 1) there, and (i, i + 16) in a block of ggml's. */
extern const clef_join clef__join_mxfp4;

/** [H] -> [H] in F32: -exp(x). */
extern const clef_join clef__join_rates;

/** A family's rule: where a stored name ends with `of` (and one with the same beginning with `with`; NULL:
 *  alone), there is a tensor that ends with `to`. A list ends with a NULL join. */
typedef struct clef_join_rule {
    const clef_join *join;
    const char *of, *with, *to;
    int32_t first, step;
} clef_join_rule;

typedef struct clef_joined clef_joined;

/** Finds the model's joined tensors: by its architecture's rules, and "x.experts.*.y" for stored
 *  "x.experts.0.y", "x.experts.1.y" ..., [n, ..] of as many as there are. Its index by name must stand.
 *  CLEF_E_SHAPE (parts that do not fit together are named), CLEF_E_NOMEM. */
clef_status clef__joined_find(clef_model *model, clef_error *err);
/** The tensor of that name, NULL if none. Its data is NULL until clef__joined_data() was called. */
const clef_tensor_info *clef__joined_lookup(const clef_model *model, const char *name);
/** Its bytes, put together at the first call; NULL when there is no memory, or when t is none of them. They
 *  live as long as the model, or until clef__joined_drop(). */
const void *clef__joined_data(clef_model *model, const clef_tensor_info *t);
void        clef__joined_drop(clef_model *model, const clef_tensor_info *t);
void        clef__joined_finish(clef_model *model);

#endif
