/* Gradients of a graph, and the ops that training needs: losses, dropout, optimisers.
 *
 * A gradient consists of ordinary nodes. clef_graph_gradients() walks a graph backwards from a scalar; each
 * op's own rule adds the nodes that carry the gradient from its result to its inputs. The result is a graph
 * like any other: it is printed, planned and run in the same ways. include/clef/train.h builds a trainer from
 * these pieces. */
#ifndef CLEF_GRADIENT_H
#define CLEF_GRADIENT_H

#include "clef/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Replaces each symbol by its bound, so that every size is a number. Gradients of weights need this, because
 *  they add up over tokens and sequences at once. Lower the bounds first with clef_graph_set_bound(). */
CLEF_API clef_status clef_graph_fix_symbols(clef_graph *graph, clef_error *err);

typedef struct clef_gradient_opts {
    int32_t recompute; /* 1: what a layer (a scope called layerN) computes is not kept until the gradient
                          needs it, but computed again there, from the layer's inputs (arXiv:1604.06174).
                          Pieces of clef_linear_cross_entropy() always are */
    /** NULL, or called when the gradient of of[i] has been added, so that nodes which use it follow at once
     *  and its memory can be used again. */
    void (*ready)(void *user, int32_t i, clef_value *gradient);
    void *user;
} clef_gradient_opts;

/** Adds the nodes that compute d loss / d of[i] for n values of the graph, and sets out[i] to each gradient:
 *  F32, with the value's shape. out[i] is NULL where the loss does not depend on of[i].
 *
 *  loss   F32 with one element.
 *  of     leaves or computed values of a float dtype. Only nodes on a way from one of them to the loss get a
 *         gradient.
 *  opts   NULL: none.
 *
 *  CLEF_E_SHAPE: the loss has more than one element. CLEF_E_UNSUPPORTED: an op on the way has no gradient;
 *  the text names the node. CLEF_E_NOMEM. After an error the graph has the error, too, and can only be
 *  destroyed. */
CLEF_API clef_status clef_graph_gradients(clef_graph *graph, clef_value *loss, clef_value *const *of,
                                          int32_t n, const clef_gradient_opts *opts, clef_value **out,
                                          clef_error *err);

/** Makes a weight a state of the same name, in F32, which optimisers can change. Its values must then be
 *  written to the state before the first run. CLEF_E_ARG: not a weight of F32, F16, BF16 or a block
 *  format. */
CLEF_API clef_status clef_weight_to_state(clef_value *weight, clef_error *err);

/* ---- losses ---------------------------------------------------------------------------------- */

/** out [..] = log sum_j exp(x[.., j]) of each row of x [.., N]. */
CLEF_API clef_value *clef_log_sum_exp(clef_graph *graph, clef_value *x);

/** Cross-entropy of each row: out [..] = log sum_j exp(x[.., j]) - x[.., labels[..]], for logits x [.., N]
 *  and labels I32 [..]. A row does not count if its label is negative, or N or more: its loss and its
 *  gradient are 0. */
CLEF_API clef_value *clef_cross_entropy(clef_graph *graph, clef_value *x, clef_value *labels);

/** clef_cross_entropy() of the logits alpha x w^T (+ bias [V]), for x [R, D], w [V, D] and labels I32 [R]:
 *  out [R]. With pieces > 1 the vocabulary is cut into so many pieces, and neither the logits nor their
 *  gradient are ever in memory as a whole: each piece is computed once for the loss and once more for the
 *  gradient. */
typedef struct clef_linear_cross_entropy_opts { float alpha; int32_t pieces; } clef_linear_cross_entropy_opts;
CLEF_API clef_value *clef_linear_cross_entropy(clef_graph *graph, clef_value *x, clef_value *w,
                                               clef_value *bias, clef_value *labels,
                                               const clef_linear_cross_entropy_opts *opts);

/* ---- reductions and broadcasts ---------------------------------------------------------------- */

/** Sums x over the axes whose bits are set (bit i: dim i); their dims become 1. */
typedef struct clef_sum_axes_opts { int32_t axes; } clef_sum_axes_opts;
CLEF_API clef_value *clef_sum_axes(clef_graph *graph, clef_value *x, const clef_sum_axes_opts *opts);
/** x broadcast to the shape of `like`, whose elements are not read. */
CLEF_API clef_value *clef_expand(clef_graph *graph, clef_value *x, clef_value *like);
/** x with `before` and `after` zeros around it along `axis`. */
typedef struct clef_pad_opts { int32_t axis, before, after; } clef_pad_opts;
CLEF_API clef_value *clef_pad(clef_graph *graph, clef_value *x, const clef_pad_opts *opts);

