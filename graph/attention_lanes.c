/* attention on any device: a group of work-items takes one query. */
#include "graph/attention.h"

clef_status clef__attention_lanes_launch(clef_lowering *lo, const clef_attention_call *call, clef_error *err)
{
    const attention_args *args = &call->args.a;
    const uint32_t wg = clef__fit_local(lo, 128);
    return clef__launch(lo,
                        &(clef_launch){.source = "attention",
                                       .kernel = "attention",
                                       .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                                       .defs = {{"WG", (int32_t)wg},
                                                CLEF_SUBGROUP_DEFS(lo),
                                                {"D", (int32_t)clef__n(lo, call->k, 0)},
                                                {"E", (int32_t)clef__n(lo, call->v, 0)},
                                                {"K_TYPE", (int32_t)call->k->dtype},
                                                {"V_TYPE", (int32_t)call->v->dtype},
                                                {"MASK", call->mask ? (int32_t)call->mask->dtype : DTYPE_NONE},
                                                {"POS", call->pos != NULL},
                                                {"SINKS", call->sinks ? (int32_t)call->sinks->dtype : DTYPE_NONE}},
                                       .args = args,
                                       .args_bytes = sizeof *args,
                                       .bufs = {call->out, call->q, call->k, call->v, call->mask, call->pos, call->sinks},
                                       .n_bufs = 7,
                                       .groups = {args->n[0] * args->n[1] * args->n[2]},
                                       .local = {wg}},
                        err);
}
