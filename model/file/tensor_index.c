/* Tensors by name (model/file/tensor_index.h). */
#include "model/file/tensor_index.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const clef_tensor_info *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

const clef_tensor_info **clef__tensor_index(const clef_tensor_info *tensors, size_t n,
                                            const clef_tensor_info **duplicate)
{
    if (duplicate)
        *duplicate = NULL;
    const clef_tensor_info **index = n < SIZE_MAX / sizeof *index ? malloc((n + 1) * sizeof *index) : NULL;
    if (!index)
        return NULL;
    for (size_t i = 0; i < n; i++)
        index[i] = &tensors[i];
    qsort(index, n, sizeof *index, by_name);
    for (size_t i = 1; duplicate && i < n; i++)
        if (strcmp(index[i - 1]->name, index[i]->name) == 0)
            *duplicate = index[i];
    return index;
}

const clef_tensor_info *clef__tensor_lookup(const clef_tensor_info *const *index, size_t n, const char *name)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, index[middle]->name);
        if (order == 0)
            return index[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int clef__dims_product(const int64_t *dims, int32_t rank, int64_t *n)
{
    int64_t product = 1;
    int zero = 0;
    for (int32_t i = 0; i < rank; i++) {
        if (dims[i] < 0)
            return 0;
        if (dims[i] == 0) {
            zero = 1;
            continue;
        }
        if (product > INT64_MAX / dims[i]) /* an error even if another dim is 0 */
            return 0;
        product *= dims[i];
    }
    *n = zero ? 0 : product;
    return 1;
}

int clef__name_is_plain(const char *name, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return 0;
    return n_bytes > 0;
}
