/* Whole numbers. */
#ifndef CLEF_GRAPH_DIVISOR_H
#define CLEF_GRAPH_DIVISOR_H

#include <stdint.h>

/** The greatest common divisor of two numbers from 1 on. */
static inline int64_t clef__common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
