/* The two ops on panels. Panels are weights repacked in the order in which a device reads them fastest.
 *
 * The pass "choose" replaces matmul by these ops where that pays; model code writes matmul. They are internal
 * because the order of the bytes and the rounding of activations depend on the device. */
#ifndef CLEF_GRAPH_PANEL_OPS_H
#define CLEF_GRAPH_PANEL_OPS_H

#include "clef/graph.h"

/** Repacks weights [N, K] (with .in_out: [K, N]) into panels: tiles of 16 rows of N, so that one vector holds
 *  the same column of 16 rows. The result is I8 bytes; cl/panel/panel.h describes their order. Rows that the
 *  last tile has beyond the weight are zero.
 *
 *   weights  1 to 4 of one dtype and one K, packed as if they were one weight. Each but the last must have N
 *            % 32 == 0. [experts, N, K] counts as [experts N, K].
 *   opts     .interleave: the tiles of two weights of equal N alternate: the first tile of each, the second
 *            tile of each .. */
typedef struct clef_pack_opts {
    int32_t in_out, interleave;
} clef_pack_opts;
clef_value *clef__pack(clef_graph *graph, clef_value *const *weights, int32_t n, const clef_pack_opts *opts);

typedef enum clef_panel_norm { CLEF_PANEL_NO_NORM, CLEF_PANEL_RMS, CLEF_PANEL_LAYER } clef_panel_norm;
typedef enum clef_panel_act {
    CLEF_PANEL_NO_ACT,
    CLEF_PANEL_SWIGLU,
    CLEF_PANEL_GELU,
    CLEF_PANEL_GELU_TANH,
    CLEF_PANEL_SILU,
    CLEF_PANEL_RELU
} clef_panel_act;

/** How a product may round its activations x.
 *    F32        not at all.
 *    INT8       to 8 bits in blocks of 32 of its last dim: d = max |x| / 127, q = round(x / d). For block
 *               formats and k % 32 == 0. The product is one of integers, so the only error is that of
 *               rounding x: under 1 % of a row's norm unless one element of a block is much larger than the
 *               others.
 *    HALF       the device may round x to half precision, in blocks as above, and add a block's products in
 *               it; sums of blocks are f32. With weights in f16 or bf16 (k % 32 == 0) x may be rounded to
 *               their dtype. Not for weights in f32.
 *    BY_DEVICE  as INT8, or the device may instead round x and W to bf16 (8 significant bits) with f32 sums:
 *               an error of about 0.2 %, whatever the spread of the elements. */
typedef enum clef_panel_activations {
    CLEF_PANEL_F32,
    CLEF_PANEL_INT8,
    CLEF_PANEL_HALF,
    CLEF_PANEL_BY_DEVICE
} clef_panel_activations;

/** out [.., M, n] = act(alpha norm(x) W^T + bias) + residual, for x F32 [.., M, k] and a packed W of n rows
 *  and k columns. */
typedef struct clef_panel_matmul_opts {
    int32_t n, k;
    clef_dtype dtype;        /* of W before it was packed */
    float   alpha;           /* 0 means 1 */
    clef_panel_activations activations; /* how x (after the norm) is rounded */
    clef_panel_norm norm;    /* over x's last dim: clef_rms_norm or clef_layer_norm */
    float   eps;             /* of the norm, used as given */
    clef_panel_act act;      /* SWIGLU: W is n rows of a gate interleaved with n rows of up; out =
                                silu(gate) up; bias is [2 n], the gate's first */
    int32_t batch_invariant; /* 1: a row's result is bit-identical whatever other rows are in the batch */
} clef_panel_matmul_opts;

/** Returns 1 when x is rounded to 8 bits, unless the device has another way. */
static inline int clef__is_int8(const clef_panel_matmul_opts *o)
{
    return o->activations == CLEF_PANEL_INT8 || o->activations == CLEF_PANEL_BY_DEVICE;
}

/** Optional inputs, NULL if absent: bias [n]; norm_weight and norm_bias [k]; residual of the result's
 *  shape. */
typedef struct clef_panel_inputs {
    clef_value *bias, *norm_weight, *norm_bias, *residual;
} clef_panel_inputs;

/** more: NULL if there is no optional input. */
clef_value *clef__panel_matmul(clef_graph *graph, clef_value *x, clef_value *packed,
                               const clef_panel_inputs *more, const clef_panel_matmul_opts *opts);

#endif
