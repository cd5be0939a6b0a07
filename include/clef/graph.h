/* The computation graph: values, symbols, the builders of every op, passes, and the formats a graph is
 * written in.
 *
 * A graph is built once, on the host, without a device. A value is a tensor of up to four dims, row-major,
 * with a dense last dim. A dim is a number, or a number times a symbol that has an upper bound. Memory is
 * planned for the bounds, and each run binds the symbols, so that one graph serves every length.
 *
 * A builder returns the new value. On an error it records the first one in the graph (clef_graph_error) and
 * returns NULL; given NULL, it returns NULL. So model code reads like the formula and checks once, at the
 * end. Values belong to their graph. A graph is not thread-safe; different graphs are independent. */
#ifndef CLEF_GRAPH_H
#define CLEF_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clef/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Element types. Those from CLEF_Q8_0 on are GGUF's block formats (ggml-common.h of ggml), those from
 *  CLEF_I4_32 on clef's own, for weights of quantised folders; clef_dtype_name() and the functions beside it
 *  give a dtype's name and sizes. */
typedef enum clef_dtype {
    CLEF_F32,      CLEF_F16,      CLEF_BF16,     CLEF_I32,      CLEF_I8,       CLEF_Q8_0,
    CLEF_Q4_0,     CLEF_Q4_1,     CLEF_Q5_0,     CLEF_Q5_1,     CLEF_Q2_K,     CLEF_Q3_K,
    CLEF_Q4_K,     CLEF_Q5_K,     CLEF_Q6_K,     CLEF_IQ4_NL,   CLEF_IQ4_XS,   CLEF_IQ1_S,
    CLEF_IQ1_M,    CLEF_IQ2_XXS,  CLEF_IQ2_XS,   CLEF_IQ2_S,    CLEF_IQ3_XXS,  CLEF_IQ3_S,
    CLEF_TQ1_0,    CLEF_TQ2_0,    CLEF_MXFP4,    CLEF_NVFP4,    CLEF_Q1_0,     CLEF_Q2_0,
    CLEF_I4_32,    CLEF_I4_64,    CLEF_A4_32,    CLEF_A4_64,    CLEF_I8_32,    CLEF_I8_64,
    CLEF_F8_32,    CLEF_F8_64,    CLEF_NF4_32,   CLEF_NF4_64,
    CLEF_N_DTYPES
} clef_dtype;

CLEF_API const char *clef_dtype_name(clef_dtype dtype);        /* "q8_0"; "?" if none */
CLEF_API int32_t     clef_dtype_block_elems(clef_dtype dtype); /* elements per block: 1, 32 .. 256 */
CLEF_API int32_t     clef_dtype_block_bytes(clef_dtype dtype); /* bytes per block */

/** Decodes `n` elements (whole blocks) of `dtype` at `src` to f32. F32, F16, BF16, I32, I8 and every block
 *  format. */
CLEF_API void clef_dtype_decode(clef_dtype dtype, const void *src, size_t n, float *dst);
/** Encodes `n` f32 elements (whole blocks) to `dtype`. F16 and BF16 round to nearest even. Q8_0, Q4_0, Q4_1,
 *  Q5_0, Q5_1, Q1_0 and Q2_0 give the bytes of ggml's reference. Q4_K, Q5_K, Q6_K, IQ4_NL, MXFP4 and NVFP4
 *  search for the scales of least squared error. Writes nothing for other dtypes. */
CLEF_API void clef_dtype_encode(clef_dtype dtype, const float *src, size_t n, void *dst);
/** 1 when clef_dtype_encode() writes `dtype`. */
CLEF_API int  clef_dtype_encodes(clef_dtype dtype);

enum { CLEF_MAX_DIMS = 4, CLEF_MAX_INPUTS = 12, CLEF_MAX_SYMBOLS = 8 };

/** A dim: `n`, or `n` times the value bound to symbol number `symbol` (1-based; 0 is none). */
typedef struct clef_dim {
    int64_t n;
    int32_t symbol;
} clef_dim;

/** Rank 0 is a scalar (one element). dim[0] is the outermost. */
typedef struct clef_shape {
    int32_t  rank;
    clef_dim dim[CLEF_MAX_DIMS];
} clef_shape;

static inline clef_dim clef_n(int64_t n)
{
    clef_dim d;
    d.n = n;
    d.symbol = 0;
    return d;
}
CLEF_API clef_shape clef_shape_1(clef_dim a);
CLEF_API clef_shape clef_shape_2(clef_dim a, clef_dim b);
CLEF_API clef_shape clef_shape_3(clef_dim a, clef_dim b, clef_dim c);
CLEF_API clef_shape clef_shape_4(clef_dim a, clef_dim b, clef_dim c, clef_dim d);

typedef struct clef_graph clef_graph;
typedef struct clef_value clef_value;

/** Returns an empty graph, NULL when out of memory. Free it with clef_graph_destroy(), which accepts NULL. */
CLEF_API clef_graph *clef_graph_create(void);
CLEF_API void        clef_graph_destroy(clef_graph *graph);
/** A deep copy that shares nothing with the graph; NULL when out of memory. The caller destroys it. */
CLEF_API clef_graph *clef_graph_clone(const clef_graph *graph);

