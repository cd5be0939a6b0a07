/* Caches in pages, for the ops that take `runs` and `pages` (cl/args.h describes them). */
#ifndef CLEF_GRAPH_PAGING_H
#define CLEF_GRAPH_PAGING_H

#include "graph/op.h"

/** Checks that runs is [M, RUN_WORDS], pages [sequences, n], pos [B], and the pool a cache [pages, H,
 *  KV_PAGE, any]. pool NULL: pages and the pool are not checked. CLEF_E_SHAPE, CLEF_E_ARG (one without the
 *  other). The caller ensures that every run has a row at least. */
clef_status clef__check_paging(const clef_value *n, const clef_value *pool, const clef_value *pos,
                               const clef_value *runs, const clef_value *pages, clef_dim B, clef_error *err);

/** The argument block; all 0 without pages. */
paging_args clef__paging_args(const clef_lowering *lo, const clef_value *runs, const clef_value *pages);
/** 1 if every run has one row. */
int clef__runs_are_rows(const clef_lowering *lo, const clef_value *runs, uint32_t rows);

/* ---- for the references ---------------------------------------------------------------------- */

/** The run that has row b of the step, and that row's place in it. Returns 0 if no run has it. */
typedef struct clef__ref_run {
    int64_t sequence, first, rows;
} clef__ref_run;
int clef__ref_find_run(const clef_ref_tensor *runs, int64_t b, clef__ref_run *out);
/** The row of the pool, counted over pages and places within them, at which head h of position s lies; -1
 *  outside the pool. Multiply it by the last dim. */
int64_t clef__ref_pool_row(const clef_ref_tensor *pool, const clef_ref_tensor *pages, int64_t sequence,
                           int64_t h, int64_t s);

/* ---- for random inputs ----------------------------------------------------------------------- */

/** The inputs of a step with runs. pages, pool and mask may be NULL. The pool has at least a page for each
 *  sequence. */
typedef struct clef__paging_in {
    const clef_value *pos, *runs, *pages, *pool, *mask;
} clef__paging_in;
/** If v is pos, runs or pages, fills it with numbers that fit together, for a step whose `rows` rows are
 * shared out evenly over the runs, and returns 1. They depend on the shapes alone (clef_op_def.draw). */
int clef__draw_paging(const clef__paging_in *in, const clef_value *v, int64_t rows, const int64_t *symbols,
                      float *out);

#endif
