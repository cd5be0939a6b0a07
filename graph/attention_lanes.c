/* attention: the variant for every device. A group of work-items takes one query. */
#include "graph/variant.h"

static int fits(const clef_lowering *lo, const clef_value *n)
{
    (void)lo;
    (void)n;
    return 1;
}

static clef_status lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_value *q = n->in[0], *k = n->in[1], *v = n->in[2], *mask = n->in[3], *pos = n->in[4];
    const attention_args args = clef__attention_args(lo, n);
    const uint32_t wg = clef__fit_local(lo, 128);
    return clef__launch(lo,
                        &(clef_launch){.source = "attention",
                                       .kernel = "attention",
                                       .defs = {{"WG", (int32_t)wg},
                                                {"D", (int32_t)clef__n(lo, k, 0)},
                                                {"E", (int32_t)clef__n(lo, v, 0)},
                                                {"K_TYPE", (int32_t)k->dtype},
                                                {"V_TYPE", (int32_t)v->dtype},
                                                {"MASK", mask ? (int32_t)mask->dtype : DTYPE_NONE},
                                                {"POS", pos != NULL}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, q, k, v, mask, pos},
                                       .n_bufs = 6,
                                       .groups = {args.n[0] * args.n[1] * args.n[2]},
                                       .local = {wg}},
                        err);
}

const clef_variant clef__attention_lanes = {.name = "lanes", .fits = fits, .lower = lower};
