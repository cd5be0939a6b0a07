/* Argument blocks that host and kernels share. Every field has 4 bytes, so that both sides agree on the
 * layout. OpenCL C includes this file (its compiler or driver defines a version macro), and so does the
 * host's C. */
#ifndef CLEF_CL_ARGS_H
#define CLEF_CL_ARGS_H

#include "formats.def"

#if defined(__OPENCL_VERSION__) || defined(__OPENCL_C_VERSION__)
typedef uint  args_uint;
typedef int   args_int;
typedef float args_float;
#else
#  include <stdint.h>
typedef uint32_t args_uint;
typedef int32_t  args_int;
typedef float    args_float;
#endif

/* The layout of a value of up to four dims, in elements: element (i0, i1, i2, i3) is at offset + i0 stride[0]
 * + i1 stride[1] + i2 stride[2] + i3 stride[3]. Missing outer dims count as 1; a broadcast dim has stride
 * 0. */
typedef struct view_args {
    args_uint offset;
    args_uint stride[4];
} view_args;

/* out[row, :] = softmax over n[3] columns of the n[0] x n[1] x n[2] rows of x. n[1] is H, n[2] is T. */
typedef struct softmax_args {
    args_uint  n[4];
    view_args  x, mask;      /* mask is broadcast to x */
    args_uint  pos, sinks;   /* offsets */
    args_float scale, softcap; /* softcap 0: none */
    args_int   causal, window, log;
} softmax_args;

/* The functions of elementwise.cl; -D OP is an index into this list. */
#define ELEMENT_OPS(X)                                                                                    \
    X(copy) X(gelu) X(gelu_tanh) X(silu) X(relu) X(sigmoid) X(tanh) X(exp) X(log) X(neg) X(sqrt) X(rsqrt) \
    X(square) X(affine) X(add) X(sub) X(mul) X(div) X(swiglu) X(clamped_swiglu) X(gelu_grad) \
    X(gelu_tanh_grad) X(silu_grad) X(relu_grad)

/* out[i] = op(x[i], b[i]) over n[0] x n[1] x n[2] rows of n[3] columns; a row is cut into `pieces` of `span`
 * columns. */
typedef struct elementwise_args {
    args_uint  n[4];
    args_uint  pieces, span;
    view_args  out, x, b;
    args_float p, q; /* affine: scale, shift */
} elementwise_args;

/* Norm of each row of x [n0, n1, n2, n3], with offsets of weight and bias [n3]. */
typedef struct norm_args {
    args_uint  n[4];
    view_args  x;
    args_uint  weight, bias;
    args_float eps;
} norm_args;

/* x [B, T, H, D] = n, with offsets of freqs [half_n] and pos [B]. A group rotates `heads` heads of one
 * token. */
typedef struct rope_args {
    args_uint  n[4];
    view_args  x;
    args_uint  freqs, pos, half_n, heads;
    args_float scale;
} rope_args;

/* Caches in pages. The keys and values of all sequences lie in a pool [pages, H, KV_PAGE, D]. A step has
 * rows, each a token of one of the sequences. A run is a row of `runs` [n_runs, RUN_WORDS]: the number of
 * a sequence, its first row in the step, and the number of its rows, which are consecutive. Row s of
 * `pages` [sequences, n_pages] lists the pages of sequence s: position p is in page p / KV_PAGE, at p %
 * KV_PAGE. `runs` and `pages` are offsets. */
#define KV_PAGE   64
#define RUN_WORDS 3
typedef struct paging_args {
    args_uint runs, n_runs;
    args_uint pages, n_pages;
} paging_args;

/* x [B, H, T, D] = n, written to the cache from row pos[b] on; the cache has `capacity` rows. */
typedef struct cache_write_args {
    args_uint   n[4];
    view_args   x, cache;
    args_uint   pos, capacity;
    paging_args paging;
} cache_write_args;

/* cache[b, h, s, :] = old cache[order[b], h, s, :] for b < n, s < rows. Rows, strides and offset are in
 * words. */
typedef struct cache_reorder_args {
    args_uint n, n_sources, rows, words;
    args_uint cache, stride[3]; /* of b, h, s */
    args_uint order;            /* offset */
} cache_reorder_args;

/* out[o, j, :] = table[o, ids[j], :] for o < n_outer, j < n_ids, rows of n_inner; the table has n_axis rows
 * for each o. */
typedef struct gather_args {
    args_uint n_outer, n_ids, n_inner, n_axis;
    args_uint table, ids; /* offsets */
    args_uint first;      /* id of the table's row 0 */
} gather_args;

