/* Importance matrices: how large the inputs of each matrix are on a text. Quantising weighs errors by it. */
#ifndef CLEF_IMATRIX_H
#define CLEF_IMATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "clef/model.h"
#include "clef/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clef_imatrix clef_imatrix;

/** Of one matrix of a model, or of the experts' matrices together. What a column counts is the mean of the
 *  squares of its input, sums[m, k] / counts[m]. */
typedef struct clef_imatrix_entry {
    const char  *name;       /* GGUF's, "blk.0.attn_q.weight" */
    int32_t      n_matrices; /* 1, or the experts; 1 in files of the old form, whatever there are */
    size_t       n;          /* numbers of all matrices together: a row of inputs for each */
    const float *sums;       /* [n]: of squares */
    const float *counts;     /* [n_matrices]: of the rows in the sums */
} clef_imatrix_entry;

typedef struct clef_imatrix_opts {
    int32_t     n_context;   /* tokens of a chunk; 0: min(512, the model's context) */
    int32_t     n_chunks;    /* most chunks; 0: all of the text */
    const char *dataset;     /* the text's name, which the file keeps; NULL: none. Borrowed for the call */
    clef_compile_opts compile; /* its progress is called between chunks too: ("chunks", done, all) */
} clef_imatrix_opts;

/** Runs a decoder over chunks of ids [n], and sums up the inputs of all its matrices but the output matrix,
 *  as llama.cpp's llama-imatrix does. bos: a token in place of the first of each chunk, or -1. CLEF_E_ARG
 *  (fewer ids than a chunk), CLEF_E_LIMIT, CLEF_E_UNSUPPORTED (no decoder), CLEF_E_NOT_FINITE,
 *  CLEF_E_CANCELLED, statuses of clef_model_build() and of plans. */
CLEF_API clef_status clef_imatrix_collect(clef_device *dev, clef_model *model, const int32_t *ids, int32_t n,
                                          int32_t bos, const clef_imatrix_opts *opts, clef_imatrix **out,
                                          clef_error *err);
/** Reads a file of llama-imatrix: GGUF, or its old form (.dat). CLEF_E_IO, CLEF_E_FORMAT, CLEF_E_NOMEM. */
CLEF_API clef_status clef_imatrix_open(const char *path, clef_imatrix **out, clef_error *err);
/** Writes llama.cpp's GGUF file: tensors NAME.in_sum2 and NAME.counts, keys imatrix.*. CLEF_E_IO,
 *  CLEF_E_NOMEM. */
CLEF_API clef_status clef_imatrix_write(const clef_imatrix *im, const char *path, clef_error *err);
CLEF_API void        clef_imatrix_close(clef_imatrix *im);

CLEF_API int32_t            clef_imatrix_n(const clef_imatrix *im);
CLEF_API clef_imatrix_entry clef_imatrix_get(const clef_imatrix *im, int32_t i);
/** The number of the entry with that name, -1 if there is none. */
CLEF_API int32_t clef_imatrix_find(const clef_imatrix *im, const char *name);
/** The chunks that it was made of; 0: the file does not say. */
CLEF_API int32_t clef_imatrix_chunks(const clef_imatrix *im);
/** The file that it was read from; "" of a new one. */
CLEF_API const char *clef_imatrix_path(const clef_imatrix *im);

#ifdef __cplusplus
}
#endif
#endif
