/* Sums and products of 64-bit integers, checked without what only some compilers have. Each sets *out and
 * returns 0, or returns 1 where the result does not fit; then *out is left alone. */
#ifndef CLEF_TEXT_TEMPLATE_CHECKED_H
#define CLEF_TEXT_TEMPLATE_CHECKED_H

#include <stdint.h>

static inline int clef__add_checked(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return 1;
    *out = a + b;
    return 0;
}

static inline int clef__subtract_checked(int64_t a, int64_t b, int64_t *out)
{
    if (b > 0 ? a < INT64_MIN + b : a > INT64_MAX + b)
        return 1;
    *out = a - b;
    return 0;
}

static inline int clef__multiply_checked(int64_t a, int64_t b, int64_t *out)
{
    int too_large = 0;
    if (a > 0)
        too_large = b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a;
    else if (a < 0)
        too_large = b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a;
    if (too_large)
        return 1;
    *out = a * b;
    return 0;
}

#endif
