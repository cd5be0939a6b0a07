/* Softmax attention of a few positions on CPUs (decode): the formula of attention_gpu_query.cl, as an online
 * softmax (arXiv:1805.02867) over chunks of KEYS keys. All queries of a head of k share each chunk while it
 * is in the first cache.
 * With WRITE, keys and values of these positions are written first: k_cache[pos + t] = rope(norm(new_k[t])),
 * v_cache[pos + t] = new_v[t]. The queries are then rope(norm(q)). norm.cl and rope.cl have the formulas.
 *   attention_cpu_decode  launch: splits Hk B groups. With a.splits > 1 the keys are cut into so many parts
 *                         (flash decoding). The last part writes the new rows and reads them, so no part
 *                         waits for another. Each part leaves a record in `parts`: 16 floats that begin with
 *                         max z and the sum of the weights, then the E16 elements of the sum of values.
 *   attention_merge       launch: B T H groups; joins the records of each row of out.
 *   -D ROWS       queries that are computed together
 *   -D QUERIES    most queries of a head of k, group T; a multiple of ROWS
 *   -D D, E       last dims of k and v
 *   -D K_TYPE, V_TYPE  dtypes of k and v; with WRITE f32, f16 or q8_0
 *   -D MASK       DTYPE_NONE (-1), DTYPE_F32: added, DTYPE_I32 or DTYPE_I8: kept where not 0
 *   -D POS        1: query t of sequence b is at position pos[b] + t, else at t
 *   -D SINKS      dtype of sinks [H], DTYPE_NONE without: each query of head h has one more key, with logit
 *                 sinks[h] and no value
 *   -D PAGED      1: the batch is of runs of one row each (paging.h); 0: of sequences
 *   -D WRITE      0 or 1; with 1 also:
 *   -D TURNED     number of freqs, 0: no RoPE
 *   -D PAIRING    as in rope.cl
 *   -D NORM_TYPE  dtype of q_norm and k_norm, DTYPE_NONE: no norm */
#define WG    1
#define FIRST 0
#include "args.h"
#include "weights.h"
#include "attention.h"

#if !defined(QUERIES) || !defined(ROWS) || !defined(D) || !defined(E) || !defined(WRITE)
#  error "attention_cpu_decode.cl needs QUERIES, ROWS, D, E, K_TYPE, V_TYPE, MASK, POS, SINKS and WRITE"
#endif
#include "attention_vector.h"

enum { RECORD = 16 + E16 };

#if WRITE
#  include "attention_write.h"
#endif
#include "attention_fold.h"

/* z[i][key] = q[i] . k[key] for ROWS queries and n keys, whose rows begin at `at`. Meanwhile it prefetches
 * the n values. */
static void score(float16 *z, const float *q, global const k_elem *k, size_t at, size_t stride, int n,
                  global const v_elem *v, size_t v_at, size_t v_stride)
{
    for (int c = 0; c < CHUNK; c++) {
        float16 pairs[ROWS]
                     [8]; /* keys u / 2 + 8 (u % 2) and the one 4 further: the order that the rounds
                             reverse */
        if (16 * c >= n) {      /* its result is dropped, but must not be NaN */
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                z[i * CHUNK + c] = 0;
            continue;
        }
#pragma unroll 1
        for (int u = 0; u < 8; u++) {
            const int key = 16 * c + u / 2 + u % 2 * 8, value = 16 * c + 2 * u;
            const size_t k0 = at + min(key, n - 1) * stride, k1 = at + min(key + 4, n - 1) * stride;
            float16 a0[ROWS], a1[ROWS];
            fetch_value(v, v_at + min(value, n - 1) * v_stride);
            fetch_value(v, v_at + min(value + 1, n - 1) * v_stride);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                a0[i] = a1[i] = 0;
#pragma unroll
            for (uint j = 0; j < DV; j++) {
                const float16 x0 = key16(k, k0, j), x1 = key16(k, k1, j);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const float16 y = vload16(j, q + i * 16 * DV);
                    a0[i] = fma(y, x0, a0[i]);
                    a1[i] = fma(y, x1, a1[i]);
                }
            }
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                pairs[i][u] = fold8(a0[i], a1[i]);
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const float16 q0 = fold4(pairs[i][0], pairs[i][1]), q1 = fold4(pairs[i][2], pairs[i][3]);
            const float16 q2 = fold4(pairs[i][4], pairs[i][5]), q3 = fold4(pairs[i][6], pairs[i][7]);
            z[i * CHUNK + c] = fold1(fold2(q0, q1), fold2(q2, q3));
        }
    }
}

