/* Whether gradients are summed over the ranks while the backward pass still runs. The ranks exchange the same
 * either way, so each could choose for itself; but the time of a step is that of all. */
#include "train/plan/train_overlap.h"

#include <string.h>

#include "graph/fail.h"
#include "runtime/os/debug.h"
#include "runtime/os/os.h"

/* Each way is tried so often, after a first step, which also loads and compiles. */
enum { N_TRIES = 3 };
/* The most time, relative to sums after the backward pass: a smaller gain is noise. */
static const float worth = 0.98f;

clef_status clef__train_overlap_init(clef__train_overlap *o, int can, clef_error *err)
{
    const char *wanted = clef__debug("rank_overlap");
    *o = (clef__train_overlap){.is_on = can, .is_fixed = !can};
    if (!wanted || !*wanted)
        return CLEF_OK;
    if (strcmp(wanted, "0") != 0 && strcmp(wanted, "1") != 0)
        return clef__fail(err, CLEF_E_ARG, "CLEF_DEBUG: rank_overlap: expected 0 or 1, got '%s'", wanted);
    o->is_on = can && *wanted == '1';
    o->is_fixed = 1;
    return CLEF_OK;
}

void clef__train_overlap_begin(clef__train_overlap *o)
{
    if (!o->is_decided)
        o->begin = clef__os_seconds();
}

static clef_status sum(clef_ranks *r, float *x, size_t n, clef_error *err)
{
    return r->transport->calls->all_reduce(r->all, x, n, CLEF__WIRE_F32, err);
}

/* Nothing is measured if any rank's way is fixed: all then take it. No overlap wins over overlap. */
static clef_status agree(clef__train_overlap *o, clef_ranks *ranks, clef_error *err)
{
    float fixed[2] = {o->is_fixed && !o->is_on ? 1.0F : 0.0F, o->is_fixed && o->is_on ? 1.0F : 0.0F};
    const clef_status s = sum(ranks, fixed, 2, err);
    o->is_decided = fixed[0] > 0 || fixed[1] > 0;
    if (o->is_decided)
        o->is_on = fixed[0] > 0 ? 0 : 1;
    return s;
}

/* By the sums of the ranks' times, which all ranks have the same bits of. */
static clef_status choose(clef__train_overlap *o, clef_ranks *ranks, clef_error *err)
{
    const clef_status s = sum(ranks, o->least, sizeof o->least / sizeof *o->least, err);
    o->is_on = o->least[1] < o->least[0] * worth;
    o->is_decided = 1;
    return s;
}

clef_status clef__train_overlap_end(clef__train_overlap *o, clef_ranks *ranks, clef_error *err)
{
    if (o->is_decided)
        return CLEF_OK;
    const float seconds = (float)(clef__os_seconds() - o->begin);
    float *least = &o->least[o->is_on];
    if (o->n_steps == 0) {
        const clef_status s = agree(o, ranks, err);
        if (s || o->is_decided)
            return s;
    } else if (*least == 0 || seconds < *least) {
        *least = seconds;
    }
    if (o->n_steps == 2 * N_TRIES)
        return choose(o, ranks, err);
    o->n_steps++;
    o->is_on = o->n_steps % 2;
    return CLEF_OK;
}
