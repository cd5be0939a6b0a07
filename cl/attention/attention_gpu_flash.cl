/* Softmax attention on GPUs, tiles of queries by chunks of keys in local memory (FlashAttention, arXiv:2205.14135; parts: Flash-Decoding):
 * the formula of attention.cl. The queries of a head of k, counted as there (i = t group + h), lie in tiles of ROWS, so that all heads of
 * a group and neighbouring positions share each read of k and v.
 *   attention_gpu_flash        launch: splits ceil(group T / ROWS) Hk B groups of WG items. With a.splits > 1 the keys are cut in so many
 *                          parts; each leaves a record for each query in `parts`: max z, the sum of the weights, two floats that count
 *                          for nothing, then the sum of values, E rounded up to a multiple of 4.
 *   attention_gpu_flash_merge  launch: group T Hk B groups of WG items; joins the records.
 * Item (r, c) of ROWS / TALL by SLOTS has the rows r TALL .. and, of a chunk, the keys c, c + SLOTS ..; of the values the vectors of four
 * elements c, c + SLOTS ... No sum crosses items: each adds up the weights of its rows for itself.
 *   -D WG, ROWS, TALL  ROWS / TALL divides WG
 *   -D KEYS       keys of a chunk, a multiple of SLOTS = WG TALL / ROWS
 *   -D D, E       last dims of k and v
 *   -D K_TYPE, V_TYPE, MASK, POS, SINKS  as in attention.cl */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_logit.h"

#if !defined(D) || !defined(E) || !defined(ROWS) || !defined(TALL) || !defined(KEYS)
#  error "attention_gpu_flash.cl needs WG, ROWS, TALL, KEYS, D, E, K_TYPE, V_TYPE, MASK, POS and SINKS"
#endif

enum {
    D4 = (D + 3) / 4,
    E4 = (E + 3) / 4,
    WIDE = (D4 > E4 ? D4 : E4) + 1, /* vectors between rows of a chunk: one more, so that neighbouring rows lie in other banks */
    SLOTS = WG * TALL / ROWS,
    MINE = KEYS / SLOTS,            /* keys of a chunk that an item has */
    VECTORS = (E4 + SLOTS - 1) / SLOTS,
    PITCH = KEYS + 1,               /* floats between rows of weights */
    RECORD = 4 + 4 * E4
};

/* n rows of N elements from `at` on as f32; zeros in the chunk's other rows and behind a row's end. */
#define DEFINE_LOAD_ROWS(name, type, N)                                                                                                \
    static void name(local float *to, global const ELEM(type) *p, size_t at, size_t stride, int n, uint item)                          \
    {                                                                                                                                  \
        const uint units = (N + 15) / 16;                                                                                              \
        _Pragma("unroll 1") for (uint u = item; u < KEYS * units; u += WG) {                                                           \
            const uint row = u / units, e = u % units * 16;                                                                            \
            const size_t from = at + row * stride + e;                                                                                 \
            local float *x = to + row * 4 * WIDE + e;                                                                                  \
            if (e + 16 <= N)                                                                                                           \
                vstore16((int)row < n ? LOAD16(type, p, from) : (float16)(0.0f), 0, x);                                                \
            else                                                                                                                       \
                for (uint i = 0; e + i < (N + 3) / 4 * 4; i++)                                                                         \
                    x[i] = (int)row < n && e + i < N ? LOAD(type, p, from + i) : 0.0f;                                                 \
        }                                                                                                                              \
    }
DEFINE_LOAD_ROWS(load_keys, K_TYPE, D)
DEFINE_LOAD_ROWS(load_values, V_TYPE, E)