/* ---- rounding ---------------------------------------------------------------------------------- */

/** x as F16 or BF16, rounded to nearest, ties to even; beyond the largest F16 infinite. clef_copy() makes it
 *  F32 again. It has no gradient. */
typedef struct clef_cast_opts { clef_dtype dtype; } clef_cast_opts;
CLEF_API clef_value *clef_cast(clef_graph *graph, clef_value *x, const clef_cast_opts *opts);

/* ---- dropout --------------------------------------------------------------------------------- */

/** Dropout (Srivastava et al. 2014): out = x / (1 - p) where an element is kept, with probability 1 - p; else
 *  0.
 *
 *  random  I32 [4]: the key (two words) and two words of the counter, such as a seed, and a step.
 *  p       0 <= p < 1.
 *  stream  differs between the nodes of a graph, so that they drop different elements.
 *  first   the number of the first element, where x is a part of a larger tensor; 0 or more.
 *
 *  With e = first + i, element i is kept if a word of Philox4x32-10 (Salmon et al. 2011) is at least p 2^32:
 *  word (e / 16) % 4 for the counter (e / 64 * 16 + e % 16, stream, random[2], random[3]). Nothing else
 *  decides. */
typedef struct clef_dropout_opts { float p; int32_t stream, first; } clef_dropout_opts;
CLEF_API clef_value *clef_dropout(clef_graph *graph, clef_value *x, clef_value *random,
                                  const clef_dropout_opts *opts);

/* ---- optimisers ------------------------------------------------------------------------------ */

/** state = keep[0] state + x, where keep [1] F32 of 0 takes x as it is. Returns the state after it. */
CLEF_API clef_value *clef_accumulate(clef_graph *graph, clef_value *state, clef_value *x, clef_value *keep);

/** out [64]: 64 partial sums of the squares of x, added to those of `before` (NULL, or F32 [64]). The sum of
 *  out is the squared 2-norm. */
enum { CLEF_NORM_PARTS = 64 };
CLEF_API clef_value *clef_sum_squares(clef_graph *graph, clef_value *x, clef_value *before);

/** The numbers of a step of an optimiser: an input F32 [CLEF_STEP_NUMBERS]. */
enum {
    CLEF_STEP_RATE,      /* learning rate */
    CLEF_STEP_BETA1,     /* adamw; sgd: the momentum */
    CLEF_STEP_BETA2,
    CLEF_STEP_EPS,
    CLEF_STEP_DECAY,     /* weight decay */
    CLEF_STEP_CORRECT1,  /* 1 - beta1^t at step t = 1, 2 .. */
    CLEF_STEP_CORRECT2,  /* 1 - beta2^t */
    CLEF_STEP_CLIP,      /* the largest norm of the gradient; 0: any */
    CLEF_STEP_SCALE,     /* what the gradient is multiplied by first, to undo the scale of the loss */
    CLEF_STEP_NUMBERS = 16
};

/** One step of AdamW (arXiv:1711.05101) or of SGD with momentum for a parameter. With c = min(1, clip /
 *  (scale |G| + 1e-6)), where |G|^2 is the sum of norm [64] (clef_sum_squares() of all gradients), and g = c
 *  scale grad:
 *
 *    adamw   p -= rate decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *            p -= rate (m / correct1) / (sqrt(v / correct2) + eps)
 *    sgd     g += decay p;  m = beta1 m + g;  p -= rate m
 *
 *  p, m and v are F32 states of one shape, or dense slices of states, and change in place; returns p after
 *  the step. If |G| is not finite, nothing changes. decays: 0 leaves this parameter out of weight decay. */
typedef struct clef_optimizer_opts { int32_t decays; } clef_optimizer_opts;
CLEF_API clef_value *clef_adamw(clef_graph *graph, clef_value *p, clef_value *grad, clef_value *m,
                                clef_value *v, clef_value *numbers, clef_value *norm,
                                const clef_optimizer_opts *opts);
CLEF_API clef_value *clef_sgd(clef_graph *graph, clef_value *p, clef_value *grad, clef_value *m,
                              clef_value *numbers, clef_value *norm, const clef_optimizer_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
