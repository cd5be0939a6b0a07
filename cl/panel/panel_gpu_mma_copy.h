/* How the units of a group copy 32 columns of w and of x to local memory, as fragments of units of eight
 * work-items (panel_gpu_fragments_8.h). w in blocks is decoded to bf16 on the way. What is copied is read a
 * step before it is stored, so that the products of a step hide the time that memory takes.
 *   -D W_TYPE    dtype of w
 *   -D QUANTISE  how panel_gpu_activations.cl made x: 3 in halves; 4 in bf16
 *   and what panel_gpu_mma_tiles.h needs
 *
 *   W_FRAGMENTS, X_FRAGMENTS          fragments of a step: the first half has columns 0 to 15
 *   copy_fetch(c, from, b, unit, lane)  reads the unit's share of columns 32 b ..
 *   copy_store(c, w_words, x_words, unit, lane)  stores it */
#ifndef CLEF_CL_PANEL_GPU_MMA_COPY_H
#define CLEF_CL_PANEL_GPU_MMA_COPY_H

#include "panel_gpu_fragments_8.h"
#if IS_BLOCKS(W_TYPE)
#  include "panel_gpu_codes.h"
#  include "panel_gpu_bf16.h"
#endif

#define UNITS (WG / MATRIX_LANES)

enum {
    W_FRAGMENTS = W_ROWS / 8 * 2,
    X_FRAGMENTS = X_ROWS / 8 * 2,
    /* pieces of a step that a unit copies: two fragments of w, one of x */
    W_PIECES = (W_FRAGMENTS / 2 + UNITS - 1) / UNITS,
    X_PIECES = (X_FRAGMENTS + UNITS - 1) / UNITS
};

/* Where a group reads. */
typedef struct copy_from {
    global const uchar *w;
    global const uint *x;
    uint tile, tiles; /* the group's first tile of w; all tiles */
    uint token, rows; /* its first row of x; all rows */
    uint k;
} copy_from;

/* A piece of w. In blocks: eight rows of a tile. Otherwise: 16 columns of a tile. */
#if IS_BLOCKS(W_TYPE)
typedef struct w_piece {
    lane_raw raw[4];
    float2 scale, base;
} w_piece;

static inline void w_fetch(w_piece *p, const copy_from *from, uint b, uint piece, uint lane)
{
    lane_ptrs at;
    lane_at(&at, from->w, min(from->tile + piece / 2, from->tiles - 1), from->tiles, from->k / 32,
            piece % 2 * 8 + lane);
#  pragma unroll
    for (uint g = 0; g < 4; g++)
        p->raw[g] = lane_fetch(&at, b, g);
    lane_scales(&at, b, &p->scale, &p->base);
}

UNIT_INLINED void w_store(const w_piece *p, local uint *words, uint piece, uint lane)
{
    uint v[2][8];
    float2 scale = p->scale, base = p->base;
    bf16_terms(&scale, &base);
#  pragma unroll
    for (uint g = 0; g < 4; g++) {
        const uint2 codes = lane_decode(p->raw[g], g), first = four_bf16(codes.x, scale.x, base.x),
                    second = four_bf16(codes.y, scale.y, base.y);
        v[0][2 * g] = first.x;
        v[0][2 * g + 1] = first.y;
        v[1][2 * g] = second.x;
        v[1][2 * g + 1] = second.y;
    }
    fragment_store(words + piece * FRAGMENT, vload8(0, v[0]), lane);
    fragment_store(words + (W_FRAGMENTS / 2 + piece) * FRAGMENT, vload8(0, v[1]), lane);
}
#else
typedef struct w_piece {
    ushort8 raw[4]; /* four columns of sixteen rows each */
} w_piece;

static inline void w_fetch(w_piece *p, const copy_from *from, uint b, uint piece, uint lane)
{
    const uint tile = min(from->tile + piece / 2, from->tiles - 1);
    global const ushort *at = (global const ushort *)from->w +
                              ((size_t)tile * from->k + b * 32 + piece % 2 * 16) * PANEL_ROWS;
#  pragma unroll
    for (uint i = 0; i < 4; i++)
        p->raw[i] = fragment_halves(at + i * FRAGMENT, lane);
}

UNIT_INLINED void w_store(const w_piece *p, local uint *words, uint piece, uint lane)
{
    uint v[2][8];
#  pragma unroll
    for (uint i = 0; i < 4; i++) {
        const ushort8 r = p->raw[i];
        v[0][2 * i] = r.s0 | (uint)r.s2 << 16;
        v[0][2 * i + 1] = r.s4 | (uint)r.s6 << 16;
        v[1][2 * i] = r.s1 | (uint)r.s3 << 16;
        v[1][2 * i + 1] = r.s5 | (uint)r.s7 << 16;
    }
    words += (piece % 2 * (W_FRAGMENTS / 2) + piece / 2 * 2) * FRAGMENT;
    fragment_store(words, vload8(0, v[0]), lane);
    fragment_store(words + FRAGMENT, vload8(0, v[1]), lane);
}
#endif

typedef struct copy {
    w_piece w[W_PIECES];
    uint8 x[X_PIECES];
} copy;

static inline void copy_fetch(copy *c, const copy_from *from, uint b, uint unit, uint lane)
{
#pragma unroll
    for (uint i = 0; i < W_PIECES; i++) {
        const uint piece = unit + i * UNITS;
        if (W_FRAGMENTS / 2 % UNITS == 0 || piece < W_FRAGMENTS / 2)
            w_fetch(&c->w[i], from, b, piece, lane);
    }
#pragma unroll
    for (uint i = 0; i < X_PIECES; i++) {
        const uint piece = unit + i * UNITS;
        const uint slice = b * 2 + piece / (X_FRAGMENTS / 2), row = piece % (X_FRAGMENTS / 2) * 8;
        if (X_FRAGMENTS % UNITS == 0 || piece < X_FRAGMENTS)
            c->x[i] =
                fragment_read(from->x + ((size_t)slice * from->rows + from->token + row) * 8, lane);
    }
}

UNIT_INLINED void copy_store(const copy *c, local uint *w_words, local uint *x_words, uint unit, uint lane)
{
#pragma unroll
    for (uint i = 0; i < W_PIECES; i++) {
        const uint piece = unit + i * UNITS;
        if (W_FRAGMENTS / 2 % UNITS == 0 || piece < W_FRAGMENTS / 2)
            w_store(&c->w[i], w_words, piece, lane);
    }
#pragma unroll
    for (uint i = 0; i < X_PIECES; i++) {
        const uint piece = unit + i * UNITS;
        if (X_FRAGMENTS % UNITS == 0 || piece < X_FRAGMENTS)
            fragment_store(x_words + piece * FRAGMENT, c->x[i], lane);
    }
}

#endif