/* z[i][j] = q[row i] . k[key j] of an item's rows and keys. */
static void score(float *z, local const float4 *q, local const float4 *k)
{
    for (uint i = 0; i < TALL * MINE; i++)
        z[i] = 0;
#pragma unroll 1 /* a loop of loads that is unrolled asks for all of them first: some compilers spill hundreds of registers */
    for (uint d = 0; d < D4; d++) {
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

GROUP_KERNEL
void attention_gpu_flash(const attention_flash_args f, global float *out, global float *parts, global const float *q, global const k_elem *k,
                     global const v_elem *v, global const mask_elem *mask, global const int *pos, global const sink_elem *sinks)
{
    const attention_args a = f.a;
    const uint queries = a.group * a.n[2], heads = a.n[1] / a.group, tiles = (queries + ROWS - 1) / ROWS;
    const uint part = get_group_id(0) % a.splits, tile = get_group_id(0) / a.splits % tiles;
    const uint hk = get_group_id(0) / a.splits / tiles % heads, b = get_group_id(0) / a.splits / tiles / heads;
    const size_t k0 = a.k.offset + b * (size_t)a.k.stride[0] + hk * (size_t)a.k.stride[1];
    const size_t v0 = a.v.offset + b * (size_t)a.v.stride[0] + hk * (size_t)a.v.stride[1];
    local float4 ready[ROWS * D4], chunk[KEYS * WIDE];
    local float weights[ROWS * PITCH];
    const uint item = get_local_id(0), slot = item % SLOTS, first = item / SLOTS * TALL;
    size_t mask_row[TALL];
    int begin[TALL], end[TALL];
    float most[TALL], sum[TALL];
    float4 acc[TALL * VECTORS];

    for (uint i = item; i < ROWS * D4 * 4; i += WG) {
        const uint d = i % (4 * D4), query = min(tile * ROWS + i / (4 * D4), queries - 1);
        ((local float *)ready)[i] = d < D ? q[row_at(&a, &a.q, b, hk, query) + d] : 0.0f;
    }
#pragma unroll
    for (uint i = 0; i < TALL; i++) { /* rows beyond the end stand for the last query */
        const uint query = min(tile * ROWS + first + i, queries - 1);
        const int at = position(&a, pos, b, query);
        mask_row[i] = row_at(&a, &a.mask, b, hk, query);
        begin[i] = keys_begin(&a, at);
        end[i] = keys_end(&a, at);
        most[i] = part + 1 == a.splits ? first_logit(&a, sinks, hk, query) : -INFINITY;
        sum[i] = most[i] > -INFINITY ? 1.0f : 0.0f;
#pragma unroll
        for (uint j = 0; j < VECTORS; j++)
            acc[i * VECTORS + j] = 0;
    }
    /* What any query of the tile sees, cut in parts of whole chunks. Queries see further the later they stand. */
    const int all_end = keys_end(&a, position(&a, pos, b, min((tile + 1) * ROWS, queries) - 1));
    const int all_begin = min(keys_begin(&a, position(&a, pos, b, tile * ROWS)), all_end);
    const int span = (all_end - all_begin + (int)(a.splits * KEYS) - 1) / (int)(a.splits * KEYS) * KEYS;
    const int from = min(all_begin + (int)part * span, all_end), to = min(from + span, all_end);
    for (int s0 = from; s0 < to; s0 += KEYS) { /* the bounds are the same for the whole group */
        const int n = min((int)KEYS, to - s0);
        float z[TALL * MINE], keep[TALL];
        load_keys((local float *)chunk, k, k0 + s0 * (size_t)a.k.stride[2], a.k.stride[2], n, item);
        barrier(CLK_LOCAL_MEM_FENCE);
        score(z, ready + first * D4, chunk + slot * WIDE);
#pragma unroll
        for (uint i = 0; i < TALL; i++)
#pragma unroll
            for (uint j = 0; j < MINE; j++) {
                const int s = s0 + (int)(slot + j * SLOTS);
                float *mine = z + i * MINE + j;
                *mine = s >= begin[i] && s < min(end[i], to) ? logit(&a, mask, mask_row[i], s, *mine) : -INFINITY;
                weights[(first + i) * PITCH + slot + j * SLOTS] = *mine;
            }
        barrier(CLK_LOCAL_MEM_FENCE);
        load_values((local float *)chunk, v, v0 + s0 * (size_t)a.v.stride[2], a.v.stride[2], n, item);
#pragma unroll
        for (uint i = 0; i < TALL; i++) {
            float high = most[i];
#pragma unroll 4
            for (uint s = 0; s < KEYS; s++)
                high = fmax(high, weights[(first + i) * PITCH + s]);
            const float base = high == -INFINITY ? 0.0f : high; /* nothing kept yet, or NaN alone, which fmax leaves out */
            keep[i] = exp(most[i] - base);
            most[i] = high;
#pragma unroll
            for (uint j = 0; j < MINE; j++)
                z[i * MINE + j] = exp(z[i * MINE + j] - base);
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* all have read the scores */
#pragma unroll
        for (uint i = 0; i < TALL; i++) {
#pragma unroll
            for (uint j = 0; j < MINE; j++)
                weights[(first + i) * PITCH + slot + j * SLOTS] = z[i * MINE + j];
            sum[i] *= keep[i];
#pragma unroll
            for (uint j = 0; j < VECTORS; j++)
                acc[i * VECTORS + j] *= keep[i];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint s = 0; s < KEYS; s++) {
            float4 x[VECTORS];
#pragma unroll
            for (uint j = 0; j < VECTORS; j++)
                x[j] = slot + j * SLOTS < E4 ? chunk[s * WIDE + slot + j * SLOTS] : (float4)(0.0f);
#pragma unroll
            for (uint i = 0; i < TALL; i++) {
                const float weight = weights[(first + i) * PITCH + s];
                sum[i] += weight;
#pragma unroll
                for (uint j = 0; j < VECTORS; j++)
                    acc[i * VECTORS + j] += weight * x[j];
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* chunk and weights are overwritten next */
    }
#pragma unroll
    for (uint i = 0; i < TALL; i++) {
        const uint query = tile * ROWS + first + i;
        if (query >= queries)
            continue;
        const float scale = a.splits > 1 ? 1.0f : sum[i] != 0 ? 1.0f / sum[i] : 0.0f;
        global float *row = out + out_at(&a, b, hk, query, E);
        if (a.splits > 1) {
            row = parts + f.parts + ((((size_t)b * heads + hk) * queries + query) * a.splits + part) * RECORD;
            if (slot == 0) {
                row[0] = most[i];
                row[1] = sum[i];
            }
            row += 4;
        }
#pragma unroll
        for (uint j = 0; j < VECTORS; j++) {
            const uint e = 4 * (slot + j * SLOTS);
            const float4 x = acc[i * VECTORS + j] * scale;
            if (e + 4 <= E)
                vstore4(x, 0, row + e);
            else {
                const float each[4] = {x.x, x.y, x.z, x.w};
                for (uint u = 0; e + u < E; u++)
                    row[e + u] = each[u];
            }
        }
    }
}

GROUP_KERNEL
void attention_gpu_flash_merge(const attention_flash_args f, global float *out, global const float *parts)
{
    const attention_args a = f.a;
    const uint queries = a.group * a.n[2], heads = a.n[1] / a.group, query = get_group_id(0) % queries;
    const uint hk = get_group_id(0) / queries % heads, b = get_group_id(0) / queries / heads;
    float most = -INFINITY, total = 0;
    parts += f.parts + (((size_t)b * heads + hk) * queries + query) * a.splits * RECORD;
    for (uint p = 0; p < a.splits; p++)
        most = fmax(most, parts[p * RECORD]);
    const float base = most == -INFINITY ? 0.0f : most; /* a part that kept nothing weighs nothing; one of NaN alone has a NaN sum */
    for (uint p = 0; p < a.splits; p++)
        total += exp(parts[p * RECORD] - base) * parts[p * RECORD + 1];
    const float scale = total != 0 ? 1.0f / total : 0.0f;
    out += out_at(&a, b, hk, query, E);
    for (uint e = get_local_id(0); e < E; e += WG) {
        float x = 0;
        for (uint p = 0; p < a.splits; p++)
            x += exp(parts[p * RECORD] - base) * parts[p * RECORD + 4 + e];
        out[e] = x * scale;
    }
}