/** The first error of a builder, CLEF_OK if there was none; `err` may be NULL. */
CLEF_API clef_status clef_graph_error(const clef_graph *graph, clef_error *err);

/* ---- leaves ---------------------------------------------------------------------------------- */

/** Declares a symbol with 1 <= value <= bound, or returns the symbol of that name, whose bound must be the
 *  same. A graph has at most CLEF_MAX_SYMBOLS. name: ASCII letters, digits and _.-/, starting with no
 *  digit. */
CLEF_API clef_dim clef_symbol(clef_graph *graph, const char *name, int64_t bound);

/** Leaves of the graph. Names have 1 to 255 bytes and are unique. If a value has the name only by default,
 *  that value is renamed. A second leaf of one name is an error, but asking for the same weight again (same
 *  dtype and shape) returns the first.
 *
 *  input     written before each run.
 *  weight    borrowed from the model file under `name`; any dtype, fixed shape.
 *  state     zeroed when the plan is made, kept across runs (the KV cache); fixed shape.
 *  constant  a copy of `data` (dense, F32 or I32); fixed shape. */
CLEF_API clef_value *clef_input(clef_graph *graph, const char *name, clef_dtype dtype, clef_shape shape);
CLEF_API clef_value *clef_weight(clef_graph *graph, const char *name, clef_dtype dtype, clef_shape shape);
CLEF_API clef_value *clef_state(clef_graph *graph, const char *name, clef_dtype dtype, clef_shape shape);
CLEF_API clef_value *clef_constant(clef_graph *graph, const char *name, clef_dtype dtype, clef_shape shape,
                                   const void *data);

/** Marks `value` as an output called `name`. The value is renamed, unless it is a leaf or an output
 *  already. */
CLEF_API void clef_output(clef_graph *graph, const char *name, clef_value *value);

/** Opens a scope: values made until the matching pop get `scope.` before their name. Scopes nest. A scope
 *  called layerN, by itself or within a scope encoder or decoder, is a layer: it is drawn as one cluster, and
 *  plans over several devices divide the graph between layers. */
CLEF_API void clef_scope_push(clef_graph *graph, const char *format, ...);
CLEF_API void clef_scope_pop(clef_graph *graph);
/** Renames a value to `name` within the open scopes and returns it. A leading '/' is dropped and means:
 *  without the scopes. */
CLEF_API clef_value *clef_named(clef_value *value, const char *format, ...);

/* ---- ops ----
 *
 * An options struct may be passed as NULL, meaning all zero; zero is always the default. [..] stands for any
 * leading dims. Activations are F32; weights may have any dtype, and are decoded as they are read.
 * Accumulation is f32. */

/** out[.., i, ..] = table[.., ids[i], ..] along `axis` of table, for ids I32; F32. The rank of out,
 *  rank(table) - 1 + rank(ids), is at most 4. An embedding lookup has axis 0 and a [vocab, d] table of any
 *  dtype. Along another axis, or with more than 2 dims, the table is F32. first: the id of row 0, if the
 *  table is a part of a larger one. An id outside the table gives zeros, because the device cannot report
 *  it: check ids before a run (clef_value_row_range()). */
typedef struct clef_gather_opts { int32_t axis, first; } clef_gather_opts;
CLEF_API clef_value *clef_gather(clef_graph *graph, clef_value *table, clef_value *ids,
                                 const clef_gather_opts *opts);

/** The positions of a step's tokens: out[b, t] = pos[b] + t, I32 [B, length]. pos: I32 [B]. */
typedef struct clef_positions_opts { clef_dim length; } clef_positions_opts;
CLEF_API clef_value *clef_positions(clef_graph *graph, clef_value *pos, const clef_positions_opts *opts);

/** out = alpha * a b (+ bias): a [.., M, K], or with .transpose_a [.., K, M]; b [.., K, N], or with
 *  .transpose_b [.., N, K] as torch.nn.Linear stores it; bias [N]. Leading dims broadcast; in dim 1 of four,
 *  b may have 1/G of a's heads (grouped-query attention: head h of a meets h / G). b may be a weight of any
 *  dtype ([N, K] when it is a block format). alpha 0 means 1. F32.
 *
 *  As in numpy, a may be a vector [K] (whatever .transpose_a says), and out has no M then; b may be a vector
 *  [K] (whatever .transpose_b says; bias [1]), and out has no N then. The product of two vectors is a scalar
 *  []. Such a product is built from the op and views. */
typedef struct clef_matmul_opts { int32_t transpose_b; float alpha; int32_t transpose_a; } clef_matmul_opts;
CLEF_API clef_value *clef_matmul(clef_graph *graph, clef_value *a, clef_value *b, clef_value *bias,
                                 const clef_matmul_opts *opts);

