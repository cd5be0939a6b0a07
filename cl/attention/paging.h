/* Caches in pages (cl/args.h describes runs and pages). Include it after args.h.
 *   -D PAGED  1: the kernel has the parameters PAGING_PARAMS, and its batch is the rows of several
 *             sequences */
#ifndef CLEF_CL_PAGING_H
#define CLEF_CL_PAGING_H

#if PAGED
#  define PAGING_PARAMS , global const int *runs, global const int *pages

/* A run, and the pages of its sequence. */
typedef struct run_of {
    uint first, rows;
    global const int *pages;
} run_of;

static run_of run_at(const paging_args *a, uint r, global const int *runs, global const int *pages)
{
    runs += a->runs + r * RUN_WORDS;
    return (run_of){(uint)runs[1], (uint)runs[2], pages + a->pages + (uint)runs[0] * a->n_pages};
}

/* The run that has this row of the step; one without rows if there is none. */
static run_of run_with(const paging_args *a, uint row, global const int *runs, global const int *pages)
{
    for (uint r = 0; r < a->n_runs; r++) {
        const run_of run = run_at(a, r, runs, pages);
        if (row - run.first < run.rows)
            return run;
    }
    return (run_of){0, 0, pages};
}

/* The first element of position s of a sequence. */
static size_t page_at(const view_args *pool, uint h, int s, global const int *pages)
{
    return pool->offset + (uint)pages[s / KV_PAGE] * (size_t)pool->stride[0] + h * (size_t)pool->stride[1] +
           (uint)(s % KV_PAGE) * (size_t)pool->stride[2];
}
#else
#  define PAGING_PARAMS
#endif

#endif
