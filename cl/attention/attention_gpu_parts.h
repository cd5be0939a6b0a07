/* What the attention kernels share whose keys are cut into parts on GPUs: the place of a group's work, its
 * part of the keys, and the records of the parts. Include it after attention.h, with WG, E, and
 *   ROWS         queries of a tile
 *   KEYS         keys of a chunk; a part is of whole chunks
 *   SLOTS, TALL  SLOTS adjacent work-items share TALL queries (attention_gpu_flash.cl), or a row of k and v
 *                (attention_gpu_decode.cl)
 *   NEW          not 0: runs are of one row, and are the tiles */
#ifndef CLEF_CL_ATTENTION_GPU_PARTS_H
#define CLEF_CL_ATTENTION_GPU_PARTS_H

#ifndef NEW
#  define NEW 0
#endif

#include "attention_gpu_record.h"

/* The work of a group, and the rows and keys of one item. */
typedef struct place {
    uint queries, heads;         /* of a head of k; heads of k */
    uint part, tile, hk, b;      /* part of the keys, tile of queries, head of k, sequence */
    uint item, slot, first;      /* item (first / TALL, slot) of the group */
} place;

static place place_in(const attention_args *a, uint queries, uint tile, uint hk, uint b)
{
    const uint item = get_local_id(0);
    place p;
    p.queries = queries;
    p.heads = a->n[1] / a->group;
    p.part = get_group_id(0) % a->splits;
    p.tile = tile;
    p.hk = hk;
    p.b = b;
    p.item = item;
    p.slot = item % SLOTS;
    p.first = item / SLOTS * TALL;
    return p;
}

static place place_of(const attention_args *a)
{
    const uint queries = a->group * a->n[2], heads = a->n[1] / a->group, tiles = (queries + ROWS - 1) / ROWS;
    const uint group = get_group_id(0) / a->splits;
    return place_in(a, queries, group % tiles, group / tiles % heads, group / tiles / heads);
}

/* The keys [x, y) of the group's part. The keys of a tile are those that any of its queries sees; they are
 * cut into parts of whole chunks. Later queries see more keys. */
static int2 keys_of_part(const attention_args *a, const place *p, global const int *pos,
                         global const int *first_keys)
{
    const int all_end = keys_end(a, position(a, pos, p->b, min((p->tile + 1) * ROWS, p->queries) - 1));
    const uint tile_first = p->tile * ROWS;
    const int seen = min(keys_begin(a, position(a, pos, p->b, tile_first),
                                    first_key(a, first_keys, p->b, tile_first)),
                         all_end),
              all_begin = PAGED ? seen / KV_PAGE * KV_PAGE : seen; /* a chunk lies in one page */
    const int span = (all_end - all_begin + (int)(a->splits * KEYS) - 1) / (int)(a->splits * KEYS) * KEYS;
    const int from = min(all_begin + (int)p->part * span, all_end);
    return (int2)(from, min(from + span, all_end));
}

/* Declares the place p of the group's work and the pages of its keys. A group of PAGED without a tile ends
 * the kernel here, with all of its items. */
#if PAGED && NEW
#  define FIND_PLACE(p, own_pages, a)                                                                      \
      const uint group_of_part = get_group_id(0) / (a).splits;                                             \
      const run_of run = run_at(&(a).paging, group_of_part % (a).tiles, runs, pages);                      \
      const place p = place_in(&(a), (a).group, 0, group_of_part / (a).tiles, run.first);                  \
      global const int *own_pages = run.pages
#elif PAGED
#  define FIND_PLACE(p, own_pages, a)                                                                      \
      const uint group_of_part = get_group_id(0) / (a).splits;                                             \
      const tile_place found = tile_of_run(&(a), group_of_part % (a).tiles, ROWS, runs, pages);            \
      if (found.first >= found.run.rows * (a).group)                                                       \
          return;                                                                                          \
      const place p = place_in(&(a), found.run.rows * (a).group, found.first / ROWS,                       \
                               group_of_part / (a).tiles, found.run.first);                                \
      global const int *own_pages = found.run.pages
#else
#  define FIND_PLACE(p, own_pages, a)  \
      const place p = place_of(&(a));  \
      global const int *own_pages = 0
#endif

#endif