/** Softmax over the last dim of x [.., T, S]:  z = cap(scale x) + mask;  out = exp(z - max z) / sum exp(z -
 *  max z).
 *
 *  mask     NULL, or broadcastable to x. F32 is added; I32 or I8 keeps the elements where it is not 0.
 *  pos      NULL, or I32 [B] (B = x's dim 0): row t of sequence b has position pos[b] + t. NULL: t.
 *  scale    0 means 1.
 *  softcap  c > 0: cap(z) = c tanh(z / c).
 *  causal   column s > position is dropped.
 *  window   w > 0: columns s <= position - w and s >= position + w are dropped too. w < 0, with causal: those
 *           before the row's chunk of -w positions are, where chunks begin at multiples of -w.
 *  log      returns log(out).
 *
 *  A row whose columns are all dropped gives zeros (log: -inf). A NaN that is kept makes its whole row
 *  NaN. */
typedef struct clef_softmax_opts { float scale, softcap; int32_t causal, window, log; } clef_softmax_opts;
CLEF_API clef_value *clef_softmax(clef_graph *graph, clef_value *x, clef_value *mask, clef_value *pos,
                                  const clef_softmax_opts *opts);

/** clef_softmax() with attention sinks [H] (F32, F16 or BF16) for x [B, H, T, S]. Each row of head h has one
 *  more column with logit sinks[h], which takes its share and is not part of the result (arXiv:2309.17453;
 *  gpt-oss). Not with log. */
CLEF_API clef_value *clef_softmax_with_sinks(clef_graph *graph, clef_value *x, clef_value *mask,
                                             clef_value *pos, clef_value *sinks,
                                             const clef_softmax_opts *opts);

/** Fused softmax attention. q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E], with H a multiple of Hk:  out
 *  [B, T, H, E] = softmax(q k^T) v for each head. mask, pos and options as of clef_softmax(). D, E <= 512. k
 *  and v are F32, F16, BF16 or Q8_0. Model code writes matmul, softmax, matmul and permute; the fuse pass
 *  turns them into this op. */
typedef struct clef_attention_opts {
    float scale, softcap; int32_t causal, window;
    int32_t batch_invariant; /* 1: a query's result is bit-identical whatever other queries are in the
                                batch */
} clef_attention_opts;
CLEF_API clef_value *clef_attention(clef_graph *graph, clef_value *q, clef_value *k, clef_value *v,
                                    clef_value *mask, clef_value *pos, const clef_attention_opts *opts);

/** clef_attention() with sinks, as of clef_softmax_with_sinks(). */
CLEF_API clef_value *clef_attention_with_sinks(clef_graph *graph, clef_value *q, clef_value *k, clef_value *v,
                                               clef_value *mask, clef_value *pos, clef_value *sinks,
                                               const clef_attention_opts *opts);

/** clef_attention() of documents that are packed one after the other into rows: query t of sequence b sees
 *  only keys from first[b, t] on, the start of its document. first is I32 [B, T] and does not decrease along
 *  t (where it does, the result is undefined, but nothing outside the tensors is read). mask is as of
 *  clef_attention(). opts->causal counts as 1. */
CLEF_API clef_value *clef_attention_of_documents(clef_graph *graph, clef_value *q, clef_value *k,
                                                 clef_value *v, clef_value *mask, clef_value *first,
                                                 const clef_attention_opts *opts);

/** Relative position bias of attention scores (T5, arXiv:1910.10683, section 2.1): out [H, queries, keys] =
 *  x[s - (pos + t) + D / 2, h], the bias for each distance between key s and query t, looked up in x [D, H]
 *  (D odd, F32). Distances beyond the table use its first or last row. pos: NULL (0) or I32 [1]. */
typedef struct clef_relative_bias_opts {
    clef_dim queries, keys;
    int32_t  each; /* 1: pos is I32 [queries], the position of each query */
} clef_relative_bias_opts;
CLEF_API clef_value *clef_relative_bias(clef_graph *graph, clef_value *x, clef_value *pos,
                                        const clef_relative_bias_opts *opts);

/** Gathers elements of each row: out [.., k] = x[.., ids[.., j]], for x [.., N] (F32) and ids [.., k] (I32),
 *  as numpy's take_along_axis. ids may have dims of 1 before others that are x's: all rows share them. An id
 *  outside the row gives 0. */
CLEF_API clef_value *clef_gather_elements(clef_graph *graph, clef_value *x, clef_value *ids);

/** Mixture of experts: out [B, T, k, N] = x W[ids[b, t, j]]^T (+ bias [E, N]) for the k experts that ids [B,
 *  T, k] (I32) select for each token. x is F32 [B, T, K], or [B, T, k, K] with one row per selected expert.
 *  w is [E, N, K] with transpose_b, else [E, K, N]. Weights of other experts are not read. */
typedef struct clef_expert_matmul_opts { int32_t transpose_b; } clef_expert_matmul_opts;
CLEF_API clef_value *clef_expert_matmul(clef_graph *graph, clef_value *x, clef_value *w, clef_value *ids,
                                        clef_value *bias, const clef_expert_matmul_opts *opts);

