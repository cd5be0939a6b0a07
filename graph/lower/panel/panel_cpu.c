/* Lowers panel_matmul on CPUs. A few rows of x need one launch. More rows need a launch that prepares them
 * (norm, 8 bits), and one for each size of token block. */
#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"

enum {
    FEW_ROWS = 4,      /* most rows for one launch of panel_cpu_gemv */
    FEW_INT8_ROWS = 2, /* the same for rows in 8 bits: each group rounds them again */
    SHORT_ROW_BYTES = 8192,
    REST_STEP = 4,         /* the rest after blocks of TOKEN_BLOCK rows is filled up to a multiple */
    EXACT_FEW_ROWS = 8,    /* up to so many rows of x in f32, a weight in blocks is decoded as it is read;
                              more rows share decoded weights */
    ONE_READING_ROWS = 16, /* up to so many rows of x in 8 bits share one reading of the weight */
    STRIP_GROUPS = 16,     /* of panel_cpu_gemm_int8 for a unit, wanted so that the units end together */
    GROUPS_PER_UNIT = 8,   /* of panel_cpu_gemv, if each has MIN_SPAN tiles; more balance the load better,
                              fewer prepare x less often and read longer pieces of the weight */
    ALIKE_UNITS = 4,       /* processors with so few cores have cores of one speed */
    ALIKE_GROUPS = 2,      /* GROUPS_PER_UNIT for them. With two idle Zen 5 cores, decoding in Q4_0 and Q8_0
                              is 2 to 4 % faster than with 8 groups. Without huge pages, where a core's
                              prefetcher stops at the end of each page, it is 1 to 18 % faster. */
    MIN_SPAN = 6
};

static int is_floats(const clef_panel_matmul_opts *o)
{
    return clef_dtype_block_elems((clef_dtype)o->dtype) == 1;
}

/* ---- a few rows ------------------------------------------------------------------------------ */

/* Bytes of a prepared row, rounded up to a power of two, so that rows of similar length share a program, and
 * short ones all. */
static uint32_t row_bytes(const clef_panel_matmul_opts *o)
{
    const uint32_t needed = clef__is_int8(o) ? TOKEN_BYTES((uint32_t)o->k, 0) : (uint32_t)o->k * 4;
    uint32_t bytes = SHORT_ROW_BYTES;
    while (bytes < needed)
        bytes *= 2;
    return bytes;
}

static uint32_t tokens_a_group(uint32_t m)
{
    return m == 3 ? 4 : m;
}

static int fits_gemv(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const uint32_t m = clef__rows(lo, n), most = clef__is_int8(o) ? FEW_INT8_ROWS : FEW_ROWS;
    return m <= most && !o->batch_invariant && o->k <= 1 << 24 && (is_floats(o) || clef__is_int8(o)) &&
           (uint64_t)tokens_a_group(m) * row_bytes(o) <= lo->caps->local_bytes;
}

/* Tiles of the result for a work-group. All groups get the same number, so that each compute unit runs a
 * whole number of groups. */
static uint32_t span_of(const clef_lowering *lo, const clef_panel_matmul_opts *o)
{
    const uint32_t tiles = clef__ceil_div((uint32_t)o->n, PANEL_ROWS),
                   units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1;
    const uint32_t smallest = o->act == CLEF_PANEL_SWIGLU ? MIN_SPAN / 2 : MIN_SPAN;
    uint32_t a_unit = tiles / units / smallest;
    const uint32_t most = units <= ALIKE_UNITS ? ALIKE_GROUPS : GROUPS_PER_UNIT;
    a_unit = a_unit < 1 ? 1 : a_unit > most ? most : a_unit;
    if (clef__tunable(lo, 0))
        a_unit = (uint32_t)clef__tunable(lo, 0);
    return clef__ceil_div(tiles, units * a_unit);
}

/* Prefetch hints help, except for weights in floats on AMD's cores. Those read 52 GB/s without hints and 40
 * GB/s with them (Zen 4, two cores, pages of 2 MiB). Weights in blocks are multiplied too slowly to show a
 * difference. */
static int gives_hints(const clef_lowering *lo, const clef_panel_matmul_opts *o)
{
    const int32_t tuned = clef__tunable(lo, 1);
    return tuned ? tuned == PANEL_PREFETCH : !(is_floats(o) && lo->caps->x86_amd);
}

