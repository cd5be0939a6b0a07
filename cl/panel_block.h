/* Reading panels of block formats (cl/panel.h): a tile's sums with quantised tokens, and its weights as floats. Needs W_TYPE and DOT.
 * X_SPACE is the address space of quantised x (global when not given).
 *
 * A step covers STEP_BLOCKS blocks of 32 columns:
 *   tile_ptrs p = tile_at(w, tile, tiles, blocks);   tiles of the weight (padded), blocks = K / 32
 *   tile_step(acc, &p, &x)                           acc[t] += this step's columns . token t, and p and x move to the next step
 *   tile_floats(&p, k)                               the 16 weights of column k of this step, without their scale */
#ifndef CLEF_CL_PANEL_BLOCK_H
#define CLEF_CL_PANEL_BLOCK_H

#include "panel.h"
#include "weights.h"

#ifndef X_SPACE
#  define X_SPACE global
#endif

#if W_TYPE == DTYPE_Q8_0
enum { STEP_BLOCKS = 1, GROUPS = 8, OFFSET = 128 };
#elif W_TYPE == DTYPE_Q4_0
enum { STEP_BLOCKS = 1, GROUPS = 4, OFFSET = 8 };
#else
#  error "panel_block.h: this W_TYPE has no panels of blocks"
#endif

typedef struct tile_ptrs {
    global const int16 *quants;
    global const ushort *scales;
} tile_ptrs;

static inline tile_ptrs tile_at(global const uchar *w, uint tile, uint tiles, uint blocks)
{
    tile_ptrs p;
    p.quants = (global const int16 *)(w + (size_t)tile * blocks * GROUPS * 64);
    p.scales = (global const ushort *)(w + (size_t)tiles * blocks * GROUPS * 64) + (size_t)tile * blocks * PANEL_ROWS;
    return p;
}

/* Sixteen halves. vload_half16 is two instructions of half the width on PoCL. */
static inline float16 halves(global const ushort *p)
{
#if DOT == 1
    float16 v;
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "m"(*(global const ushort16 *)p));
    return v;
#else
    return vload_half16(0, (global const half *)p);
#endif
}

#ifdef NT
/* A token block's quantised rows (quantize_args): quants, a scale and two sums for each block of each token. */
typedef struct x_ptrs {
    X_SPACE const int *q;
    X_SPACE const float *d;
    X_SPACE const int2 *sums;
} x_ptrs;

static inline x_ptrs x_at(X_SPACE const uchar *x, uint k)
{
    x_ptrs p;
    p.q = (X_SPACE const int *)x;
    p.d = (X_SPACE const float *)(x + (size_t)NT * k);
    p.sums = (X_SPACE const int2 *)(p.d + (size_t)NT * (k / 32));
    return p;
}

static inline void tile_step(float16 acc[NT], tile_ptrs *p, x_ptrs *x)
{
    int16 v[8];
#  if W_TYPE == DTYPE_Q8_0
#    pragma unroll
    for (int g = 0; g < 8; g++)
        v[g] = p->quants[g];
#  else
#    pragma unroll
    for (int g = 0; g < 4; g++) {
        const int16 both = p->quants[g];
        v[g] = both & 0x0f0f0f0f;
        v[g + 4] = as_int16(as_uint16(both) >> 4u) & 0x0f0f0f0f;
    }
#  endif
    const float16 scale = halves(p->scales);
#  pragma unroll
    for (int t = 0; t < NT; t++) {
        int16 i = -OFFSET * (x->sums[t].x + x->sums[t].y), j = 0; /* two chains: one instruction waits for the other */
        DOT4(i, v[0], x->q + t * 8);
        DOT4(j, v[1], x->q + t * 8 + 1);
        DOT4(i, v[2], x->q + t * 8 + 2);
        DOT4(j, v[3], x->q + t * 8 + 3);
        DOT4(i, v[4], x->q + t * 8 + 4);
        DOT4(j, v[5], x->q + t * 8 + 5);
        DOT4(i, v[6], x->q + t * 8 + 6);
        DOT4(j, v[7], x->q + t * 8 + 7);
        acc[t] = fma(convert_float16(i + j) * x->d[t], scale, acc[t]);
    }
    p->quants += GROUPS;
    p->scales += PANEL_ROWS;
    x->q += NT * 8;
    x->d += NT;
    x->sums += NT;
}
#endif

static inline float16 tile_floats(const tile_ptrs *p, uint k)
{
#if W_TYPE == DTYPE_Q8_0
    return convert_float16(p->quants[k / 4] >> (int)(k % 4 * 8) & 255) - (float)OFFSET;
#else
    return convert_float16(p->quants[k % 16 / 4] >> (int)(k % 4 * 8 + k / 16 * 4) & 15) - (float)OFFSET;
#endif
}

#endif
