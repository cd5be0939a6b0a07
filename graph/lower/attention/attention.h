/* What attention and cached_attention share: a description of the work, and its launches. */
#ifndef CLEF_GRAPH_ATTENTION_H
#define CLEF_GRAPH_ATTENTION_H

#include "graph/lower/paging.h"
#include "graph/lower/subgroup.h"
#include "graph/lower/variant.h"

enum { CLEF_MAX_HEAD = 512 }; /* elements of a head */

/** Indices of the inputs of attention. */
enum {
    CLEF_ATTENTION_Q,
    CLEF_ATTENTION_K,
    CLEF_ATTENTION_V,
    CLEF_ATTENTION_MASK,
    CLEF_ATTENTION_POS,
    CLEF_ATTENTION_SINKS,
    CLEF_ATTENTION_RUNS,
    CLEF_ATTENTION_PAGES,
    CLEF_ATTENTION_FIRST,
    CLEF_ATTENTION_N_IN
};

/** The options of clef_attention() and of clef_cached_attention(), which come first, and what passes add. */
typedef struct clef__attention_attrs {
    clef_attention_opts opts;
    int32_t halves; /* 1: where a unit multiplies matrices of halves, queries and weights may be rounded to
                       them */
} clef__attention_attrs;

typedef struct clef__cached_attention_attrs {
    clef_cached_attention_opts opts;
    int32_t halves;
} clef__cached_attention_attrs;

typedef struct clef_attention_call {
    attention_cpu_decode_args args; /* all but .a.tile and .a.splits; fields that only a write needs may be
                                       0 */
    const clef_value *out, *q, *k, *v, *mask, *pos, *sinks;    /* q may be CLEF__SCRATCH */
    const clef_value *new_k, *new_v, *freqs, *q_norm, *k_norm; /* new_k NULL: the cache is not written */
    const clef_value *runs, *pages;                            /* NULL: the caches are not in pages */
    const clef_value *first;                                   /* NULL: queries see keys from 0 on */
    int32_t batch_invariant, halves; /* as in clef__attention_attrs */
    clef_rope_pairing pairing;
} clef_attention_call;

/** Rows of clef_launch.defs that every attention kernel needs (cl/attention/attention.h). */
#define CLEF_ATTENTION_DEFS(lo, call)                                                                        \
    {"D", (int32_t)clef__n(lo, (call)->k, 0)}, {"E", (int32_t)clef__n(lo, (call)->v, 0)},                    \
        {"K_TYPE", (int32_t)(call)->k->dtype}, {"V_TYPE", (int32_t)(call)->v->dtype},                        \
        {"MASK", (call)->mask ? (int32_t)(call)->mask->dtype : DTYPE_NONE}, {"POS", (call)->pos != NULL},    \
        {"SINKS", (call)->sinks ? (int32_t)(call)->sinks->dtype : DTYPE_NONE},                               \
    {                                                                                                        \
        "PAGED", (call)->pages != NULL                                                                       \
    }

/** The sizes and buffers of a node of attention, or of cached_attention, for its kernels. */
clef_attention_call clef__attention_call(const clef_lowering *lo, const clef_value *n);
clef_attention_call clef__cached_attention_call(const clef_lowering *lo, const clef_value *n);
/** Launches what a cached_attention does before the attention itself: norm, RoPE, writes to the caches. *call
 *  becomes what is left to do. */
clef_status clef__cached_attention_ready(clef_lowering *lo, const clef_value *n, clef_attention_call *call,
                                         clef_error *err);

/** The most keys of a sequence that the cache has room for. */
uint32_t clef__most_keys(const clef_lowering *lo, const clef_attention_call *call);
/** Appends first, runs and pages to a launch's buffers, if there are any. */
void clef__add_optional(clef_launch *launch, const clef_attention_call *call);
/** At least the number of tiles of `tile` queries in all runs. */
uint32_t clef__tiles_of_runs(const attention_args *args, uint32_t tile);

/** 1 for CPUs with vectors. A compiler that splits vectors makes slow code of those kernels, and takes
 *  minutes for it. */
int clef__attention_has_vectors(const clef_caps *caps);

/** For CPUs with vectors: a tile of queries shares each chunk of keys. Does not write the cache. */
clef_status clef__attention_cpu_prefill_launch(clef_lowering *lo, const clef_attention_call *call,
                                               clef_error *err);
/** For any device: a group of work-items computes each query alone. Does not write the cache. */
clef_status clef__attention_gpu_query_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err);
/** For GPUs for which clef__attention_gpu_flash_takes() returns 1: tiles of queries, and chunks of keys in
 *  local memory. Does not write the cache. Uses scratch memory, after that of q if q is there. */
clef_status clef__attention_gpu_flash_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err);
int clef__attention_gpu_flash_runs(const clef_caps *caps);
/** 1 when the device's local memory holds a tile and a chunk of heads of D and E. */
int clef__attention_gpu_flash_takes(const clef_caps *caps, uint32_t D, uint32_t E);
/** For GPUs with units that multiply matrices of halves, for which clef__attention_gpu_mma_takes() returns 1:
 *  the same, with caches in halves. */
