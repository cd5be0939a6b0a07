/* Softmax attention on GPUs: tiles of queries by chunks of keys in local memory (FlashAttention,
 * arXiv:2205.14135; keys are cut into parts as in Flash-Decoding). attention_gpu_query.cl has the formula and
 * the numbering of the queries of a head of k (i = t group + h). Tiles have ROWS queries, so that all heads
 * of a group and neighbouring positions share each read of k and v.
 *
 * Launch: splits ceil(group T / ROWS) Hk B groups of WG work-items. With a.splits > 1 the keys are cut into
 * so many parts, each leaves a record for each query in `parts`, and attention_gpu_merge.cl joins them.
 *
 * A work-item (r, c) of ROWS / TALL by SLOTS has the rows from r TALL on. Of a chunk it has the keys c, c +
 * SLOTS ..; of the values it has the vectors of four elements c, c + SLOTS .. Each work-item adds up the
 * weights of its rows by itself, so no sum crosses work-items.
 *   -D WG, ROWS, TALL  ROWS / TALL divides WG
 *   -D KEYS            keys of a chunk, a multiple of SLOTS = WG TALL / ROWS
 *   -D D, E            last dims of k and v
 *   -D K_TYPE, V_TYPE, MASK, POS, SINKS, FIRST  as in attention_gpu_query.cl
 *   -D PAGED           1: the batch is the rows of several sequences (paging.h). A tile's queries are of one
 *                      run, and there are splits a.tiles Hk groups. KEYS divides KV_PAGE */
#include "args.h"
#include "group.h"
#include "weights.h"
#include "attention.h"
#include "attention_logit.h"

#if !defined(D) || !defined(E) || !defined(ROWS) || !defined(TALL) || !defined(KEYS)
#  error "attention_gpu_flash.cl needs WG, ROWS, TALL, KEYS, D, E, K_TYPE, V_TYPE, MASK, POS, SINKS and FIRST"
#endif
#include "attention_gpu_flash_tile.h"

/* Vectors slot, slot + SLOTS .. of a row, times `scale`. */
static void store_row(global float *row, const float4 *acc, uint slot, float scale)
{
#pragma unroll
    for (uint j = 0; j < VECTORS; j++)
        store_vector(row, acc[j] * scale, 4 * (slot + j * SLOTS), E);
}

/* Writes the item's rows: results, or, if the keys are cut, records for the merge. */
static void store(global float *out, global float *parts, const attention_args *a, const place *p,
                  const float *most, const float *sum, const float4 *acc)
{
#pragma unroll
    for (uint i = 0; i < TALL; i++) {
        const uint query = p->tile * ROWS + p->first + i;
        if (query >= p->queries)
            continue;
        const float scale = a->splits > 1 ? 1.0f : sum[i] != 0 ? 1.0f / sum[i] : 0.0f;
        global float *row = out + out_at(a, p->b, p->hk, query, E);
        if (a->splits > 1) {
            row = parts + (out_at(a, p->b, p->hk, query, 1) * a->splits + p->part) * RECORD;
            if (p->slot == 0) {
                row[0] = most[i];
                row[1] = sum[i];
            }
            row += 4;
        }
        store_row(row, acc + i * VECTORS, p->slot, scale);
    }
}

GROUP_KERNEL
void attention_gpu_flash(const attention_flash_args f, global float *out, global float *parts,
                         global const float *q, global const k_elem *k, global const v_elem *v,
                         global const mask_elem *mask, global const int *pos,
                         global const sink_elem *sinks FIRST_PARAM PAGING_PARAMS)
{
    const attention_args a = f.a;
    FIND_PLACE(p, own_pages, a);
    local float4 ready[ROWS * D4], chunk[KEYS * WIDE];
    local float weights[ROWS * PITCH];
    size_t mask_row[TALL];
    int begin[TALL], end[TALL];
    float most[TALL], sum[TALL];
    float4 acc[TALL * VECTORS];

    load_queries((local float *)ready, &a, &p, q);
#pragma unroll
    for (uint i = 0; i < TALL; i++) {
        const uint query = query_of(&p, i);
        const int at = position(&a, pos, p.b, query);
        mask_row[i] = row_at(&a, &a.mask, p.b, p.hk, query);
        begin[i] = keys_begin(&a, at, first_key(&a, FIRST_KEYS, p.b, query));
        end[i] = keys_end(&a, at);
        most[i] = p.part + 1 == a.splits ? first_logit(&a, sinks, p.hk, query) : -INFINITY;
        sum[i] = most[i] >= -FLT_MAX ? 1.0f : 0.0f;
#pragma unroll
        for (uint j = 0; j < VECTORS; j++)
            acc[i * VECTORS + j] = 0;
    }
    const int2 keys = keys_of_part(&a, &p, pos, FIRST_KEYS);
    for (int s0 = keys.x; s0 < keys.y; s0 += KEYS) { /* the bounds are equal in the whole group */
        const int n = min((int)KEYS, keys.y - s0);
        float z[TALL * MINE], keep[TALL];
        load_keys((local float *)chunk, k, key_at(&a.k, p.b, p.hk, s0, own_pages), a.k.stride[2], n, p.item);
        barrier(CLK_LOCAL_MEM_FENCE);
        score(z, ready + p.first * D4, chunk + p.slot * WIDE, &a);
        put_logits(weights, z, &a, &p, begin, end, mask, mask_row, s0, keys.y);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_values((local float *)chunk, v, key_at(&a.v, p.b, p.hk, s0, own_pages), a.v.stride[2], n,
                    p.item);
        rescale(z, most, keep, weights, &p);
        barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the logits */
        put_weights(weights, z, keep, sum, acc, &p);
        barrier(CLK_LOCAL_MEM_FENCE);
        accumulate(acc, sum, weights, chunk, &a, &p);
        barrier(CLK_LOCAL_MEM_FENCE); /* chunk and weights are overwritten next */
    }
    store(out, parts + f.parts, &a, &p, most, sum, acc);
}
