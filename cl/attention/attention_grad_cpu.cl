/* The gradient of softmax attention on CPUs, recomputed from q and k (FlashAttention-2, arXiv:2307.08691).
 * For out = p v with p = softmax(z), z = cap(scale q . k) + mask, and the gradient dy of out:
 *   dv = p^T dy;  dp = dy v^T;  dz = p (dp - sum_e dy out);  ds = dz cap';
 *   dq = scale ds k;  dk = scale ds^T q
 * q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E], out and dy [B, T, H, E]. Queries are numbered and tiled
 * as in attention_cpu_prefill.cl.
 *
 * A tile of queries first computes the logits of all its keys, chunk by chunk, into a strip in scratch
 * memory. So the largest logit of each row is known before any exponential, and each is computed once. In a
 * second walk over the chunks the tile computes dp and ds, and adds to dq (complete after the walk), dk and
 * dv. The sums of a head of k belong to one group, which adds the tiles in their order: the result is the
 * same in every run.
 *   attention_grad_cpu    some groups, each of which does the items id, id + groups .. below g.items. An item
 *                         is a head of k in a sequence or, with a.splits > 1, every a.splits-th tile of it;
 *                         then a group has one item, and leaves its sums of dk and dv in scratch memory. A
 *                         group has g.slot floats there: sums of dk, S rows of DV vectors; of dv, S rows of
 *                         EV vectors; the strip.
 *   attention_grad_merge  S Hk B groups: adds up the parts of a row of dk and of dv
 *   -D TILE    queries of a tile, a multiple of ROWS
 *   -D ROWS    queries that are computed together
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE, MASK, POS, FIRST  as in attention_cpu_prefill.cl; SINKS, PAGED: none
 *   -D CAPS    1: a.softcap is not 0 */
#define WG 1
#include "args.h"
#include "weights.h"
#include "attention.h"

#if !defined(TILE) || !defined(ROWS)
#  error "attention_grad_cpu.cl needs TILE, ROWS, D, E, K_TYPE, V_TYPE, MASK, POS, FIRST and CAPS"
#endif
#include "attention_vector.h"
#include "attention_tile.h"
#include "attention_grad.h"
#include "attention_grad_sums.h"

DEFINE_ROW16(query16, DTYPE_F32, D)
DEFINE_ROW16(result16, DTYPE_F32, E)
DEFINE_TRANSPOSE(turn_keys, k_elem, key16, DV)
DEFINE_TRANSPOSE(turn_values, v_elem, value16, EV)
DEFINE_ROWS(copy_keys, k_elem, key16, DV)
DEFINE_SCORE(score, global, D, DV)
DEFINE_SCORE(value_score, private, E, EV)

enum { BLOCKS = TILE / ROWS, PIECE = TILE * CHUNK /* vectors of a chunk of the strip */ };

#include "attention_grad_rows.h"

/* Replaces the products of one row by its logits, and returns the largest of them and `high`. */
static float16 put_logits(const attention_args *a, global float16 *z, global float16 *slopes, float16 high,
                          global const mask_elem *mask, size_t mask_row, int2 keys, int s, int end,
                          int vectors)
{
    for (int c = 0; c < vectors; c++) {
        float16 x = z[c];
#if CAPS
        const float16 bent = tanh(x / a->softcap);
        slopes[c] = 1.0f - bent * bent;
#endif
        x = logit16(a, keys.x, keys.y, mask, mask_row, s + 16 * c, end, x);
        z[c] = x;
        high = fmax(high, x);
    }
    return high;
}

/* The first walk: the logits of the tile, and the largest of each row. */
static void put_strip(const attention_args *a, const tile_id *t, const tile_rows *rows, float16 *kt,
                      float16 *high, global float16 *strip, global const k_elem *k,
                      global const mask_elem *mask, global const int *pos, global const int *first_keys)
{
    for (uint r = 0; r < TILE; r++)
        high[r] = -INFINITY;
    for (int s = t->begin; s < t->end; s += KEYS, strip += PIECE * (1 + CAPS)) {
        turn_keys(kt, k, key_at(&a->k, t->b, t->hk, s, 0), a->k.stride[2], min((int)KEYS, t->end - s));
        for (uint r = 0; r < t->n; r += ROWS) {
            const int n = keys_of_block(rows, r / ROWS, s);
            if (n <= 0)
                continue;
            score(strip + r * CHUNK, (const float *)(rows->q + r * DV), kt, n);
            for (uint i = r; i < min(r + ROWS, t->n); i++) {
                const uint query = t->first + i;
                const int at = position(a, pos, t->b, query);
                const int2 keys = (int2)(keys_begin(a, at, first_key(a, first_keys, t->b, query)),
                                         min(t->end, keys_end(a, at)) - 1);
                high[i] = put_logits(a, strip + i * CHUNK, strip + PIECE + i * CHUNK, high[i], mask,
                                     row_at(a, &a->mask, t->b, t->hk, query), keys, s, t->end, vectors_of(n));
            }
        }
    }
}

