/* Which devices' work-items can exchange values without local memory, and which variants use it. */
#include "graph/lower/subgroup.h"

#include "graph/lower/variant.h"

enum { LEAST_GROUP = 32 };

clef_subgroups clef__subgroups_of(const clef_caps *caps)
{
    return caps->subgroup_size ? CLEF_SUBGROUPS_BUILTIN
           : caps->nv_asm      ? CLEF_SUBGROUPS_PTX
                               : CLEF_SUBGROUPS_NONE;
}

int32_t clef__subgroup_demand(const clef_caps *caps, clef_subgroups kind)
{
    return kind == CLEF_SUBGROUPS_BUILTIN ? caps->subgroup_demand : 0;
}

int32_t clef__subgroup_c_version(const clef_caps *caps, clef_subgroups kind)
{
    return kind != CLEF_SUBGROUPS_BUILTIN ? 12
           : caps->opencl_version >= 30   ? 30
           : caps->opencl_version >= 20   ? 20
                                          : 12;
}

int clef__has_subgroups(const clef_caps *caps)
{
    return clef__subgroups_of(caps) != CLEF_SUBGROUPS_NONE;
}

int clef__has_shuffles(const clef_caps *caps)
{
    return clef__has_subgroups(caps) && (caps->subgroup_shuffle || caps->nv_asm);
}

int clef__row_takes_subgroups(const clef_lowering *lo, const clef_value *n)
{
    const uint32_t wg = clef__fit_local(lo, clef__bound_n(lo, n->in[0], 0));
    return wg >= LEAST_GROUP && wg >= (uint32_t)lo->caps->subgroup_size;
}

clef_subgroups clef__serving_subgroups(const clef_lowering *lo)
{
    return lo->serving && lo->serving->runs_on == clef__has_subgroups ? clef__subgroups_of(lo->caps)
                                                                      : CLEF_SUBGROUPS_NONE;
}
