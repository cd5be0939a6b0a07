/* How a part of an op's result is computed from parts of its inputs: what sharding knows of the ops
 * (ranks/shard/shard.h). */
#ifndef CLEF_GRAPH_WAYS_H
#define CLEF_GRAPH_WAYS_H

#include "graph/op.h"

/** Which elements of an input a part needs, if it is not a range of one of its axes. */
enum {
    CLEF__ALL = -1,      /* the whole input */
    CLEF__PARTIAL = -2,  /* only in a sum: the input's own part of a sum over ranks */
    CLEF__FIRST = -3     /* only in a sum: the whole input on the first rank, nothing on the others */
};

/** Elements start .. start + size - 1 of an axis of the result need of each input the elements
 *  start * mul / div + add .. of `axis`, size * mul / div of them, but at least 1. */
typedef struct clef__way_in {
    int32_t axis; /* or one of the above */
    int64_t mul, div, add;
} clef__way_in;

typedef struct clef__way {
    clef__way_in in[CLEF_MAX_INPUTS];
    int32_t pays;         /* 1: a part costs a part of the work, whatever the inputs are */
    int32_t passes_input; /* 1: the part is that part of input 0 itself */
    int32_t heads, kv_heads; /* of attention, which is cut between heads; 0: none */
    int32_t lead;         /* in a sum: the input whose axis is divided among the ranks; -1: none, because
                             inputs are sums already */
    int32_t needs_all_inputs; /* 1: cutting pays only where it pays for every computed input */
} clef__way;

/** Fills `way` with inputs that are needed whole, and returns 1. */
int clef__way_start(clef__way *way);
/** Input i along `axis`, element by element. */
void clef__way_take(clef__way *way, int32_t i, int32_t axis);

/* Ways that several ops share. */
/* inputs broadcast to the result */
int clef__way_elementwise(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_rows(const clef_value *n, int32_t axis, clef__way *way);  /* input 0 along any axis but the
                                                                           last */
int clef__way_gate(const clef_value *n, int32_t axis, clef__way *way);  /* as elementwise, if all inputs
                                                                           gain */
/* input 0 along the same axis */
int clef__way_first_input(const clef_value *n, int32_t axis, clef__way *way);

int clef__way_matmul(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_expert_matmul(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_low_rank_add(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_softmax(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_attention(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_cached_attention(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_cache_write(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_causal_conv(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_gated_delta(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_rope(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_relative_bias(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_reshape(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_permute(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_slice(const clef_value *n, int32_t axis, clef__way *way);
int clef__way_concat(const clef_value *n, int32_t axis, clef__way *way);

/* Sums over ranks. */
int clef__sum_matmul(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_expert_matmul(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_low_rank_add(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_gather(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_add(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_sub(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_mul(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_div(const clef_value *n, const unsigned char *partial, clef__way *way);
int clef__sum_linear(const clef_value *n, const unsigned char *partial, clef__way *way); /* of input 0 */
int clef__sum_affine(const clef_value *n, const unsigned char *partial, clef__way *way);

#endif