/* Reduces each row of x [n0, n1, n2, n3]. */
typedef struct reduce_args {
    args_uint n[4];
    view_args x;
    args_uint k; /* topk */
} reduce_args;

/* q [B, H, T, D] with n = {B, H, T, S}; k [B, H / group, S, D], v [B, H / group, S, E]; out [B, T, H, E] is
 * dense. */
typedef struct attention_args {
    args_uint  n[4];
    args_uint  group;
    view_args  q, k, v, mask; /* mask is broadcast to [B, H, T, S] */
    args_uint  pos, sinks, first; /* offsets */
    args_float scale, softcap;
    args_int   causal, window;
    args_uint tile, splits; /* attention_cpu_prefill.cl: queries of a tile; attention_cpu_decode.cl,
                               attention_gpu_parts.h: parts of the keys */
    paging_args paging;
    args_uint   tiles; /* with pages: at least the number of tiles of a head of k */
} attention_args;

/* The heads of a step, which attention prepares before it looks at the caches k and v. */
typedef struct attention_heads_args {
    view_args  new_k, new_v;          /* [B, H / group, T, D] and [B, H / group, T, E] */
    args_uint  capacity;              /* rows of the caches */
    args_uint  freqs, q_norm, k_norm; /* offsets */
    args_float turn_scale, eps;
} attention_heads_args;

/* attention_cpu_decode.cl: attention over k and v of caches, after writing rows to them. */
typedef struct attention_cpu_decode_args {
    attention_args       a;
    attention_heads_args heads;
} attention_cpu_decode_args;

/* attention/heads.cl: n = [B, T, heads of k and v]; heads of q, 0 if q stays as it is. Views are
 * [B, H, T, D], and those of the caches [B, H, S, D]. */
typedef struct heads_args {
    args_uint   n[3], heads;
    view_args   q, k, v, k_cache, v_cache;
    args_uint   q_norm, k_norm, freqs, pos; /* offsets */
    args_uint   half_n, capacity;
    args_float  scale, eps;
    paging_args paging;
} heads_args;

/* attention_gpu_flash.cl, attention_gpu_flash_mma.cl, attention_gpu_decode.cl, attention_gpu_merge.cl */
typedef struct attention_flash_args {
    attention_args       a;
    args_uint            parts; /* start of the parts' results in their buffer */
    attention_heads_args heads; /* attention_gpu_decode.cl with NEW > 0 */
} attention_flash_args;

/* attention_grad.cl, attention_grad_cpu.cl. The result is one vector: dq [B, T, H, D], then dk [B, S, H /
 * group, D], then dv [B, S, H / group, E]. a.splits: parts of the queries of a head of k. */
typedef struct attention_grad_args {
    attention_args a;
    args_uint      y, dy;       /* offsets of attention's result and its gradient, [B, T, H, E], dense */
    args_uint      dk, dv;      /* starts of the second and third part of the result */
    args_uint      slot, items; /* attention_grad_cpu.cl: floats of scratch for a group; pieces of work */
} attention_grad_args;

/* conv.cl: x [n_b, n_t, n_c]. */
#define CONV_MAX_TAPS 16
typedef struct conv_args {
    args_uint n_b, n_t, n_c, channels; /* channels: those of a group */
    view_args x;                       /* its dims are shifted right by one */
    args_uint w, state, pos;           /* offsets */
    args_uint runs;                    /* offset; n_b runs, if there are any */
} conv_args;

/* delta.cl, scan.cl: n = {B, T, H, E}. */
#define DELTA_MAX_KEY 256
typedef struct delta_args {
    args_uint  n[4];
    args_uint  group, n_k; /* head h of v reads head h / group % n_k of q and k */
    view_args  q, k, v, a, b; /* the dims of a and b are shifted right by one */
    args_uint  rates, bias, state, pos; /* offsets */
    args_uint  runs;                    /* offset; n[0] runs, if there are any */
    args_float eps;
    args_float lo, hi; /* scan.cl */
} delta_args;

/* out [n0, n1, m, n] = alpha a b + bias; head i1 of a uses head i1 / group of b. Strides are in elements; the
 * last dims of a and b are dense. */
typedef struct matmul_args {
    args_uint  m, n, k;
    args_uint  n0, n1, group;
    args_uint  a, a_stride[3]; /* offset; strides of dims 0, 1 and the row */
    args_uint  b, b_stride[3];
    args_uint  bias;           /* offset */
    args_uint  rows;           /* gemm: rows of a in a group */
    args_uint  blocks, pairs;  /* gemm_panel: blocks and pairs of a group */
    args_float alpha;
} matmul_args;