clef_status clef__attention_gpu_mma_launch(clef_lowering *lo, const clef_attention_call *call,
                                           clef_error *err);
int clef__attention_gpu_mma_runs(const clef_caps *caps);
#define CLEF_ATTENTION_MMA_TEXT "more than 16 queries for a head of k, and aligned rows of k and v in f16"
int clef__attention_gpu_mma_takes(const clef_lowering *lo, const clef_attention_call *call);
/** For GPUs for which clef__attention_gpu_decode_takes() returns 1: few queries for each head of k, rows of k
 *  and v in registers. With call->new_k, which needs clef__attention_gpu_decode_makes_heads(), it does what
 *  clef__attention_gpu_heads_launch() does, too; else it does not write the cache. Scratch memory as
 *  above. */
clef_status clef__attention_gpu_decode_launch(clef_lowering *lo, const clef_attention_call *call,
                                              clef_error *err);
int clef__attention_gpu_decode_runs(const clef_caps *caps);
#define CLEF_ATTENTION_DECODE_TEXT                                                                           \
    "up to 16 queries on average for a head of k, whose rows are as wide as those of v"
/** 1 when the call has few queries for each head of k, whose rows are aligned, of a dtype that is decoded in
 *  pieces, and fit. */
int clef__attention_gpu_decode_takes(const clef_lowering *lo, const clef_attention_call *call);
/** 1 when one launch may make the heads of a step and compute their attention: no group of it reads a row
 *  that another one writes. */
int clef__attention_gpu_decode_makes_heads(const clef_lowering *lo, const clef_attention_call *call);
/** For GPUs: prepares q (norm, RoPE) in scratch memory, and writes new_k and new_v to the caches. *call
 *  becomes what is left to do. */
clef_status clef__attention_gpu_heads_launch(clef_lowering *lo, clef_attention_call *call, clef_error *err);
/** For CPUs with vectors: a few positions, whose rows are written first. Uses scratch memory if the keys are
 *  cut into parts. */
clef_status clef__attention_cpu_decode_launch(clef_lowering *lo, const clef_attention_call *call,
                                              clef_error *err);
/** 1 when T positions, with `group` queries for each head of k and values of E, are few enough for
 *  clef__attention_cpu_decode_launch(). */
int clef__attention_cpu_decode_takes(uint32_t T, uint32_t group, uint32_t E);

/* The parts of cached_attention, for devices that launch them one by one (graph/op/op_rope.c,
 * graph/op/op_cache_write.c). */
clef_status clef__rope_launch(clef_lowering *lo, rope_args args, const clef_value *out, const clef_value *x,
                              const clef_value *freqs, const clef_value *pos, clef_rope_pairing pairing,
                              int inverse, clef_error *err);
clef_status clef__cache_write_launch(clef_lowering *lo, const cache_write_args *args, const clef_value *cache,
                                     const clef_value *x, const clef_value *pos, const clef_value *runs,
                                     const clef_value *pages, clef_error *err);

/** Fills `first` [B, T] with the starts of documents, for tests and proofs (clef_op_def.draw). Returns 1. */
int clef__draw_documents(const clef_value *first, const int64_t *symbols, float *out);

/* ---- for the references ---------------------------------------------------------------------- */

/** The names of clef_rope_pairing in the text form. */
extern const char *const clef__rope_pairings[];

/** A query of attention, and with pages the run that it is in, whose sequence is -1 if there is none. */
typedef struct clef__ref_query {
    int64_t b, h, t;
    clef__ref_run run;
} clef__ref_query;

/** An attention in double: the node, its inputs, and where their rows are found. */
typedef struct clef__ref_attention {
    const clef_value *n;       /* an attention; its options, and the dtype of its mask, are read */
    const clef_ref_tensor *in; /* by CLEF_ATTENTION_*; rows of q, k and v are read by `row` alone */
    /** The query r (i: CLEF_ATTENTION_Q), or key or value s that it sees; NULL if there is none. The row is
     *  valid until the next call with the same i. */
    const double *(*row)(const void *rows, int32_t i, clef__ref_query r, int64_t s);
    const void *rows;
} clef__ref_attention;

/** clef__ref_attention.row of plain tensors: `rows` is clef__ref_attention.in. */
const double *clef__attention_ref_row(const void *tensors, int32_t i, clef__ref_query r, int64_t s);
/** The logit of key s for the query q; -INFINITY if the key is masked. *slope: the logit's derivative by the
 *  product q . k. */
double clef__attention_ref_logit(const clef__ref_attention *c, clef__ref_query r, int64_t s, const double *q,
                                 double *slope);
/** The result [B, T, H, E]. */
void clef__attention_ref(const clef__ref_attention *c, clef_ref_tensor *out);

/** Rotates x[0 .. 2 half) in place by position * freqs: rope's formula. */
void clef__ref_turn(double *x, const double *freqs, int64_t half, double position, clef_rope_pairing pairing,
                    double scale);
/** Rounds n elements to what a cache of this dtype holds; out may be x. */
void clef__ref_keep(clef_dtype dtype, const double *x, int64_t n, double *out);

#endif
