/* Loads and stores. */
#include <string.h>

#include "lab/gpu/ptx/warp.h"

static unsigned char *place_of(ptx_warp *w, uint8_t space, int lane, uint64_t address, unsigned n, int how)
{
    switch (space) {
    case PTX_GLOBAL:
        return gpu_global_place(&w->base, (uint32_t)lane, address, n, n, how);
    case PTX_SHARED:
        return gpu_local_place(&w->base, (uint32_t)lane, address, n, n, how);
    case PTX_PRIVATE:
        return gpu_private_place(&w->base, (uint32_t)lane, address, n, n, how);
    case PTX_PARAM:
        if (address + n > w->base.group->launch->kernel->param_bytes)
            gpu_fault(&w->base, (uint32_t)lane, "read of %u bytes at byte %llu of the parameters", n,
                      (unsigned long long)address);
        return (unsigned char *)w->base.group->params + address;
    default:
        break;
    }
    const uint64_t slot = address >> GPU_SLOT_BITS;
    return slot == GPU_PRIVATE_SLOT ? gpu_private_place(&w->base, (uint32_t)lane, address, n, n, how)
           : slot == GPU_LOCAL_SLOT ? gpu_local_place(&w->base, (uint32_t)lane, address, n, n, how)
                                    : gpu_global_place(&w->base, (uint32_t)lane, address, n, n, how);
}

void ptx_places(ptx_warp *w, const ptx_insn *i, uint32_t address_at, int how,
                unsigned char *places[PTX_LANES])
{
    const uint64_t *address = (const uint64_t *)(const void *)(w->base.file + address_at);
    const unsigned n = (unsigned)i->bytes * i->n;
    if (i->space == PTX_GLOBAL) /* most accesses */
        LANES places[l] = !ptx_is_on(w, l) ? w->base.group->spare
                                           : gpu_global_place(&w->base, (uint32_t)l,
                                                              address[l] + (uint64_t)i->offset, n, n, how);
    else
        LANES places[l] = !ptx_is_on(w, l)
                              ? w->base.group->spare
                              : place_of(w, i->space, l, address[l] + (uint64_t)i->offset, n, how);
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
    ptx_places(w, i, i->at[i->n], GPU_READ, places);
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
    ptx_places(w, i, i->at[i->n], GPU_WRITE, places);
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
    ptx_places(w, i, i->at[1], GPU_ATOMIC, places);
    LANES if (ptx_is_on(w, l)) d[l] =
        __atomic_exchange_n((uint32_t *)(void *)places[l], s[l], __ATOMIC_SEQ_CST);
}
