/* Checks integers that are row numbers: the ids of a gather, the positions of a cache. A kernel cannot report
 * a row that does not exist, so commands that run a user's own integers check them here. */
#ifndef CLEF_TOOLS_ROW_NUMBERS_H
#define CLEF_TOOLS_ROW_NUMBERS_H

#include "tools/cli/common.h"

/** A node that uses the integers of the value `numbers`. Names are the graph's. */
typedef struct row_use {
    const char    *node, *op, *numbers;
    int32_t        is_computed; /* 0: an input */
    clef_row_range range;
} row_use;

typedef struct row_uses {
    const char       *path;  /* of the graph, for messages */
    const clef_graph *graph; /* the graph whose symbols the ranges contain */
    row_use          *items;
    int32_t           n;
} row_uses;

/** Lists such nodes of the graph as it was built, and makes outputs of the numbers that are computed or
 *  constant. Numbers in states are not listed: they were checked when they were fed. */
clef_status cli_row_uses_list(const char *path, clef_graph *graph, row_uses *out, clef_error *err);
void        cli_row_uses_free(row_uses *uses);

/** CLEF_E_ARG names the node and the first number (I32) that is out of range. symbols: value of symbol i at
 *  [i - 1]; 0 means the bound. */
clef_status cli_row_numbers_check(const row_uses *uses, const int64_t *symbols,
                                  const clef_tensor_info *numbers, clef_error *err);
/** Checks the numbers that are outputs of a plan, after a run. */
clef_status cli_row_outputs_check(const row_uses *uses, const int64_t *symbols, clef_plan *plan,
                                  clef_error *err);

#endif
