/* A fused step's program: one source, joined from the sources of all kinds of substeps and
 * cl/fused_step.cl. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/substep.h"
#include "runtime/device/broken.h"
#include "runtime/device/program_text.h"
#include "runtime/device/source.h"
#include "runtime/plan/fused.h"
#include "runtime/plan/together.h"

enum { MAX_OPTIONS = 640, MAX_ENTRY = 160, STAGE_OPTION = 48, C_VERSION = 12 /* of cl/fused_step.cl */ };

int clef__fused_kind_of(const clef_launch *l, clef_fused_kind *out)
{
    if (l->call != CLEF_CALL_KERNEL || l->c_version > C_VERSION || l->local[0] > 1 || l->local[1] > 1 ||
        l->local[2] > 1 || l->n_bufs > FUSED_BUFS)
        return 0;
    const clef__substep *substep = clef__substep_find(l->source, l->kernel);
    if (!substep || !substep->is_substep)
        return 0;
    *out = (clef_fused_kind){.source = substep->source,
                             .kernel = substep->kernel,
                             .args = substep->args_type,
                             .n_bufs = l->n_bufs};
    memcpy(out->defs, l->defs, sizeof out->defs);
    return 1;
}

int clef__fused_exchange_kind(const clef_plan *plan, const clef_launch *l, clef_fused_kind *out)
{
    static const clef_launch sum = {
        .source = "exchange", .kernel = "exchange_sum", .local = {1, 1, 1}, .n_bufs = 3};
    const clef__device_sums *sums = clef__device_sums_of(plan->dev);
    const clef_exchange_call *call = l->args;
    return sums && call->kind == CLEF_EXCHANGE_SUM && call->n_bytes <= sums->most_bytes &&
           clef__fused_kind_of(&sum, out);
}

int clef__fused_same(const clef_fused_kind *a, const clef_fused_kind *b)
{
    return a->kernel == b->kernel && a->source == b->source && a->n_bufs == b->n_bufs &&
           clef__same_defs(a->defs, b->defs);
}

int clef__fused_companion(const clef_fused_kind *kind, clef_fused_kind *out)
{
    const clef__substep *substep = clef__substep_find(kind->source, kind->kernel);
    if (!substep || !substep->companion)
        return 0;
    clef_launch l = {.source = kind->source, .kernel = substep->companion, .n_bufs = substep->companion_bufs};
    memcpy(l.defs, kind->defs, sizeof l.defs);
    return clef__fused_kind_of(&l, out);
}

/* What the program is joined from. */
typedef struct parts {
    clef_piece at[CLEF_FUSED_KINDS + 1];
    char options[CLEF_FUSED_KINDS + 1][MAX_OPTIONS], after[CLEF_FUSED_KINDS][MAX_ENTRY];
} parts;

static clef_status substep_part(const clef_device *dev, parts *p, int32_t i, const clef_fused_kind *kind,
                                clef_error *err)
{
    clef_launch l = {.source = kind->source, .kernel = kind->kernel};
    memcpy(l.defs, kind->defs, sizeof l.defs);
    const clef_status s = clef__program_options(&l, p->options[i], MAX_OPTIONS - STAGE_OPTION, err);
    if (s)
        return s;
    snprintf(p->options[i] + strlen(p->options[i]), STAGE_OPTION, " -D STAGE=%d%s", (int)i,
             dev->info.caps.whole_body ? CLEF__WHOLE_BODY : "");
    snprintf(p->after[i], MAX_ENTRY, "\nSTAGE_ENTRY(%s, %s, STAGE_BUFS_%u)\n", kind->kernel, kind->args,
             kind->n_bufs);
    p->at[i] = (clef_piece){kind->source, p->after[i], p->options[i]};
    return CLEF_OK;
}

static clef_status driver_part(const clef_device *dev, parts *p, int32_t n_kinds, clef_error *err)
{
    const clef_launch l = {.source = "fused_step",
                           .kernel = "fused_step",
                           .defs = {{"STAGES", n_kinds}, {"WHOLE_BODY", dev->info.caps.whole_body}}};
    p->at[n_kinds] = (clef_piece){l.source, "", p->options[n_kinds]};
    return clef__program_options(&l, p->options[n_kinds], MAX_OPTIONS, err);
}

static clef_status parts_make(const clef_device *dev, const clef_fused_kinds *kinds, parts **out,
                              clef_error *err)
{
    parts *p = *out = calloc(1, sizeof *p);
    clef_status s = p ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "cl/fused_step.cl: no memory for its parts");
    for (int32_t i = 0; i < kinds->n && !s; i++)
        s = substep_part(dev, p, i, &kinds->at[i], err);
    return s ? s : driver_part(dev, p, kinds->n, err);
}

clef_status clef__fused_create(clef_device *dev, const clef_fused_kinds *kinds, clef_joining how,
                               cl_kernel *out, clef_error *err)
{
    parts *p = NULL;
    *out = NULL;
    clef_status s = parts_make(dev, kinds, &p, err);
    if (!s && how == CLEF_JOIN_BUILD && clef__broken_at("fused.build"))
        s = clef__fail(err, CLEF_E_BUILD, "cl/fused_step.cl: broken on purpose");
    if (!s)
        s = clef__kernel_join(dev, p->at, kinds->n + 1,
                              &(clef_launch){.source = "fused_step", .kernel = "fused_step"}, how, out, err);
    free(p);
    return s;
}

clef_status clef__fused_key(clef_device *dev, const clef_fused_kinds *kinds, clef_cache_key *out,
                            clef_error *err)
{
    parts *p = NULL;
    clef_status s = parts_make(dev, kinds, &p, err);
    if (!s)
        s = clef__joined_key(dev, p->at, kinds->n + 1, out, err);
    free(p);
    return s;
}
