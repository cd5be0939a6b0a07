/* out[t, r] = act(alpha x[t] . w[r] + bias[r]) + residual[t, r] on GPUs with units that multiply matrices
 * (matrix.h), for many rows of x and a weight in panels (cl/panel/panel.h). A group multiplies TILES tiles of
 * w, of 16 rows each, by 16 TOKENS rows of x. Each unit of the group computes UNIT_ROWS rows for UNIT_TOKENS
 * tokens. Units read w themselves; x goes through local memory, which holds two times 32 STEP PARTS columns:
 * while the units multiply one half, the next columns of x, and with AHEAD of w, are on their way to
 * registers. Where a result is too small to fill the device, PARTS units share the same rows and tokens. Each
 * multiplies its 32 STEP columns of a step, and their sums are added in local memory at the end, in order.
 * Launch: {blocks of 16 TOKENS rows of x, sets of TILES tiles of w} groups of MATRIX_LANES PARTS (16 TILES /
 * UNIT_ROWS) (16 TOKENS / UNIT_TOKENS) work-items.
 *   -D TILES        with swiglu even
 *   -D TOKENS       16 TOKENS is a multiple of UNIT_TOKENS, and SLICED of panel_gpu_activations.cl
 *   -D UNIT_ROWS    a multiple of MATRIX_ROWS; with swiglu of 32
 *   -D UNIT_TOKENS  a multiple of MATRIX_TOKENS
 *   -D PARTS        a power of two; 1: a unit multiplies all columns
 *   -D STEP         a power of two; STEP PARTS divides K / 32
 *   and those of matrix.h, panel_gpu_mma_fragments.h and panel_gpu_epilogue.h */
#include "panel_gpu_mma_tiles.h"
#include "panel_gpu_mma_fragments.h"
#ifndef STEP
#  error "panel_gpu_gemm_mma.cl needs STEP"
#endif

/* A step's x is QUARTERS times 16 bytes, of which a work-item copies COPIES. It has NUMBERS scales, and as
 * many sums. */
enum {
    STEP_SLICES = PARTS * STEP * SLICES,
    QUARTERS = STEP_SLICES * X_ROWS * 2,
    COPIES = (QUARTERS + WG - 1) / WG,
    NUMBERS = BY_BLOCKS ? PARTS * STEP * X_ROWS : 1,
    NUMBER_COPIES = (NUMBERS + WG - 1) / WG,
    /* of 16 bytes in local memory: half of a step's x, and half of what add_parts() needs */
    HALF_WORDS = STEP_SLICES * X_ROWS * (X_WORDS / 4),
    HALF_SUMS = (PARTS - 1) * PART_UNITS * MATRIX_LANES * TOKEN_PARTS * (MATRIX_SUMS / 4) / 2,
    PASSES = STEP * TOKEN_PARTS,
    OUT_PARTS = ROW_PARTS / (1 + GATED), /* parts of the rows of a unit's result */
    /* 1: of a unit's fragments, those of the same rows are written one after the other; 0: those of the same
     * tokens. Measured: with a scale for each block of columns the first takes fewer registers, else the
     * second. */
    TOKENS_FIRST = BY_BLOCKS,
    /* where registers suffice: products are added a pass late, and w is read a step ahead, so that neither is
     * waited for */
    LATE = MATRIX == 1,
    AHEAD = MATRIX == 1 || MATRIX == 4 || (MATRIX == 2 && QUANTISE >= 3 && !IS_BLOCKS(W_TYPE))
};

#define PART_ROW     sum_row
#define PART_TOKEN   sum_token
#define TOKEN_SCALES !BY_BLOCKS
#include "panel_gpu_mma_step.h"
#include "panel_gpu_mma_scales.h"
#include "panel_gpu_mma_finish.h"

/* Reads a part's columns of w in a step. */
static inline void fetch_step(w_raw raw[STEP][ROW_PARTS], scale_share scales[STEP],
                              const w_rows rows[ROW_PARTS], const scale_rows *scaled, uint step, uint part,
                              uint lane)
{
#pragma unroll
    for (uint s = 0; s < STEP; s++) {
        const uint b = (step * PARTS + part) * STEP + s;
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++)
            w_fetch(&raw[s][i], &rows[i], b, lane);
        scales_fetch(&scales[s], scaled, b);
    }
}