/** Low-rank adapters (arXiv:2106.09685): out [B, T, N] = y + (x down[i]^T) up[i] for the pair of matrices i =
 *  ids[b] - 1 of each sequence; y itself where ids[b] is 0. y is F32 [B, T, N], x F32 [B, T, K], down F32
 *  [n, r, K], up F32 [n, r, N], ids I32 [B] from 0 to n. r is at most CLEF_MAX_LOW_RANK. Other pairs are not
 *  read. */
enum { CLEF_MAX_LOW_RANK = 512 };
CLEF_API clef_value *clef_low_rank_add(clef_graph *graph, clef_value *y, clef_value *x, clef_value *down,
                                       clef_value *up, clef_value *ids);

/** Norms over the last dim. layer_norm: (x - mean) / sqrt(var + eps) * weight + bias (arXiv:1607.06450;
 *  biased variance); rms_norm: x / sqrt(mean(x^2) + eps) * weight (arXiv:1910.07467). weight, bias: NULL or
 *  [N], any dtype. eps is used as given. */
typedef struct clef_norm_opts { float eps; } clef_norm_opts;
CLEF_API clef_value *clef_layer_norm(clef_graph *graph, clef_value *x, clef_value *weight, clef_value *bias,
                                     const clef_norm_opts *opts);
CLEF_API clef_value *clef_rms_norm(clef_graph *graph, clef_value *x, clef_value *weight,
                                   const clef_norm_opts *opts);

/** Which dims of a head rotate together, R of them being rotated: pair i is
 *
 *    HALVES                 (x[i], x[i + R/2]), as in Hugging Face's code
 *    INTERLEAVED            (x[2i], x[2i + 1]), as in the paper and in most of GGUF
 *    INTERLEAVED_TO_HALVES  read from (x[2i], x[2i + 1]) and written to (i, i + R/2): what follows is
 *                           bit-identical to a model that is stored for HALVES. */
typedef enum clef_rope_pairing {
    CLEF_ROPE_HALVES,
    CLEF_ROPE_INTERLEAVED,
    CLEF_ROPE_INTERLEAVED_TO_HALVES
} clef_rope_pairing;

/** Rotary position embedding (arXiv:2104.09864) of x [B, T, H, D] at positions pos[b] + t; pos: NULL or I32
 *  [B]. freqs: F32 [R/2], R <= D even: pair i is rotated by position * freqs[i] radians (scaled variants
 *  differ in freqs alone); dims from R on pass unchanged. The result is multiplied by `scale` in the rotated
 *  dims (YaRN's attention factor; 0 means 1). inverse: 1 turns by the negative angle, which is what the
 *  gradient needs; for INTERLEAVED_TO_HALVES the pairs are then read from (i, i + R/2) and written to
 *  (2i, 2i + 1). */
typedef struct clef_rope_opts { clef_rope_pairing pairing; float scale; int32_t inverse; } clef_rope_opts;
CLEF_API clef_value *clef_rope(clef_graph *graph, clef_value *x, clef_value *freqs, clef_value *pos,
                               const clef_rope_opts *opts);

/** cache[b, h, pos[b] + t, :] = x[b, h, t, :]; cache: a state (or an earlier cache_write of it) [B', H, C, D]
 *  with B' >= B, x [B, H, T, D], pos: NULL (0) or I32 [B]. Returns the cache after the write; rows beyond C
 *  are dropped. The cache changes in place: the state, an earlier cache_write of it and views of either
 *  cannot be used after this (CLEF_E_ARG), only what this returns. x may not lie in the cache. The cache is
 *  F32, F16 (rounded to nearest even) or Q8_0 (D a multiple of 32; as GGUF's reference encodes it). */
CLEF_API clef_value *clef_cache_write(clef_graph *graph, clef_value *cache, clef_value *x, clef_value *pos);

/** Caches in pages, for steps with tokens of several sequences.
 *
 *  All sequences share a pool [pages, H, CLEF_KV_PAGE, D], a state in the dtype of a cache. The batch of
 *  such a step is of rows, T is 1: row b is one token, at position pos[b] of its sequence. Rows of one
 *  sequence follow each other and have consecutive positions; they are a run.
 *
 *  runs   I32 [M, 3]: of each run the number of its sequence, its first row, and its number of rows. At
 *         most one run has the same sequence; every row has a run.
 *  pages  I32 [sequences, n]: the page of the pool that holds positions CLEF_KV_PAGE i .. of a sequence.
 *
 *  clef_paged_write() writes x [B, H, 1, D] to its rows' places, as clef_cache_write(). No two rows may
 *  have the same place. */
#define CLEF_KV_PAGE 64
CLEF_API clef_value *clef_paged_write(clef_graph *graph, clef_value *pool, clef_value *x, clef_value *pos,
                                      clef_value *runs, clef_value *pages);

/** clef_attention() of q [B, H, 1, D] over pools: each row sees its own sequence up to its position
 *  (causal must be 1). mask broadcasts to [B, H, 1, S], where S is its own last dim; sinks as in
 *  clef_attention_with_sinks(). first: NULL, or I32 [B, 1]: a row sees no position before first[b]. Within a
 *  run, neither pos nor first decreases. */
