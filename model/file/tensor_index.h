/* Finding tensors by name: an array of pointers sorted by name. */
#ifndef CLEF_MODEL_TENSOR_INDEX_H
#define CLEF_MODEL_TENSOR_INDEX_H

#include "clef/model.h"

/** Sorts pointers to `n` tensors (borrowed; they must not move) by name into a new array, freed with free().
 *  *duplicate, unless it is NULL, is set to a tensor that shares its name with another, or to NULL. Returns
 *  NULL when out of memory. */
const clef_tensor_info **clef__tensor_index(const clef_tensor_info *tensors, size_t n,
                                            const clef_tensor_info **duplicate);
/** The tensor with that name, NULL if there is none. */
const clef_tensor_info *clef__tensor_lookup(const clef_tensor_info *const *index, size_t n, const char *name);

/** Writes the number of elements of `rank` dims to *n. Returns 0 when it exceeds INT64_MAX or a dim is
 *  negative. */
int clef__dims_product(const int64_t *dims, int32_t rank, int64_t *n);
/** 1 when the name can be printed: it is not empty and has no control character. */
int clef__name_is_plain(const char *name, size_t n_bytes);

#endif