static clef_status lower_gemv(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const panel_gemv_args args = {
        .p = clef__panel_args(lo, n), .rows = clef__panel_rows_args(lo, n), .span = span_of(lo, o)};
    return clef__launch(
        lo,
        &(clef_launch){.source = "panel_cpu_gemv",
                       .kernel = "panel_cpu_gemv",
                       .defs = {{"NT", (int32_t)tokens_a_group(args.p.m)},
                                {"ROW_BYTES", (int32_t)row_bytes(o)},
                                {"W_TYPE", (int32_t)o->dtype},
                                {"BIAS_TYPE", clef__panel_type_of(n, PANEL_BIAS)},
                                {"ACT", (int32_t)o->act},
                                {"NORM_WEIGHT_TYPE", clef__panel_type_of(n, PANEL_NORM_WEIGHT)},
                                {"NORM_BIAS_TYPE", clef__panel_type_of(n, PANEL_NORM_BIAS)},
                                {"DOT", lo->serving->method},
                                {gives_hints(lo, o) ? NULL : "PREFETCH", 0}},
                       .args = &args,
                       .args_bytes = sizeof args,
                       .bufs = {n, n->in[PANEL_X], n->in[PANEL_PACKED], n->in[PANEL_BIAS],
                                n->in[PANEL_RESIDUAL], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
                       .n_bufs = 7,
                       .groups = {clef__ceil_div(clef__ceil_div(args.p.n, PANEL_ROWS), args.span)}},
        err);
}

/* ---- many rows ------------------------------------------------------------------------------- */

/* Rows of a token block with which m rows of x are one block, or two equal ones whose groups follow each
 * other, so that the weight is read from memory once. Rows beyond the last are dropped. 0: for more rows
 * arithmetic takes longer than reading, so they are split without waste. */
static uint32_t shared_block(const clef_panel_matmul_opts *o, uint32_t m)
{
    if (!clef__is_int8(o) || m < 2 || m > ONE_READING_ROWS)
        return 0;
    const uint32_t rows = m > 8 ? clef__ceil_div(m, 2) : m;
    return clef__ceil_div(rows, 2) * 2;
}

static clef_status lower_rows(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    rows_args args = clef__panel_rows_args(lo, n);
    args.block = shared_block(o, args.m);
    args.words = lo->serving->method == CLEF_DOT_AVX2 && clef__is_int8(o) &&
                 clef__panel_codes_are_bytes(o->dtype) && (!args.block || args.block >= STRIP_LEAST);
    const uint32_t fill = args.block         ? args.block
                          : clef__is_int8(o) ? REST_STEP
                                             : 1,
                   stored = clef__ceil_div(args.m, fill) * fill; /* TOKEN_BLOCK is a multiple, too */
    return clef__launch(
        lo,
        &(clef_launch){
            .source = "panel_cpu_activations_int8",
            .kernel = "panel_cpu_activations_int8",
            .defs = {{"NORM_WEIGHT_TYPE", clef__panel_type_of(n, PANEL_NORM_WEIGHT)},
                     {"NORM_BIAS_TYPE", clef__panel_type_of(n, PANEL_NORM_BIAS)},
                     {"QUANTISE", clef__is_int8(o)}},
            .args = &args,
            .args_bytes = sizeof args,
            .bufs = {CLEF__SCRATCH, n->in[PANEL_X], n->in[PANEL_NORM_WEIGHT], n->in[PANEL_NORM_BIAS]},
            .n_bufs = 4,
            .groups = {stored},
            .scratch_bytes = (uint64_t)stored *
                             (clef__is_int8(o) ? TOKEN_BYTES(args.k, args.words) : (uint64_t)args.k * 4)},
        err);
}

/* Blocks of tokens for a group, of `blocks` of `size` tokens. Processors with few and small registers decode
 * a tile once for a group (cl/panel/panel_cpu_strip.h), so they get several, as long as there are enough
 * groups. */
static uint32_t blocks_a_group(const clef_lowering *lo, const clef_panel_matmul_opts *o, uint32_t size,
                               uint32_t blocks, uint32_t tiles)
{
    const uint32_t units = lo->caps->n_units > 0 ? (uint32_t)lo->caps->n_units : 1;
    uint32_t most = STRIP_TOKENS / size;
    if (!clef__is_int8(o) || size < STRIP_LEAST ||
        (lo->serving->method != CLEF_DOT_AVX2 && lo->serving->method != CLEF_DOT_AVXVNNI))
        return 1;
    while (most > 1 && clef__ceil_div(blocks, most) * tiles < STRIP_GROUPS * units)
        most--;
    return clef__ceil_div(blocks, clef__ceil_div(blocks, most)); /* so that all groups are alike */
}

/* Launches `blocks` blocks of `size` rows of x, from args->first on. Their groups follow each other, tile by
 * tile. */
static clef_status launch_blocks(clef_lowering *lo, const clef_value *n, panel_args *args, uint32_t size,
                                 uint32_t blocks, const clef_value *x, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const char *stem = clef__is_int8(o) ? "panel_cpu_gemm_int8"
                                        : "panel_cpu_gemv_exact"; /* the name of the file and of its kernel */
    const uint32_t tiles = clef__ceil_div((uint32_t)o->n, PANEL_ROWS);
    const uint32_t groups = clef__is_int8(o) || o->act == CLEF_PANEL_SWIGLU
                                ? tiles
                                : clef__ceil_div(tiles, PANEL_PAD / PANEL_ROWS);
    args->blocks = blocks_a_group(lo, o, size, blocks, tiles);
    args->pairs = blocks;
    return clef__launch(
        lo,
        &(clef_launch){.source = stem,
                       .kernel = stem,
                       .defs = {{"NT", (int32_t)size},
                                {"W_TYPE", (int32_t)o->dtype},
                                {"BIAS_TYPE", clef__panel_type_of(n, PANEL_BIAS)},
                                {"ACT", (int32_t)o->act},
                                {"DOT", lo->serving->method},
                                {size < TOKEN_BLOCK && gives_hints(lo, o) ? "STREAMS" : NULL, 1}},
                       .args = args,
                       .args_bytes = sizeof *args,
                       .bufs = {n, x, n->in[PANEL_PACKED], n->in[PANEL_BIAS], n->in[PANEL_RESIDUAL]},
                       .n_bufs = 5,
                       .groups = {clef__ceil_div(blocks, args->blocks), groups}},
        err);
}

/* Rows of the next blocks, where `left` rows are left: in 8 bits as many blocks of 12 as possible, then one
 * that copies of the last row fill; exact: blocks of 8, 4, 2 and 1. */
static uint32_t block_size(const clef_panel_matmul_opts *o, uint32_t left)
{
    uint32_t size = EXACT_FEW_ROWS;
    if (clef__is_int8(o))
        return left >= TOKEN_BLOCK ? TOKEN_BLOCK : clef__ceil_div(left, REST_STEP) * REST_STEP;
    while (size > left)
        size /= 2;
    return size;
}

/* Lowers a product with a weight in blocks. A few rows of x in 8 bits are blocks of one size. */
static clef_status lower_blocks(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    const int prepared = clef__is_int8(o) || o->norm || !clef__is_dense(n->in[PANEL_X]);
    const clef_value *x = prepared ? CLEF__SCRATCH : n->in[PANEL_X];
    panel_args args = clef__panel_args(lo, n);
    const uint32_t shared = shared_block(o, args.m);
    clef_status status = prepared ? lower_rows(lo, n, err) : CLEF_OK;
    if (prepared)
        args.x = 0;
    if (shared && !status)
        return launch_blocks(lo, n, &args, shared, clef__ceil_div(args.m, shared), x, err);
    while (!status && args.first < args.m) {
        const uint32_t left = args.m - args.first, size = block_size(o, left),
                       blocks = left < size ? 1 : left / size;
        status = launch_blocks(lo, n, &args, size, blocks, x, err);
        args.first += blocks * size;
    }
    return status;
}

clef_status clef__lower_panel_cpu(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    if (fits_gemv(lo, n))
        return lower_gemv(lo, n, err);
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    if (!is_floats(o) && (clef__is_int8(o) || (clef__rows(lo, n) <= EXACT_FEW_ROWS && !o->batch_invariant)))
        return lower_blocks(lo, n, err);
    return clef__lower_panel_cpu_f32(lo, n, err);
}
