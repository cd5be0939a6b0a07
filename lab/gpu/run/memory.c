/* Where loads and stores access memory, and what is checked of them: bounds and alignment of all; of local
 * memory that the bytes were written, and that no two work-items use them between two barriers if one of them
 * writes. */
#include <stdio.h>
#include <string.h>

#include "lab/gpu/run/group.h"
#include "lab/gpu/run/races.h"

/* ---- where ----------------------------------------------------------------------------------- */

/* Where an address is, as a message says it. */
static const char *name_place(const gpu_group *g, uint64_t address, char text[GPU_MESSAGE])
{
    const gpu_kernel *k = g->launch->kernel;
    const uint64_t offset = address & GPU_OFFSET, before = offset > GPU_OFFSET / 2; /* of the next slot */
    const uint64_t slot = (address >> GPU_SLOT_BITS) + before;
    const long long byte = (long long)offset - (before ? (long long)GPU_OFFSET + 1 : 0);
    if (slot >= 1 && slot <= (uint64_t)k->n_params)
        snprintf(text, GPU_MESSAGE, "byte %lld of argument %u, which has %llu bytes", byte,
                 (unsigned)slot - 1, (unsigned long long)g->slots[slot].n);
    else
        snprintf(text, GPU_MESSAGE, "address 0x%llx, which is in no buffer", (unsigned long long)address);
    return text;
}

unsigned char *gpu_global_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                                int how)
{
    char place[GPU_MESSAGE];
    const uint64_t slot = address >> GPU_SLOT_BITS, offset = address & GPU_OFFSET;
    const gpu_slot *in = &w->group->slots[slot < GPU_MAX_SLOTS ? slot : 0];
    if (offset + n > in->n)
        gpu_fault(w, lane, "%s of %u bytes at %s", how ? "write" : "read", n,
                  name_place(w->group, address, place));
    if (offset & (align - 1))
        gpu_fault(w, lane, "misaligned %s of %u bytes at %s", how ? "write" : "read", n,
                  name_place(w->group, address, place));
    if (w->group->races && how != GPU_ATOMIC)
        gpu_races_note(w->group->races, w, lane, in->memory + offset, n, how);
    return in->memory + offset;
}

unsigned char *gpu_private_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                                 int how)
{
    const size_t most = w->group->launch->kernel->private_bytes;
    const uint64_t offset = address & GPU_OFFSET;
    if (offset + n > most)
        gpu_fault(w, lane, "%s of %u bytes at byte %llu of private memory, which has %zu bytes",
                  how ? "write" : "read", n, (unsigned long long)offset, most);
    if (offset & (align - 1))
        gpu_fault(w, lane, "misaligned %s of %u bytes at byte %llu of private memory", how ? "write" : "read",
                  n, (unsigned long long)offset);
    return w->group->privates + ((size_t)w->first + lane) * most + offset;
}

/* ---- local memory ---------------------------------------------------------------------------- */

static const char *name_local(const gpu_group *g, uint64_t offset, char text[GPU_MESSAGE])
{
    const gpu_kernel *k = g->launch->kernel;
    for (int i = 0; i < k->n_locals; i++)
        if (offset - k->locals[i].value < k->locals[i].bytes) {
            snprintf(text, GPU_MESSAGE, "byte %llu of %s", (unsigned long long)(offset - k->locals[i].value),
                     k->locals[i].name);
            return text;
        }
    snprintf(text, GPU_MESSAGE, "byte %llu of local memory", (unsigned long long)offset);
    return text;
}

static void note_read(gpu_warp *w, uint32_t lane, uint64_t granule, uint32_t item)
{
    gpu_group *g = w->group;
    gpu_shadow *s = &g->shadow[granule];
    const uint32_t now = g->epoch << GPU_ITEM_BITS | item;
    char place[GPU_MESSAGE];
    if (s->write != now) {
        const uint64_t byte = granule * g->launch->kernel->granule;
        if (s->write < g->first_epoch << GPU_ITEM_BITS)
            gpu_fault(w, lane, "reads %s, which nobody wrote", name_local(g, byte, place));
        if (s->write >> GPU_ITEM_BITS == g->epoch)
            gpu_fault(w, lane, "race: reads %s, which work-item %u wrote since the last barrier",
                      name_local(g, byte, place), s->write & GPU_MANY);
    }
    if (s->read != now)
        s->read = s->read >> GPU_ITEM_BITS == g->epoch ? now | GPU_MANY : now;
}

static void note_write(gpu_warp *w, uint32_t lane, uint64_t granule, uint32_t item)
{
    gpu_group *g = w->group;
    gpu_shadow *s = &g->shadow[granule];
    const uint32_t now = g->epoch << GPU_ITEM_BITS | item;
    const uint64_t byte = granule * g->launch->kernel->granule;
    char place[GPU_MESSAGE];
    if (!g->is_array[granule])
        gpu_fault(w, lane, "writes %s, which is behind its arrays", name_local(g, byte, place));
    if (s->write != now && s->write >> GPU_ITEM_BITS == g->epoch)
        gpu_fault(w, lane, "race: writes %s, which work-item %u wrote since the last barrier",
                  name_local(g, byte, place), s->write & GPU_MANY);
    if (s->read != now && s->read >> GPU_ITEM_BITS == g->epoch)
        gpu_fault(w, lane, "race: writes %s, which %s read since the last barrier",
                  name_local(g, byte, place),
                  (s->read & GPU_MANY) == GPU_MANY ? "others" : "another work-item");
    s->write = now;
}

unsigned char *gpu_local_place(gpu_warp *w, uint32_t lane, uint64_t address, unsigned n, unsigned align,
                               int how)
{
    gpu_group *g = w->group;
    const uint64_t offset = address & GPU_OFFSET;
    const uint32_t granule = g->launch->kernel->granule, item = gpu_user(w, lane);
    char place[GPU_MESSAGE];
    if (offset + n > g->local_bytes)
        gpu_fault(w, lane, "%s of %u bytes at byte %llu of local memory, of which there are %zu bytes",
                  how ? "write" : "read", n, (unsigned long long)offset, g->local_bytes);
    if (offset & (align - 1))
        gpu_fault(w, lane, "misaligned %s of %u bytes at %s", how ? "write" : "read", n,
                  name_local(g, offset, place));
    for (uint64_t at = offset / granule; at * granule < offset + n; at++)
        if (how)
            note_write(w, lane, at, item);
        else
            note_read(w, lane, at, item);
    return g->local + offset;
}
