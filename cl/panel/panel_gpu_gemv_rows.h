/* The rows of x for panel_gpu_gemv.cl: prepared before, in global memory; or with OWN by each group for
 * itself, in local memory. Then their products with weights in blocks. Needs QUANTISE, OWN, W_TYPE, NT and
 * TEAMS. */
#ifndef CLEF_CL_PANEL_GPU_GEMV_ROWS_H
#define CLEF_CL_PANEL_GPU_GEMV_ROWS_H

#if OWN
#  include "panel_gpu_rows.h"
#  define X_SPACE local
#else
#  define X_SPACE global
#endif

/* The rows of x from a->first on. */
typedef struct x_rows {
    X_SPACE const uchar *q;    /* quants, or floats */
    X_SPACE const float *d;    /* with QUANTISE: scales of blocks */
    X_SPACE const int   *sums; /* and sums of their halves */
    uint stride;              /* f32: of a row */
    uint m;
} x_rows;

#if OWN
/* Elements 4 i .. 4 i + 3 of the row after the norm. */
#  define NORMED4(i) \
    (float4)(NORMED(4 * (i)), NORMED(4 * (i) + 1), NORMED(4 * (i) + 2), NORMED(4 * (i) + 3))
#  if QUANTISE
/* Quants, scales of blocks, and sums of their halves. */
#    define ROOM(name) local uint name[OWN / 4 + OWN / 32 + OWN / 16]
#  else
#    define ROOM(name) local uint name[OWN]
#  endif

/* Prepares the row as panel_gpu_activations.cl does. All items of the group call it. */
static inline void own_row(x_rows *r, local uint *room, const rows_args a, global const float *x,
                           global const norm_weight_elem *norm_weight,
                           global const norm_bias_elem *norm_bias, local float *scratch)
{
    EXACT_ROUNDING
    const uint item = get_local_id(0);
    x += row_of(&a, 0);
    NORM_OF_ROW(OWN, a.eps, scratch);
#  if QUANTISE
    local float *d = (local float *)(room + OWN / 4), *most = (local float *)room; /* of each four elements */
    local int *sums = (local int *)(d + OWN / 32);
    for (uint i = item; i < OWN / 4; i += WG) {
        const float4 v = fabs(NORMED4(i));
        most[i] = fmax(fmax(v.x, v.y), fmax(v.z, v.w));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint b = item; b < OWN / 32; b += WG) {
        float all = most[8 * b];
        for (uint i = 1; i < 8; i++)
            all = fmax(all, most[8 * b + i]);
        d[b] = all > 0 ? divided(all, 127.0f) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE); /* the quants take the place of `most` */
    for (uint i = item; i < OWN / 4; i += WG) {
        const float inverse = d[i / 8] > 0 ? divided(1.0f, d[i / 8]) : 0.0f;
        room[i] = as_uint(convert_char4(convert_int4(rint(NORMED4(i) * inverse))));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = item; i < OWN / 16; i += WG) {
        int4 four = 0;
        for (uint j = 0; j < 4; j++)
            four += convert_int4(as_char4(room[4 * i + j]));
        sums[i] = (four.x + four.y) + (four.z + four.w);
    }
    r->d = d;
    r->sums = sums;
#  else
    for (uint i = item; i < OWN; i += WG)
        ((local float *)room)[i] = NORMED(i);
    r->d = 0;
    r->sums = 0;
#  endif
    r->q = (local const uchar *)room;
    r->stride = OWN;
    r->m = 1;
    barrier(CLK_LOCAL_MEM_FENCE);
}
#else
static void x_at(x_rows *r, const panel_args *a, global const uchar *x)
{
    const uint blocks = a->k / 32;
#if QUANTISE
    r->q = x;
    r->d = (global const float *)(x + (size_t)a->m * a->k) + (size_t)a->first * blocks;
    r->sums = (global const int *)(x + (size_t)a->m * (a->k + blocks * 4)) + (size_t)a->first * blocks * 2;
    r->q += (size_t)a->first * a->k;
#else
    r->q = (global const uchar *)((global const float *)x + a->x + (size_t)a->first * a->x_stride);
    r->d = 0;
    r->sums = 0;
#endif
    r->stride = a->x_stride;
    r->m = a->m - a->first;
}
#endif

/* ---- products with blocks ---------------------------------------------------------------------- */

#if IS_BLOCKS(W_TYPE)
#  include "panel_gpu_codes.h"

enum { AHEAD = 2 }; /* adjacent blocks whose loads are in flight at once; those of a K-quant share scales */

/* Adds the products of block b with NT tokens. v, scale, base: the codes of its row, and what they are
 * for. */
