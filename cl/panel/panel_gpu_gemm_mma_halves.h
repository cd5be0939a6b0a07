/* A step of panel_gpu_gemm_mma.cl in halves or bf16 (QUANTISE 3 or 4), with w as it is stored: loads 32
 * columns to local memory and multiplies them. A row has 16 words of two columns. Rows are STRIDE words
 * apart, so that the work-items of a unit have no bank conflicts. */
#ifndef CLEF_CL_PANEL_MATRIX_HALVES_H
#define CLEF_CL_PANEL_MATRIX_HALVES_H

enum { STRIDE = 20 };

typedef struct step_data {
    local uint *w, *x;
    matrix_scratch scratch;
} step_data;

static inline void load_step(const step_data *s, global const uchar *w, const panel_args *a,
                             global const uchar *x, uint tile, uint token, uint b, uint item)
{
    const uint tiles = W_TILES(a->n);
    global const ushort *columns = (global const ushort *)w;
    global const uint *pairs = (global const uint *)x;
    for (uint i = item; i < W_ROWS * 16; i += WG) {
        const uint pair = i / PANEL_ROWS % 16, of = i / (PANEL_ROWS * 16), row = i % PANEL_ROWS;
        const size_t at = ((size_t)min(tile + of, tiles - 1) * a->k + b * 32 + pair * 2) * PANEL_ROWS + row;
        s->w[(of * PANEL_ROWS + row) * STRIDE + pair] = columns[at] | (uint)columns[at + PANEL_ROWS] << 16;
    }
    for (uint i = item; i < X_ROWS * 16; i += WG)
        s->x[i / 16 * STRIDE + i % 16] =
            pairs[(size_t)min(token + i / 16, a->m - 1) * (a->k / 2) + b * 16 + i % 16];
}

static inline void multiply_step(const step_data *s, matrix_floats acc[ROW_PARTS][TOKEN_PARTS], uint row,
                                 uint t, uint lane)
{
#pragma unroll
    for (uint part = 0; part < 2; part++) { /* 16 columns each */
        matrix_x x[TOKEN_PARTS];
#pragma unroll
        for (uint j = 0; j < TOKEN_PARTS; j++)
            x[j] = matrix_load_x(s->x + (t + j * MATRIX_TOKENS) * STRIDE + part * 8, STRIDE, lane);
#pragma unroll
        for (uint i = 0; i < ROW_PARTS; i++) {
            const matrix_w w =
                matrix_load_w(s->w + (row + i * MATRIX_ROWS) * STRIDE + part * 8, STRIDE, lane);
#pragma unroll
            for (uint j = 0; j < TOKEN_PARTS; j++)
#if QUANTISE == 3
                acc[i][j] = matrix_halves(w, x[j], acc[i][j], s->scratch);
#else
                acc[i][j] = matrix_bf16(w, x[j], acc[i][j], s->scratch);
#endif
        }
    }
}

static inline float token_scale(const panel_args *a, global const uchar *x, uint token)
{
    return ((global const float *)(x + (size_t)a->m * a->k * 2))[token];
}

#endif