/* Turns the strip's logits into weights relative to each row's largest one, and divides dy by their sum. */
static void soften_strip(const attention_grad_args *g, const tile_id *t, const tile_rows *rows,
                         const float16 *high, global float16 *strip, global const float *y)
{
    for (uint r = 0; r < t->n; r++) {
        const float most = max16(high[r]), base = most == -INFINITY ? 0.0f : most;
        global float16 *z = strip + r * CHUNK;
        float16 sum = 0;
        for (int s = t->begin; s < t->end; s += KEYS, z += PIECE * (1 + CAPS)) {
            const int vectors = vectors_of(keys_of_block(rows, r / ROWS, s));
            for (int c = 0; c < vectors; c++) {
                z[c] = exp_negative(z[c] - base);
                sum += z[c];
            }
        }
        const float total = sum16(sum), inverse = total != 0 ? 1.0f / total : 0.0f;
        const size_t from = g->y + out_at(&g->a, t->b, t->hk, t->first + r, E);
        float16 mean = 0;
        for (uint j = 0; j < EV; j++) {
            rows->dy[r * EV + j] *= inverse;
            mean = fma(rows->dy[r * EV + j], result16(y, from, j), mean);
        }
        rows->mean[r] = sum16(mean);
    }
}

/* ds of a block of rows and the chunk's first `vectors` vectors of keys, from dp. */
static void put_slopes(float16 *ds, global const float16 *p, global const float16 *slopes, const float *mean,
                       int vectors)
{
    for (uint i = 0; i < ROWS; i++)
        for (int c = 0; c < vectors; c++) {
            const uint at = i * CHUNK + c;
            ds[at] = p[at] * (ds[at] - mean[i]);
#if CAPS
            ds[at] *= slopes[at];
#endif
        }
}

/* The second walk's work on the chunk at s. dk and dv: the sums of its first key. */
static void add_chunk(const attention_args *a, const tile_id *t, const tile_rows *rows, const float16 *vt,
                      const float16 *keys, float16 *ds, global const float16 *strip, global float16 *dk,
                      global float16 *dv, int s)
{
    uint from[CHUNK], to[CHUNK]; /* the rows that see any key of each vector */
    for (int c = 0; c < CHUNK; c++)
        from[c] = to[c] = 0;
    for (uint r = 0; r < t->n; r += ROWS) {
        const int n = keys_of_block(rows, r / ROWS, s), vectors = vectors_of(n);
        if (n <= 0)
            continue;
        value_score(ds + r * CHUNK, (const float *)(rows->dy + r * EV), vt, n);
        put_slopes(ds + r * CHUNK, strip + r * CHUNK, strip + PIECE + r * CHUNK, rows->mean + r, vectors);
        add_to_queries(rows->dq + r * DV, (const float *)(ds + r * CHUNK), keys, n);
        for (int c = 0; c < vectors; c++) {
            from[c] = to[c] == 0 ? r : from[c];
            to[c] = min(r + ROWS, t->n);
        }
    }
    for (int c = 0; c < CHUNK && s + 16 * c < t->end; c++) {
        const uint first = from[c], n = to[c] - from[c];
        const int n_keys = min(16, t->end - s - 16 * c);
        add_to_values(dv + 16 * c * EV, (global const float *)(strip + first * CHUNK + c),
                      rows->dy + first * EV, n_keys, n);
        add_to_keys(dk + 16 * c * DV, (const float *)(ds + first * CHUNK + c), rows->q + first * DV, n_keys,
                    n);
    }
}

/* Writes a row of a result's part. */
#define DEFINE_PUT(name, SPACE, last, vectors)                                    \
    static void name(global float *to, SPACE const float16 *x, float scale)       \
    {                                                                             \
        for (uint j = 0; j < last / 16; j++)                                      \
            vstore16(x[j] * scale, j, to);                                        \
        for (uint j = last / 16 * 16; j < last; j++)                              \
            to[j] = ((SPACE const float *)x)[j] * scale;                          \
    }
DEFINE_PUT(put_query, private, D, DV)
DEFINE_PUT(put_key, global, D, DV)
DEFINE_PUT(put_value, global, E, EV)

