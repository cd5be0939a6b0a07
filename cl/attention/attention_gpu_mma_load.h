/* For attention_gpu_flash_mma.cl: brings keys and values into local memory, in the order in which the unit
 * reads them. A work-item has STAGED pieces of eight halves of the next chunk in registers, while the unit
 * multiplies; what it has to bring beyond that comes last. Needs D, E, KEYS 64, WG and matrix.h. */
#ifndef CLEF_CL_ATTENTION_GPU_MMA_LOAD_H
#define CLEF_CL_ATTENTION_GPU_MMA_LOAD_H

/* Whether a chunk is on its way while the one before is multiplied. */
#define STAGES (MATRIX != 2)

enum {
    STAGED = MATRIX == 1 ? 4 : 8,
    /* Words from one row to the next in local memory: rows that are read at once are in different banks. On
     * NVIDIA's units 8 work-items at a time read 64 bytes each of 2 keys, or 32 bytes of 4 values. */
    K_WORDS = MATRIX == 1 ? (D / 2 + 15) / 32 * 32 + 16 : D / 2 + 4,
    V_WORDS = MATRIX == 1 ? E / 2 + 4 : KEYS / 2,
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

/* Piece u of a chunk of n rows of `width` halves; behind the last row, that is repeated. */
INLINED uint4 piece_of(global const half *from, size_t stride, int n, uint width, uint u)
{
    const int row = min((int)(u / (width / 8)), n - 1);
    return *(global const uint4 *)(from + (size_t)row * stride + u % (width / 8) * 8);
}

INLINED void put_piece(local uint *to, uint words, uint width, uint u, uint4 piece)
{
    *(local uint4 *)(to + u / (width / 8) * words + u % (width / 8) * 4) = piece;
}

INLINED void fetch_rows(uint4 *staged, global const half *from, size_t stride, int n, uint width, uint item)
{
#pragma unroll
    for (uint i = 0; i < STAGED; i++)
        if (item + i * WG < KEYS * (width / 8))
            staged[i] = piece_of(from, stride, n, width, item + i * WG);
}

INLINED void store_rows(local uint *to, uint words, const uint4 *staged, global const half *from,
                        size_t stride, int n, uint width, uint item)
{
#pragma unroll
    for (uint i = 0; i < STAGED; i++)
        if (item + i * WG < KEYS * (width / 8))
            put_piece(to, words, width, item + i * WG, staged[i]);
#pragma unroll
    for (uint u = item + STAGED * WG; u < KEYS * (width / 8); u += WG)
        put_piece(to, words, width, u, piece_of(from, stride, n, width, u));
}

/* ---- values, transposed ---------------------------------------------------------------------- */

/* A block is eight elements of eight keys. Local memory has a row of KEYS / 2 words for each element, in
 * groups of four words, which are the block's keys. With WMMA the keys of a slice of 16 are in the order 0 2
 * 4 .. 14 1 3 .. 15, as a work-item has their weights. */
enum { V_BLOCKS = KEYS / 8 * (E / 8) };

static inline int key_of_group(uint group, uint i)
{
    return (int)(MATRIX == 2 ? group / 2 * 16 + 2 * i + group % 2 : group * 8 + i);
}

/* Where group g of an element's row begins. Elements that are read or written at once are in different
 * banks. */
static inline uint group_at(uint element, uint g)
{
    return element * V_WORDS + (g ^ ((element ^ element >> 3) & 7)) * 4;
}

INLINED void fetch_block(uint4 *block, global const half *from, size_t stride, int n, uint u)
{
#pragma unroll
    for (uint i = 0; i < 8; i++)
        block[i] = *(global const uint4 *)(from + (size_t)min(key_of_group(u / (E / 8), i), n - 1) * stride +
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
    else if (item < V_BLOCKS)
        fetch_block(c->staged, c->values, stride, c->n, item);
}

INLINED void store_values(local uint *to, const chunk *c, size_t stride, uint item)
{
    if (MATRIX == 1) {
        store_rows(to, V_WORDS, c->staged, c->values, stride, c->n, E, item);
        return;
    }
    if (item < V_BLOCKS)
        store_block(to, c->staged, item);
    for (uint u = item + WG; u < V_BLOCKS; u += WG) {
        uint4 block[8];
        fetch_block(block, c->values, stride, c->n, u);
        store_block(to, block, u);
    }
}

#endif
