/* The list of weights of a model that has none yet (model/open/declared.h). */
#include "model/open/declared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int has_room(clef__declared *d)
{
    if (d->n < d->capacity)
        return 1;
    const int32_t capacity = 2 * d->capacity + 64;
    clef__declared_weight **grown = realloc(d->weights, (size_t)capacity * sizeof *grown);
    if (!grown)
        return 0;
    d->weights = grown;
    d->capacity = capacity;
    return 1;
}

const clef_tensor_info *clef__declare(clef__declared *d, clef_role role, const char *suffix, const char *name,
                                      const clef_shape *shape)
{
    for (int32_t i = 0; i < d->n; i++)
        if (strcmp(d->weights[i]->name, name) == 0)
            return &d->weights[i]->info;
    clef__declared_weight *w = has_room(d) ? calloc(1, sizeof *w) : NULL;
    if (!w) {
        d->failed = 1;
        return NULL;
    }
    d->weights[d->n++] = w;
    snprintf(w->name, sizeof w->name, "%s", name);
    snprintf(w->suffix, sizeof w->suffix, "%s", suffix);
    w->role = role;
    const int64_t row = shape->rank > 0 ? shape->dim[shape->rank - 1].n : 1;
    clef_dtype dtype = shape->rank > 1 ? d->matrices : CLEF_F32;
    if (row % clef_dtype_block_elems(dtype))
        dtype = CLEF_F16;
    uint64_t n = 1;
    w->info = (clef_tensor_info){.name = w->name, .dtype = dtype, .rank = shape->rank};
    for (int32_t i = 0; i < shape->rank; i++) {
        w->info.dims[i] = shape->dim[i].n;
        n *= (uint64_t)shape->dim[i].n;
    }
    w->info.n_bytes = n / (uint64_t)clef_dtype_block_elems(dtype) * (uint64_t)clef_dtype_block_bytes(dtype);
    return &w->info;
}

void clef__declared_finish(clef__declared *d)
{
    for (int32_t i = 0; i < d->n; i++)
        free(d->weights[i]);
    free(d->weights);
    *d = (clef__declared){0};
}
