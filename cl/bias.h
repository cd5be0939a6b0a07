/* A bias of any dtype, or none: the type of its elements, and element i, or 16 from i on, as floats. Needs
 * weights.h and
 *   -D BIAS_TYPE  dtype of bias, DTYPE_NONE (-1) without: elements are 0 then */
#ifndef CLEF_CL_BIAS_H
#define CLEF_CL_BIAS_H

#if BIAS_TYPE < 0
typedef float bias_elem;
#  define BIAS_OF(bias, i)   0.0f
#  define BIAS16_OF(bias, i) 0.0f
#else
typedef ELEM(BIAS_TYPE) bias_elem;
#  define BIAS_OF(bias, i)   LOAD(BIAS_TYPE, bias, i)
#  define BIAS16_OF(bias, i) LOAD16(BIAS_TYPE, bias, i)
#endif

#endif
