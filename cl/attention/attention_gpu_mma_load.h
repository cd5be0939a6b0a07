/* For attention_gpu_flash_mma.cl: brings keys and values into local memory, in the order in which the unit
 * reads them. A work-item has STAGED pieces of eight halves of the next chunk in registers, while the unit
 * multiplies; what it has to bring beyond that comes last. Needs D, E, KEYS 64, WG and matrix.h. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_LOAD_H
#define CLEF_CL_ATTENTION_GPU_MMA_LOAD_H

enum {
    STAGED = MATRIX == 1 ? 4 : 8,
    /* Words from one row to the next in local memory: rows that are read at once are in different banks. On
     * NVIDIA's units 8 work-items at a time read 64 bytes each of 2 keys, or 32 bytes of 4 values. */
    K_WORDS = MATRIX == 1 ? (D / 2 + 15) / 32 * 32 + 16 : D / 2 + 4,
    V_WORDS = MATRIX == 1 ? E / 2 + 4 : KEYS / 2 + 4,
    K_ALL = KEYS * K_WORDS,
    V_ALL = MATRIX == 1 ? KEYS * V_WORDS : E * V_WORDS
};

/* n keys and values in memory, and what the work-item has of either in registers. */
typedef struct chunk {
    int n;
    global const half *keys, *values;
    uint4 staged[STAGED];
} chunk;

/* The halves of a and b in the lower 16 bits, and in the upper ones. */
#if MATRIX == 1 && !MATRIX_PLAIN
static inline uint lower_halves(uint a, uint b)
{
    uint word;
    __asm__("prmt.b32 %0, %1, %2, 0x5410;" : "=r"(word) : "r"(a), "r"(b));
    return word;
}

static inline uint upper_halves(uint a, uint b)
{
    uint word;
    __asm__("prmt.b32 %0, %1, %2, 0x7632;" : "=r"(word) : "r"(a), "r"(b));
    return word;
}
#else
static inline uint lower_halves(uint a, uint b) { return (a & 0xffffu) | b << 16; }
static inline uint upper_halves(uint a, uint b) { return a >> 16 | (b & 0xffff0000u); }
#endif

static inline uint4 four_words(local const uint *from) { return *(local const uint4 *)from; }
static inline uint2 two_words(local const uint *from) { return *(local const uint2 *)from; }

/* ---- rows as they are ------------------------------------------------------------------------ */

/* Row first + step of n rows; behind the last row, that is repeated. A constant step needs no register. */
INLINED int row_after(int first, int step, int n) { return first + min(step, n - 1 - first); }

/* The work-item's piece i of rows of `width` halves: whether there is one; its row, and its place there. What
 * differs between pieces is a constant where it can be. */
INLINED int has_piece(uint item, uint i, uint pieces)
{
    return (i + 1) * WG <= pieces || item + i * WG < pieces;
}

INLINED uint2 spot_of(uint item, uint i, uint width)
{
    const uint n = width / 8;
    return WG % n == 0 ? (uint2)(item / n + i * (WG / n), item % n)
                       : (uint2)((item + i * WG) / n, (item + i * WG) % n);
}

/* The work-item's piece i of a chunk of n rows. */
INLINED uint4 piece_of(global const half *from, size_t stride, int n, uint width, uint item, uint i)
{
    const uint w = width / 8;
    const int row = WG % w == 0 ? row_after((int)(item / w), (int)(i * (WG / w)), n)
                                : min((int)spot_of(item, i, width).x, n - 1);
    return *(global const uint4 *)(from + (size_t)row * stride + spot_of(item, i, width).y * 8);
}

INLINED void put_piece(local uint *to, uint words, uint2 spot, uint4 piece)
{
    *(local uint4 *)(to + spot.x * words + spot.y * 4) = piece;
}

INLINED void fetch_rows(uint4 *staged, global const half *from, size_t stride, int n, uint width, uint item)
{
#pragma unroll
    for (uint i = 0; i < STAGED; i++)
        if (has_piece(item, i, KEYS * (width / 8)))
            staged[i] = piece_of(from, stride, n, width, item, i);
}