/* out[i] = pos[i / length] + i % length, n elements. */
typedef struct positions_args {
    args_uint n, length;
    args_uint pos; /* offset */
} positions_args;

/* out [heads, queries, keys] from x [distances, heads]; offsets of x and pos. */
typedef struct relative_bias_args {
    args_uint heads, queries, keys, distances;
    args_uint x, pos;
    args_uint each; /* 1: pos has a number for each query */
} relative_bias_args;

/* out [n] = x[.., ids[..]]: rows of n_row elements of x and k ids; with offsets. */
typedef struct gather_elements_args {
    args_uint n, k, n_row, n_ids;
    args_uint x, ids;
} gather_elements_args;

/* out [rows, n] from x [rows, k] (each 1) or [rows / chosen, k] and `experts` matrices W; offsets in
 * elements. */
typedef struct expert_args {
    args_uint n, k, experts, chosen, each;
    args_uint x, w, ids, bias;
} expert_args;

/* Elements of k that a work-item of expert_few.cl and expert_few_sum.cl multiplies at once. */
#define EXPERT_CHUNK 32
/* expert_few.cl: `up` is the offset of the second matrices */
typedef struct expert_gated_args {
    expert_args a;
    args_uint   up;
} expert_gated_args;
/* expert_sum.cl and expert_few_sum.cl: out [tokens, a.n]; offsets. `scores` are of a.experts experts for each
 * token, or weights of a.chosen ones. */
typedef struct expert_sum_args {
    expert_args a;
    args_uint   scores, residual, y;
} expert_sum_args;

/* expert_order.cl: the chosen experts of `pairs` pairs (token, choice), sorted by expert. The list of pairs
 * is followed by `pairs / rows + experts + 1` tiles, each of EXPERT_TILE_WORDS: expert, first entry of the
 * list, number of entries. */
#define EXPERT_TILE_WORDS 3
typedef struct expert_order_args {
    args_uint pairs, experts, rows; /* rows: of a tile */
    args_uint ids, order;           /* offsets */
} expert_order_args;
/* Elements of k in a step of expert_tiles.cl, and columns of a group. */
#define EXPERT_STEP    32
#define EXPERT_COLUMNS 128
/* expert_tiles.cl; m: rows of x */
typedef struct expert_tiles_args {
    expert_args a;
    args_uint   pairs, m, order;
} expert_tiles_args;

/* expert_panels.cl, whose W has no offset. Pairs (token, choice) of an expert are in blocks of EXPERT_BLOCK.
 * Up to EXPERT_BLOCKS of one expert are a tile. Scratch memory has the blocks' rows of x (as at TOKEN_BLOCK).
 * From word `order` on it has: the number of blocks; the tiles, each of EXPERT_TILE_WORDS: expert, first
 * block, number of blocks, which is 0 for tiles that are not needed; a word for each expert and one more; the
 * pairs of the blocks, -1 where there is none. */
#define EXPERT_BLOCK  4
#define EXPERT_BLOCKS 12
typedef struct expert_panel_args {
    expert_args a;
    args_uint   pairs, tiles, order;
    args_uint   span;  /* expert_panels_few: tiles of out for a group */
    args_uint   words; /* of the blocks' rows (rows_args) */
} expert_panel_args;

/* out [rows, n] from y [rows, n] and x [rows, k] by one of `pairs` pairs of matrices; `each` rows share an
 * id; a group computes `columns` columns. Offsets in elements. */
typedef struct low_rank_args {
    args_uint n, k, pairs, each, columns;
    args_uint y, x, down, up, ids;
} low_rank_args;

/* Panels (cl/panel/panel.h): tiles of PANEL_ROWS rows; rows are padded to a multiple of PANEL_PAD. */
#define PANEL_ROWS 16
#define PANEL_PAD  32
/* Floats for a column of a packed block of x of `rows` rows (cl/tile.h). */
#define X_LANES(rows) ((rows) <= 8 ? 8 : 16)

/* Packs a weight [n, k], whose element (row, col) is at row * row_stride + col * col_stride, into the tiles
 * tile, tile + step ... of `tiles`. One of the strides is 1. */
typedef struct pack_args {
    args_uint n, k;
    args_uint row_stride, col_stride;
    args_uint tile, step, tiles;
} pack_args;
#define PACK_COLUMNS 8 /* of a row of f32, f16 or bf16, that a work-item of pack_gpu.cl packs */

