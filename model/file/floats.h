/* Numbers on their way into a file. */
#ifndef CLEF_MODEL_FLOATS_H
#define CLEF_MODEL_FLOATS_H

#include "clef/model.h"
#include "runtime/os/os.h"

/** The first of n numbers that is NaN or infinite; n: none is. */
size_t      clef__find_not_finite(const float *x, size_t n);
/** The first of n finite numbers that `dtype` cannot hold, or whose block it cannot: `coded` are the numbers
 *  in that dtype. n: it holds all. */
size_t      clef__find_not_held(clef_dtype dtype, const float *x, const void *coded, size_t n);
/** CLEF_E_LIMIT for number i of the weight `name`. */
clef_status clef__not_finite(const char *name, size_t i, float x, clef_error *err);
clef_status clef__not_held(const char *name, size_t i, float x, clef_dtype dtype, clef_error *err);
/** Writes n floats as `dtype` (F32, F16, BF16). CLEF_E_LIMIT names the weight if a number is not finite, or
 *  would not be so in the dtype. */
clef_status clef__write_floats(clef_os_file *file, const char *name, clef_dtype dtype, const float *x,
                               size_t n, clef_error *err);

#endif