typedef struct clef_paged_attention_in {
    clef_value *q, *k_pool, *v_pool, *mask, *pos, *sinks, *runs, *pages, *first;
} clef_paged_attention_in;
CLEF_API clef_value *clef_paged_attention(clef_graph *graph, const clef_paged_attention_in *in,
                                          const clef_attention_opts *opts);

/** For beam search: cache[b, h, s, :] = old cache[order[b], h, s, :] for s < rows (0: all), in place. order
 *  is I32 [B], B <= 64 at its bound. Entries must be sequences of the cache [B', H, C, D]; with any other
 *  number, sequence b stays as it is. The cache is a state or an earlier write of it, and is used up as by
 *  clef_cache_write(). */
typedef struct clef_cache_reorder_opts { clef_dim rows; } clef_cache_reorder_opts;
CLEF_API clef_value *clef_cache_reorder(clef_graph *graph, clef_value *cache, clef_value *order,
                                        const clef_cache_reorder_opts *opts);

/** Fused attention step over a KV cache. With q' = rope(rms_norm(q)) and k' = rope(rms_norm(k)), it writes k'
 *  and v to their caches as clef_cache_write() does, and then computes out [B, T, H, E] = attention of q'
 *  over the given rows of the caches.
 *
 *  q [B, T, H, D], k [B, T, Hk, D], v [B, T, Hk, E]. k_cache [B, Hk, S, D] and v_cache [B, Hk, S, E] are two
 *  states (or earlier writes of them), or slices of these that start at their first element; F32, F16 or
 *  Q8_0. The states change in place and cannot be read after this op (CLEF_E_ARG). freqs NULL: no rope.
 *  q_norm and k_norm [D] have one dtype; both NULL: no norm. eps is that of the norms. pos, mask and the
 *  other options are as of clef_attention() and clef_rope(). Model code writes the ops one by one; the fuse
 *  pass turns them into this op. */
typedef struct clef_cached_attention_in {
    clef_value *q, *k, *v, *k_cache, *v_cache, *pos, *freqs, *mask, *q_norm, *k_norm;
    clef_value *runs, *pages; /* NULL, or the caches are pools of pages (clef_paged_write()), and T is 1 */
} clef_cached_attention_in;
typedef struct clef_cached_attention_opts {
    float scale, softcap; int32_t causal, window; clef_rope_pairing pairing; float rope_scale, eps;
    int32_t batch_invariant;
} clef_cached_attention_opts;
CLEF_API clef_value *clef_cached_attention(clef_graph *graph, const clef_cached_attention_in *in,
                                           const clef_cached_attention_opts *opts);

/** Causal convolution of each channel over its last K positions, K from 2 to 16: out[b, t, c] = sum_j w[c, j]
 *  x[b, t + j - (K - 1), c], for x [B, T, C] and w [C, K]. Positions before this step come from `state`, F32
 *  [at least B, 1, K - 1, C] (a state, or an earlier write of it), which then holds the last K - 1
 *  positions. Where pos[b] is 0 (I32 [B]; NULL: everywhere), a sequence begins and its state counts as 0. */
CLEF_API clef_value *clef_causal_conv(clef_graph *graph, clef_value *x, clef_value *w, clef_value *state,
                                      clef_value *pos);

/** clef_causal_conv() of a step whose rows are of several sequences, x [B, 1, C] (clef_paged_write()
 *  describes runs). A run has the state of its sequence; pos[b] is the position of row b. */
CLEF_API clef_value *clef_causal_conv_of_runs(clef_graph *graph, clef_value *x, clef_value *w,
                                              clef_value *state, clef_value *pos, clef_value *runs);

/** Linear attention by the gated delta rule (arXiv:2412.06464), one token after the other, for q, k
 *  [B, T, Hk, D] and v [B, T, H, E], with H a multiple of Hk and D <= 256. For each head h with its matrix S
 *  [D, E], where k' = k / sqrt(|k|^2 + eps) and q' = q / sqrt(|q|^2 + eps) / sqrt(D):
 *
 *    S  = exp(rates[h] softplus(a[b, t, h] + bias[h])) S
 *    S += k' (v - k'^T S) sigmoid(b[b, t, h])
 *    out[b, t, h, :] = q'^T S
 *
 *  S is kept in `state`, F32 [at least B, H, D, E], from step to step, as in clef_causal_conv(). */
typedef struct clef_gated_delta_in {
    clef_value *q, *k, *v, *a, *b, *rates, *bias, *state, *pos;
    clef_value *runs; /* NULL, or T is 1 and the rows are of several sequences: clef_causal_conv_of_runs() */
} clef_gated_delta_in;
typedef struct clef_gated_delta_opts {
    float   eps;
    int32_t tiled; /* 1: head h of v reads head h % Hk of q and k; 0: head h / (H / Hk) */
} clef_gated_delta_opts;
CLEF_API clef_value *clef_gated_delta(clef_graph *graph, const clef_gated_delta_in *in,
                                      const clef_gated_delta_opts *opts);

