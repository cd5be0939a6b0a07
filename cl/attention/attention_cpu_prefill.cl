/* Softmax attention on CPUs (prefill): the formula of attention_gpu_query.cl, as an online softmax
 * (arXiv:1805.02867) over chunks of KEYS keys, for q [B, H, T, D], k [B, Hk, S, D], v [B, Hk, S, E],
 * group = H / Hk.
 * The queries that share keys, (t, h) for the heads h of one group, are numbered
 * together: query i has t = i / group. A tile of them shares each chunk. Its keys are transposed and its
 * values decoded once; then both products are outer products of ROWS queries with vectors of 16 keys, or
 * of 16 elements. Only keys that some query may see are read. A query that sees no key gives zeros.
 * Launch: tiles Hk B groups, where a tile has a.tile queries, at most TILE. With PAGED a tile's queries
 * are of one run, and there are a.tiles Hk groups.
 *   -D TILE    most queries of a tile, a multiple of ROWS
 *   -D ROWS    queries that are computed together
 *   -D D, E    last dims of k and v
 *   -D K_TYPE, V_TYPE  dtypes of k and v
 *   -D MASK    DTYPE_NONE (-1), DTYPE_F32: added, DTYPE_I32 or DTYPE_I8: kept where not 0
 *   -D POS     1: query t of sequence b is at position pos[b] + t, else at t
 *   -D SINKS   dtype of sinks [H], DTYPE_NONE without: each query of head h has one more key, with logit
 *              sinks[h] and no value
 *   -D FIRST   1: query t of sequence b sees no key before first_keys[b, t], which does not decrease with t
 *   -D PAGED   1: the batch is the rows of several sequences (paging.h) */
#define WG 1
#include "args.h"
#include "weights.h"
#include "attention.h"

#if !defined(TILE) || !defined(ROWS) || !defined(D) || !defined(E)
#  error "attention_cpu_prefill.cl needs TILE, ROWS, D, E, K_TYPE, V_TYPE, MASK, POS, SINKS and FIRST"
#endif

#include "attention_vector.h"
#include "attention_tile.h"
#include "attention_weigh.h"

DEFINE_TRANSPOSE(pack_keys, k_elem, key16, DV)
DEFINE_ROWS(pack_values, v_elem, value16, EV)
DEFINE_SCORE(score, private, D, DV)
DEFINE_ROW16(query16, DTYPE_F32, D)

SINGLE_KERNEL
void attention_cpu_prefill(STAGE_GROUP const attention_args a, global float *out, global const float *q,
                           global const k_elem *k, global const v_elem *v, global const mask_elem *mask,
                           global const int *pos, global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    float16 kt[16 * DV * CHUNK], values[KEYS * EV], acc[TILE * EV], sum[TILE], z[ROWS * CHUNK];
    float packed[TILE * 16 * DV], most[TILE], keep[ROWS];
    const uint heads = a.n[1] / a.group, id = group_id(0);
    global const int *own_pages = 0;
#if PAGED
    const uint hk = id / a.tiles;
    const tile_place place = tile_of_run(&a, id % a.tiles, a.tile, runs, pages);
    const uint queries = place.run.rows * a.group, first = place.first, b = place.run.first;
    if (first >= queries)
        return;
    own_pages = place.run.pages;
#else
    /* Under the causal rule later tiles see more keys. Tiles are numbered from both ends in turn, so that the
     * work of neighbours is balanced. */
    const uint queries = a.group * a.n[2], tiles = (queries + a.tile - 1) / a.tile;
    const uint nth = id % tiles, first = (nth % 2 ? tiles - 1 - nth / 2 : nth / 2) * a.tile;
    const uint hk = id / tiles % heads, b = id / tiles / heads;
#endif
    const uint rows = min(a.tile, queries - first);
    for (uint r = 0; r < rows + ROWS - 1; r++) { /* those beyond the end repeat the last one */
        const uint i = first + min(r, rows - 1);
        const size_t from = row_at(&a, &a.q, b, hk, i);
        if (r >= TILE)
            break;
        for (uint j = 0; j < DV; j++)
            vstore16(a.scale * query16(q, from, j), j, packed + r * 16 * DV);
        most[r] = first_logit(&a, sinks, hk, i);
        sum[r] = first_weight(most[r]);
        for (uint j = 0; j < EV; j++)
            acc[r * EV + j] = 0;
    }
    const int seen = keys_begin(&a, position(&a, pos, b, first), first_key(&a, FIRST_KEYS, b, first)),
              begin = PAGED ? seen / KV_PAGE * KV_PAGE : seen, /* a chunk lies in one page */
              end = keys_end(&a, position(&a, pos, b, first + rows - 1));
    for (int s = begin; s < end; s += KEYS) {
        const int n = min((int)KEYS, end - s);
        pack_keys(kt, k, key_at(&a.k, b, hk, s, own_pages), a.k.stride[2], n);
        pack_values(values, v, key_at(&a.v, b, hk, s, own_pages), a.v.stride[2], n);
        for (uint r = 0; r < rows; r += ROWS) {
            const uint last = min(r + ROWS, rows) - 1;
            if (keys_end(&a, position(&a, pos, b, first + last)) <= s ||
                keys_begin(&a, position(&a, pos, b, first + r), first_key(&a, FIRST_KEYS, b, first + r)) >=
                    s + n)
                continue;
            score(z, packed + r * 16 * DV, kt, n);
            soften_rows(&a, z, keep, most + r, sum + r, mask, pos, FIRST_KEYS,
                        (row_id){b, hk, first + r, first + last},
                        s, end);
            weigh(acc + r * EV, keep, (const float *)z, values, n);
        }
    }
    for (uint r = 0; r < rows; r++)
        put_row(out + out_at(&a, b, hk, first + r, E), acc + r * EV, sum16(sum[r]));
}
