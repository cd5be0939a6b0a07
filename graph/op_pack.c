/* pack: a weight in the panel layout that CPUs multiply fast. */
#include "graph/panel.h"

static const clef_attr_def pack_attrs[] = {
    {"in_out", CLEF_ATTR_INT, offsetof(clef_pack_opts, in_out), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef_pack(clef_graph *g, clef_value *weight, const clef_pack_opts *opts)
{
    return clef__node(g, CLEF_OP_pack, &weight, 1, opts);
}

static void rows_and_columns(const clef_value *n, int64_t *rows, int64_t *columns)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_shape *w = &n->in[0]->shape;
    *rows = w->dim[o->in_out ? 1 : 0].n;
    *columns = w->dim[o->in_out ? 0 : 1].n;
}

static clef_status pack_infer(clef_value *n, clef_error *err)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_value *w = n->in[0];
    char text[96];
    int64_t rows, columns;
    if (w->shape.rank != 2 || w->shape.dim[0].symbol || w->shape.dim[1].symbol)
        return clef__fail(err, CLEF_E_SHAPE, "weight %s, wanted two dims in numbers", clef__shape_text(n->graph, &w->shape, text));
    rows_and_columns(n, &rows, &columns);
    if (!clef__panel_has(w->dtype, columns) || (o->in_out && clef_dtype_block_elems(w->dtype) > 1))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s %s has no panel layout%s", clef_dtype_name(w->dtype),
                          clef__shape_text(n->graph, &w->shape, text), o->in_out ? " with in_out" : "");
    n->dtype = CLEF_I8;
    n->shape = clef_shape_1(clef_n(clef__panel_bytes(w->dtype, rows, columns)));
    return CLEF_OK;
}

/* The inverse of clef__panel_element, for every element: written by its own rule, so that the two check each other. */
static void pack_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_dtype dtype = n->in[0]->dtype;
    int64_t rows, columns;
    rows_and_columns(n, &rows, &columns);
    const int64_t block = clef_dtype_block_elems(dtype), size = clef_dtype_block_bytes(dtype), total = out->n[3];
    for (int64_t i = 0; i < total; i++)
        out->x[i] = 0;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < columns; col += block) {
            float x[32];
            unsigned char raw[64];
            for (int64_t j = 0; j < block; j++)
                x[j] = (float)in[0].x[o->in_out ? (col + j) * rows + row : row * columns + col + j];
            clef_dtype_encode(dtype, x, (size_t)block, raw); /* what was decoded encodes to the same bytes */
            const int64_t tile = row / PANEL_ROWS, r = row % PANEL_ROWS, b = tile * (columns / block) + col / block;
            if (block == 1) {
                for (int64_t j = 0; j < size; j++)
                    out->x[(b * PANEL_ROWS + r) * size + j] = (signed char)raw[j];
                continue;
            }
            const int64_t quants = size - 2, scales = (rows + PANEL_PAD - 1) / PANEL_PAD * PANEL_PAD * (columns / 32) * quants;
            for (int64_t j = 0; j < 2; j++)
                out->x[scales + (b * PANEL_ROWS + r) * 2 + j] = (signed char)raw[j];
            for (int64_t j = 0; j < quants; j++)
                out->x[b * quants * PANEL_ROWS + j / 4 * 64 + r * 4 + j % 4] = (signed char)(raw[2 + j] ^ (dtype == CLEF_Q8_0 ? 0x80 : 0));
        }
    /* padded rows of q8_0 repeat the last row's quants; their scales are zero */
    for (int64_t row = rows; dtype != CLEF_F32 && block > 1 && row < (rows + PANEL_PAD - 1) / PANEL_PAD * PANEL_PAD; row++) {
        const int64_t quants = size - 2, last = rows - 1;
        for (int64_t b = 0; b < columns / 32; b++)
            for (int64_t j = 0; j < quants; j++) {
                const int64_t at = j / 4 * 64 + j % 4;
                out->x[(row / PANEL_ROWS * (columns / 32) + b) * quants * PANEL_ROWS + at + row % PANEL_ROWS * 4] =
                    out->x[(last / PANEL_ROWS * (columns / 32) + b) * quants * PANEL_ROWS + at + last % PANEL_ROWS * 4];
            }
    }
}

static clef_cost pack_cost(const clef_value *n, const int64_t *symbols)
{
    return (clef_cost){.bytes = (double)(clef__bytes(n->in[0], symbols) + clef__bytes(n, symbols))};
}

static clef_status pack_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_value *w = n->in[0];
    int64_t rows, columns;
    rows_and_columns(n, &rows, &columns);
    const pack_args args = {.n = (args_uint)rows,
                            .k = (args_uint)columns,
                            .w = clef__view(lo, w).offset,
                            .row_stride = o->in_out ? 1 : (args_uint)columns,
                            .col_stride = o->in_out ? (args_uint)rows : 1};
    return clef__launch(lo,
                        &(clef_launch){.source = "pack",
                                       .kernel = "pack",
                                       .defs = {{"W_TYPE", (int32_t)w->dtype}},
                                       .args = &args,
                                       .args_bytes = sizeof args,
                                       .bufs = {n, w},
                                       .n_bufs = 2,
                                       .groups = {clef__ceil_div(args.n, PANEL_PAD) * (PANEL_PAD / PANEL_ROWS)}},
                        err);
}

static const clef_op_case pack_cases[] = {
    {.graph = "weight w f32 [1, 1]\ny = pack(w)\noutput y\n"},
    {.graph = "weight w f32 [37, 19]\ny = pack(w)\noutput y\n"},
    {.graph = "weight w f16 [19, 70]\ny = pack(w) in_out=1\noutput y\n"},
    {.graph = "weight w bf16 [64, 33]\ny = pack(w)\noutput y\n"},
    {.graph = "weight w q8_0 [37, 96]\ny = pack(w)\noutput y\n"},
    {.graph = "weight w q4_0 [70, 64]\ny = pack(w)\noutput y\n"},
    {.graph = NULL},
};

const clef_op_def clef__op_pack = {
    .name = "pack",
    .formula = "out = weight in panels of 16 rows, as bytes",
    .n_min = 1,
    .n_max = 1,
    .in = {CLEF_IN_WEIGHT | CLEF_IN_DENSE},
    .attrs = pack_attrs,
    .attr_bytes = sizeof(clef_pack_opts),
    .infer = pack_infer,
    .ref = pack_ref,
    .cost = pack_cost,
    .lower = pack_lower,
    .cases = pack_cases,
    .tol = 0, /* bytes */
};
