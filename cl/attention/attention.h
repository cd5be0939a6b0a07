/* What the attention kernels share: the place of queries, and the keys that they see. Include it after args.h
 * and weights.h. */
#ifndef CLEF_CL_ATTENTION_H
#define CLEF_CL_ATTENTION_H

#if !defined(MASK) || !defined(POS) || !defined(SINKS) || !defined(K_TYPE) || !defined(V_TYPE)
#  error "attention.h needs MASK, POS, SINKS, K_TYPE and V_TYPE"
#endif
#if !defined(PAGED) || !defined(FIRST)
#  error "attention.h needs PAGED and FIRST"
#endif
#include "paging.h"

#if MASK < 0
typedef float mask_elem;
#else
typedef ELEM(MASK) mask_elem;
#endif
#if SINKS < 0
typedef float sink_elem;
#else
typedef ELEM(SINKS) sink_elem;
#endif
typedef ELEM(K_TYPE) k_elem;
typedef ELEM(V_TYPE) v_elem;

/* With PAGED, b is the first row of a run in all functions here: its token t is row b + t. */

/* The offset of query i in q, or of its row in the mask. */
static size_t row_at(const attention_args *a, const view_args *view, uint b, uint hk, uint i)
{
    const uint t = i / a->group, h = hk * a->group + i % a->group;
    return view->offset + b * (size_t)view->stride[0] + h * (size_t)view->stride[1] +
           t * (size_t)view->stride[PAGED ? 0 : 2];
}

static int position(const attention_args *a, global const int *pos, uint b, uint i)
{
#if PAGED
    return pos[a->pos + b + i / a->group];
#elif POS
    return (int)(i / a->group) + pos[a->pos + b];
#else
    return (int)(i / a->group);
#endif
}

#if FIRST
#  define FIRST_PARAM , global const int *first_keys
#  define FIRST_KEYS  first_keys
#else
#  define FIRST_PARAM
#  define FIRST_KEYS 0
#endif

/* The first key that query i may see by `first`. */
static int first_key(const attention_args *a, global const int *first_keys, uint b, uint i)
{
#if FIRST
    return first_keys[a->first + b * a->n[2] + i / a->group];
#else
    return 0;
#endif
}

/* The first element of key or value s. */
static size_t key_at(const view_args *cache, uint b, uint hk, int s, global const int *pages)
{
#if PAGED
    return page_at(cache, hk, s, pages);
#else
    return cache->offset + b * (size_t)cache->stride[0] + hk * (size_t)cache->stride[1] +
           (uint)s * (size_t)cache->stride[2];
#endif
}

/* The first logit of query i: with sinks the logit of its head, else -INFINITY. A sink has a weight of 1 but
 * no value. */
static float first_logit(const attention_args *a, global const sink_elem *sinks, uint hk, uint i)
{
#if SINKS >= 0
    return LOAD(SINKS, sinks, a->sinks + hk * a->group + i % a->group);
#else
    return -INFINITY;
#endif
}

static size_t out_at(const attention_args *a, uint b, uint hk, uint i, uint last)
{
    return (((size_t)b * a->n[2] + i / a->group) * a->n[1] + hk * a->group + i % a->group) * last;
}

#if PAGED
/* A tile: queries of one run, from `first` on. */
typedef struct tile_place {
    run_of run;
    uint first;
} tile_place;

/* Tile n of all runs' tiles of `tile` queries; beyond the last, one that begins behind the run's queries. */
static tile_place tile_of_run(const attention_args *a, uint n, uint tile, global const int *runs,
                              global const int *pages)
{
    for (uint r = 0; r < a->paging.n_runs; r++) {
        const run_of run = run_at(&a->paging, r, runs, pages);
        const uint tiles = (run.rows * a->group + tile - 1) / tile;
        if (n < tiles)
            return (tile_place){run, n * tile};
        n -= tiles;
    }
    return (tile_place){(run_of){0, 0, pages}, 0};
}
#endif

/* The end, and the first, of the keys that a query at this position may see. from: its first_key(). */
static int keys_end(const attention_args *a, int at)
{
    const int n = a->n[3], ahead = a->causal ? 1 : a->window; /* keys from its own position on; 0: all */
    return ahead <= 0 || at > n - ahead ? n : max(at + ahead, 0);
}
static int keys_begin(const attention_args *a, int at, int from)
{
    const int begin = a->window > 0 ? at - a->window + 1 : a->window < 0 ? at - at % -a->window : 0;
    return max(begin, max(from, 0));
}

/* Writes elements e .. e + 3 of a row that ends at `last`. An array of them would be kept in memory. */
static void store_vector(global float *row, float4 x, uint e, uint last)
{
    if (e + 4 <= last)
        vstore4(x, 0, row + e);
    else {
        if (e < last)
            row[e] = x.x;
        if (e + 1 < last)
            row[e + 1] = x.y;
        if (e + 2 < last)
            row[e + 2] = x.z;
    }
}

#endif
