/* Softmax attention as attention_gpu_flash_mma.cl computes it, on units of eight work-items (matrix.h, MATRIX
 * 3). A unit has eight queries. Its sums of a query are all of one work-item, and so are the logits: each
 * work-item turns those of its query into weights by itself, and they are at once its part of the next
 * product's operand. So local memory holds inputs alone.
 *
 * Launch: as attention_gpu_flash.cl, with groups of UNITS units. Of each chunk of KEYS keys the group holds
 * keys and transposed values in local memory, as fragments (panel_gpu_fragments_8.h).
 *   -D UNITS      units of a group, which has ROWS = 8 UNITS queries
 *   -D KEYS       32
 *   -D D, E       64 or 128, equal; rows of k and v begin at multiples of 8 elements
 *   -D K_TYPE, V_TYPE  DTYPE_F16
 *   -D MASK, POS, SINKS, PAGED, FIRST  as in attention_gpu_flash.cl
 *   and those of matrix.h */
#include "matrix.h"
#if !defined(UNITS) || !defined(D) || !defined(E) || KEYS != 32 || D != E
#  error "attention_gpu_flash_dpas.cl needs UNITS, KEYS 32, D and E equal, and the constants of attention.h"
#endif
#define WG (UNITS * MATRIX_LANES)
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_halves.h"
#include "attention_logit.h"
#include "panel_gpu_fragments_8.h"

enum {
    ROWS = UNITS * MATRIX_ROWS,
    TALL = 1,
    SLOTS = 1,
    D_SLICES = D / 16,
    E_PARTS = E / MATRIX_TOKENS,
    PIECES = D / 16
};

#include "attention_gpu_parts.h"
#include "attention_gpu_dpas_chunk.h"

/* f(j) for each eight of sixteen keys, and for each eight elements of a value: Intel's compiler keeps an
 * array in registers where its indices are constants before loops are unrolled. */
#define EACH_SCORE(f) f(0) f(1)
#define EACH_EIGHT(f, j) f(j) f(j + 1) f(j + 2) f(j + 3) f(j + 4) f(j + 5) f(j + 6) f(j + 7)
#define EACH_PART(f)                                                                                         \
    EACH_EIGHT(f, 0)                                                                                         \
    if (E_PARTS > 8) {                                                                                       \
        EACH_EIGHT(f, 8)                                                                                     \
    }

/* f(i) for each two words of a query that a work-item has: words MATRIX_LANES i + lane. */
#define EACH_WORD(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)

/* Stores the unit's queries, of which `first` is the first. Each is divided by a power of two; returns that
 * of the work-item's. */
