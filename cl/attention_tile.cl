/* Softmax attention for CPUs, with an online softmax (arXiv:1805.02867) over chunks of KEYS keys: q [B, H, T, D], k [B, Hk, S, D],
 * v [B, Hk, S, E], group = H / Hk;
 *   z[s] = cap(scale q . k[s]) + mask,  out[b, t, h, :] = sum_s exp(z[s] - max z) v[s] / sum_s exp(z[s] - max z).
 * The queries that meet the same keys, (t, h) for the heads h of one group, are counted together: query i has t = i / group. A tile of
 * them shares each chunk: its keys are transposed and its values decoded once, then both products are outer products of ROWS queries
 * with vectors of 16 keys, or of 16 elements. Only keys that some query may see are read. A query that sees none gives zeros.
 *   attention_tile   launch: splits tiles Hk B groups, where a tile has a.tile queries, up to TILE. With a.splits > 1 the keys of a
 *                    tile are cut in so many parts, and each part leaves a record in `parts`: 16 floats that begin with max z and the
 *                    sum of the weights, then the E16 elements of the sum of values (flash decoding).
 *   attention_merge  launch: group T Hk B groups; joins the records.
 *   -D TILE    queries of a tile at most, a multiple of ROWS
 *   -D ROWS    queries that are worked on at once
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE  dtypes of k and v
 *   -D MASK    DTYPE_NONE (-1), DTYPE_F32: added, DTYPE_I32 or DTYPE_I8: kept where not 0
 *   -D POS     1: query t of sequence b stands at pos[b] + t, else at t */
#include "args.h"
#include "weights.h"
#include "attention.h"

#if !defined(TILE) || !defined(ROWS) || !defined(D) || !defined(E)
#  error "attention_tile.cl needs TILE, ROWS, D, E, K_TYPE, V_TYPE, MASK and POS"
#endif

#define SINGLE_KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) kernel

enum { CHUNK = 4, KEYS = 16 * CHUNK, DV = (D + 15) / 16, EV = (E + 15) / 16, E16 = 16 * EV, RECORD = 16 + E16 };

static float16 iota16(void) { return (float16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }

/* Elements 16 j .. of a row of k or v; zeros beyond its end. */
#define DEFINE_ROW16(name, type, last)                                                                                                 \
    static float16 name(global const ELEM(type) *p, size_t at, uint j)                                                                 \
    {                                                                                                                                  \
        if (16 * j + 16 <= last)                                                                                                       \
            return LOAD16(type, p, at + 16 * j);                                                                                       \
        float x[16];                                                                                                                   \
        for (uint i = 0; i < 16; i++)                                                                                                  \
            x[i] = 16 * j + i < last ? LOAD(type, p, at + 16 * j + i) : 0.0f;                                                          \
        return vload16(0, x);                                                                                                          \
    }
DEFINE_ROW16(key16, K_TYPE, D)
DEFINE_ROW16(value16, V_TYPE, E)

/* A round of the perfect shuffle: four of them transpose 16 x 16. */
#define SHUFFLE_ROUND(to, from)                                                                                                        \
    _Pragma("unroll") for (uint i = 0; i < 8; i++)                                                                                     \
    {                                                                                                                                  \
        to[2 * i].even = from[i].lo;                                                                                                   \
        to[2 * i].odd = from[i + 8].lo;                                                                                                \
        to[2 * i + 1].even = from[i].hi;                                                                                               \
        to[2 * i + 1].odd = from[i + 8].hi;                                                                                            \
    }

/* n rows of k from `at` on, as kt[element][key]; keys from n on repeat the last one. */
static void pack_keys(float16 *kt, global const k_elem *k, size_t at, size_t stride, int n)
{
    for (int c = 0; c < CHUNK; c++)
        for (uint j = 0; j < DV; j++) {
            float16 x[16], y[16];
#pragma unroll
            for (int i = 0; i < 16; i++)
                x[i] = key16(k, at + min(16 * c + i, n - 1) * stride, j);
            SHUFFLE_ROUND(y, x)
            SHUFFLE_ROUND(x, y)
            SHUFFLE_ROUND(y, x)
            SHUFFLE_ROUND(x, y)
#pragma unroll
            for (int i = 0; i < 16; i++)
                kt[(16 * j + i) * CHUNK + c] = x[i];
        }
}

static void pack_values(float16 *to, global const v_elem *v, size_t at, size_t stride, int n)
{
    for (int s = 0; s < n; s++)
#pragma unroll
        for (uint j = 0; j < EV; j++)
            to[s * EV + j] = value16(v, at + s * stride, j);
}

/* z[i][key] = q[i] . k[key] for ROWS queries and the whole chunk. */
static void score(float16 *z, const float *q, const float16 *kt)
{
    float16 acc[ROWS][CHUNK];
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int c = 0; c < CHUNK; c++)
            acc[i][c] = 0;
    for (int d = 0; d < D; d++)
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int c = 0; c < CHUNK; c++)
                acc[i][c] = fma((float16)q[i * 16 * DV + d], kt[d * CHUNK + c], acc[i][c]);
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int c = 0; c < CHUNK; c++)
            z[i * CHUNK + c] = acc[i][c];
}

