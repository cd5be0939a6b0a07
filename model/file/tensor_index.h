/* Finding tensors by name: an array of pointers sorted by name. */
#ifndef CLEF_MODEL_TENSOR_INDEX_H
#define CLEF_MODEL_TENSOR_INDEX_H

#include "clef/model.h"

/** Sorts pointers to `n` tensors (borrowed; they must not move) by name into a new array, freed with free().
 *  `duplicate`, when not NULL, is set to a tensor whose name another one has, or to NULL. Returns NULL when
 *  out of memory. */
const clef_tensor_info **clef__tensor_index(const clef_tensor_info *tensors, size_t n,
                                            const clef_tensor_info **duplicate);
/** The tensor of that name, NULL if none. */
const clef_tensor_info *clef__tensor_lookup(const clef_tensor_info *const *index, size_t n, const char *name);

/** Elements of `rank` dims in *n; 0 when the product passes INT64_MAX or a dim is negative. */
int clef__dims_product(const int64_t *dims, int32_t rank, int64_t *n);
/** 1 when the name is fit to be shown and looked up: at least one byte, none of them a control character. */
int clef__name_is_plain(const char *name, size_t n_bytes);

#endif