/* sum[i] = keep[i] sum[i] + sum_s p[i][s] v[s] over n values, whose rows begin at `at`, for vectors j0 .. j0
 * + N - 1. The call with the first vectors also prefetches n keys. */
#define DEFINE_WEIGH(N)                                                                                      \
    static void weigh_##N(float16 *sum, const float *keep, const float *p, global const v_elem *v, size_t at,\
                            size_t stride, int n,                                                            \
                          uint j0, global const k_elem *k, size_t k_at, size_t k_stride)                     \
    {                                                                                                        \
        float16 acc[ROWS][N];                                                                                \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                     \
            _Pragma("unroll") for (int j = 0; j < N; j++) acc[i][j] = sum[i * EV + j0 + j] * keep[i];        \
        for (int s = 0; s < n; s++, at += stride) {                                                          \
            if (j0 == 0)                                                                                     \
                fetch_key(k, k_at + s * k_stride);                                                           \
            float16 x[N];                                                                                    \
            _Pragma("unroll") for (int j = 0; j < N; j++) x[j] = value16(v, at, j0 + j);                     \
            _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                 \
                _Pragma("unroll") for (int j = 0; j < N; j++)                                                \
                    acc[i][j] = fma((float16)p[i * KEYS + s], x[j], acc[i][j]);                              \
        }                                                                                                    \
        _Pragma("unroll") for (int i = 0; i < ROWS; i++)                                                     \
            _Pragma("unroll") for (int j = 0; j < N; j++) sum[i * EV + j0 + j] = acc[i][j];                  \
    }
DEFINE_WEIGH(1)
DEFINE_WEIGH(2)

static void weigh(float16 *sum, const float *keep, const float *p, global const v_elem *v, size_t at,
                  size_t stride, int n, global const k_elem *k, size_t k_at, size_t k_stride)
{
    for (uint j = 0; j + 2 <= EV; j += 2)
        weigh_2(sum, keep, p, v, at, stride, n, j, k, k_at, k_stride);
    if (EV % 2)
        weigh_1(sum, keep, p, v, at, stride, n, EV - 1, k, k_at, k_stride);
}

