/* What attention kernels on GPUs leave of a query and a part of the keys: a record of RECORD floats. It is
 * the largest logit, the sum of the weights relative to it, two unused floats, then the sum of the values by
 * these weights, of E rounded up to a multiple of 4. Needs E. */
#ifndef CLEF_CL_ATTENTION_GPU_RECORD_H
#define CLEF_CL_ATTENTION_GPU_RECORD_H

#include "inline.h"

enum { RECORD = 4 + (E + 3) / 4 * 4 };

/* What weights are relative to, if `high` is the largest logit: finite without a key, too, or with only NaN,
 * which fmax leaves out. */
INLINED float base_of(float high) { return fmax(high, -FLT_MAX); }

/* exp(z - base); 0 for -INFINITY by a comparison: drivers that assume finite numbers miscompute exp of it. */
INLINED float weight_of(float z, float base) { return z < -FLT_MAX ? 0.0f : exp(z - base); }

#endif
