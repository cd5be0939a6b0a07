/* Numbers on their way into a file. */
#ifndef CLEF_MODEL_FLOATS_H
#define CLEF_MODEL_FLOATS_H

#include "clef/model.h"
#include "runtime/os/os.h"

/** CLEF_E_LIMIT names the weight if a number is not finite, or would not be so in the dtype. */
clef_status clef__check_floats(const char *name, clef_dtype dtype, const float *x, size_t n, clef_error *err);
/** Writes n floats as `dtype` (F32, F16, BF16), after clef__check_floats(). */
clef_status clef__write_floats(clef_os_file *file, const char *name, clef_dtype dtype, const float *x,
                               size_t n, clef_error *err);

#endif
