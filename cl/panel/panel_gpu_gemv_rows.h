/* The rows of x for panel_gpu_gemv.cl: prepared before, in global memory; or with OWN by each group for
 * itself, in local memory. Needs QUANTISE and OWN. */
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

#endif