#include "attention_weigh.h"

/* 16 scores of the keys from s on: capped, masked, and dropped where the query does not see the key. */
static float16 logit16(const attention_args *a, int at, global const mask_elem *mask, size_t mask_row, int s, int end, float16 z)
{
    if (a->softcap > 0)
        z = a->softcap * tanh(z / a->softcap);
#if MASK >= 0
    mask_elem m[16];
    for (int i = 0; i < 16; i++)
        m[i] = mask[mask_row + min(s + i, end - 1) * (size_t)a->mask.stride[3]];
#  if MASK == DTYPE_F32
    z += vload16(0, m);
#  else
    z = select((float16)-INFINITY, z, convert_int16(vload16(0, m)) != 0);
#  endif
#endif
    const int last = a->causal ? min(end - 1, at) : end - 1, begin = keys_begin(a, at);
    if (s + 15 > last || s < begin) {
        const float16 key = iota16();
        z = select((float16)-INFINITY, z, key <= (float)(last - s) && key >= (float)(begin - s));
    }
    return z;
}

/* Scores to weights, in place, against the running maximum. Gives what the sums so far are to be multiplied by. */
static float soften(float16 *z, float *most, float16 *sum)
{
    float16 high = z[0];
#pragma unroll
    for (int c = 1; c < CHUNK; c++)
        high = fmax(high, z[c]);
    const float before = *most, now = fmax(before, max16(high)), base = now == -INFINITY ? 0.0f : now;
    const float keep = now > before ? exp(before - now) : 1.0f;
    float16 total = 0;
#pragma unroll
    for (int c = 0; c < CHUNK; c++) {
        z[c] = exp_negative(z[c] - base);
        total += z[c];
    }
    *most = now;
    *sum = *sum * keep + total;
    return keep;
}