INLINED void store_rows(local uint *to, uint words, const uint4 *staged, global const half *from,
                        size_t stride, int n, uint width, uint item)
{
#pragma unroll
    for (uint i = 0; i < STAGED; i++)
        if (has_piece(item, i, KEYS * (width / 8)))
            put_piece(to, words, spot_of(item, i, width), staged[i]);
#pragma unroll
    for (uint i = STAGED; i * WG < KEYS * (width / 8); i++)
        if (has_piece(item, i, KEYS * (width / 8)))
            put_piece(to, words, spot_of(item, i, width), piece_of(from, stride, n, width, item, i));
}

/* ---- values, transposed ---------------------------------------------------------------------- */

/* A block is eight elements of eight keys. Local memory has a row of V_WORDS for each element, in groups
 * of four words, which are the block's keys. With WMMA the keys of a slice of 16 are in the order 0 2
 * 4 .. 14 1 3 .. 15, as a work-item has their weights. */
enum { V_BLOCKS = KEYS / 8 * (E / 8) };

static inline int key_of_group(uint group, uint i, int n)
{
    return MATRIX == 2 ? row_after((int)(group / 2 * 16 + group % 2), (int)(2 * i), n)
                       : row_after((int)(group * 8), (int)i, n);
}

/* Where group g of an element's row begins. Elements that are read or written at once are in different
 * banks. */
static inline uint group_at(uint element, uint g) { return element * V_WORDS + (g ^ element / 8 % 8) * 4; }

INLINED void fetch_block(uint4 *block, global const half *from, size_t stride, int n, uint u)
{
#pragma unroll
    for (uint i = 0; i < 8; i++)
        block[i] = *(global const uint4 *)(from + (size_t)key_of_group(u / (E / 8), i, n) * stride +
                                           u % (E / 8) * 8);
}

INLINED void store_block(local uint *to, const uint4 *block, uint u)
{
    const uint e = u % (E / 8) * 8, g = u / (E / 8);
#define STORE_ELEMENTS(c, s)                                                                                 \
    *(local uint4 *)(to + group_at(e + 2 * c, g)) =                                                          \
        (uint4)(lower_halves(block[0].s, block[1].s), lower_halves(block[2].s, block[3].s),                  \
                lower_halves(block[4].s, block[5].s), lower_halves(block[6].s, block[7].s));                 \
    *(local uint4 *)(to + group_at(e + 2 * c + 1, g)) =                                                      \
        (uint4)(upper_halves(block[0].s, block[1].s), upper_halves(block[2].s, block[3].s),                  \
                upper_halves(block[4].s, block[5].s), upper_halves(block[6].s, block[7].s));
    STORE_ELEMENTS(0, x)
    STORE_ELEMENTS(1, y)
    STORE_ELEMENTS(2, z)
    STORE_ELEMENTS(3, w)
}

/* ---- a chunk --------------------------------------------------------------------------------- */

INLINED void fetch_keys(chunk *c, size_t stride, uint item)
{
    fetch_rows(c->staged, c->keys, stride, c->n, D, item);
}

INLINED void store_keys(local uint *to, const chunk *c, size_t stride, uint item)
{
    store_rows(to, K_WORDS, c->staged, c->keys, stride, c->n, D, item);
}

INLINED void fetch_values(chunk *c, size_t stride, uint item)
{
    if (MATRIX == 1)
        fetch_rows(c->staged, c->values, stride, c->n, E, item);
    else if (WG <= V_BLOCKS || item < V_BLOCKS)
        fetch_block(c->staged, c->values, stride, c->n, item);
}

INLINED void store_values(local uint *to, const chunk *c, size_t stride, uint item)
{
    if (MATRIX == 1) {
        store_rows(to, V_WORDS, c->staged, c->values, stride, c->n, E, item);
        return;
    }
    if (WG <= V_BLOCKS || item < V_BLOCKS)
        store_block(to, c->staged, item);
    for (uint u = item + WG; u < V_BLOCKS; u += WG) {
        uint4 block[8];
        fetch_block(block, c->values, stride, c->n, u);
        store_block(to, block, u);
    }
}

#endif
