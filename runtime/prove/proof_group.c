/* The largest group that a device's kernels take, where that is less than its driver says: found by proofs,
 * kept among them, and then in force for all kernels of the device. */
#include <stdio.h>

#include "graph/hash.h"
#include "runtime/plan/plan.h"
#include "runtime/prove/proof.h"

int clef__proof_limits_groups(const clef_proof *p)
{
    return p->verdict == CLEF_PROOF_REFUSED && p->items > 1 &&
           (p->cl_code == CL_INVALID_WORK_GROUP_SIZE || p->cl_code == CL_INVALID_WORK_ITEM_SIZE);
}

/* Drivers use this code for groups that need too many registers, and for other shortages. */
int clef__proof_may_limit_groups(const clef_proof *p)
{
    return p->verdict == CLEF_PROOF_REFUSED && p->items > 1 && p->cl_code == CL_OUT_OF_RESOURCES;
}

static uint64_t limit_print(void)
{
    return clef__hash(CLEF__HASH_START, CLEF__GROUP_OP, sizeof CLEF__GROUP_OP);
}

int32_t clef__proofs_max_group(const clef_proofs *proofs)
{
    const clef_proof *limit = clef__proofs_find(proofs, limit_print());
    const int32_t most = limit && limit->items > 1 ? limit->items / 2 : 0, tried = proofs->tried_group;
    return tried > 0 && (most == 0 || tried < most) ? tried : most;
}

int clef__proofs_try_group(clef_proofs *proofs, const clef_proof *refused)
{
    const int32_t before = clef__proofs_max_group(proofs), most = refused->items / 2;
    if (before > 0 && before <= most)
        return 0;
    proofs->tried_group = most;
    return 1;
}

/* Smaller groups do not help against every lack of resources, and other plans are faster without a limit. */
clef_status clef__proofs_end_try(clef_device *dev, clef_proofs *proofs, int has_helped, clef_error *err)
{
    const clef_proof refused = {.cl_code = CL_OUT_OF_RESOURCES, .items = 2 * proofs->tried_group};
    clef_status s = CLEF_OK;
    if (proofs->tried_group == 0)
        return CLEF_OK;
    proofs->tried_group = 0;
    if (has_helped) {
        s = clef__proofs_note_group(proofs, &refused, err);
        if (!s)
            s = clef__proofs_save(dev, proofs, err);
    }
    clef__proofs_limit_groups(dev, proofs);
    return s;
}

int clef__proof_is_outgrown(const clef_proofs *proofs, const clef_proof *p)
{
    const int32_t most = clef__proof_may_limit_groups(p) ? clef__proofs_max_group(proofs) : 0;
    return most > 0 && p->items > most;
}

clef_status clef__proofs_note_group(clef_proofs *proofs, const clef_proof *refused, clef_error *err)
{
    const clef_proof *known = clef__proofs_find(proofs, limit_print());
    clef_proof limit = {.print = limit_print(),
                        .op = CLEF__GROUP_OP,
                        .variant = "-",
                        .verdict = CLEF_PROOF_REFUSED,
                        .cl_code = refused->cl_code,
                        .items = refused->items};
    if (!known)
        return clef__proofs_put(proofs, &limit, err);
    if (limit.items < known->items)
        proofs->at[known - proofs->at].items = limit.items;
    return CLEF_OK;
}

void clef__proofs_limit_groups(clef_device *dev, const clef_proofs *proofs)
{
    const int32_t most = clef__proofs_max_group(proofs);
    dev->info.caps.max_group = most > 0 && most < proofs->driver_group ? most : proofs->driver_group;
}

void clef__proofs_tell_groups(const clef_device *dev, const clef_proofs *proofs, int32_t before)
{
    char text[400];
    const int32_t most = clef__proofs_max_group(proofs);
    snprintf(
        text, sizeof text,
        "kernels on %s do not run in groups as large as its driver says: clef launches at most %d work-items "
        "in a group",
        dev->info.name, (int)most);
    if (most != before && dev->notice)
        dev->notice(dev->notice_user, text);
}
