/* The steps of expert_tiles_mma.cl on units whose work-items have whole rows of a fragment of W (MATRIX 3).
 * Each decodes its own columns, and only x goes through local memory. Nothing is on its way to registers
 * while a unit multiplies: Intel's compiler keeps arrays in memory that are used in two loops. Many groups
 * share a core, and hide each other's waits. */
#ifndef CLEF_CL_EXPERT_EXPERT_MMA_COLUMNS_H
#define CLEF_CL_EXPERT_EXPERT_MMA_COLUMNS_H

/* A step's x is X_PIECES vectors. */
enum { W_VECTORS = 1, X_QUARTERS = BLOCKS * 4, X_PIECES = ROWS * X_QUARTERS };

typedef struct step_part {
    const tile_data *d;
    global const w_elem *columns[COLUMN_PARTS];
    uint x_places[2]; /* of words `lane` and 8 + `lane` of the unit's first eight rows */
} step_part;

/* A work-item has word w of each of eight rows of x, so these are adjacent. Vector q of a row is its words
 * 4 q .. 4 q + 3, whose order differs between vectors, so that those who write do not meet in a bank. */
static inline uint word_place(uint q, uint w) { return q * 4 + (w + q) % 4; }

static inline void begin_part(step_part *p, const tile_data *d, uint column, uint t, uint lane)
{
    p->d = d;
#pragma unroll
    for (uint i = 0; i < COLUMN_PARTS; i++)
        p->columns[i] = column_at(d, column + i * MATRIX_ROWS + lane);
    p->x_places[0] = t * 4 + word_place(lane / 4, lane % 4) * 2;
    p->x_places[1] = t * 4 + word_place(lane / 4 + 2, lane % 4) * 2;
}

#define fetch_part(p, k0, end)

UNIT_INLINED void store_part(const step_part *p, local uint4 *w, local uint4 *x, uint k0, uint end)
{
    for (uint piece = get_local_id(0); piece < X_PIECES; piece += WG) {
        const uint row = piece / X_QUARTERS, of = piece % X_QUARTERS, q = of % 4;
        const uint4 v = fetch_x(row_at(p->d, row), k0 + of * 8, end);
        local uint *to = (local uint *)(x + (of / 4 * ROWS + row / 8 * 8) * 4) + row % 8;
        to[word_place(q, 0) * 8] = v.x;
        to[word_place(q, 1) * 8] = v.y;
        to[word_place(q, 2) * 8] = v.z;
        to[word_place(q, 3) * 8] = v.w;
    }
}

UNIT_INLINED void multiply_step(matrix_floats acc[COLUMN_PARTS][ROW_PARTS], const step_part *p,
                                local const uint4 *w, local const uint4 *x, uint k0, uint end,
                                matrix_scratch scratch)
{
#pragma unroll 1
    for (uint h = 0; h < 2; h++) { /* 16 elements of each 32 */
        local const uint4 *at = x + (h ? p->x_places[1] : p->x_places[0]);
        matrix_w ws[COLUMN_PARTS][BLOCKS];
#pragma unroll
        for (uint i = 0; i < COLUMN_PARTS; i++) {
            w_raw raw;
            uint4 words[2 * BLOCKS];
            w_fetch(&raw, p->columns[i], k0 + h * 16, end);
            w_decode(words, &raw, k0 + h * 16);
#pragma unroll
            for (uint b = 0; b < BLOCKS; b++)
                ws[i][b] = (uint8)(words[2 * b], words[2 * b + 1]);
        }
#pragma unroll
        for (uint b = 0; b < BLOCKS; b++)
#pragma unroll
            for (uint j = 0; j < ROW_PARTS; j++) {
                const uint from = (b * ROWS + j * MATRIX_TOKENS) * 4;
                const matrix_x v = (uint8)(at[from], at[from + 1]);
#pragma unroll
                for (uint i = 0; i < COLUMN_PARTS; i++)
                    acc[i][j] = MULTIPLY(ws[i][b], v, acc[i][j], scratch);
            }
    }
}

#endif