/* Tokens are grouped in blocks: as many blocks of 12 as possible, then one of 4, 8 or 12 for the rest. Few
 * tokens are in one or two equal blocks (rows_args.block). Copies of the last token fill a block. Quantised,
 * a block of `nt` tokens holds, one after the other: quants char [K / 32][nt][32], scales float [K / 32][nt],
 * sums of 16 quants int [K / 32][nt][2]. Or the quants are short, for instructions that multiply words; then
 * of each four the second and the third change places. */
#define TOKEN_BLOCK 12
#define TOKEN_BYTES(k, words) ((k) / 8 * ((words) ? 19 : 11)) /* of a quantised token */

/* Prepares rows of x [m, k] for a product: a norm (norm_args' formula; offsets of weight and bias), then f32
 * or 8 bits. Row r of x is (r / n2 / n1, r / n2 % n1, r % n2). */
typedef struct rows_args {
    args_uint  m, k, n1, n2;
    view_args  x;
    args_uint  weight, bias;
    args_float eps;
    args_uint  block; /* panel_cpu_activations_int8: rows of a block; 0: TOKEN_BLOCK, and the rest in one */
    args_uint  words; /* 1: quants are short */
    args_uint  norm, has_weight, has_bias; /* norm: an index in PANEL_NORMS */
} rows_args;

/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] for the tokens from `first` on, in blocks of
 * NT. */
typedef struct panel_args {
    args_uint  n, k;
    args_uint  first;
    args_uint  m;    /* all tokens */
    args_uint  x;    /* f32: offset of x and stride of its rows, in elements */
    args_uint  x_stride;
    args_uint  bias; /* offset */
    args_float alpha;
    args_uint  residual; /* offset */
    args_uint  has_bias, has_residual;
    args_uint blocks,
        pairs; /* of a group. panel_cpu_gemm_f32: blocks and pairs; panel_cpu_gemm_amx: tokens and pairs;
                  panel_cpu_gemm_int8: blocks of a group, and of the launch */
} panel_args;

/* panel_cpu_gemm_int8: the fewest tokens of a block for which strips of a weight are decoded, and the most of
 * a group. */
#define STRIP_LEAST  4
#define STRIP_TOKENS 48

/* panel_cpu_gemm_amx: the most tokens and pairs of a group, and the columns that it adds at a time. */
#define AMX_TOKENS 512
#define AMX_PAIRS  4
#define AMX_DEPTH  512

/* panel_args for a few rows of x, which each group prepares for itself. A group has `span` tiles. */
typedef struct panel_gemv_args {
    panel_args p;
    rows_args  rows;
    args_uint  span;
} panel_gemv_args;

/* The activation after a product. swiglu: tiles of gate and up alternate in w; out = silu(gate) up. */
#define PANEL_ACTS(X) X(none) X(swiglu) X(gelu) X(gelu_tanh) X(silu) X(relu)
#define PANEL_NORMS(X) X(none) X(rms) X(layer)

/* How the next token is sampled (graph/op/sample.h has the formulas): an I32 [SAMPLE_OPTIONS] input that
 * holds floats as their bits. All zero: no token is sampled. */
#define SAMPLE_OPTIONS 16
#define SAMPLE_OFF     0 /* the state does not change */
#define SAMPLE_GREEDY  1
#define SAMPLE_DRAW    2
typedef struct sample_options {
    args_int   mode;
    args_int   top_k;                       /* 0: off */
    args_int   last_n;                      /* tokens that the penalty looks back at; 0: off */
    args_int   first;  /* the position whose token is draw 0; of sample_rows: the number of the draw */
    args_float scale;                       /* log2(e) / temperature, of limits; see draw_scale */
    args_float penalty, inverse_penalty;
    args_uint  top_p;                       /* as a multiple of 2^-32; 0: off */
    args_uint  min_weight_lo, min_weight_hi;
    args_uint reach; /* logits farther than this below the largest are never sampled */
    args_uint  seed_lo, seed_hi;
    args_uint  stream; /* of sample_rows; sample's is the number of the row */
    args_float draw_scale; /* log2(e) / temperature, if limits cut at another scale; 0: they do not */
    args_uint  unused;
} sample_options;

/* logits [B, n_vocab]; ids [B, length], of sample_rows the recent tokens; history [any, capacity]. A row has
 * `blocks` of SAMPLE_BLOCK logits, a multiple of 16; a group has `span` of them. */
