/* What attention and cached_attention share: one description of the work, and the launches that do it. */
#ifndef CLEF_GRAPH_ATTENTION_H
#define CLEF_GRAPH_ATTENTION_H

#include "graph/lower/subgroup.h"
#include "graph/lower/variant.h"

enum { CLEF_MAX_HEAD = 512 }; /* elements of a head */

typedef struct clef_attention_call {
    attention_cpu_decode_args args; /* but for .a.tile and .a.splits; what only a write needs may be 0 */
    const clef_value   *out, *q, *k, *v, *mask, *pos, *sinks; /* q may be CLEF__SCRATCH */
    const clef_value   *new_k, *new_v, *freqs, *q_norm, *k_norm; /* new_k NULL: nothing is written */
    clef_rope_pairing   pairing;
} clef_attention_call;

/** Rows of clef_launch.defs that every kernel of attention takes (cl/attention/attention.h). */
#define CLEF_ATTENTION_DEFS(lo, call)                                                          \
    {"D", (int32_t)clef__n(lo, (call)->k, 0)}, {"E", (int32_t)clef__n(lo, (call)->v, 0)},      \
        {"K_TYPE", (int32_t)(call)->k->dtype}, {"V_TYPE", (int32_t)(call)->v->dtype},          \
        {"MASK", (call)->mask ? (int32_t)(call)->mask->dtype : DTYPE_NONE},                    \
        {"POS", (call)->pos != NULL},                                                          \
        {"SINKS", (call)->sinks ? (int32_t)(call)->sinks->dtype : DTYPE_NONE}

/** [B, H, T, S] of the scores, as a value that a mask is held against. */
clef_value clef__attention_scores(const clef_value *n, clef_dim B, clef_dim H, clef_dim T, clef_dim S);

/** CPUs with vectors: a compiler that takes vectors apart makes nothing good of those kernels, and takes
 *  minutes for it. */
int clef__attention_has_vectors(const clef_caps *caps);

/** A tile of queries shares each chunk of keys. CPUs with vectors. Nothing is written. */
clef_status clef__attention_cpu_prefill_launch(clef_lowering *lo, const clef_attention_call *call,
                                               clef_error *err);
/** Each query alone, by a group of work-items. Any device. Nothing is written. */
clef_status clef__attention_gpu_query_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err);
/** Tiles of queries, chunks of keys in local memory. GPUs, where clef__attention_gpu_flash_takes().
 *  Nothing is written. Takes scratch, behind q's where q lies there. */
clef_status clef__attention_gpu_flash_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err);
int         clef__attention_gpu_flash_runs(const clef_caps *caps);
/** 1 when the device's local memory holds a tile and a chunk of heads of D and E. */
int         clef__attention_gpu_flash_takes(const clef_caps *caps, uint32_t D, uint32_t E);
/** A few positions, rows written before. CPUs with vectors. Takes scratch where the keys are cut in parts. */
clef_status clef__attention_cpu_decode_launch(clef_lowering *lo, const clef_attention_call *call,
                                              clef_error *err);
/** 1 when T positions of `group` queries a head of k, with values of E, are few enough for that. */
int         clef__attention_cpu_decode_takes(uint32_t T, uint32_t group, uint32_t E);

/* The parts of cached_attention on devices that take them one by one (graph/op/op_rope.c,
 * graph/op/op_cache_write.c). */
clef_status clef__rope_launch(clef_lowering *lo, rope_args args, const clef_value *out, const clef_value *x,
                              const clef_value *freqs, const clef_value *pos, clef_rope_pairing pairing,
                              clef_error *err);
clef_status clef__cache_write_launch(clef_lowering *lo, const cache_write_args *args, const clef_value *cache,
                                     const clef_value *x, const clef_value *pos, clef_error *err);

/* ---- for the references ---------------------------------------------------------------------- */

/** How the text form spells a clef_rope_pairing. */
extern const char *const clef__rope_pairings[];

/** x[0 .. 2 half) turned by position * freqs, in place: rope's formula. */
void clef__ref_turn(double *x, const double *freqs, int64_t half, double position, clef_rope_pairing pairing,
                    double scale);
/** n elements as a cache of this dtype holds them; out may be x. */
void clef__ref_keep(clef_dtype dtype, const double *x, int64_t n, double *out);

#endif
