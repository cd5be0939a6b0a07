#include "ranks/mpi/cores.h"

#include <string.h>

#ifdef CLEF_HAVE_HWLOC
#    include <hwloc.h>
#    include <limits.h>
#    include <stdlib.h>
#endif

enum { N_BITS = 8 * CLEF__TRANSPORT_CORE_BYTES };

static int has(const unsigned char *mask, int32_t i)
{
    return mask[i / 8] >> i % 8 & 1;
}

static void add(unsigned char *mask, int32_t i)
{
    mask[i / 8] = (unsigned char)(mask[i / 8] | 1u << i % 8);
}

#ifdef CLEF_HAVE_HWLOC
/* This machine without the processors that are not in `mask`. NULL where hwloc cannot read it. */
static hwloc_topology_t read_machine(const unsigned char *mask)
{
    hwloc_topology_t machine = NULL;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int32_t i = 0; set && i < N_BITS; i++)
        if (has(mask, i))
            hwloc_bitmap_set(set, (unsigned)i);
    if (set && !hwloc_topology_init(&machine) &&
        (hwloc_topology_load(machine) || hwloc_topology_restrict(machine, set, 0) ||
         !hwloc_bitmap_isequal(hwloc_topology_get_topology_cpuset(machine), set))) {
        hwloc_topology_destroy(machine);
        machine = NULL;
    }
    hwloc_bitmap_free(set);
    return machine;
}

static int divide_by_place(const unsigned char *mask, int32_t part, int32_t parts, unsigned char *out)
{
    hwloc_topology_t machine = read_machine(mask);
    hwloc_obj_t root = machine ? hwloc_get_root_obj(machine) : NULL;
    hwloc_cpuset_t *sets = calloc((size_t)parts, sizeof *sets);
    const int done = root && sets && !hwloc_distrib(machine, &root, 1, sets, (unsigned)parts, INT_MAX, 0);
    for (int i = done ? hwloc_bitmap_first(sets[part]) : -1; i >= 0; i = hwloc_bitmap_next(sets[part], i))
        add(out, i);
    for (int32_t k = 0; sets && k < parts; k++)
        hwloc_bitmap_free(sets[k]);
    free(sets);
    if (machine)
        hwloc_topology_destroy(machine);
    return done;
}
#else
static int divide_by_place(const unsigned char *mask, int32_t part, int32_t parts, unsigned char *out)
{
    (void)mask, (void)part, (void)parts, (void)out;
    return 0;
}
#endif

int clef__mpi_cores_divide(const unsigned char mask[CLEF__TRANSPORT_CORE_BYTES], int32_t part, int32_t parts,
                           unsigned char out[CLEF__TRANSPORT_CORE_BYTES])
{
    int32_t n = 0, at = 0;
    for (int32_t i = 0; i < N_BITS; i++)
        n += has(mask, i);
    if (parts < 2 || n < parts)
        return 0;
    memset(out, 0, CLEF__TRANSPORT_CORE_BYTES);
    if (divide_by_place(mask, part, parts, out))
        return 1;
    for (int32_t i = 0; i < N_BITS; i++)
        if (has(mask, i) && at++ * parts / n == part) /* n * parts is at most 2^20 */
            add(out, i);
    return 1;
}
