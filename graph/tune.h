/* What the tuner has to know about an op: which of its nodes count as one case, and how such a case is
 * built. */
#ifndef CLEF_GRAPH_TUNE_H
#define CLEF_GRAPH_TUNE_H

#include "graph/value.h"

struct clef_lowering;

/** Nodes with equal keys are tuned as one case (graph/op/tune_ops.c). A dim that is a symbol counts as its
 *  bound. */
typedef struct clef_tune_key {
    int32_t op, dtype, n, k; /* of matrix products: the weight's dtype, its rows and its columns */
    int32_t rows; /* class of the number of rows: CLEF_ROWS_* */
    int32_t form; /* what else the op's variants depend on; its meaning depends on the op */
} clef_tune_key;
enum { CLEF_ROWS_ONE, CLEF_ROWS_FEW, CLEF_ROWS_MANY, CLEF_N_ROWS };
enum { CLEF_FEW_ROWS = 8 }; /* the most rows that count as few */

/** Sizes of a case's data. */
typedef struct clef__tune_sizes {
    int64_t weight_rows; /* rows of k elements in the weight */
    int64_t x_elements;  /* elements of the activations at one position */
} clef__tune_sizes;

/** How the tuner tries an op. In these functions `n` is the number of the weight's rows that the case keeps,
 *  at most key->n. */
typedef struct clef__tune_op {
    /* sets all fields but key.op */
    clef_tune_key (*key)(const struct clef_lowering *lo, const clef_value *n);
    int (*takes_node)(const clef_value *n);      /* NULL: every node of the op can be tuned */
    int (*takes_key)(const clef_tune_key *key);  /* 1 when a case can be built from the key */
    clef__tune_sizes (*sizes)(const clef_tune_key *key, int32_t n);
    /** Writes copy i of the node as text: input xI, weight wI, output yI. Symbol T counts rows. Returns what
     *  snprintf() returns. */
    int (*write)(const clef_tune_key *key, int32_t n, int32_t i, char *text, size_t room);
    /** Writes the key for users: "q4_0 [4864, 896] x 1 row". */
    void (*describe)(const clef_tune_key *key, char *text, size_t room);
    int32_t packs;   /* 1: packing copies the weight; write() writes the node as it is before the choose
                        pass */
    int32_t whole;   /* 1: a case keeps all of key->n */
    int32_t at_load; /* 1: heavy cases are also tuned when a plan is created */
} clef__tune_op;

extern const clef__tune_op clef__tune_matmul, clef__tune_panel_matmul, clef__tune_attention;

/** Returns < 0, 0 or > 0: a comes before b, equals it, or comes after it. */
int clef__tune_key_order(const clef_tune_key *a, const clef_tune_key *b);
/** The node's key at the symbols' current values. */
clef_tune_key clef__tune_key(const struct clef_lowering *lo, const clef_value *n);

enum { CLEF_TUNE_TEXT_BYTES = 256 };
/** Writes graph i of those that are worth tuning without a model: products in the sizes of models with half a
 *  billion to eight billion weights. Returns 0 when there are no more. */
int clef__tune_common_text(int32_t i, char text[CLEF_TUNE_TEXT_BYTES]);

#endif
