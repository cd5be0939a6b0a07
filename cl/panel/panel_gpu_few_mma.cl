/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs with units that multiply matrices
 * (matrix.h), for up to TOKENS rows of x and a weight in panels (cl/panel/panel.h), which is read once. The
 * UNITS units of a group multiply TILES tiles of w by all rows of x, each over other columns: CHUNK blocks of
 * 32 columns, then those that are UNITS CHUNK blocks further on. The sums of the units are added in local
 * memory. No unit waits for another before.
 * Launch: a group of MATRIX_LANES UNITS work-items for each TILES tiles of w.
 *   -D UNITS   units of a group
 *   -D TILES   with swiglu even
 *   -D TOKENS  a multiple of MATRIX_TOKENS; SLICED of panel_gpu_activations.cl
 *   -D CHUNK   a power of two that divides K / 32
 *   and those of matrix.h, panel_gpu_mma_fragments.h and panel_gpu_epilogue.h */
#include "matrix.h"
#if !defined(UNITS) || !defined(TILES) || !defined(TOKENS) || !defined(CHUNK)
#  error "panel_gpu_few_mma.cl needs UNITS, TILES, TOKENS and CHUNK"
#endif
#define WG (MATRIX_LANES * UNITS)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "panel_gpu_epilogue.h"
#include "panel_gpu_mma_fragments.h"

enum {
    W_ROWS = TILES * PANEL_ROWS,
    ROW_PARTS = TILES * W_PARTS,
    TOKEN_PARTS = TOKENS / MATRIX_TOKENS,
    OUT_ROWS = W_ROWS / (1 + GATED)
};

/* Adds the products of 32 CHUNK columns from chunk `c` on. Those beyond the last count as zero. */
UNIT_INLINED void add_chunk(matrix_floats acc[ROW_PARTS][TOKEN_PARTS], const w_rows w[ROW_PARTS],
                            const x_rows *x, uint c, uint chunks, uint lane, matrix_scratch scratch)
{
    const uint exists = c < chunks, first = min(c, chunks - 1) * CHUNK;
    w_raw raw[CHUNK][ROW_PARTS];
    w_scales scales[CHUNK][ROW_PARTS];
    matrix_x of[CHUNK][TOKEN_PARTS][SLICES];
    matrix_floats d[CHUNK][TOKEN_PARTS], sums[CHUNK][TOKEN_PARTS];
#pragma unroll
    for (uint b = 0; b < CHUNK; b++) {
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++)
            w_fetch(&raw[b][i], &w[i], first + b, lane);
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++)
            w_fetch_scales(&scales[b][i], &w[i], first + b);
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++) {
            const size_t at = (size_t)(first + b) * x->rows + j * MATRIX_TOKENS;
#pragma unroll
            for (uint s = 0; s < SLICES; s++) {
                global const uint *from =
                    x->slices + ((size_t)((first + b) * SLICES + s) * x->rows + j * MATRIX_TOKENS) * 8;
                of[b][j][s] = X_AT(global, from, 8, lane);
            }
            d[b][j] = BY_BLOCKS ? OF_TOKENS(global, x->d + at, lane) : (matrix_floats)0;
            sums[b][j] = HAS_SUMS ? OF_TOKENS(global, x->sums + at, lane) : (matrix_floats)0;
        }
    }
#pragma unroll
    for (uint b = 0; b < CHUNK; b++) {
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++) {
#pragma unroll
            for (uint s = 0; s < SLICES; s++)
                of[b][j][s] = exists ? of[b][j][s] : (matrix_x)0;
            sums[b][j] = exists ? sums[b][j] : (matrix_floats)0;
        }
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++) {
            matrix_w part[SLICES];
            w_decode(part, raw[b][i], &scales[b][i], lane);
#pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++) {
#if BY_BLOCKS
                w_products p;
                multiply(&p, part, of[b][j], scratch);
                acc[i][j] = add_products(acc[i][j], &p, &scales[b][i], d[b][j], sums[b][j]);
#else
#  pragma unroll
                for (uint s = 0; s < SLICES; s++)
                    acc[i][j] = multiply_add(part[s], of[b][j][s], acc[i][j], scratch);
#endif
            }
        }
    }
}

GROUP_KERNEL
void panel_gpu_few_mma(const panel_args a, global float *out, global const uchar *x,
                       global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    local float parts[UNITS * TOKENS * W_ROWS]; /* [UNITS][TOKENS][W_ROWS] */
    MATRIX_SCRATCH(scratch, WG);
    const uint item = get_local_id(0), lane = matrix_lane(), unit = matrix_unit();
    const uint tile = get_group_id(0) * TILES, chunks = a.k / 32 / CHUNK;
    x_rows xs;
    matrix_floats acc[ROW_PARTS][TOKEN_PARTS];
    w_rows rows[ROW_PARTS];
    x_at(&xs, &a, x, TOKENS);
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++) {
        w_at(&rows[i], w, &a, tile * W_PARTS + i, lane);
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = 0;
    }
    for (uint c = 0; c < chunks; c += UNITS)
        add_chunk(acc, rows, &xs, c + unit, chunks, lane, scratch);
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++)
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++) {
            float v[MATRIX_SUMS];
            MATRIX_STORE(acc[i][j], 0, v);
#pragma unroll
            for (uint e = 0; e < MATRIX_SUMS; e++)
                parts[(unit * TOKENS + j * MATRIX_TOKENS + sum_token(e, lane)) * W_ROWS + i * MATRIX_ROWS +
                      sum_row(e, lane)] = v[e];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < OUT_ROWS * TOKENS; i += WG) {
        const uint row = i % OUT_ROWS, token = i / OUT_ROWS, at = tile * PANEL_ROWS / (1 + GATED) + row;
        const uint of = GATED ? row / PANEL_ROWS * 2 * PANEL_ROWS + row % PANEL_ROWS : row;
        float v = 0, up = 0;
#pragma unroll
        for (uint u = 0; u < UNITS; u++) {
            v += parts[(u * TOKENS + token) * W_ROWS + of];
            if (GATED)
                up += parts[(u * TOKENS + token) * W_ROWS + of + PANEL_ROWS];
        }
        if (at < a.n && token < a.m) {
            const float factor = BY_BLOCKS ? 1.0f : xs.d[token];
            finish(&a, out, PANEL_OUT, token, at, v * factor, (GATED ? up : v) * factor);
        }
    }
}