#if BY_BLOCKS
/* Pass n of a step multiplies block n / TOKEN_PARTS of 32 columns by the tokens from t + n % TOKEN_PARTS
 * MATRIX_TOKENS on. It has a fragment of x, what products are added with, and the products with each part of
 * w. */
typedef struct pass {
    matrix_x x[SLICES];
    matrix_floats d, sums;
    w_products of[ROW_PARTS];
} pass;

UNIT_INLINED void read_pass(pass *p, local const uint *words, local const float *d, local const float *sums,
                            uint n, uint t, uint lane)
{
    const uint s = n / TOKEN_PARTS, from = t + n % TOKEN_PARTS * MATRIX_TOKENS;
#  pragma unroll
    for (uint i = 0; i < SLICES; i++)
        p->x[i] = X_AT(local, words + ((s * SLICES + i) * X_ROWS + from) * X_WORDS, X_WORDS, lane);
    p->d = OF_TOKENS(local, d + s * X_ROWS + from, lane);
    p->sums = HAS_SUMS ? OF_TOKENS(local, sums + s * X_ROWS + from, lane) : (matrix_floats)0;
}
#endif

/* Multiplies a step's columns of w by those of x in local memory, for the tokens from t on. */
UNIT_INLINED void multiply_step(matrix_floats acc[ROW_PARTS][TOKEN_PARTS],
                                matrix_w w[STEP][ROW_PARTS][SLICES], w_scales scales[STEP][ROW_PARTS],
                                local const uint *words, local const float *d, local const float *sums,
                                uint t, uint lane, matrix_scratch scratch)
{
#if BY_BLOCKS
    pass passes[2];
#  pragma unroll
    for (uint n = 0; n < PASSES + LATE; n++) {
        const uint now = n % 2, done = n - LATE, of = done % 2, j = done % TOKEN_PARTS;
        if (n < PASSES)
            read_pass(&passes[now], words, d, sums, n, t, lane);
#  pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++) {
            if (n < PASSES)
                multiply(&passes[now].of[i], w[n / TOKEN_PARTS][i], passes[now].x, scratch);
            if (n >= LATE)
                acc[i][j] = add_products(acc[i][j], &passes[of].of[i], &scales[done / TOKEN_PARTS][i],
                                         passes[of].d, passes[of].sums);
        }
    }
#else
#  pragma unroll
    for (uint n = 0; n < STEP * SLICES; n++)
#  pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++) {
            const matrix_x x =
                X_AT(local, words + (n * X_ROWS + t + j * MATRIX_TOKENS) * X_WORDS, X_WORDS, lane);
#  pragma unroll
            for (uint i = 0; i < ROW_PARTS; i++)
                acc[i][j] = multiply_add(w[n / SLICES][i][n % SLICES], x, acc[i][j], scratch);
        }
#endif
}

#if PARTS > 1
/* Adds up the sums of all parts. The first part gets them. Every work-item of the group must call it. */
UNIT_INLINED void add_parts(matrix_floats acc[ROW_PARTS][TOKEN_PARTS], local matrix_floats *room, uint part,
                            uint item)
{
    const uint of = item % (WG / PARTS);
#  pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part > 0)
#  pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++)
                room[((part - 1) * TOKEN_PARTS + j) * (WG / PARTS) + of] = acc[i][j];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (part == 0)
#  if PARTS > 4 /* unrolled, NVIDIA's compiler would load all other parts' sums at once, and spill */
#    pragma unroll 1
#  else
#    pragma unroll
#  endif
            for (uint p = 0; p < PARTS - 1; p++)
#  pragma unroll
                for (uint j = 0; j < TOKEN_PARTS; j++)
                    acc[i][j] += room[(p * TOKEN_PARTS + j) * (WG / PARTS) + of];
    }
}
#endif

