/* Weights that a folder stores in another form than clef reads: each expert's matrix alone, or MXFP4's blocks
 * apart from their scales. They are found when the model is opened and joined in memory when the weight is
 * first asked for. The files do not change. */
#ifndef CLEF_MODEL_JOINED_H
#define CLEF_MODEL_JOINED_H

#include "clef/model.h"

/** One way to join tensors. */
typedef struct clef_join {
    /** Writes dtype, rank and dims of the result for `of` (and `with`, or NULL) to *out. Returns 0 when the
     *  tensors do not fit together. */
    int (*shape)(const clef_tensor_info *of, const clef_tensor_info *with, int32_t step,
                 clef_tensor_info *out);
    /** Writes matrix i of the result to `to`. */
    void (*fill)(const clef_tensor_info *of, const clef_tensor_info *with, int32_t first, int32_t step,
                 int64_t i, unsigned char *to);
    /** 1: the result has a matrix for each matrix of `of`, one after the other; 0: one for each of its own
     *  rows along the first axis. */
    int32_t by_parts;
} clef_join;

/** [E, K, N] -> [E, N / step, K]: columns first, first + step, ... as rows. */
extern const clef_join clef__join_columns;
/** [E, N] -> [E, N / step]: elements first, first + step, ... of each row. */
extern const clef_join clef__join_elements;
/** blocks U8 [E, N, K / 32, 16] with scales U8 [E, N, K / 32] -> MXFP4 [E, N / step, K]: rows first, first +
 *  step, ... A byte holds elements (2i, 2i + 1) there, and (i, i + 16) in a block of ggml's. */
extern const clef_join clef__join_mxfp4;

/** Experts' gate and up in one tensor [E, 2 N, K] with down [E, K, N], or both with rows and columns
 *  exchanged -> [E, N, K]: part `first` of gate (0) and up (1). */
extern const clef_join clef__join_half;
/** The same down, with that tensor -> [E, K, N]. */
extern const clef_join clef__join_down;

/** [N, K] -> [N / step, K]: part `first` of its rows. */
extern const clef_join clef__join_rows;

/** [N, K] -> [N / step, K]: part `first` of each fourth of the rows (CodeGen's q, v and k). */
extern const clef_join clef__join_shares;

/** K^T [H, R, N] with V [H, M, R] -> [H (N + M), R]: the rows of each head's K, then those of its V. In F32,
 *  or in F16 if they are stored with fewer bits. */
extern const clef_join clef__join_latent;

/** Convolutions [N, K, taps] -> F32 [N, taps, K]: the numbers of a tap beside each other. */
extern const clef_join clef__join_taps;
/** The same, with the length [1, 1, taps] that the numbers of each tap have together (PyTorch's weight_norm
 *  of the last axis) -> F32 [1, N, taps K]. */
extern const clef_join clef__join_normed_taps;

/** [H] or [H, D] -> the same in F32: -exp(x). */
extern const clef_join clef__join_rates;

/** A family's rule. A stored tensor whose name ends with `of` (and one with the same beginning that ends with
 *  `with`, unless it is NULL) makes a tensor whose name ends with `to`. A list ends with a NULL join. */
typedef struct clef_join_rule {
    const clef_join *join;
    const char *of, *with, *to;
    int32_t first, step;
} clef_join_rule;

typedef struct clef_joined clef_joined;

/** Finds the model's joined tensors: by its architecture's rules, and "x.experts.*.y" [n, ..] for the n
 *  stored "x.experts.0.y", "x.experts.1.y" ... (in a folder). The model's index by name must be complete.
 *  CLEF_E_SHAPE (names the parts that do not fit together), CLEF_E_NOMEM. */
clef_status clef__joined_find(clef_model *model, clef_error *err);
/** The joined tensor with that name, NULL if there is none. Its data is NULL until clef__joined_data() was
 *  called. */
const clef_tensor_info *clef__joined_lookup(const clef_model *model, const char *name);
/** Calls `part` with the stored tensors of which t is made; none if it is not a joined tensor. */
void clef__joined_parts(const clef_model *model, const clef_tensor_info *t,
                        void (*part)(void *user, const clef_tensor_info *part), void *user);
/** The stored tensor i of which a stack is made; NULL if t is not a stack. */
const clef_tensor_info *clef__joined_part(const clef_model *model, const clef_tensor_info *t, int64_t i);
/** Its bytes, joined at the first call. NULL when out of memory, or when t is not a joined tensor. They live
 *  as long as the model, or until clef__joined_drop(). */
const void *clef__joined_data(clef_model *model, const clef_tensor_info *t);
void        clef__joined_drop(clef_model *model, const clef_tensor_info *t);
void        clef__joined_finish(clef_model *model);

#endif