INLINED float load_queries(local uint *high, local uint *low, const attention_args *a, const place *p,
                           global const float *q, uint first, uint lane)
{
    float power = 0;
#pragma unroll 2
    for (uint r = 0; r < MATRIX_ROWS; r++) {
        global const float *row = q + row_at(a, &a->q, p->b, p->hk, min(first + r, p->queries - 1));
        float most = 0;
#define LOAD_WORD(i) const float2 x##i = i < D / 16 ? vload2(i * MATRIX_LANES + lane, row) : (float2)(0.0f);
        EACH_WORD(LOAD_WORD)
#if MATRIX_PLAIN
        for (uint d = 0; d < D; d++)
            most = fmax(most, fabs(row[d]));
#else
#  define LARGER(i) most = fmax(most, fmax(fabs(x##i.x), fabs(x##i.y)));
        EACH_WORD(LARGER)
        most = subgroup_max(most);
#endif
        const float2 powers = powers_of(most);
#define STORE_WORD(i)                                                                                        \
    if (i < D / 16) {                                                                                        \
        const uint2 pair = split_pair(x##i.x * powers.y, x##i.y * powers.y);                                 \
        high[(i * MATRIX_LANES + lane) * MATRIX_ROWS + r] = pair.x;                                          \
        low[(i * MATRIX_LANES + lane) * MATRIX_ROWS + r] = pair.y;                                           \
    }
        EACH_WORD(STORE_WORD)
        power = r == lane ? powers.x : power;
    }
    return power;
}

GROUP_KERNEL
void attention_gpu_flash_dpas(const attention_flash_args f, global float *out, global float *parts,
                              global const float *q, global const k_elem *k, global const v_elem *v,
                              global const mask_elem *mask, global const int *pos,
                              global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local uint query_high[ROWS * D / 2] __attribute__((aligned(16))),
        query_low[ROWS * D / 2] __attribute__((aligned(16))), keys[KEYS * D / 2] __attribute__((aligned(16))),
        values[KEYS * E / 2] __attribute__((aligned(16)));
    MATRIX_SCRATCH(scratch, WG);
    const uint lane = matrix_lane(), unit = matrix_unit(), own = p.tile * ROWS + unit * MATRIX_ROWS + lane,
               query = min(own, p.queries - 1);
    local uint *high = query_high + unit * MATRIX_ROWS * D / 2, *low = query_low + unit * MATRIX_ROWS * D / 2;
    const int at = position(&a, pos, p.b, query);
    const size_t mask_row = row_at(&a, &a.mask, p.b, p.hk, query);
    const int2 of_part = keys_of_part(&a, &p, pos, FIRST_KEYS);
    const int begin = keys_begin(&a, at, first_key(&a, FIRST_KEYS, p.b, query)),
              end = min(keys_end(&a, at), of_part.y);
    const float power = load_queries(high, low, &a, &p, q, own - lane, lane);
    float most = p.part + 1 == a.splits ? first_logit(&a, sinks, p.hk, query) : -INFINITY;
    float sum = most >= -FLT_MAX ? 1.0f : 0.0f;
    matrix_floats acc[16]; /* with E 64 half of it */
#define CLEAR(j) acc[j] = 0;
    EACH_PART(CLEAR)
    for (int s0 = of_part.x; s0 < of_part.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        const int n = min((int)KEYS, of_part.y - s0);
        global const ushort *from_k = (global const ushort *)k + key_at(&a.k, p.b, p.hk, s0, own_pages),
                            *from_v = (global const ushort *)v + key_at(&a.v, p.b, p.hk, s0, own_pages);
#pragma unroll 1
        for (uint first = 0; first < PIECES; first += UNITS) {
            chunk_piece piece;
            fetch_piece(&piece, from_k, a.k.stride[2], from_v, a.v.stride[2], n,
                        min(first + unit, (uint)PIECES - 1), lane);
            barrier(CLK_LOCAL_MEM_FENCE); /* all units have multiplied the last chunk */
            if (PIECES % UNITS == 0 || first + unit < PIECES)
                store_piece(&piece, keys, values, first + unit, lane);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint c = 0; c < KEYS / 16; c++) { /* sixteen keys at a time, for want of registers */
            matrix_floats z[2];
#define NO_PRODUCT(j) z[j] = 0;
            EACH_SCORE(NO_PRODUCT)
#pragma unroll 1
            for (uint d = 0; d < D_SLICES; d++) {
                const matrix_w h = fragment_load(high + d * FRAGMENT, lane),
                               l = fragment_load(low + d * FRAGMENT, lane);
#define SCORE(j)                                                                                             \
    {                                                                                                        \
        const matrix_x x = fragment_load(keys + ((2 * c + j) * D_SLICES + d) * FRAGMENT, lane);              \
        z[j] = matrix_halves(h, x, matrix_halves(l, x, z[j], scratch), scratch);                             \
    }
                EACH_SCORE(SCORE)
            }

#define SCALE_LOGITS(j) z[j] *= power * a.scale;
            EACH_SCORE(SCALE_LOGITS)
            if (a.softcap > 0) {
#pragma unroll 1
                for (uint j = 0; j < 2; j++) { /* one copy of tanh's code for all of z */
                    const matrix_floats x = z[0];
                    z[0] = z[1];
                    z[1] = a.softcap * tanh(x / a.softcap);
                }
            }
            float top = most;
#define FIND_LOGIT(j, i, x)                                                                                  \
    {                                                                                                        \
        const int s = s0 + (int)c * 16 + j * 8 + i;                                                          \
        x = s >= begin && s < end ? masked(&a, mask, mask_row, s, x) : -INFINITY;                            \
        top = fmax(top, x);                                                                                  \
    }
#define FIND_LOGITS(j)                                                                                       \
    FIND_LOGIT(j, 0, z[j].s0) FIND_LOGIT(j, 1, z[j].s1) FIND_LOGIT(j, 2, z[j].s2) FIND_LOGIT(j, 3, z[j].s3)  \
    FIND_LOGIT(j, 4, z[j].s4) FIND_LOGIT(j, 5, z[j].s5) FIND_LOGIT(j, 6, z[j].s6) FIND_LOGIT(j, 7, z[j].s7)
            EACH_SCORE(FIND_LOGITS)
            const float base = base_of(top), kept = weight_of(most, base);
            most = top;
            sum *= kept;
#define FIND_WEIGHTS(j)                                                                                      \
    z[j] = (float8)(weight_of(z[j].s0, base), weight_of(z[j].s1, base), weight_of(z[j].s2, base),            \
                    weight_of(z[j].s3, base), weight_of(z[j].s4, base), weight_of(z[j].s5, base),            \
                    weight_of(z[j].s6, base), weight_of(z[j].s7, base));                                     \
    sum += ((z[j].s0 + z[j].s1) + (z[j].s2 + z[j].s3)) + ((z[j].s4 + z[j].s5) + (z[j].s6 + z[j].s7));        \
    z[j] *= LARGEST;
            EACH_SCORE(FIND_WEIGHTS)
#define SCALE(j) acc[j] *= kept;
            if (kept != 1.0f) {
                EACH_PART(SCALE)
            }
#define ACCUMULATE(j)                                                                                        \
    {                                                                                                        \
        const matrix_x x = fragment_load(slice + (j) * FRAGMENT, lane);                                      \
        acc[j] = matrix_halves(h, x, matrix_halves(l, x, acc[j], scratch), scratch);                         \
    }
            const float8 x = z[0], y = z[1];
            const uint2 w0 = split_pair(x.s0, x.s1), w1 = split_pair(x.s2, x.s3), w2 = split_pair(x.s4, x.s5),
                        w3 = split_pair(x.s6, x.s7), w4 = split_pair(y.s0, y.s1), w5 = split_pair(y.s2, y.s3),
                        w6 = split_pair(y.s4, y.s5), w7 = split_pair(y.s6, y.s7);
            const matrix_w h = (uint8)(w0.x, w1.x, w2.x, w3.x, w4.x, w5.x, w6.x, w7.x),
                           l = (uint8)(w0.y, w1.y, w2.y, w3.y, w4.y, w5.y, w6.y, w7.y);
            local const uint *slice = values + c * E_PARTS * FRAGMENT;
            EACH_PART(ACCUMULATE)
        }
    }
    if (own < p.queries) {
        global float *to = out + out_at(&a, p.b, p.hk, own, E);
        const float scale = (a.splits > 1 ? 1.0f : sum != 0 ? 1.0f / sum : 0.0f) / LARGEST;
        if (a.splits > 1) {
            to = parts + f.parts + (out_at(&a, p.b, p.hk, own, 1) * a.splits + p.part) * RECORD;
            to[0] = most;
            to[1] = sum;
            to += 4;
        }
#define STORE(j) vstore8(acc[j] * scale, j, to);
        EACH_PART(STORE)
    }
}