/** The selective scan of Mamba 2 (arXiv:2405.21060), one token after the other, for c, b [B, T, G, D], x
 *  [B, T, H, E] and dt [B, T, H], with H a multiple of G and D <= 256. Head h reads c and b of group
 *  h / (H / G). For each head with its matrix S [D, E], where step = softplus(dt[b, t, h] + bias[h]) within
 *  min .. max:
 *
 *    S = exp(rates[h] step) S + b (step x)^T
 *    out[b, t, h, :] = c^T S + skip[h] x
 *
 *  S is kept in `state`, F32 [at least B, H, D, E], from step to step, as in clef_causal_conv(). With dt
 *  [B, T, H, E], skip and bias [H, E] and rates [H, E, D] each element of x has its own (Mamba 1,
 *  arXiv:2312.00752): column e of S decays by exp(rates[h, e, d] step[e]). */
typedef struct clef_selective_scan_in {
    clef_value *c, *b, *x, *dt, *skip, *rates, *bias, *state, *pos;
    clef_value *runs; /* NULL, or T is 1 and the rows are of several sequences: clef_causal_conv_of_runs() */
} clef_selective_scan_in;
typedef struct clef_selective_scan_opts { float min, max; /* 0: no upper bound */ } clef_selective_scan_opts;
CLEF_API clef_value *clef_selective_scan(clef_graph *graph, const clef_selective_scan_in *in,
                                         const clef_selective_scan_opts *opts);

/** Elementwise. gelu: x Phi(x) by erf; gelu_tanh: the tanh form (arXiv:1606.08415). silu: x sigmoid(x). */
#define CLEF_UNARY_OPS(X) \
    X(gelu) X(gelu_tanh) X(silu) X(relu) X(sigmoid) X(tanh) X(exp) X(log) X(neg) X(sqrt) X(rsqrt) X(square)
#define CLEF_X(name) CLEF_API clef_value *clef_##name(clef_graph *graph, clef_value *x);
CLEF_UNARY_OPS(CLEF_X)
#undef CLEF_X

/** Elementwise with broadcasting (dims align from the right; 1 stretches). b may be a weight of any float
 *  dtype. */
#define CLEF_BINARY_OPS(X) X(add) X(sub) X(mul) X(div)
#define CLEF_X(name) CLEF_API clef_value *clef_##name(clef_graph *graph, clef_value *a, clef_value *b);
CLEF_BINARY_OPS(CLEF_X)
#undef CLEF_X

/** out = scale * x + shift. scale is used as given (0 gives shift). */
typedef struct clef_affine_opts { float scale, shift; } clef_affine_opts;
CLEF_API clef_value *clef_affine(clef_graph *graph, clef_value *x, const clef_affine_opts *opts);

/** out = silu(gate) * up: the gate of SwiGLU (arXiv:2002.05202); what the fuse pass makes of silu and mul.
 *  Same shapes. */
CLEF_API clef_value *clef_swiglu(clef_graph *graph, clef_value *gate, clef_value *up);

/** out = g sigmoid(alpha g) (u + 1) with g = min(gate, limit) and u = up within -limit .. limit: gpt-oss's
 *  gate. Same shapes. */
typedef struct clef_clamped_swiglu_opts { float alpha, limit; } clef_clamped_swiglu_opts;
CLEF_API clef_value *clef_clamped_swiglu(clef_graph *graph, clef_value *gate, clef_value *up,
                                         const clef_clamped_swiglu_opts *opts);

/** Reductions of the last dim, which becomes 1. A NaN in a row makes its result NaN. */
typedef enum clef_reduction { CLEF_REDUCE_SUM, CLEF_REDUCE_MEAN, CLEF_REDUCE_MAX } clef_reduction;
typedef struct clef_reduce_opts { clef_reduction kind; } clef_reduce_opts;
CLEF_API clef_value *clef_reduce(clef_graph *graph, clef_value *x, const clef_reduce_opts *opts);

/** I32 indices into the last dim; NaN counts as -inf. argmax [..]: among equals the lowest index. topk [..,
 *  k], 1 <= k <= 64: the largest first, among equals the lowest index first. */
typedef struct clef_topk_opts { int32_t k; } clef_topk_opts;
CLEF_API clef_value *clef_argmax(clef_graph *graph, clef_value *x);
CLEF_API clef_value *clef_topk(clef_graph *graph, clef_value *x, const clef_topk_opts *opts);

/** A token of each row, out I32 [N], from logits [N, V] or [N, 1, V].
 *
 *  options   I32 [N, 16]: each row's sampling options in the encoding of clef_sample(), with the number of
 *            its draw and of its stream. All zero: out is 0.
 *  out       -1 for a row whose logits are not finite: one is NaN or +inf, or all are -inf.
 *  recent    I32 [N, R]: the last tokens before the sample, the newest last; -1: none.
 *
 *  The arithmetic is that of clef_sample(). */
CLEF_API clef_value *clef_sample_rows(clef_graph *graph, clef_value *logits, clef_value *recent,
                                      clef_value *options);