#define SAMPLE_BLOCK 64
typedef struct sample_args {
    args_uint n_vocab, length, capacity;
    args_uint blocks, span;
    args_uint logits, history, ids, pos, options; /* offsets */
    args_uint first;                              /* of sample_rows: the first row */
} sample_args;

/* A substep of a fused step (fused_step.cl): n_groups groups of the kernel with this number, with groups[0]
 * and groups[1] in dims 0 and 1. Its arguments begin at word `args` of the list. Buffer i begins at unit
 * at[i], of FUSED_UNIT bytes, of base base[i]; FUSED_NONE: null. */
#define FUSED_BUFS  15
#define FUSED_BASES 16
#define FUSED_UNIT  64
#define FUSED_NONE  0xffffffffu
typedef struct fused_stage {
    args_uint number, n_groups, groups[2], args;
    args_uint base[FUSED_BUFS], at[FUSED_BUFS];
} fused_stage;

/* The substeps of a launch. */
typedef struct fused_args {
    args_uint first, n;
} fused_args;

/* The kernels of measure.cl: n vectors, `span` of them in a group; mad: `rounds` of r = r * scale + shift. */
typedef struct measure_args {
    args_uint  n, span, rounds;
    args_float scale, shift;
} measure_args;

/* train/sum_axes.cl: out[i, j] = the sum of x [kept0, kept1 x summed0, summed1] over summed0 x summed1. The
 * sums of `parts` parts of the summed elements, `each` in one, are apart. */
typedef struct sum_axes_args {
    args_uint x; /* offset */
    args_uint kept[2], kept_stride[2], summed[2], summed_stride[2];
    args_uint parts, each;
    args_uint pieces, span; /* a row of kept[1] is cut into pieces */
} sum_axes_args;

/* train/pad.cl: out [n] = x within, 0 around; x begins at `first` of out's dims. */
typedef struct pad_args {
    args_uint n[4], inside[4], first[4];
    view_args x;
    args_uint pieces, span;
} pad_args;

/* train/norm_grad.cl: rows of x and d [n0, n1, n2, n3]. */
typedef struct norm_grad_args {
    args_uint  n[4];
    view_args  x, d;
    args_uint  weight; /* offset */
    args_float eps;
} norm_grad_args;

/* train/softmax_grad.cl: rows of y and d [rows, n], dense. */
typedef struct softmax_grad_args {
    args_uint  n, y, d; /* y, d: offsets */
    args_float scale;
    args_int   log;
} softmax_grad_args;

/* train/gather_grad.cl: out [rows, n] from d [n_ids, n]; `each` rows in a group. */
typedef struct gather_grad_args {
    args_uint rows, n, n_ids, each;
    args_uint ids, d; /* offsets */
    args_uint first;  /* the id of row 0 */
} gather_grad_args;

/* train/expert_grad.cl: out [experts, m, n] from a [.., m] and b [.., n]; share_a, share_b: pairs of token
 * and expert that share a row. */
typedef struct expert_grad_args {
    args_uint m, n, n_ids, share_a, share_b, rows;
    args_uint a, b, ids; /* offsets */
} expert_grad_args;

/* train/cross_entropy.cl: rows of x [n0, n1, n2, n3]. */
typedef struct cross_entropy_args {
    args_uint n[4];
    view_args x;
    args_uint labels, lse, d; /* offsets */
    args_uint first, each;    /* label l means column l / each - first */
} cross_entropy_args;

/* train/dropout.cl: n elements in groups of `span`, a multiple of 64. */
typedef struct dropout_args {
    args_uint  n, span;
    args_uint  x, random; /* offsets */
    args_uint  least;     /* of a word that keeps its element */
    args_uint  stream;
    args_uint  first;     /* the number of the first element */
    args_float scale;
} dropout_args;

/* train/cast.cl: n elements in groups of `span`, a multiple of 16. */
typedef struct cast_args {
    args_uint n, span;
    args_uint x; /* offset */
} cast_args;

/* train/optimizer.cl: n elements in groups of `span`; offsets. */
#define NORM_PARTS 64
typedef struct optimizer_args {
    args_uint n, span;
    args_uint p, grad, m, v, numbers, norm;
    args_uint decays;
} optimizer_args;

/* exchange.cl: n floats of each rank. Bytes from one rank's segment to the next, to the slots in it, and of a
 * slot; ranks/join/transport.h describes them. */
typedef struct exchange_args {
    args_uint n, rank, n_ranks;
    args_uint segment, slots, slot;
    args_uint polls; /* after as many the kernel stops waiting for a rank; 0: never */
} exchange_args;

#endif
