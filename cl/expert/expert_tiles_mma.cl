/* out[p, :] = x[p or p / chosen, :] W[ids[p]] + bias[ids[p]] for pairs p, as expert_tiles.cl, on units that
 * multiply matrices (instruction/matrix.h). A group multiplies a tile of ROWS pairs of one expert by COLUMNS
 * columns of its matrix, in steps of 32 BLOCKS elements of k. W is decoded to bf16, or W and x are halves;
 * sums are f32. W is [experts, N, K]; k is a multiple of 32. x is in rows of bf16 or halves with a scale each
 * (panel_gpu_activations.cl, QUANTISE 3 or 4, not SLICED). Pairs whose id is outside get 0.
 * Launch: {ceil(n / COLUMNS), tiles} groups of MATRIX_LANES (COLUMNS / UNIT_COLUMNS) (ROWS / UNIT_ROWS)
 * work-items. Each unit of a group computes UNIT_COLUMNS columns for UNIT_ROWS pairs.
 *   -D ROWS          pairs of a tile, a multiple of UNIT_ROWS
 *   -D COLUMNS       a multiple of UNIT_COLUMNS
 *   -D UNIT_COLUMNS  a multiple of MATRIX_ROWS, as columns of W^T are a unit's rows
 *   -D UNIT_ROWS     a multiple of MATRIX_TOKENS
 *   -D BUFFERS       steps in local memory: 1, or 2, with which a step has one barrier, not two
 *   -D W_TYPE        dtype of W
 *   -D BIAS_TYPE     dtype of bias, DTYPE_NONE (-1) without
 *   and those of instruction/matrix.h and expert_words.h */
#include "matrix.h"
#if !defined(ROWS) || !defined(COLUMNS) || !defined(UNIT_COLUMNS) || !defined(UNIT_ROWS) ||                  \
    !defined(BUFFERS) || !defined(W_TYPE) || !defined(BIAS_TYPE)
#  error "expert_tiles_mma.cl needs ROWS, COLUMNS, UNIT_COLUMNS, UNIT_ROWS, BUFFERS, W_TYPE and BIAS_TYPE"
#endif
#define WG (MATRIX_LANES * (COLUMNS / UNIT_COLUMNS) * (ROWS / UNIT_ROWS))
#include "args.h"
#include "group.h"
#include "weights.h"

#include "bias.h"
#include "expert_pairs.h"
#include "expert_words.h"
#define BIAS(i) BIAS_OF(bias, a.bias + (i))
typedef ELEM(W_TYPE) w_elem;

enum { COLUMN_PARTS = UNIT_COLUMNS / MATRIX_ROWS, ROW_PARTS = UNIT_ROWS / MATRIX_TOKENS };

#if HALVES
#  define MULTIPLY matrix_halves
#else
#  define MULTIPLY matrix_bf16
#endif

/* What a group multiplies: the expert's matrix, which begins at element w0, from column `first` on, and rows
 * of x. */
typedef struct tile_data {
    global const w_elem *w;
    size_t w0;
    uint first, n, k;
    global const uint4 *x;
    local const uint *rows;
} tile_data;

/* Column i of the group's; what is beyond n is the last again. */
static inline global const w_elem *column_at(const tile_data *d, uint i)
{
    return w_row(d->w, d->w0 + (size_t)min(d->first + i, d->n - 1) * d->k);
}

static inline global const uint4 *row_at(const tile_data *d, uint i)
{
    return d->x + (size_t)d->rows[i] * (d->k / 8);
}

/* Eight elements of a row of x, from element k on; 0 beyond the end. */
static inline uint4 fetch_x(global const uint4 *row, uint k, uint end)
{
#if TAIL
    return k < end ? row[k / 8] : (uint4)0;
#else
    return row[k / 8];
#endif
}

#if MATRIX == 3
#  include "expert_mma_columns.h"
#else
#  include "expert_mma_local.h"
#endif

GROUP_KERNEL
void expert_tiles_mma(const expert_tiles_args p, global float *out, global const uint4 *x,
                      global const w_elem *w, global const int *order, global const bias_elem *bias)
{
    local uint4 w_words[BUFFERS][W_VECTORS], x_words[BUFFERS][BLOCKS * ROWS * 4];
    local uint pairs[ROWS], rows[ROWS]; /* rows: of x */
    local float scales[ROWS]; /* of these rows */
    MATRIX_SCRATCH(scratch, WG);
    const expert_args a = p.a;
    const uint item = get_local_id(0), lane = matrix_lane(), unit = matrix_unit(),
               first = get_group_id(0) * COLUMNS;
    /* the first column and pair of the unit */
    const uint column = unit % (COLUMNS / UNIT_COLUMNS) * UNIT_COLUMNS,
               t = ROWS == UNIT_ROWS ? 0 : unit / (COLUMNS / UNIT_COLUMNS) * UNIT_ROWS;
    order += p.order;
    global const int *tile = order + p.pairs + (size_t)get_group_id(1) * EXPERT_TILE_WORDS;
    const uint id = (uint)tile[0], entry = (uint)tile[1], n_rows = min((uint)tile[2], (uint)ROWS);
    if (n_rows == 0) /* in all items of the group */
        return;
    const uint inside = id < a.experts, expert = inside ? id : 0,
               steps = (a.k + 32 * BLOCKS - 1) / (32 * BLOCKS);
    const size_t w0 = a.w + (size_t)expert * a.n * a.k;
    for (uint i = item; i < ROWS; i += WG) {
        pairs[i] = pair_at(&p, order, entry, i, n_rows);
        rows[i] = row_of(&a, pairs[i]);
        scales[i] = ((global const float *)x)[(size_t)p.m * (a.k / 2) + rows[i]];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const tile_data d = {w, w0, first, a.n, a.k, x, rows};
    matrix_floats acc[COLUMN_PARTS][ROW_PARTS];
#pragma unroll
    for (uint i = 0; i < COLUMN_PARTS; i++)
#pragma unroll
        for (uint j = 0; j < ROW_PARTS; j++)
            acc[i][j] = 0;
    step_part part;
    begin_part(&part, &d, column, t, lane);
    fetch_part(&part, 0, a.k);
    store_part(&part, w_words[0], x_words[0], 0, a.k);
    for (uint s = 0; s < steps; s++) {
        const uint k0 = s * (32 * BLOCKS), next = min(s + 1, steps - 1) * (32 * BLOCKS), of = s % BUFFERS;
        barrier(CLK_LOCAL_MEM_FENCE);
        fetch_part(&part, next, a.k);
        multiply_step(acc, &part, w_words[of], x_words[of], k0, a.k, scratch);
        if (BUFFERS == 1)
            barrier(CLK_LOCAL_MEM_FENCE);
        store_part(&part, w_words[BUFFERS - 1 - of], x_words[BUFFERS - 1 - of], next, a.k);
    }
#pragma unroll
    for (uint i = 0; i < COLUMN_PARTS; i++)
#pragma unroll
        for (uint j = 0; j < ROW_PARTS; j++) {
            float v[MATRIX_SUMS];
            MATRIX_STORE(acc[i][j], 0, v);
#pragma unroll
            for (uint e = 0; e < MATRIX_SUMS; e++) {
                const uint c = first + column + i * MATRIX_ROWS + matrix_row(e, lane),
                           r = t + j * MATRIX_TOKENS + matrix_token(e, lane);
                if (c < a.n && r < n_rows)
                    out[(size_t)pairs[r] * a.n + c] =
                        inside ? fma(v[e], scales[r], BIAS((size_t)expert * a.n + c)) : 0.0f;
            }
        }
}