SINGLE_KERNEL
void attention_cpu_decode(STAGE_GROUP const attention_cpu_decode_args s, global float *out,
                          global float *parts, global const float *q, global k_elem *k, global v_elem *v,
                          global const mask_elem *mask, global const int *pos, global const sink_elem *sinks
#if WRITE
                          ,
                          global const float *new_k, global const float *new_v, global const float *freqs,
                          global const norm_elem *q_norm, global const norm_elem *k_norm
#endif
                          PAGING_PARAMS)
{
    float16 acc[QUERIES * EV], sum[QUERIES], z[ROWS * CHUNK];
    float ready[QUERIES * 16 * DV], most[QUERIES], keep[ROWS];
    const attention_args a = s.a;
    const uint queries = a.group * a.n[2], heads = a.n[1] / a.group;
    const uint part = group_id(0) % a.splits, hk = group_id(0) / a.splits % heads;
    uint b = group_id(0) / a.splits / heads;
    global const int *own_pages = 0;
#if PAGED
    const run_of run = run_at(&a.paging, b, runs, pages);
    b = run.first;
    own_pages = run.pages;
#endif
    const int at = position(&a, pos, b, 0), is_last = part + 1 == a.splits;
#if WRITE
    const attention_heads_args of = s.heads;
    for (uint t = 0; t < a.n[2]; t++) {
        float turn_cos[TURN_PADDED], turn_sin[TURN_PADDED];
        turns(turn_cos, turn_sin, freqs + of.freqs, at + (int)t, of.turn_scale);
        for (uint i = t * a.group; i < (t + 1) * a.group; i++)
            take_head(ready + i * 16 * DV, q + row_at(&a, &a.q, b, hk, i), q_norm, of.q_norm, of.eps,
                      turn_cos, turn_sin);
        const int row = at + (int)t;
        if (!is_last || row < 0 || row >= (int)of.capacity)
            continue;
        float x[16 * DV];
        take_head(x, new_k + new_at(&of.new_k, b, hk, t), k_norm, of.k_norm, of.eps, turn_cos, turn_sin);
        write_key(k, key_at(&a.k, b, hk, row, own_pages), x);
        write_value(v, key_at(&a.v, b, hk, row, own_pages), new_v + new_at(&of.new_v, b, hk, t));
    }
#else
    for (uint i = 0; i < queries; i++)
        for (uint d = 0; d < D; d++)
            ready[i * 16 * DV + d] = q[row_at(&a, &a.q, b, hk, i) + d];
#endif
    for (uint i = 0; i < QUERIES; i++) { /* those beyond the end repeat the last one */
        const uint from = min(i, queries - 1);
        if (i >= (queries + ROWS - 1) / ROWS * ROWS)
            break;
        for (uint d = 0; d < 16 * DV; d++)
            ready[i * 16 * DV + d] =
                d < D ? ready[from * 16 * DV + d] * (i < queries ? a.scale : 1.0f) : 0.0f;
        most[i] = is_last ? first_logit(&a, sinks, hk, from) : -INFINITY;
        sum[i] = first_weight(most[i]);
        for (uint j = 0; j < EV; j++)
            acc[i * EV + j] = 0;
    }
    /* The keys are [begin, old), which are cut into parts, and the keys that this step writes, which the last
     * part reads too. A chunk lies in one page. */
    const int end = keys_end(&a, at + (int)a.n[2] - 1), seen = min(keys_begin(&a, at, 0), end),
              begin = PAGED ? seen / KV_PAGE * KV_PAGE : seen, old = WRITE ? clamp(at, begin, end) : end;
    const int span = (old - begin + (int)(a.splits * KEYS) - 1) / (int)(a.splits * KEYS) * KEYS;
    const int from = min(begin + (int)part * span, old), to = is_last ? end : min(from + span, old);
    for (int key = from; key < to; key += KEYS) {
        const int n = min((int)KEYS, to - key);
        const size_t k_at = key_at(&a.k, b, hk, key, own_pages), v_at = key_at(&a.v, b, hk, key, own_pages);
        const size_t next = !PAGED            ? k_at + KEYS * (size_t)a.k.stride[2]
                            : key + KEYS < to ? key_at(&a.k, b, hk, key + KEYS, own_pages)
                                              : k_at;
        for (uint i = 0; i < queries; i += ROWS) {
            const uint last = min(i + ROWS, queries) - 1;
            if (keys_end(&a, position(&a, pos, b, last)) <= key ||
                keys_begin(&a, position(&a, pos, b, i), 0) >= key + n)
                continue;
            score(z, ready + i * 16 * DV, k, k_at, a.k.stride[2], n, v, v_at, a.v.stride[2]);
            soften_rows(&a, z, keep, most + i, sum + i, mask, pos, 0, (row_id){b, hk, i, last}, key,
                        to);
            weigh(acc + i * EV, keep, (const float *)z, v, v_at, a.v.stride[2], n, k, next, a.k.stride[2]);
        }
    }
    for (uint i = 0; i < queries; i++) {
        const float total = sum16(sum[i]);
        if (a.splits == 1) {
            put_row(out + out_at(&a, b, hk, i, E), acc + i * EV, total);
            continue;
        }
        global float *record = parts + (out_at(&a, b, hk, i, 1) * a.splits + part) * RECORD;
        record[0] = most[i];
        record[1] = total;
        for (uint j = 0; j < EV; j++)
            vstore16(acc[i * EV + j], 1 + j, record);
    }
}

SINGLE_KERNEL
void attention_merge(STAGE_GROUP const attention_cpu_decode_args s, global float *out,
                     global const float *parts)
{
    const attention_args a = s.a;
    const size_t row = group_id(0);
    float16 acc[EV];
    float most = -INFINITY, total = 0;
    parts += row * a.splits * RECORD;
    for (uint p = 0; p < a.splits; p++)
        most = fmax(most, parts[p * RECORD]);
    const float base =
        most == -INFINITY
            ? 0.0f
            : most; /* a part in which nothing is kept has weight 0; a part of NaNs alone has a NaN sum */
    for (uint j = 0; j < EV; j++)
        acc[j] = 0;
    for (uint p = 0; p < a.splits; p++) {
        const float weight = exp(parts[p * RECORD] - base);
        total += weight * parts[p * RECORD + 1];
        for (uint j = 0; j < EV; j++)
            acc[j] += weight * vload16(1 + j, parts + p * RECORD);
    }
    put_row(out + row * E, acc, total);
}