static inline void add_block(float acc[NT], const uint2 v[4], float2 scale, float2 base, uint b, uint blocks,
                             const x_rows *x)
{
#  pragma unroll
    for (uint t = 0; t < NT; t++) {
        const uint token = min(t, x->m - 1);
#  if QUANTISE
        const size_t at = (size_t)token * blocks + b;
        const uint4 lo = vload4(2 * at, (X_SPACE const uint *)x->q),
                    hi = vload4(2 * at + 1, (X_SPACE const uint *)x->q);
        const int2 sums = vload2(at, x->sums);
        const float d = x->d[at];
        const int i = dot4s(dot4s(dot4s(dot4s(0, v[0].x, lo.x), v[1].x, lo.y), v[2].x, lo.z), v[3].x, lo.w);
        const int j = dot4s(dot4s(dot4s(dot4s(0, v[0].y, hi.x), v[1].y, hi.y), v[2].y, hi.z), v[3].y, hi.w);
#    if HALF_SCALES
        float s = fma((float)i, scale.x, (float)j * scale.y);
        s = fma((float)sums.x, base.x, fma((float)sums.y, base.y, s));
#    else
        float s = (float)(i + j) * scale.x;
#      if HAS_BASE
        s = fma((float)(sums.x + sums.y), base.x, s);
#      endif
#    endif
        acc[t] = fma(s, d, acc[t]);
#  else
        X_SPACE const float *xs = (X_SPACE const float *)x->q + token * (size_t)x->stride + b * 32;
        float4 lo = 0, hi = 0, lo_x = 0, hi_x = 0;
#    pragma unroll
        for (uint g = 0; g < 4; g++) {
            const float4 first = vload4(g, xs), second = vload4(g + 4, xs);
            lo = fma(convert_float4(as_char4(v[g].x)), first, lo);
            hi = fma(convert_float4(as_char4(v[g].y)), second, hi);
            lo_x += first;
            hi_x += second;
        }
        const float4 sum = lo * scale.x + hi * scale.y;
        acc[t] += (sum.x + sum.y) + (sum.z + sum.w);
#    if HAS_BASE
        const float4 rest = lo_x * base.x + hi_x * base.y;
        acc[t] += (rest.x + rest.y) + (rest.z + rest.w);
#    endif
#  endif
    }
}

/* AHEAD blocks of a row: codes, and what they are for. */
typedef struct blocks_ahead {
    uint2 v[AHEAD][4];
    float2 scale[AHEAD], base[AHEAD];
} blocks_ahead;

INLINED void ask_for(blocks_ahead *w, const lane_ptrs *p, uint several)
{
#  pragma unroll
    for (uint i = 0; i < AHEAD; i++) {
#  pragma unroll
        for (uint g = 0; g < 4; g++)
            w->v[i][g] = lane_codes(p, several * AHEAD + i, g);
        lane_scales(p, several * AHEAD + i, &w->scale[i], &w->base[i]);
    }
}

/* The first blocks of a work-item, which are asked for before the group prepares its row. */
INLINED void ask_for_first(blocks_ahead *w, global const uchar *weight, const panel_args *a, uint tile,
                           uint row, uint team)
{
    const uint blocks = a->k / 32;
    lane_ptrs p;
    lane_at(&p, weight, tile, W_TILES(a->n), blocks, row);
    if (team < blocks / AHEAD)
        ask_for(w, &p, team);
}

/* asked: 0, or the first blocks. */
INLINED void part_sums(float acc[NT], global const uchar *w, const panel_args *a, uint tile, uint row,
                       uint team, const x_rows *x, const __private blocks_ahead *asked)
{
    const uint blocks = a->k / 32;
    lane_ptrs p;
    lane_at(&p, w, tile, W_TILES(a->n), blocks, row);
#  pragma unroll
    for (uint t = 0; t < NT; t++)
        acc[t] = 0;
    uint several = team;
    if (asked && several < blocks / AHEAD) {
#  pragma unroll
        for (uint i = 0; i < AHEAD; i++)
            add_block(acc, asked->v[i], asked->scale[i], asked->base[i], several * AHEAD + i, blocks, x);
        several += TEAMS;
    }
    for (; several < blocks / AHEAD; several += TEAMS) {
        blocks_ahead now;
        ask_for(&now, &p, several);
#  pragma unroll
        for (uint i = 0; i < AHEAD; i++)
            add_block(acc, now.v[i], now.scale[i], now.base[i], several * AHEAD + i, blocks, x);
    }
    for (uint b = blocks / AHEAD * AHEAD + team; b < blocks; b += TEAMS) {
        uint2 v[4];
        float2 scale, base;
#  pragma unroll
        for (uint g = 0; g < 4; g++)
            v[g] = lane_codes(&p, b, g);
        lane_scales(&p, b, &scale, &base);
        add_block(acc, v, scale, base, b, blocks, x);
    }
}
#endif

#endif
