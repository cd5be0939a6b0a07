/* The fields of an importance matrix, for the code that fills it. */
#ifndef CLEF_MODEL_IMATRIX_H
#define CLEF_MODEL_IMATRIX_H

#include "clef/imatrix.h"

struct clef_imatrix {
    clef_imatrix_entry *entries; /* which own their names and numbers */
    int32_t             n, capacity;
    int32_t             n_chunks, chunk_size;
    char                dataset[200];
    char               *path;
};

/** clef_imatrix_open() for n bytes in memory; `path` names them. */
clef_status clef__imatrix_parse(const char *path, const char *data, size_t n, clef_imatrix **out,
                                clef_error *err);
/** Adds an entry of zeros. NULL when out of memory. */
clef_imatrix_entry *clef__imatrix_add(clef_imatrix *im, const char *name, size_t n_name, int32_t n_matrices,
                                      size_t n);
/** What a column counts: out [n]. Columns of matrices that no row was for count 1 each. */
void clef__imatrix_means(const clef_imatrix_entry *e, float *out);

#endif
