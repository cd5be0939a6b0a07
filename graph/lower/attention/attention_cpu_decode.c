/* attention and cached_attention of a few positions on CPUs. A group computes all queries of a head of k. If
 * there are fewer heads than the cores need, and many keys, it computes a part of the keys. */
#include "graph/lower/attention/attention.h"

enum {
    POSITIONS = 4,       /* most positions of a step */
    MOST_QUERIES = 64,   /* for a head of k, over several positions */
    MOST_VECTORS = 2048, /* most vectors of 64 bytes that the queries' sums may take on the stack */
    WIDE = 16,           /* floats of a vector: wider ones mean 32 registers */
    MOST_ROWS = 7,       /* queries computed together, with two keys each: 14 sums */
    FEW_ROWS = 3,        /* 12 sums of half a vector in 16 registers */
    PARTS_PER_UNIT = 4,  /* so that cores that start late find work */
    LEAST_KEYS = 512     /* fewest keys of a part: fewer are not worth the joining */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Positions that the program has room for. */
static uint32_t positions_of(uint32_t group)
{
    return group * POSITIONS <= MOST_QUERIES ? POSITIONS : group * 2 <= MOST_QUERIES ? 2 : 1;
}

int clef__attention_cpu_decode_takes(uint32_t T, uint32_t group, uint32_t E)
{
    return T <= positions_of(group) &&
           (uint64_t)positions_of(group) * group * clef__ceil_div(E, 16) <= MOST_VECTORS;
}

/* The number of parts of the keys: 1 if the heads keep the cores busy, or the keys are few. */
static uint32_t parts_of(const clef_caps *caps, uint32_t heads, uint32_t keys)
{
    const uint32_t units = caps->n_units > 1 ? (uint32_t)caps->n_units : 1;
    return heads % units == 0
               ? 1
               : least(clef__ceil_div(PARTS_PER_UNIT * units, heads), clef__ceil_div(keys, LEAST_KEYS));
}

/* Memory for the records of the parts, at the symbols' bounds. */
static uint64_t parts_bytes(const clef_lowering *lo, const clef_attention_call *call, uint32_t splits)
{
    const attention_args *a = &call->args.a;
    const uint64_t record = 16 + (uint64_t)clef__ceil_div(clef__n(lo, call->v, 0), 16) * 16;
    return clef__bound_n(lo, call->out, 3) * (uint64_t)a->n[1] * positions_of(a->group) * splits * record *
           sizeof(float);
}

clef_status clef__attention_cpu_decode_launch(clef_lowering *lo, const clef_attention_call *call,
                                              clef_error *err)
{
    attention_cpu_decode_args args = call->args;
    attention_args *a = &args.a;
    const uint32_t most_rows = lo->caps->float_width < WIDE ? FEW_ROWS : MOST_ROWS;
    const uint32_t rows = clef__ceil_div(a->group, clef__ceil_div(a->group, most_rows));
    const uint32_t queries = clef__ceil_div(a->group * positions_of(a->group), rows) * rows;
    const uint32_t heads = a->n[1] / a->group; /* heads of k in all sequences */
    /* The scratch is allocated once, for the largest number of parts that may occur. */
    const uint32_t most = parts_of(lo->caps, heads, clef__most_keys(lo, call));
    const uint64_t scratch = most > 1 ? parts_bytes(lo, call, most) : 0;
    a->splits = parts_of(lo->caps, heads * a->n[0], a->n[3]);
    clef_launch launch = {.source = "attention_cpu_decode",
                          .kernel = "attention_cpu_decode",
                          .defs = {{"ROWS", (int32_t)rows},
                                   {"QUERIES", (int32_t)queries},
                                   CLEF_ATTENTION_DEFS(lo, call),
                                   {"WRITE", call->new_k != NULL}},
                          .args = &args,
                          .args_bytes = sizeof args,
                          .bufs = {call->out, scratch ? CLEF__SCRATCH : NULL, call->q, call->k, call->v,
                                   call->mask, call->pos, call->sinks},
                          .n_bufs = 8,
                          .groups = {a->splits * heads * a->n[0]},
                          .scratch_bytes = scratch};
    if (call->new_k) {
        const clef_value *written[] = {call->new_k, call->new_v, call->freqs, call->q_norm, call->k_norm};
        launch.defs[11] = (clef_def){"TURNED", call->freqs ? (int32_t)clef__n(lo, call->freqs, 0) : 0};
        launch.defs[12] = (clef_def){"PAIRING", (int32_t)call->pairing};
        launch.defs[13] = (clef_def){"NORM_TYPE", call->q_norm ? (int32_t)call->q_norm->dtype : DTYPE_NONE};
        for (uint32_t i = 0; i < sizeof written / sizeof *written; i++)
            launch.bufs[launch.n_bufs++] = written[i];
    }
    clef__add_optional(&launch, call);
    const clef_status s = clef__launch(lo, &launch, err);
    if (s || a->splits == 1)
        return s;
    launch.kernel = "attention_merge";
    launch.n_bufs = 2;
    launch.groups[0] = a->n[0] * a->n[1] * a->n[2];
    return clef__launch(lo, &launch, err);
}
