/* The steps of expert_tiles_mma.cl where W goes through local memory, as x does: a group decodes W once. The
 * next step is on its way to registers while the units multiply one. */
#ifndef CLEF_CL_EXPERT_EXPERT_MMA_LOCAL_H
#define CLEF_CL_EXPERT_EXPERT_MMA_LOCAL_H

/* Local memory has 32 elements of a column of W, or of a row of x, in four vectors. A step's W is W_PIECES
 * pieces of 16 BLOCKS elements, of which a work-item copies FETCHES. Its x is X_PIECES vectors, of which it
 * copies COPIES. A work-item's vectors of a fragment are in LANE_PLACES places. For fragments of other rows,
 * a constant is added to these places. */
enum {
    W_VECTORS = BLOCKS * COLUMNS * 4,
    W_PIECES = COLUMNS * 2,
    FETCHES = (W_PIECES + WG - 1) / WG,
    X_QUARTERS = BLOCKS * 4,
    X_PIECES = ROWS * X_QUARTERS,
    COPIES = (X_PIECES + WG - 1) / WG,
    LANE_PLACES = MATRIX == 2 ? 4 : 1
};

typedef struct step_part {
    w_raw w[FETCHES];
    uint4 x[COPIES];
    global const w_elem *columns[FETCHES];
    global const uint4 *rows[COPIES];
    uint w_places[LANE_PLACES], x_places[LANE_PLACES];
} step_part;

/* The place of vector q of a row. Their order differs between pairs of rows, so that neither those who write
 * nor those who read meet in a bank. */
static inline uint place(uint row, uint q) { return row * 4 + (q ^ row / 2 % 4); }

static inline void places_of(uint places[LANE_PLACES], uint first, uint lane)
{
#if MATRIX == 1
    places[0] = first * 4 + place(lane / 4, lane % 4);
#elif MATRIX == 4
    places[0] = first * 4 + place(lane % 16, lane / 16);
#else
#  pragma unroll
    for (uint q = 0; q < 4; q++)
        places[q] = first * 4 + place(lane % MATRIX_ROWS, q);
#endif
}

static inline void begin_part(step_part *p, const tile_data *d, uint column, uint t, uint lane)
{
    const uint item = get_local_id(0);
#pragma unroll
    for (uint f = 0; f < FETCHES; f++)
        p->columns[f] = column_at(d, (item + f * WG) / 2);
#pragma unroll
    for (uint c = 0; c < COPIES; c++)
        p->rows[c] = row_at(d, min((item + c * WG) / X_QUARTERS, (uint)ROWS - 1));
    places_of(p->w_places, column, lane);
    places_of(p->x_places, t, lane);
}

static inline void fetch_part(step_part *p, uint k0, uint end)
{
    const uint item = get_local_id(0);
#pragma unroll
    for (uint f = 0; f < FETCHES; f++)
        w_fetch(&p->w[f], p->columns[f], k0 + (item + f * WG) % 2 * 16, end);
#pragma unroll
    for (uint c = 0; c < COPIES; c++)
        p->x[c] = fetch_x(p->rows[c], k0 + (item + c * WG) % X_QUARTERS * 8, end);
}

UNIT_INLINED void store_part(const step_part *p, local uint4 *w, local uint4 *x, uint k0, uint end)
{
    const uint item = get_local_id(0);
#pragma unroll
    for (uint f = 0; f < FETCHES; f++) {
        const uint piece = item + f * WG;
        uint4 words[2 * BLOCKS];
        w_decode(words, &p->w[f], k0 + piece % 2 * 16);
#pragma unroll
        for (uint i = 0; i < 2 * BLOCKS; i++)
            if (W_PIECES % WG == 0 || piece < W_PIECES)
                w[place(i / 2 * COLUMNS + piece / 2, piece % 2 * 2 + i % 2)] = words[i];
    }
#pragma unroll
    for (uint c = 0; c < COPIES; c++) {
        const uint piece = item + c * WG, of = piece % X_QUARTERS;
        if (X_PIECES % WG == 0 || piece < X_PIECES)
            x[place(of / 4 * ROWS + piece / X_QUARTERS, of % 4)] = p->x[c];
    }
}

/* The fragments of 32 elements. Elements of k may be in any order that is the same for W and x, so where a
 * work-item has a few words of a row these are adjacent. at: its places; `from` is added to each. */
static inline void load_w(matrix_w out[2], local const uint4 *const at[LANE_PLACES], uint from)
{
#if MATRIX == 1
    const uint4 first = at[0][from], second = at[0][from + 32];
    out[0] = (uint4)(first.x, second.x, first.y, second.y);
    out[1] = (uint4)(first.z, second.z, first.w, second.w);
#elif MATRIX == 4
    const uint4 v = at[0][from];
    out[0] = v.xy;
    out[1] = v.zw;
#else
    out[0] = (uint8)(at[0][from], at[1][from]);
    out[1] = (uint8)(at[2][from], at[3][from]);
#endif
}

static inline void load_x(matrix_x out[2], local const uint4 *const at[LANE_PLACES], uint from)
{
#if MATRIX == 1
    const uint4 v = at[0][from];
    out[0] = v.xy;
    out[1] = v.zw;
#else
    load_w(out, at, from);
#endif
}

/* The loop over BLOCKS stays one with MATRIX 2: else its compiler loads all fragments first, and spills. */
UNIT_INLINED void multiply_step(matrix_floats acc[COLUMN_PARTS][ROW_PARTS], const step_part *p,
                                local const uint4 *w, local const uint4 *x, uint k0, uint end,
                                matrix_scratch scratch)
{
    local const uint4 *w_at[LANE_PLACES], *x_at[LANE_PLACES];
#pragma unroll
    for (uint i = 0; i < LANE_PLACES; i++) {
        w_at[i] = w + p->w_places[i];
        x_at[i] = x + p->x_places[i];
    }
#if MATRIX == 2
#  pragma unroll 1
#else
#  pragma unroll
#endif
    for (uint b = 0; b < BLOCKS; b++) {
        matrix_x xs[ROW_PARTS][2];
#pragma unroll
        for (uint j = 0; j < ROW_PARTS; j++)
            load_x(xs[j], x_at, (b * ROWS + j * MATRIX_TOKENS) * 4);
#pragma unroll
        for (uint i = 0; i < COLUMN_PARTS; i++) {
            matrix_w ws[2];
            load_w(ws, w_at, (b * COLUMNS + i * MATRIX_ROWS) * 4);
#pragma unroll
            for (uint j = 0; j < ROW_PARTS; j++)
                acc[i][j] = MULTIPLY(ws[0], xs[j][0], acc[i][j], scratch);
#pragma unroll
            for (uint j = 0; j < ROW_PARTS; j++)
                acc[i][j] = MULTIPLY(ws[1], xs[j][1], acc[i][j], scratch);
        }
    }
}

#endif