/* The gradients of one tile. sums: those of dk and dv, then the strip. */
static void add_tile(const attention_grad_args *g, const tile_id *t, const tile_rows *rows,
                     global float16 *sums, global float *out, global const float *q, global const k_elem *k,
                     global const v_elem *v, global const float *y, global const float *dy,
                     global const mask_elem *mask, global const int *pos, global const int *first_keys)
{
    const attention_args *a = &g->a;
    float16 turned[16 * (DV > EV ? DV : EV) * CHUNK], keys[KEYS * DV], high[TILE];
    float16 ds[PIECE];
    global float16 *dk = sums, *dv = dk + (size_t)a->n[3] * DV, *strip = dv + (size_t)a->n[3] * EV;
    load_rows(rows, g, t, q, dy, pos, first_keys);
    put_strip(a, t, rows, turned, high, strip, k, mask, pos, first_keys);
    soften_strip(g, t, rows, high, strip, y);
    for (int s = t->begin; s < t->end; s += KEYS, strip += PIECE * (1 + CAPS)) {
        const int n = min((int)KEYS, t->end - s);
        turn_values(turned, v, key_at(&a->v, t->b, t->hk, s, 0), a->v.stride[2], n);
        copy_keys(keys, k, key_at(&a->k, t->b, t->hk, s, 0), a->k.stride[2], n);
        add_chunk(a, t, rows, turned, keys, ds, strip, dk + (size_t)s * DV, dv + (size_t)s * EV, s);
    }
    for (uint r = 0; r < t->n; r++)
        put_query(out + dq_at(g, t->b, t->hk, t->first + r), rows->dq + r * DV, a->scale);
}

SINGLE_KERNEL
void attention_grad_cpu(STAGE_GROUP const attention_grad_args g, global float *out, global float16 *scratch,
                        global const float *q, global const k_elem *k, global const v_elem *v,
                        global const float *y, global const float *dy, global const mask_elem *mask,
                        global const int *pos FIRST_PARAM)
{
    const attention_args a = g.a;
    const uint heads = a.n[1] / a.group, queries = a.group * a.n[2], S = a.n[3];
    float16 q_rows[TILE * DV], dy_rows[TILE * EV], dq_rows[TILE * DV];
    float mean[TILE];
    int begin[BLOCKS], end[BLOCKS];
    const tile_rows rows = {q_rows, dy_rows, dq_rows, mean, begin, end};
    global float16 *sums = scratch + group_id(0) * (size_t)(g.slot / 16);
    for (uint item = group_id(0); item < g.items; item += group_count()) {
        const uint part = item % a.splits, hk = item / a.splits % heads, b = item / a.splits / heads;
        for (size_t i = 0; i < (size_t)S * (DV + EV); i++)
            sums[i] = 0;
        for (uint first = part * TILE; first < queries; first += a.splits * TILE) {
            const tile_id t = tile_at(&a, pos, FIRST_KEYS, b, hk, first);
            add_tile(&g, &t, &rows, sums, out, q, k, v, y, dy, mask, pos, FIRST_KEYS);
        }
        for (uint s = 0; s < S && a.splits == 1; s++) {
            put_key(out + dk_at(&g, b, hk, s), sums + (size_t)s * DV, 1.0f);
            put_value(out + dv_at(&g, b, hk, s), sums + (size_t)S * DV + (size_t)s * EV, 1.0f);
        }
    }
}

SINGLE_KERNEL
void attention_grad_merge(STAGE_GROUP const attention_grad_args g, global float *out,
                          global const float *scratch)
{
    const uint S = g.a.n[3], heads = g.a.n[1] / g.a.group;
    const uint s = group_id(0) % S, hk = group_id(0) / S % heads, b = group_id(0) / S / heads;
    scratch += ((size_t)b * heads + hk) * g.a.splits * g.slot;
    global const float *dk = scratch + (size_t)s * 16 * DV,
                       *dv = scratch + (size_t)S * 16 * DV + (size_t)s * 16 * EV;
    for (uint d = 0; d < D; d++) {
        float x = 0;
        for (uint p = 0; p < g.a.splits; p++)
            x += dk[(size_t)p * g.slot + d];
        out[dk_at(&g, b, hk, s) + d] = x;
    }
    for (uint e = 0; e < E; e++) {
        float x = 0;
        for (uint p = 0; p < g.a.splits; p++)
            x += dv[(size_t)p * g.slot + e];
        out[dv_at(&g, b, hk, s) + e] = x;
    }
}
