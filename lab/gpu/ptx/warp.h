/* A warp while it runs. */
#ifndef CLEF_LAB_PTX_WARP_H
#define CLEF_LAB_PTX_WARP_H

#include "lab/gpu/ptx/ptx.h"
#include "lab/gpu/run/group.h"

struct ptx_warp {
    gpu_warp base;
    uint32_t mask;          /* the lanes that the instruction is for */
    uint32_t partly;        /* others live, and keep their values */
    uint32_t on[PTX_LANES]; /* ~0 for lanes of the mask, else 0 */
    uint32_t born, live;    /* lanes that there are, and those that have not returned */
    uint32_t active;        /* lanes that go on at base.pc */
    uint32_t waiting;       /* lanes at an instruction for all lanes, or at a barrier */
    uint32_t other_pc;      /* the lowest place of the lanes that are neither */
    uint32_t pcs[PTX_LANES];
};

/** Where each lane of the mask accesses i->n words of i->bytes; other lanes get memory that nobody uses. */
void ptx_places(ptx_warp *w, const ptx_insn *i, uint32_t address_at, int how,
                unsigned char *places[PTX_LANES]);

#define LANES for (int l = 0; l < PTX_LANES; l++)
#define LANES_FREE _Pragma("GCC ivdep") for (int l = 0; l < PTX_LANES; l++)
#define AT(T, k) ((T *)(void *)(w->base.file + i->at[k]))

static inline int ptx_is_on(const ptx_warp *w, int lane)
{
    return (w->mask >> lane & 1) != 0;
}

#endif
