/* attention: the variants for CPUs, on one kernel. tile: many queries share each chunk of keys. split: few queries (decode), and the keys
 * are cut in parts where there are fewer tiles than the cores want. */
#include "graph/variant.h"

enum {
    TILE_ROWS = 6,       /* with four vectors of keys each: 24 sums, the most that 32 registers hold */
    TILE = 96,           /* queries: what transposing a chunk costs is shared by so many */
    WIDE_TILE = 48,      /* .. where heads are so wide that 96 would leave the second cache */
    SPLIT_POSITIONS = 4, /* most positions of a split */
    PARTS_PER_UNIT = 4,  /* so that cores that come late find work */
    LEAST_KEYS = 256     /* of a part: less is not worth the joining */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t bound_of(const clef_value *v, int32_t i)
{
    return (uint32_t)clef__dim_at(v->graph, clef__dim_right(&v->shape, i), NULL);
}

/* Memory for the records of the parts, at the symbols' bounds. */
static uint64_t parts_bytes(const clef_lowering *lo, const clef_value *n, uint32_t splits, uint32_t queries)
{
    const uint64_t record = 16 + (uint64_t)(clef__n(lo, n, 0) + 15) / 16 * 16;
    return bound_of(n, 3) * (uint64_t)clef__n(lo, n->in[1], 2) * queries * splits * record * sizeof(float);
}

/* tile: the -D constant; args.tile and args.splits are set. */
static clef_status lower_with(clef_lowering *lo, const clef_value *n, const attention_args *args, uint32_t tile, uint32_t rows,
                              uint64_t scratch_bytes, clef_error *err)
{
    const clef_value *q = n->in[0], *k = n->in[1], *v = n->in[2], *mask = n->in[3], *pos = n->in[4];
    const uint32_t heads = clef__n(lo, k, 2), queries = args->group * args->n[2];
    clef_launch launch = {.source = "attention_tile",
                          .kernel = "attention_tile",
                          .defs = {{"TILE", (int32_t)tile},
                                   {"ROWS", (int32_t)rows},
                                   {"D", (int32_t)clef__n(lo, k, 0)},
                                   {"E", (int32_t)clef__n(lo, v, 0)},
                                   {"K_TYPE", (int32_t)k->dtype},
                                   {"V_TYPE", (int32_t)v->dtype},
                                   {"MASK", mask ? (int32_t)mask->dtype : DTYPE_NONE},
                                   {"POS", pos != NULL}},
                          .args = args,
                          .args_bytes = sizeof *args,
                          .bufs = {n, scratch_bytes ? CLEF__SCRATCH : NULL, q, k, v, mask, pos},
                          .n_bufs = 7,
                          .groups = {args->splits * clef__ceil_div(queries, args->tile) * heads * args->n[0]},
                          .scratch_bytes = scratch_bytes};
    const clef_status s = clef__launch(lo, &launch, err);
    if (s || args->splits == 1)
        return s;
    launch.kernel = "attention_merge";
    launch.n_bufs = 2;
    launch.groups[0] = queries * heads * args->n[0];
    return clef__launch(lo, &launch, err);
}

/* ---- tile ---------------------------------------------------------------------------------------------------------------------- */

/* A compiler that takes vectors apart makes nothing good of these kernels, and takes minutes for it. */
static int has_vectors(const clef_caps *caps)
{
    return caps->is_cpu && caps->float_width > 1;
}

static int tile_fits(const clef_lowering *lo, const clef_value *n)
{
    (void)n;
    return has_vectors(lo->caps);
}

static clef_status tile_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    attention_args args = clef__attention_args(lo, n);
    const uint32_t most = clef__n(lo, n->in[1], 0) + clef__n(lo, n->in[2], 0) > 256 ? WIDE_TILE : TILE;
    const uint32_t queries = args.group * args.n[2], heads = clef__n(lo, n->in[1], 2) * args.n[0];
    args.splits = 1;
    args.tile = most;
    while (args.tile > TILE_ROWS * 2 && clef__ceil_div(queries, args.tile) * heads < PARTS_PER_UNIT * (uint32_t)lo->caps->n_units)
        args.tile /= 2; /* a multiple of the rows all the way */
    return lower_with(lo, n, &args, most, TILE_ROWS, 0, err);
}

/* ---- split --------------------------------------------------------------------------------------------------------------------- */

static int split_fits(const clef_lowering *lo, const clef_value *n)
{
    return has_vectors(lo->caps) && clef__n(lo, n, 2) <= SPLIT_POSITIONS;
}

static clef_status split_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    attention_args args = clef__attention_args(lo, n);
    const uint32_t heads = clef__n(lo, n->in[1], 2), rows = clef__ceil_div(args.group, clef__ceil_div(args.group, TILE_ROWS));
    const uint32_t tile = least(clef__ceil_div(SPLIT_POSITIONS * args.group, rows), WIDE_TILE / rows) * rows;
    const uint32_t queries = args.group * args.n[2], wanted = PARTS_PER_UNIT * (uint32_t)lo->caps->n_units;
    const uint32_t parts = clef__ceil_div(wanted, clef__ceil_div(queries, tile) * heads * args.n[0]);
    args.tile = tile;
    args.splits = least(parts, clef__ceil_div(args.n[3], LEAST_KEYS));
    /* The scratch is taken once: what the largest number of parts may want, however many there are now. */
    const uint32_t most = least(clef__ceil_div(wanted, heads), clef__ceil_div(bound_of(n->in[1], 1), LEAST_KEYS));
    const uint64_t scratch = most > 1 ? parts_bytes(lo, n, most, SPLIT_POSITIONS * args.group) : 0;
    return lower_with(lo, n, &args, tile, rows, scratch, err);
}

const clef_variant clef__attention_tile = {.name = "tile", .fits = tile_fits, .lower = tile_lower};
const clef_variant clef__attention_split = {.name = "split", .fits = split_fits, .lower = split_lower};
