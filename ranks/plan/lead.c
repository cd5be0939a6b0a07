/* Leading: plans on a device run on all ranks. */
#include <inttypes.h>

#include "ranks/join/copies.h"
#include "ranks/join/device_sums.h"
#include "ranks/plan/ranked.h"

static void sums_began(clef_device *dev, uint64_t n_bytes)
{
    clef__transport *t = dev->ranks->transport;
    t->calls->device_sums(t, n_bytes);
}

const clef__together clef__ranks_together = {.create = clef__ranked_create,
                                             .sums = clef__ranks_sums,
                                             .sums_began = sums_began,
                                             .read_state = clef__ranked_read_state,
                                             .write_state = clef__ranked_write_state,
                                             .copy_state = clef__ranked_copy_state};

clef_status clef_ranks_lead(clef_ranks *r, clef_device *dev, clef_error *err)
{
    if (r->rank || r->apart)
        return clef__fail(err, CLEF_E_ARG, "rank %" PRId32 " cannot lead: %s", r->rank,
                          r->apart ? "the ranks were opened apart" : "rank 0 does");
    dev->ranks = r;
    dev->together = &clef__ranks_together;
    if (r->has_led) {
        clef__device_sums_reattach(r, dev);
        return CLEF_OK;
    }
    r->has_led = 1;
    clef__device_sums_find(r, dev);
    return clef__ranks_choose_piece(r, dev, err);
}
