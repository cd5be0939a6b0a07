/* Loads and stores, and what is checked of them: bounds and alignment of all; of local memory that the
 * bytes were written, and that no two work-items use them between two barriers if one of them writes. */
#include <stdio.h>
#include <string.h>

#include "lab/ptx/run/group.h"
#include "lab/ptx/run/races.h"

enum { ATOMIC = 2 }; /* a kind of store */

/* ---- where ----------------------------------------------------------------------------------- */

/* Where an address is, as a message says it. */
static const char *name_place(const ptx_group *g, uint64_t address, char text[PTX_MESSAGE])
{
    const ptx_kernel *k = g->launch->kernel;
    const uint64_t offset = address & PTX_OFFSET, before = offset > PTX_OFFSET / 2; /* of the next slot */
    const uint64_t slot = (address >> PTX_SLOT_BITS) + before;
    const long long byte = (long long)offset - (before ? (long long)PTX_OFFSET + 1 : 0);
    if (slot >= 1 && slot <= (uint64_t)k->n_params)
        snprintf(text, PTX_MESSAGE, "byte %lld of argument %u, which has %llu bytes", byte,
                 (unsigned)slot - 1, (unsigned long long)g->slots[slot].n);
    else
        snprintf(text, PTX_MESSAGE, "address 0x%llx, which is in no buffer", (unsigned long long)address);
    return text;
}

static unsigned char *global_place(ptx_warp *w, int lane, uint64_t address, unsigned n, int is_store)
{
    char place[PTX_MESSAGE];
    const uint64_t slot = address >> PTX_SLOT_BITS, offset = address & PTX_OFFSET;
    const ptx_slot *in = &w->group->slots[slot < PTX_MAX_SLOTS ? slot : 0];
    if (offset + n > in->n)
        ptx_fault(w, lane, "%s of %u bytes at %s", is_store ? "write" : "read", n,
                  name_place(w->group, address, place));
    if (offset & (n - 1))
        ptx_fault(w, lane, "misaligned %s of %u bytes at %s", is_store ? "write" : "read", n,
                  name_place(w->group, address, place));
    if (w->group->races && is_store != ATOMIC)
        ptx_races_note(w->group->races, w, lane, in->memory + offset, n, is_store);
    return in->memory + offset;
}

static unsigned char *private_place(ptx_warp *w, int lane, uint64_t address, unsigned n, int is_store)
{
    const size_t most = w->group->launch->kernel->private_bytes;
    const uint64_t offset = address & PTX_OFFSET;
    if (offset + n > most)
        ptx_fault(w, lane, "%s of %u bytes at byte %llu of private memory, which has %zu bytes",
                  is_store ? "write" : "read", n, (unsigned long long)offset, most);
    if (offset & (n - 1))
        ptx_fault(w, lane, "misaligned %s of %u bytes at byte %llu of private memory",
                  is_store ? "write" : "read", n, (unsigned long long)offset);
    return w->group->privates + ((size_t)w->first + (size_t)lane) * most + offset;
}

/* ---- local memory ---------------------------------------------------------------------------- */

static const char *name_local(const ptx_group *g, uint64_t offset, char text[PTX_MESSAGE])
{
    const ptx_kernel *k = g->launch->kernel;
    for (int i = 0; i < k->n_locals; i++)
        if (offset - k->locals[i].value < k->locals[i].bytes) {
            snprintf(text, PTX_MESSAGE, "byte %llu of %s", (unsigned long long)(offset - k->locals[i].value),
                     k->locals[i].name);
            return text;
        }
    snprintf(text, PTX_MESSAGE, "byte %llu of local memory", (unsigned long long)offset);
    return text;
}

static void note_read(ptx_warp *w, int lane, uint64_t granule, uint32_t item)
{
    ptx_group *g = w->group;
    ptx_shadow *s = &g->shadow[granule];
    const uint32_t now = g->epoch << PTX_ITEM_BITS | item;
    char place[PTX_MESSAGE];
    if (s->write != now) {
        const uint64_t byte = granule * g->launch->kernel->granule;
        if (s->write < g->first_epoch << PTX_ITEM_BITS)
            ptx_fault(w, lane, "reads %s, which nobody wrote", name_local(g, byte, place));
        if (s->write >> PTX_ITEM_BITS == g->epoch)
            ptx_fault(w, lane, "race: reads %s, which work-item %u wrote since the last barrier",
                      name_local(g, byte, place), s->write & PTX_MANY);
    }
    if (s->read != now)
        s->read = s->read >> PTX_ITEM_BITS == g->epoch ? now | PTX_MANY : now;
}