SINGLE_KERNEL
void attention_tile(const attention_args a, global float *out, global float *parts, global const float *q, global const k_elem *k,
                    global const v_elem *v, global const mask_elem *mask, global const int *pos)
{
    float16 kt[16 * DV * CHUNK], values[KEYS * EV], acc[TILE * EV], sum[TILE], z[ROWS * CHUNK];
    float packed[TILE * 16 * DV], most[TILE], keep[ROWS];
    const uint queries = a.group * a.n[2], tiles = (queries + a.tile - 1) / a.tile, heads = a.n[1] / a.group;
    const uint part = get_group_id(0) % a.splits, id = get_group_id(0) / a.splits;
    /* Under the causal rule later tiles see more: taken from both ends, neighbours balance. */
    const uint nth = id % tiles, first = (nth % 2 ? tiles - 1 - nth / 2 : nth / 2) * a.tile;
    const uint hk = id / tiles % heads, b = id / tiles / heads, rows = min(a.tile, queries - first);
    for (uint r = 0; r < rows + ROWS - 1; r++) { /* those beyond the end stand for the last one */
        const uint i = first + min(r, rows - 1);
        const size_t from = row_at(&a, &a.q, b, hk, i);
        if (r >= TILE)
            break;
        for (uint d = 0; d < D; d++)
            packed[r * 16 * DV + d] = a.scale * q[from + d];
        most[r] = -INFINITY;
        sum[r] = 0;
        for (uint j = 0; j < EV; j++)
            acc[r * EV + j] = 0;
    }
    int begin = keys_begin(&a, position(&a, pos, b, first)), end = keys_end(&a, position(&a, pos, b, first + rows - 1));
    const int span = (max(end - begin, 0) + (int)(a.splits * KEYS) - 1) / (int)(a.splits * KEYS) * KEYS;
    begin += (int)part * span;
    end = min(end, begin + span);
    const size_t k0 = a.k.offset + b * (size_t)a.k.stride[0] + hk * (size_t)a.k.stride[1];
    const size_t v0 = a.v.offset + b * (size_t)a.v.stride[0] + hk * (size_t)a.v.stride[1];
    for (int s = begin; s < end; s += KEYS) {
        const int n = min((int)KEYS, end - s);
        pack_keys(kt, k, k0 + s * (size_t)a.k.stride[2], a.k.stride[2], n);
        pack_values(values, v, v0 + s * (size_t)a.v.stride[2], a.v.stride[2], n);
        for (uint r = 0; r < rows; r += ROWS) {
            const uint last = min(r + ROWS, rows) - 1;
            if (keys_end(&a, position(&a, pos, b, first + last)) <= s || keys_begin(&a, position(&a, pos, b, first + r)) >= s + n)
                continue;
            score(z, packed + r * 16 * DV, kt);
            for (uint i = 0; i < ROWS; i++) {
                const uint query = first + min(r + i, last);
                const int at = position(&a, pos, b, query);
                const size_t mask_row = row_at(&a, &a.mask, b, hk, query);
                for (int c = 0; c < CHUNK; c++)
                    z[i * CHUNK + c] = logit16(&a, at, mask, mask_row, s + 16 * c, end, z[i * CHUNK + c]);
                keep[i] = soften(z + i * CHUNK, most + r + i, sum + r + i);
            }
            weigh(acc + r * EV, keep, (const float *)z, values, n);
        }
    }
    for (uint r = 0; r < rows; r++) {
        const float total = sum16(sum[r]);
        if (a.splits > 1) {
            global float *to = parts + (((size_t)b * heads + hk) * queries + first + r) * a.splits * RECORD + part * RECORD;
            to[0] = most[r];
            to[1] = total;
            for (uint j = 0; j < EV; j++)
                vstore16(acc[r * EV + j], 1 + j, to);
            continue;
        }
        const float inverse = total != 0 ? 1.0f / total : 0.0f;
        global float *to = out + out_at(&a, b, hk, first + r, E);
        for (uint j = 0; j < E / 16; j++)
            vstore16(acc[r * EV + j] * inverse, j, to);
        for (uint j = E / 16 * 16; j < E; j++)
            to[j] = ((const float *)(acc + r * EV))[j] * inverse;
    }
}

SINGLE_KERNEL
void attention_merge(const attention_args a, global float *out, global const float *parts)
{
    const uint queries = a.group * a.n[2], heads = a.n[1] / a.group, i = get_group_id(0) % queries;
    const uint hk = get_group_id(0) / queries % heads, b = get_group_id(0) / queries / heads;
    float16 acc[EV];
    float most = -INFINITY, total = 0;
    parts += (((size_t)b * heads + hk) * queries + i) * a.splits * RECORD;
    out += out_at(&a, b, hk, i, E);
    for (uint p = 0; p < a.splits; p++)
        most = fmax(most, parts[p * RECORD]);
    const float base = most == -INFINITY ? 0.0f : most; /* a part that kept nothing weighs nothing; one of NaN alone has a NaN sum */
    for (uint j = 0; j < EV; j++)
        acc[j] = 0;
    for (uint p = 0; p < a.splits; p++) {
        const float weight = exp(parts[p * RECORD] - base);
        total += weight * parts[p * RECORD + 1];
        for (uint j = 0; j < EV; j++)
            acc[j] += weight * vload16(1 + j, parts + p * RECORD);
    }
    const float inverse = total != 0 ? 1.0f / total : 0.0f;
    for (uint j = 0; j < E / 16; j++)
        vstore16(acc[j] * inverse, j, out);
    for (uint j = E / 16 * 16; j < E; j++)
        out[j] = ((const float *)acc)[j] * inverse;
}
