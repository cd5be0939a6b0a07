/* The launch of cl/attention/heads.cl: norm and RoPE of q and k, and the writes to the caches, on GPUs. */
#include "graph/lower/attention/attention.h"

clef_status clef__attention_gpu_heads_launch(clef_lowering *lo, clef_attention_call *call, clef_error *err)
{
    const attention_args *a = &call->args.a;
    const attention_heads_args *from = &call->args.heads;
    const clef_value *q = call->q, *norm = call->q_norm;
    const uint32_t D = clef__n(lo, call->new_k, 0), E = clef__n(lo, call->new_v, 0),
                   Hk = clef__n(lo, call->new_k, 1), T = clef__n(lo, q, 2), B = clef__n(lo, q, 3);
    const uint32_t H = norm || call->freqs ? clef__n(lo, q, 1) : 0,
                   wg = clef__fit_local(lo, clef__ceil_div(D > E ? D : E, 2));
    const heads_args args = {.n = {B, T, Hk},
                             .heads = H,
                             .q = a->q,
                             .k = from->new_k,
                             .v = from->new_v,
                             .k_cache = a->k,
                             .v_cache = a->v,
                             .q_norm = from->q_norm,
                             .k_norm = from->k_norm,
                             .freqs = from->freqs,
                             .pos = a->pos,
                             .half_n = call->freqs ? clef__n(lo, call->freqs, 0) : 0,
                             .capacity = from->capacity,
                             .scale = from->turn_scale,
                             .eps = from->eps,
                             .paging = a->paging};
    const clef_status s = clef__launch(
        lo,
        &(clef_launch){.source = "heads",
                       .kernel = "attention_heads",
                       .defs = {{"WG", (int32_t)wg},
                                {"D", (int32_t)D},
                                {"E", (int32_t)E},
                                {"K_TYPE", (int32_t)call->k->dtype},
                                {"V_TYPE", (int32_t)call->v->dtype},
                                {"NORM_TYPE", norm ? (int32_t)norm->dtype : DTYPE_NONE},
                                {"PAIRING", call->freqs ? (int32_t)call->pairing : -1},
                                {"POS", call->pos != NULL},
                                {"PAGED", call->pages != NULL}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {H ? CLEF__SCRATCH : NULL, call->k, call->v, q, call->new_k, call->new_v, norm,
                                call->k_norm, call->freqs, call->pos, call->runs, call->pages},
                       .n_bufs = call->pages ? 12 : 10,
                       .groups = {B * T * (H + 2 * Hk)},
                       .local = {wg},
                       .scratch_bytes = H ? (uint64_t)clef__bytes(q, NULL) : 0},
        err);
    if (H) {
        call->q = CLEF__SCRATCH;
        call->args.a.q = (view_args){0, {T * H * D, D, H * D, 1}};
    }
    call->new_k = NULL;
    return s;
}
