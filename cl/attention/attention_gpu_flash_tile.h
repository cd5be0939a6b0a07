/* The steps of attention_gpu_flash.cl within one tile: where its queries and keys are, their scores, logits
 * and weights, and the sums of values. */
#ifndef CLEF_CL_ATTENTION_GPU_FLASH_TILE_H
#define CLEF_CL_ATTENTION_GPU_FLASH_TILE_H

#include "attention.h"
#include "attention_logit.h"

enum {
    D4 = (D + 3) / 4,
    E4 = (E + 3) / 4,
    WIDE = (D4 > E4 ? D4 : E4) +
           1, /* vectors between rows of a chunk; one more than needed, so that neighbours are in different
                 banks */
    SLOTS = WG * TALL / ROWS,
    MINE = KEYS / SLOTS, /* keys of a chunk for each item */
    VECTORS = (E4 + SLOTS - 1) / SLOTS,
    PITCH = KEYS + 1 /* floats between rows of weights */
};

#include "attention_gpu_parts.h"

/* Defines a function that loads n rows of N elements from `at` on as f32. It writes zeros to the chunk's
 * other rows and behind a row's end. */
#define DEFINE_LOAD_ROWS(name, type, N)                                                            \
    static void name(local float *to, global const ELEM(type) *p, size_t at, size_t stride, int n, \
                     uint item)                                                                    \
    {                                                                                              \
        const uint units = (N + 15) / 16;                                                          \
        _Pragma("unroll 1") for (uint u = item; u < KEYS * units; u += WG) {                       \
            const uint row = u / units, e = u % units * 16;                                        \
            const size_t from = at + row * stride + e;                                             \
            local float *x = to + row * 4 * WIDE + e;                                              \
            if (e + 16 <= N)                                                                       \
                vstore16((int)row < n ? LOAD16(type, p, from) : (float16)(0.0f), 0, x);            \
            else                                                                                   \
                for (uint i = 0; e + i < (N + 3) / 4 * 4; i++)                                     \
                    x[i] = (int)row < n && e + i < N ? LOAD(type, p, from + i) : 0.0f;             \
        }                                                                                          \
    }
DEFINE_LOAD_ROWS(load_keys, K_TYPE, D)
DEFINE_LOAD_ROWS(load_values, V_TYPE, E)

/* n, in a form that no compiler knows. If the loops below are unrolled, some compilers issue all loads first
 * and spill hundreds of registers. Mesa's does not see pragmas, and unrolls loops whose length it knows. */
static uint unknown(const attention_args *a, uint n) { return n * min(a->group, 1u); }

/* z[i][j] = q[row i] . k[key j] of an item's rows and keys. */
static void score(float *z, local const float4 *q, local const float4 *k, const attention_args *a)
{
    const uint n = unknown(a, D4);
    for (uint i = 0; i < TALL * MINE; i++)
        z[i] = 0;
#pragma unroll 1
    for (uint d = 0; d < n; d++) {
        float4 x[MINE];
#pragma unroll
        for (uint j = 0; j < MINE; j++)
            x[j] = k[j * SLOTS * WIDE + d];
#pragma unroll
        for (uint i = 0; i < TALL; i++) {
            const float4 y = q[i * D4 + d];
#pragma unroll
            for (uint j = 0; j < MINE; j++)
                z[i * MINE + j] += dot(y, x[j]);
        }
    }
}

/* Row i of an item as a query. Rows beyond the end repeat the last query. */
static uint query_of(const place *p, uint i) { return min(p->tile * ROWS + p->first + i, p->queries - 1); }

/* The tile's queries as f32, rows of D4 vectors. */
static void load_queries(local float *ready, const attention_args *a, const place *p, global const float *q)
{
    for (uint i = p->item; i < ROWS * D4 * 4; i += WG) {
        const uint d = i % (4 * D4), query = min(p->tile * ROWS + i / (4 * D4), p->queries - 1);
        ready[i] = d < D ? q[row_at(a, &a->q, p->b, p->hk, query) + d] : 0.0f;
    }
}

/* Replaces an item's products z by logits, -INFINITY for keys that a query does not see, and writes them
 * to `weights`. */
static void put_logits(local float *weights, float *z, const attention_args *a, const place *p,
                       const int *begin, const int *end, global const mask_elem *mask, const size_t *mask_row,
                       int s0, int to)
{
#pragma unroll
    for (uint i = 0; i < TALL; i++)
#pragma unroll
        for (uint j = 0; j < MINE; j++) {
            const int s = s0 + (int)(p->slot + j * SLOTS);
            float *mine = z + i * MINE + j;
            *mine = s >= begin[i] && s < min(end[i], to) ? logit(a, mask, mask_row[i], s, *mine) : -INFINITY;
            weights[(p->first + i) * PITCH + p->slot + j * SLOTS] = *mine;
        }
}

/* Raises the maximum of each row to that of the chunk's logits, and turns z into weights relative to it.
 * keep[i] is the factor for the earlier sums of row i. */
static void rescale(float *z, float *most, float *keep, local const float *weights, const place *p)
{
#pragma unroll
    for (uint i = 0; i < TALL; i++) {
        float high = most[i];
#pragma unroll 4
        for (uint s = 0; s < KEYS; s++)
            high = fmax(high, weights[(p->first + i) * PITCH + s]);
        const float base = base_of(high);
        keep[i] = weight_of(most[i], base);
        most[i] = high;
#pragma unroll
        for (uint j = 0; j < MINE; j++)
            z[i * MINE + j] = weight_of(z[i * MINE + j], base);
    }
}

/* Writes an item's weights, and scales the earlier sums of its rows. */
static void put_weights(local float *weights, const float *z, const float *keep, float *sum, float4 *acc,
                        const place *p)
{
#pragma unroll
    for (uint i = 0; i < TALL; i++) {
#pragma unroll
        for (uint j = 0; j < MINE; j++)
            weights[(p->first + i) * PITCH + p->slot + j * SLOTS] = z[i * MINE + j];
        sum[i] *= keep[i];
#pragma unroll
        for (uint j = 0; j < VECTORS; j++)
            acc[i * VECTORS + j] *= keep[i];
    }
}

/* Adds the chunk's values, times their weights, to an item's sums. */
static void accumulate(float4 *acc, float *sum, local const float *weights, local const float4 *values,
                       const attention_args *a, const place *p)
{
    const uint n = unknown(a, KEYS);
#pragma unroll 1
    for (uint s = 0; s < n; s++) {
        float4 x[VECTORS];
#pragma unroll
        for (uint j = 0; j < VECTORS; j++)
            x[j] = p->slot + j * SLOTS < E4 ? values[s * WIDE + p->slot + j * SLOTS] : (float4)(0.0f);
#pragma unroll
        for (uint i = 0; i < TALL; i++) {
            const float weight = weights[(p->first + i) * PITCH + s];
            sum[i] += weight;
#pragma unroll
            for (uint j = 0; j < VECTORS; j++)
                acc[i * VECTORS + j] += weight * x[j];
        }
    }
}

#endif
