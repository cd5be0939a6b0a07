/* For attention_gpu_flash_dpas.cl: reads the keys and values of a chunk in pieces, and stores them in local
 * memory as fragments (panel_gpu_fragments_8.h). Needs D, E, D_SLICES and E_PARTS. */
#ifndef CLEF_CL_ATTENTION_GPU_DPAS_CHUNK_H
#define CLEF_CL_ATTENTION_GPU_DPAS_CHUNK_H

/* A piece of a chunk: 8 keys by 64 elements, and 16 values by 32 elements. It becomes four fragments
 * of each. */
typedef struct chunk_piece {
    uint4 key[8];
    ushort4 value[16];
} chunk_piece;

/* f(i) for each key of a piece; f(i) for each value. */
#define EACH_KEY(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)
#define EACH_VALUE(f) EACH_KEY(f) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)

/* Reads a piece of n keys and values; behind the last, it is repeated. k, v: row 0. */
INLINED void fetch_piece(chunk_piece *x, global const ushort *k, size_t k_stride, global const ushort *v,
                         size_t v_stride, int n, uint piece, uint lane)
{
    const uint k_row = piece / (D / 64) * 8, d = piece % (D / 64) * 64, v_row = piece / (E / 32) * 16,
               e = piece % (E / 32) * 32;
#define FETCH_KEY(i)                                                                                         \
    x->key[i] = fragment_words4((global const uint *)(k + min((int)k_row + i, n - 1) * k_stride + d), lane);
#define FETCH_VALUE(i) x->value[i] = fragment_halves4(v + min((int)v_row + i, n - 1) * v_stride + e, lane);
    EACH_KEY(FETCH_KEY)
    EACH_VALUE(FETCH_VALUE)
}

/* Stores it. Word s of element e of the values has that element of keys 2 s and 2 s + 1. */
UNIT_INLINED void store_piece(const chunk_piece *x, local uint *keys, local uint *values, uint piece,
                              uint lane)
{
    local uint *to = keys + (piece / (D / 64) * D_SLICES + piece % (D / 64) * 4) * FRAGMENT;
#define STORE_SLICE(i, s)                                                                                    \
    fragment_store(to + i * FRAGMENT,                                                                        \
                   (uint8)(x->key[0].s, x->key[1].s, x->key[2].s, x->key[3].s, x->key[4].s, x->key[5].s,     \
                           x->key[6].s, x->key[7].s),                                                        \
                   lane);
    STORE_SLICE(0, s0)
    STORE_SLICE(1, s1)
    STORE_SLICE(2, s2)
    STORE_SLICE(3, s3)
    to = values + (piece / (E / 32) * E_PARTS + piece % (E / 32) * 4) * FRAGMENT + lane * 8;
#define WORD(i, s) (x->value[2 * i].s | (uint)x->value[2 * i + 1].s << 16)
#define STORE_PART(i, s)                                                                                     \
    vstore4((uint4)(WORD(0, s), WORD(1, s), WORD(2, s), WORD(3, s)), i * 16, to);                            \
    vstore4((uint4)(WORD(4, s), WORD(5, s), WORD(6, s), WORD(7, s)), i * 16 + 1, to);
    STORE_PART(0, s0)
    STORE_PART(1, s1)
    STORE_PART(2, s2)
    STORE_PART(3, s3)
}

#endif
