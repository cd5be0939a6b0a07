#include "lab/gpu/run/races.h"

#include <stdlib.h>

enum { PAGE_BITS = 10, N_HEADS = 1 << 14, N_RECENT = 64 };

/* The last access of each kind to a granule: group + 1 (0: none; MANY_GROUPS), epoch, work-item (GPU_MANY).
 */
typedef struct access {
    uint32_t group, epoch_item;
} access;
enum { MANY_GROUPS = 0xFFFFFFFF };
typedef struct granule {
    access write, read;
} granule;

typedef struct page {
    struct page *next;
    uintptr_t number;
    granule granules[];
} page;

struct gpu_races {
    uint32_t granule;
    page *heads[N_HEADS], *recent[N_RECENT];
};

gpu_races *gpu_races_create(uint32_t bytes)
{
    gpu_races *r = calloc(1, sizeof *r);
    if (r)
        r->granule = bytes;
    return r;
}

void gpu_races_destroy(gpu_races *r)
{
    for (int i = 0; r && i < N_HEADS; i++)
        while (r->heads[i]) {
            page *p = r->heads[i];
            r->heads[i] = p->next;
            free(p);
        }
    free(r);
}

static page *find_page(gpu_races *r, uintptr_t number)
{
    page **recent = &r->recent[number % N_RECENT], **head = &r->heads[number % N_HEADS], *p = *recent;
    if (p && p->number == number)
        return p;
    for (p = *head; p && p->number != number;)
        p = p->next;
    if (!p && (p = calloc(1, sizeof *p + ((size_t)1 << PAGE_BITS) / r->granule * sizeof(granule))) != NULL) {
        p->number = number;
        p->next = *head;
        *head = p;
    }
    *recent = p;
    return p;
}

static int conflicts(access before, access now)
{
    if (!before.group)
        return 0;
    return before.group != now.group ||
           (before.epoch_item != now.epoch_item &&
            before.epoch_item >> GPU_ITEM_BITS == now.epoch_item >> GPU_ITEM_BITS);
}

static void note_reader(access *read, access now)
{
    if (read->group && read->group != now.group)
        read->group = MANY_GROUPS;
    else if (read->group && read->epoch_item != now.epoch_item &&
             read->epoch_item >> GPU_ITEM_BITS == now.epoch_item >> GPU_ITEM_BITS)
        read->epoch_item |= GPU_MANY;
    else
        *read = now;
}

void gpu_races_note(gpu_races *r, gpu_warp *w, uint32_t lane, const unsigned char *at, unsigned n,
                    int is_store)
{
    const gpu_group *g = w->group;
    const uint32_t *groups = g->launch->groups;
    const access now = {1 + g->at[0] + groups[0] * (g->at[1] + groups[1] * g->at[2]),
                        (g->epoch - g->first_epoch) << GPU_ITEM_BITS | gpu_user(w, lane)};
    for (uintptr_t byte = (uintptr_t)at; byte < (uintptr_t)at + n; byte += r->granule) {
        page *p = find_page(r, byte >> PAGE_BITS);
        if (!p)
            gpu_fault(w, lane, "no memory for the check of races");
        granule *it = &p->granules[(byte & (((uintptr_t)1 << PAGE_BITS) - 1)) / r->granule];
        const access before = conflicts(it->write, now) ? it->write : it->read;
        if (conflicts(it->write, now) || (is_store && conflicts(it->read, now)))
            gpu_fault(w, lane, "race in global memory: %s what work-item %u of %s %s",
                      is_store ? "writes" : "reads", before.epoch_item & GPU_MANY,
                      before.group == now.group     ? "its group"
                      : before.group == MANY_GROUPS ? "other groups"
                                                    : "another group",
                      conflicts(it->write, now) ? "writes" : "reads");
        if (is_store)
            it->write = now;
        else
            note_reader(&it->read, now);
    }
}
