/* Measures how fast a CPU multiplies tiles of bf16: products of cl/instruction/amx.h in four chains, without
 * reads between them (runtime/device/measure.c). It stores a value that depends on all its work.
 * Launch: groups of one work-item. */
#define WG 1
#include "args.h"
#include "amx.h"
#include "group.h"

GROUP_KERNEL
void measure_amx(const measure_args a, global int16 *out)
{
    int tile[4 * 16 * 16] __attribute__((aligned(64)));
    for (uint i = 0; i < 4 * 16 * 16; i++)
        tile[i] = 0x3c003c00; /* 2^-7 each */
    AMX_BEGIN();
    AMX_ZERO(0);
    AMX_ZERO(1);
    AMX_ZERO(2);
    AMX_ZERO(3);
    AMX_LOAD(4, tile, AMX_STEP);
    AMX_LOAD(5, tile, AMX_STEP);
    for (uint i = 0; i < a.rounds; i++) {
        AMX_DOT(0, 4, 5);
        AMX_DOT(1, 4, 5);
        AMX_DOT(2, 4, 5);
        AMX_DOT(3, 4, 5);
    }
    AMX_STORE(0, tile, AMX_STEP);
    AMX_STORE(1, tile + 256, AMX_STEP);
    AMX_STORE(2, tile + 512, AMX_STEP);
    AMX_STORE(3, tile + 768, AMX_STEP);
    AMX_END();
    out[get_group_id(0)] = vload16(0, tile) + vload16(16, tile) + vload16(32, tile) + vload16(48, tile);
}