static void note_write(ptx_warp *w, int lane, uint64_t granule, uint32_t item)
{
    ptx_group *g = w->group;
    ptx_shadow *s = &g->shadow[granule];
    const uint32_t now = g->epoch << PTX_ITEM_BITS | item;
    const uint64_t byte = granule * g->launch->kernel->granule;
    char place[PTX_MESSAGE];
    if (!g->is_array[granule])
        ptx_fault(w, lane, "writes %s, which is behind its arrays", name_local(g, byte, place));
    if (s->write != now && s->write >> PTX_ITEM_BITS == g->epoch)
        ptx_fault(w, lane, "race: writes %s, which work-item %u wrote since the last barrier",
                  name_local(g, byte, place), s->write & PTX_MANY);
    if (s->read != now && s->read >> PTX_ITEM_BITS == g->epoch)
        ptx_fault(w, lane, "race: writes %s, which %s read since the last barrier",
                  name_local(g, byte, place),
                  (s->read & PTX_MANY) == PTX_MANY ? "others" : "another work-item");
    s->write = now;
}

static unsigned char *local_place(ptx_warp *w, int lane, uint64_t address, unsigned n, int is_store)
{
    ptx_group *g = w->group;
    const uint64_t offset = address & PTX_OFFSET;
    const uint32_t granule = g->launch->kernel->granule, item = w->first + (uint32_t)lane;
    char place[PTX_MESSAGE];
    if (offset + n > g->local_bytes)
        ptx_fault(w, lane, "%s of %u bytes at byte %llu of local memory, of which there are %zu bytes",
                  is_store ? "write" : "read", n, (unsigned long long)offset, g->local_bytes);
    if (offset & (n - 1))
        ptx_fault(w, lane, "misaligned %s of %u bytes at %s", is_store ? "write" : "read", n,
                  name_local(g, offset, place));
    for (uint64_t at = offset / granule; at < (offset + n) / granule; at++)
        if (is_store)
            note_write(w, lane, at, item);
        else
            note_read(w, lane, at, item);
    return g->local + offset;
}

/* ---- all lanes ------------------------------------------------------------------------------- */

static unsigned char *place_of(ptx_warp *w, uint8_t space, int lane, uint64_t address, unsigned n,
                               int is_store)
{
    switch (space) {
    case PTX_GLOBAL:
        return global_place(w, lane, address, n, is_store);
    case PTX_SHARED:
        return local_place(w, lane, address, n, is_store);
    case PTX_PRIVATE:
        return private_place(w, lane, address, n, is_store);
    case PTX_PARAM:
        if (address + n > w->group->launch->kernel->param_bytes)
            ptx_fault(w, lane, "read of %u bytes at byte %llu of the parameters", n,
                      (unsigned long long)address);
        return (unsigned char *)w->group->params + address;
    default:
        break;
    }
    const uint64_t slot = address >> PTX_SLOT_BITS;
    return slot == PTX_PRIVATE_SLOT ? private_place(w, lane, address, n, is_store)
           : slot == PTX_LOCAL_SLOT ? local_place(w, lane, address, n, is_store)
                                    : global_place(w, lane, address, n, is_store);
}

void ptx_places(ptx_warp *w, const ptx_insn *i, uint32_t address_at, int is_store,
                unsigned char *places[PTX_LANES])
{
    const uint64_t *address = (const uint64_t *)(const void *)(w->file + address_at);
    const unsigned n = (unsigned)i->bytes * i->n;
    if (i->space == PTX_GLOBAL) /* most accesses */
        LANES places[l] = !ptx_is_on(w, l)
                              ? w->group->spare
                              : global_place(w, l, address[l] + (uint64_t)i->offset, n, is_store);
    else
        LANES places[l] = !ptx_is_on(w, l)
                              ? w->group->spare
                              : place_of(w, i->space, l, address[l] + (uint64_t)i->offset, n, is_store);
}