/** Samples the next token of each sequence, out I32 [B], from logits [B, V] or [B, 1, V], and prepares the
 *  state for the step that reads it.
 *
 *  options           I32 [16]: the sampling options in the encoding of clef_session_generate(). All zero: out
 *                    is 0, and only history changes.
 *  ids [B, T], pos [B]  of this step. The op first sets history[b, pos[b] + t] = ids[b, t]. Then it prepares
 *                    the next step, whose T is 1: ids[b, 0] = out[b] and pos[b] += T. A row whose logits are
 *                    not finite (as above) has out -1, and ids 0.
 *  history           [at least B, capacity].
 *
 *  history, ids and pos are inputs or states; put this op after everything that reads them. The arithmetic
 *  is exact: every device samples the same token. */
CLEF_API clef_value *clef_sample(clef_graph *graph, clef_value *logits, clef_value *history, clef_value *ids,
                                 clef_value *pos, clef_value *options);

/** Views share the memory of x and need no launch. Where an op needs a dense value, its builder inserts a
 *  copy. At most 64 views may follow one another (CLEF_E_LIMIT).
 *
 *  reshape  same elements, new shape.
 *  permute  out dim i is x dim axes[i].
 *  slice    `size` elements of `axis` from `start`; a negative start counts from the end of the axis. */
typedef struct clef_permute_opts { int32_t axes[CLEF_MAX_DIMS]; } clef_permute_opts;
typedef struct clef_slice_opts { int32_t axis, start; clef_dim size; } clef_slice_opts;
CLEF_API clef_value *clef_reshape(clef_graph *graph, clef_value *x, clef_shape shape);
CLEF_API clef_value *clef_permute(clef_graph *graph, clef_value *x, const clef_permute_opts *opts);
CLEF_API clef_value *clef_slice(clef_graph *graph, clef_value *x, const clef_slice_opts *opts);

/** copy: a dense copy of x, F32 from any float dtype or block format; I32 and I8 stay as they are. concat: a
 *  and b joined along `axis`; F32, with the other dims equal and no symbol in that axis. */
typedef struct clef_concat_opts { int32_t axis; } clef_concat_opts;
CLEF_API clef_value *clef_copy(clef_graph *graph, clef_value *x);
CLEF_API clef_value *clef_concat(clef_graph *graph, clef_value *a, clef_value *b,
                                 const clef_concat_opts *opts);

/* ---- looking at a graph ---------------------------------------------------------------------- */

typedef enum clef_value_kind {
    CLEF_INPUT,
    CLEF_WEIGHT,
    CLEF_STATE,
    CLEF_CONSTANT,
    CLEF_COMPUTED
} clef_value_kind;

typedef struct clef_value_info {
    const char     *name;  /* owned by the graph; valid until the value is renamed or the graph destroyed */
    const char     *op;    /* "softmax"; NULL for a leaf */
    clef_value_kind kind;
    clef_dtype      dtype;
    clef_shape      shape;
} clef_value_info;

CLEF_API clef_value_info clef_value_describe(const clef_value *value);
/** Input i of a value; NULL where it is absent and beyond the last. *n, unless NULL, gets their number. */
CLEF_API clef_value *clef_value_input(const clef_value *value, int32_t i, int32_t *n);
/** Integers that number rows of a tensor, as the ids of clef_gather() and the positions of clef_cache_write()
 *  do. An integer x stands for `span` rows from x on, all of which should be in
 *  first .. first + n_rows - 1. */
typedef struct clef_row_range { int64_t first; clef_dim n_rows, span; } clef_row_range;
/** 1, and *out is set, when input i of the value numbers rows. Kernels cannot report a row that does not
 *  exist: they read zeros and write nothing. Callers that take such integers from a user check them. */
CLEF_API int clef_value_row_range(const clef_value *value, int32_t i, clef_row_range *out);
/** Writes the value's line of the text form, with its newline. CLEF_E_IO. */
CLEF_API clef_status clef_value_write_text(const clef_value *value, FILE *to, clef_error *err);
/** The value of that name, or of that output name; NULL if there is none. */
CLEF_API clef_value *clef_graph_find(const clef_graph *graph, const char *name);
CLEF_API int32_t     clef_graph_n_values(const clef_graph *graph);
/** Value i in the order of execution, with a leaf before its first use; NULL outside 0 .. n_values - 1. */
CLEF_API clef_value *clef_graph_value(const clef_graph *graph, int32_t i);
CLEF_API int32_t     clef_graph_n_outputs(const clef_graph *graph);
CLEF_API clef_value *clef_graph_output(const clef_graph *graph, int32_t i, const char **name);
CLEF_API int32_t     clef_graph_n_symbols(const clef_graph *graph);
/** Name and bound of symbol number i (1-based); NULL outside. */
CLEF_API const char *clef_graph_symbol(const clef_graph *graph, int32_t i, int64_t *bound);

/** Lowers the bound of a symbol to `value`, for planning, printing and counting costs. CLEF_E_NOT_FOUND: no
 *  such symbol; CLEF_E_ARG: outside 1 .. its bound. */
CLEF_API clef_status clef_graph_set_bound(clef_graph *graph, const char *symbol, int64_t value,
                                          clef_error *err);

