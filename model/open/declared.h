/* The weights of a model that has none yet. While its graph is built, each weight that the family asks for is
 * noted here with the shape that the hyperparameters imply, so that the family's own builder says what a
 * model consists of. */
#ifndef CLEF_MODEL_DECLARED_H
#define CLEF_MODEL_DECLARED_H

#include "model/open/arch.h"

typedef struct clef__declared_weight {
    char             name[CLEF_WEIGHT_NAME_BYTES];
    clef_role        role;
    char             suffix[8]; /* "weight", "bias" or "" */
    clef_tensor_info info;      /* without data; its name is `name` */
} clef__declared_weight;

typedef struct clef__declared {
    /** 1 when the new model has a weight that the builder can do without. */
    int (*has)(const void *user, clef_role role, const char *suffix);
    const void             *user;
    clef_dtype              matrices; /* CLEF_F32 (the zero), or the dtype of matrices; F16 where its blocks
                                         do not fit. Vectors are F32 */
    clef__declared_weight **weights; /* in the order in which they were asked for */
    int32_t                 n, capacity;
    int32_t                 failed; /* 1: out of memory */
} clef__declared;

/** Notes a weight, or finds it among those that were noted. NULL when out of memory. */
const clef_tensor_info *clef__declare(clef__declared *declared, clef_role role, const char *suffix,
                                      const char *name, const clef_shape *shape);
void                    clef__declared_finish(clef__declared *declared);

#endif
