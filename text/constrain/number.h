/* The texts of JSON numbers whose values are within limits, as automata. */
#ifndef CLEF_TEXT_CONSTRAIN_NUMBER_H
#define CLEF_TEXT_CONSTRAIN_NUMBER_H

#include "text/constrain/dfa.h"

/** All numbers of RFC 8259, with exponents. Every other set here has no exponents, so that digits decide. */
const clef__dfa *clef__number_any(clef__dfas *dfas);
/** Integers; with_zeros: also with a fraction of zeros, which JSON Schema has called an integer since
 *  draft-06. */
const clef__dfa *clef__number_integer(clef__dfas *dfas, int with_zeros);

typedef enum clef__compare {
    CLEF__LESS,
    CLEF__LESS_EQUAL,
    CLEF__EQUAL,
    CLEF__GREATER_EQUAL,
    CLEF__GREATER
} clef__compare;
/** Numbers that compare so with `limit`, a plain decimal: "-12.5". Where they may not be equal, a number with
 *  a fraction has at most 15 digits, because more are rounded by those who read them as doubles. */
const clef__dfa *clef__number_compare(clef__dfas *dfas, clef__compare how, const char *limit);
/** Integers, and numbers with a fraction and at most 15 digits: two of these that differ are different
 *  doubles. */
const clef__dfa *clef__number_short(clef__dfas *dfas);
/** Integers that are multiples of m > 0. */
const clef__dfa *clef__number_multiple(clef__dfas *dfas, uint32_t m, int with_zeros);

enum { CLEF__DECIMAL_BYTES = 512 };
/** Writes a JSON number's text or value as a plain decimal to out; 0 if it has too many digits. */
int clef__decimal_of_double(double x, char out[CLEF__DECIMAL_BYTES]);

#endif