/** Runs the passes in their order up to `last`, inclusive (NULL: all): verify, fold, merge, drop, fuse.
 *  CLEF_E_NOT_FOUND: an unknown name. Values that a pass removes can no longer be found; they are freed with
 *  the graph. The memory plan depends on the device and belongs to the plan (clef/plan.h). */
CLEF_API clef_status clef_graph_optimize(clef_graph *graph, const char *last, clef_error *err);
/** Name of pass i in order, NULL beyond the last. */
CLEF_API const char *clef_pass_name(int32_t i);
/** Name of op i as the text form spells it, NULL beyond the last. */
CLEF_API const char *clef_op_name(int32_t i);
/** Its formula in one line. */
CLEF_API const char *clef_op_formula(int32_t i);

/** What one run of a graph needs, as its ops count it. No device is involved. */
typedef struct clef_graph_counts {
    int32_t  n_launches;   /* nodes that a device runs; views and exchanges between ranks are not counted */
    double   flops, bytes; /* arithmetic, a multiply-add counts as two; bytes of memory read and written */
    uint64_t weight_bytes, state_bytes; /* of all weights, and of all states (the KV cache) */
    uint64_t arena_bytes;  /* of the other values, which share memory; at the bounds of all symbols */
} clef_graph_counts;
/** rows and keys: the values of the symbols T and S; 0: their bounds. The other symbols are at their bounds.
 *  CLEF_E_NOMEM; CLEF_E_LIMIT. */
CLEF_API clef_status clef_graph_count(const clef_graph *graph, int64_t rows, int64_t keys,
                                      clef_graph_counts *out, clef_error *err);

/** A node at which ranks exchange values (clef/ranks.h). */
typedef struct clef_exchange_info {
    const char *op;      /* "all_reduce", "all_gather", "send", "receive" */
    uint64_t    n_bytes; /* of the result; of a message */
    int32_t     peer;    /* send, receive: the other rank; else -1 */
} clef_exchange_info;
/** The exchanges in their order, at most n of them; the result is the number of all. rows and keys as in
 *  clef_graph_count(). */
CLEF_API int32_t clef_graph_exchanges(const clef_graph *graph, int64_t rows, int64_t keys,
                                      clef_exchange_info *out, int32_t n);

/** Writes the graph. The text form parses back to the same graph. The JSON form is
 *  {"format":"clef-graph","version":1,...}. The dot form is for Graphviz, with layers as clusters. CLEF_E_IO
 *  when the stream fails. */
CLEF_API clef_status clef_graph_write_text(const clef_graph *graph, FILE *to, clef_error *err);
CLEF_API clef_status clef_graph_write_json(const clef_graph *graph, FILE *to, clef_error *err);
CLEF_API clef_status clef_graph_write_dot(const clef_graph *graph, FILE *to, clef_error *err);

/** Writes the dot form with each layer as one node, except the n layers whose numbers are in `expand`.
 *  CLEF_E_ARG: the graph has no such layer. */
CLEF_API clef_status clef_graph_write_folded_dot(const clef_graph *graph, const int32_t *expand, int32_t n,
                                                 FILE *to, clef_error *err);

/** Writes the graphs of ranks (clef_graph_of_rank()) as columns side by side, with what the ranks exchange
 *  between them. Each layer is one node, and so are layers that are alike, except the n_expand layers in
 *  `expand`; -1: all layers are drawn.
 *
 *  graphs  those of ranks 0 to n - 1.
 *  width   ranks that share a stage; n is a multiple of it.
 *
 *  CLEF_E_ARG: the width, or no graph has such a layer; CLEF_E_NOMEM; CLEF_E_IO. */
CLEF_API clef_status clef_graph_write_ranks_dot(clef_graph *const *graphs, int32_t n, int32_t width,
                                                const int32_t *expand, int32_t n_expand, FILE *to,
                                                clef_error *err);

/** How many values of one graph are missing in the other (removed), are new there (added), or differ
 *  (changed). */
typedef struct clef_graph_difference { int32_t removed, added, changed; } clef_graph_difference;
/** Compares two graphs: of two models, or after two passes. Writes one line of the text form for each value
 *  that only `a` has ("- ") or only `b` has ("+ "), and two lines for each value that changed ("< " as in a,
 *  "> " as in b); symbols and outputs likewise. Two nodes are the same when they apply the same op to the
 *  same inputs, whatever their names; the remaining nodes are compared by name. The order of nodes does not
 *  matter, and equal graphs write nothing. `to` may be NULL. CLEF_E_NOMEM, CLEF_E_IO. */
CLEF_API clef_status clef_graph_write_diff(const clef_graph *a, const clef_graph *b, FILE *to,
                                           clef_graph_difference *out, clef_error *err);

/** Parses the text form of a graph. `name` is used in messages ("model.clef:12: ..."). CLEF_E_FORMAT,
 *  CLEF_E_SHAPE, CLEF_E_NOMEM. */
CLEF_API clef_status clef_graph_parse(const char *text, size_t n_bytes, const char *name, clef_graph **out,
                                      clef_error *err);

#ifdef __cplusplus
}
#endif
#endif
