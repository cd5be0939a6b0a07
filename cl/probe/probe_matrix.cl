/* Tests a unit that multiplies small matrices (runtime/device/probe_matrix.c).
 *   -D MATRIX, MATRIX_PLAIN, SUBGROUPS, SUBGROUP_SIZE  as in matrix.h */
#include "matrix.h"

enum { STRIDE = 12, PLANE = 256 };

/* Loads 16 rows of 8 words each, of w and of x. */
static inline void probe_load(local uint *w_words, local uint *x_words, global const uint *w,
                              global const uint *x)
{
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < 16 * 8; i += MATRIX_LANES) {
        w_words[i / 8 * STRIDE + i % 8] = w[i];
        x_words[i / 8 * STRIDE + i % 8] = x[i];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

static inline void probe_store(global int *out, matrix_ints sums)
{
    int of[MATRIX_SUMS];
    MATRIX_STORE(sums, 0, of);
    for (uint i = 0; i < MATRIX_SUMS; i++)
        out[matrix_row(i, matrix_lane()) * MATRIX_TOKENS + matrix_token(i, matrix_lane())] = of[i];
}

/* One unit multiplies the first MATRIX_ROWS rows of w by MATRIX_TOKENS rows of x. The results are five planes
 * out [MATRIX_ROWS][MATRIX_TOKENS], PLANE apart: of bytes; of their columns 0 .. 15; of the other columns; of
 * halves, added twice; of bf16, added twice. Bytes are rows 0 .. 15 of w and x, halves the next 16, bf16 the
 * last. */
__attribute__((reqd_work_group_size(MATRIX_LANES, 1, 1))) SUBGROUP_ATTRIBUTE kernel
void probe_matrix(global int *out, global const uint *w, global const uint *x)
{
    local uint w_words[16 * STRIDE], x_words[16 * STRIDE];
    MATRIX_SCRATCH(scratch, MATRIX_LANES);
    const uint lane = matrix_lane();
    probe_load(w_words, x_words, w, x);
    matrix_w a = matrix_load_w(w_words, STRIDE, lane);
    matrix_x b = matrix_load_x(x_words, STRIDE, lane);
    probe_store(out, matrix_bytes(a, b, scratch));
    probe_store(out + PLANE, matrix_half_bytes(a, b, 0, scratch));
    probe_store(out + 2 * PLANE, matrix_half_bytes(a, b, 1, scratch));
    probe_load(w_words, x_words, w + 128, x + 128);
    a = matrix_load_w(w_words, STRIDE, lane);
    b = matrix_load_x(x_words, STRIDE, lane);
    matrix_floats sums = matrix_halves(a, b, (matrix_floats)0, scratch);
    probe_store(out + 3 * PLANE, MATRIX_TO_INTS(matrix_halves(a, b, sums, scratch)));
    probe_load(w_words, x_words, w + 256, x + 256);
    a = matrix_load_w(w_words, STRIDE, lane);
    b = matrix_load_x(x_words, STRIDE, lane);
    sums = matrix_bf16(a, b, (matrix_floats)0, scratch);
    probe_store(out + 4 * PLANE, MATRIX_TO_INTS(matrix_bf16(a, b, sums, scratch)));
}
