/* The cases of an op's own test: graphs in the text form with directives, one file for each op in
 * graph/cases/. */
#ifndef CLEF_GRAPH_CASES_H
#define CLEF_GRAPH_CASES_H

#include "graph/op.h"

/** A graph that every device must compute as .ref does. Symbols are bound to their bounds, to 1 and to values
 *  between. */
typedef struct clef_op_case {
    char   *graph; /* in the text form; NULL ends the list */
    int32_t int_lo, int_hi; /* I32 and I8 inputs are drawn from [int_lo, int_hi) */
    float   spread;         /* other inputs are N(0, 1) * spread; 0: 1 */
    float   tol;            /* 0: the op's */
} clef_op_case;

/** Reads the op's file, which is embedded: a list that ends with a NULL graph. Nothing reads it but tests,
 *  self-tests and proofs, so a normal start does not pay for it. CLEF_E_FORMAT: the file has an error, or
 *  there is none. CLEF_E_NOMEM. */
clef_status clef__cases_load(const clef_op_def *op, clef_op_case **out, clef_error *err);
/** Frees the list; NULL is allowed. */
void        clef__cases_free(clef_op_case *cases);
/** Reads cases from a text. name: for messages; op: what $op stands for, or NULL. Statuses as above. */
clef_status clef__cases_parse(const char *text, const char *name, const char *op, clef_op_case **out,
                              clef_error *err);

#endif
