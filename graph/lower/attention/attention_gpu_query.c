/* attention on any device: a group of work-items computes one query. */
#include "graph/lower/attention/attention.h"

/* Each work-item weighs its part of the keys, then walks over all keys for each of its elements of the
 * result. The rounds of all its loops are added up. CLEF_E_LIMIT if the device would end them earlier. */
static clef_status fits_loops(const clef_lowering *lo, const clef_attention_call *call, uint32_t wg,
                              clef_error *err)
{
    enum { MOST = 60000, OF_SUMS = 16 };
    const uint32_t all = call->args.a.n[3],
                   window = call->args.a.window > 0 ? (uint32_t)call->args.a.window : all;
    const uint32_t d = clef__n(lo, call->k, 0), mine = clef__ceil_div(clef__n(lo, call->v, 0), wg);
    const uint64_t keys = window < all ? window : all, chunk = 1 + d / 16 + d % 16 + OF_SUMS + mine;
    if (!lo->caps->short_loops || keys * mine + clef__ceil_div((uint32_t)keys, wg) * chunk <= MOST)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_LIMIT,
                      "%s: attention over %llu keys: this device ends a work-item's loops after some 65,000 "
                      "rounds, room for %llu keys",
                      lo->node->name, (unsigned long long)keys,
                      (unsigned long long)(MOST * (uint64_t)wg / (mine * (uint64_t)wg + chunk)));
}

clef_status clef__attention_gpu_query_launch(clef_lowering *lo, const clef_attention_call *call,
                                             clef_error *err)
{
    const attention_args *args = &call->args.a;
    const uint32_t wg = clef__fit_local(lo, 128);
    const clef_status fits = fits_loops(lo, call, wg, err);
    if (fits)
        return fits;
    clef_launch launch = {.source = "attention_gpu_query",
                          .kernel = "attention_gpu_query",
                          .c_version = CLEF_SUBGROUP_C_VERSION(lo),
                          .defs = {{"WG", (int32_t)wg},
                                   CLEF_SUBGROUP_DEFS(lo),
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"FIRST", call->first != NULL}},
                          .args = args,
                          .args_bytes = sizeof *args,
                          .bufs = {call->out, call->q, call->k, call->v, call->mask, call->pos, call->sinks},
                          .n_bufs = 7,
                          .groups = {args->n[0] * args->n[1] * args->n[2]},
                          .local = {wg}};
    clef__add_optional(&launch, call);
    return clef__launch(lo, &launch, err);
}