GROUP_KERNEL
void panel_gpu_gemm_mma(const panel_args a, global float *out, global const uchar *x,
                        global const ELEM(W_TYPE) *w, PANEL_OUT_BUFS)
{
    local uint4 words[2][HALF_WORDS > HALF_SUMS ? HALF_WORDS : HALF_SUMS] __attribute__((aligned(32)));
    local float d[2][NUMBERS] __attribute__((aligned(16))); /* are read as vectors */
    local float sums[2][HAS_SUMS ? NUMBERS : 1] __attribute__((aligned(16)));
    MATRIX_SCRATCH(scratch, WG);
    const uint item = get_local_id(0), lane = matrix_lane(), unit = matrix_unit();
    const uint row = unit % (W_ROWS / UNIT_ROWS) * UNIT_ROWS, /* the first row and token of the unit */
        t = unit % PART_UNITS / (W_ROWS / UNIT_ROWS) * UNIT_TOKENS, part = PARTS > 1 ? unit / PART_UNITS : 0;
    const uint token = get_group_id(0) * X_ROWS, tile = get_group_id(1) * TILES,
               steps = a.k / 32 / (STEP * PARTS);
    x_rows xs;
    matrix_floats acc[ROW_PARTS][TOKEN_PARTS];
    w_rows rows[ROW_PARTS];
    w_raw raw[STEP][ROW_PARTS];
    scale_rows scaled;
    scale_share scales[STEP];
    x_part copied;
    x_at(&xs, &a, x, X_ROWS);
    x_fetch(&copied, &xs, token, 0, item);
#pragma unroll
    for (uint i = 0; i < ROW_PARTS; i++) {
        w_at(&rows[i], w, &a, (tile * PANEL_ROWS + row) / MATRIX_ROWS + i, lane);
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            acc[i][j] = 0;
    }
    scales_at(&scaled, rows, w, &a, (tile * PANEL_ROWS + row) / MATRIX_ROWS, lane);
    if (AHEAD)
        fetch_step(raw, scales, rows, &scaled, 0, part, lane);
    x_store(&copied, words[0], d[0], sums[0], item);
    for (uint b = 0; b < steps; b++) {
        const uint next = min(b + 1, steps - 1), of = b % 2;
        matrix_w now[STEP][ROW_PARTS][SLICES];
        w_scales scales_now[STEP][ROW_PARTS];
        if (!AHEAD)
            fetch_step(raw, scales, rows, &scaled, b, part, lane);
        barrier(CLK_LOCAL_MEM_FENCE);
        x_fetch(&copied, &xs, token, next, item);
#pragma unroll
        for (uint s = 0; s < STEP; s++) {
            scales_share(scales_now[s], &scales[s]);
#pragma unroll
            for (uint i = 0; i < ROW_PARTS; i++)
                w_decode(now[s][i], raw[s][i], &scales_now[s][i], lane);
        }
        if (AHEAD)
            fetch_step(raw, scales, rows, &scaled, next, part, lane);
        multiply_step(acc, now, scales_now, (local const uint *)(words[of] + part * (HALF_WORDS / PARTS)),
                      d[of] + part * STEP * X_ROWS, sums[of] + part * STEP * X_ROWS, t, lane, scratch);
        x_store(&copied, words[1 - of], d[1 - of], sums[1 - of], item);
    }
#if PARTS > 1
    add_parts(acc, (local matrix_floats *)words[0], part, item);
    if (part > 0)
        return;
#endif
    const uint first = (tile * PANEL_ROWS + row) / (1 + GATED);
#pragma unroll
    for (uint n = 0; n < OUT_PARTS * TOKEN_PARTS; n++) {
        const uint i = TOKENS_FIRST ? n / TOKEN_PARTS : n % OUT_PARTS,
                   j = TOKENS_FIRST ? n % TOKEN_PARTS : n / OUT_PARTS;
        /* of each 32 rows, 16 of the gate come first */
        const uint gate = GATED ? i / W_PARTS * 2 * W_PARTS + i % W_PARTS : i;
        finish_part(&a, out, PANEL_OUT, xs.d, acc[gate][j], acc[gate + GATED * W_PARTS][j],
                    first + i * MATRIX_ROWS, token + t + j * MATRIX_TOKENS, lane);
    }
}