#define TAKE(T, L, bits)                                                                                     \
    LANES                                                                                                    \
    {                                                                                                        \
        T x;                                                                                                 \
        memcpy(&x, places[l] + from, sizeof x);                                                              \
        const L value = (L)(bits)x;                                                                          \
        d[l] = !w->partly || w->on[l] ? value : d[l];                                                        \
    }

static void take_words(ptx_warp *w, const ptx_insn *i, int k, unsigned char *places[PTX_LANES])
{
    uint32_t *d = AT(uint32_t, k);
    const int from = k * i->bytes;
    if (i->bytes == 4)
        TAKE(uint32_t, uint32_t, uint32_t)
    else if (i->bytes == 2 && i->is_signed)
        TAKE(int16_t, uint32_t, int32_t)
    else if (i->bytes == 2)
        TAKE(uint16_t, uint32_t, uint32_t)
    else if (i->is_signed)
        TAKE(int8_t, uint32_t, int32_t)
    else
        TAKE(uint8_t, uint32_t, uint32_t)
}

static void take_longs(ptx_warp *w, const ptx_insn *i, int k, unsigned char *places[PTX_LANES])
{
    uint64_t *d = AT(uint64_t, k);
    const int from = k * i->bytes;
    if (i->bytes == 8)
        TAKE(uint64_t, uint64_t, uint64_t)
    else if (i->bytes == 4 && i->is_signed)
        TAKE(int32_t, uint64_t, int64_t)
    else if (i->bytes == 4)
        TAKE(uint32_t, uint64_t, uint64_t)
    else if (i->bytes == 2 && i->is_signed)
        TAKE(int16_t, uint64_t, int64_t)
    else if (i->bytes == 2)
        TAKE(uint16_t, uint64_t, uint64_t)
    else if (i->is_signed)
        TAKE(int8_t, uint64_t, int64_t)
    else
        TAKE(uint8_t, uint64_t, uint64_t)
}

void ptx_load(ptx_warp *w, const ptx_insn *i)
{
    unsigned char *places[PTX_LANES];
    ptx_places(w, i, i->at[i->n], 0, places);
    for (int k = 0; k < i->n; k++)
        if (i->wide)
            take_longs(w, i, k, places);
        else
            take_words(w, i, k, places);
}

#define GIVE(T, L)                                                                                           \
    {                                                                                                        \
        const L *s = AT(L, k);                                                                               \
        LANES                                                                                                \
        {                                                                                                    \
            const T x = (T)s[l];                                                                             \
            memcpy(places[l] + k * i->bytes, &x, sizeof x);                                                  \
        }                                                                                                    \
    }

/* A register may be wider than what it is stored as. */
void ptx_store(ptx_warp *w, const ptx_insn *i)
{
    unsigned char *places[PTX_LANES];
    ptx_places(w, i, i->at[i->n], 1, places);
    for (int k = 0; k < i->n; k++)
        if (i->bytes == 8)
            GIVE(uint64_t, uint64_t)
        else if (i->bytes == 4 && i->wide)
            GIVE(uint32_t, uint64_t)
        else if (i->bytes == 4)
            GIVE(uint32_t, uint32_t)
        else if (i->bytes == 2 && i->wide)
            GIVE(uint16_t, uint64_t)
        else if (i->bytes == 2)
            GIVE(uint16_t, uint32_t)
        else if (i->wide)
            GIVE(uint8_t, uint64_t)
        else
            GIVE(uint8_t, uint32_t)
}

/* atom.exch: at[0] is what was there, at[1] the address, at[2] what is to be there. */
void ptx_exchange(ptx_warp *w, const ptx_insn *i)
{
    unsigned char *places[PTX_LANES];
    uint32_t *d = AT(uint32_t, 0);
    const uint32_t *s = AT(uint32_t, 2);
    ptx_places(w, i, i->at[1], ATOMIC, places);
    LANES if (ptx_is_on(w, l)) d[l] =
        __atomic_exchange_n((uint32_t *)(void *)places[l], s[l], __ATOMIC_SEQ_CST);
}
