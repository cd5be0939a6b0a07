/* Lowering of expert_matmul to units that multiply small matrices (cl/expert/expert_tiles_mma.cl): tiles of
 * pairs, as in the variant `grouped`. x is rounded to bf16, as is W, or both are halves. */
#include "graph/lower/expert/expert_parts.h"
#include "graph/lower/panel/panel_gpu_matrix.h"

/* How a vendor's units divide the work. */
typedef struct unit {
    uint32_t columns;       /* of W, of a group */
    uint32_t plain_columns; /* the same in plain C, where what work-items exchange takes local memory, too */
    uint32_t unit_columns;  /* of a unit, as its registers allow */
    uint32_t unit_rows;     /* pairs of a unit, likewise */
    uint32_t blocks;        /* parts of 32 elements of k in a step */
    uint32_t buffers;       /* steps in local memory */
} unit;

static const unit units[] = {
    [CLEF_MATRIX_NONE] =
        {.columns = 1, .plain_columns = 1, .unit_columns = 1, .unit_rows = 1, .blocks = 1, .buffers = 1},
    [CLEF_MATRIX_MMA] = {.columns = 256,
                         .plain_columns = 128,
                         .unit_columns = 32,
                         .unit_rows = 32,
                         .blocks = 2,
                         .buffers = 1},
    [CLEF_MATRIX_WMMA] = {.columns = 128,
                          .plain_columns = 128,
                          .unit_columns = 16,
                          .unit_rows = 32,
                          .blocks = 2,
                          .buffers = 1},
    [CLEF_MATRIX_DPAS] = {.columns = 128,
                          .plain_columns = 128,
                          .unit_columns = 16,
                          .unit_rows = 32,
                          .blocks = 1,
                          .buffers = 2},
    [CLEF_MATRIX_MFMA] = {.columns = 128,
                          .plain_columns = 128,
                          .unit_columns = 32,
                          .unit_rows = 32,
                          .blocks = 2,
                          .buffers = 1}};

typedef struct shape {
    clef_x_form x;
    uint32_t rows, unit_rows, columns, blocks, buffers, group;
} shape;

static uint64_t local_bytes(const clef_caps *caps, const shape *s)
{
    const uint64_t plain = clef__plain_unit_bytes(caps, s->group);
    const uint32_t columns = caps->matrix == CLEF_MATRIX_DPAS ? 0 : s->columns; /* from memory to registers */
    return (uint64_t)s->buffers * s->blocks * (columns + s->rows) * 64 + s->rows * 12 + plain;
}

/* The form in which the unit multiplies the node's x; CLEF_X_FLOATS: it cannot. */
static clef_x_form form_of(const clef_caps *caps, const clef_value *n)
{
    const clef__expert_attrs *o = clef__expert_attrs_of(n);
    const int has_bf16 = (caps->matrix_types & CLEF_MATRIX_BF16) != 0,
              has_halves = (caps->matrix_types & CLEF_MATRIX_HALVES) != 0;
    const clef_dtype dtype = n->in[1]->dtype;
    if (o->int8 && clef__experts_have_bytes(n))
        return has_bf16 ? CLEF_X_ROW_BF16 : CLEF_X_FLOATS;
    if (!o->half || !o->opts.transpose_b)
        return CLEF_X_FLOATS;
    return dtype == CLEF_BF16 && has_bf16    ? CLEF_X_ROW_BF16
           : dtype == CLEF_F16 && has_halves ? CLEF_X_ROW_HALVES
                                             : CLEF_X_FLOATS;
}

/* The shape of a group, which reads its columns of W and its rows of x; group 0: none fits the device. */
static shape shape_of(const clef_caps *caps, const clef__expert_tiles *t)
{
    const unit *u = &units[caps->matrix];
    const uint32_t unit_rows = u->unit_rows < t->rows ? u->unit_rows : t->rows,
                   unit_items = (uint32_t)clef__matrix_lanes(caps) * (t->rows / unit_rows);
    clef__candidate candidates[CLEF__MOST_CANDIDATES];
    shape shapes[CLEF__MOST_CANDIDATES];
    uint32_t columns = caps->matrix_plain ? u->plain_columns : u->columns;
    int32_t n = 0;
    for (; columns >= u->unit_columns; columns /= 2, n++) {
        shape *s = &shapes[n];
        *s = (shape){.x = t->x,
                     .rows = t->rows,
                     .unit_rows = unit_rows,
                     .columns = columns,
                     .blocks = u->blocks,
                     .buffers = u->buffers,
                     .group = unit_items * (columns / u->unit_columns)};
        if (caps->local_bytes < local_bytes(caps, s))
            s->blocks = 1;
        candidates[n] = (clef__candidate){.items = s->group,
                                          .local_bytes = local_bytes(caps, s),
                                          .n_groups = clef__ceil_div(t->args.a.n, columns),
                                          .time = columns + t->rows};
    }
    const int32_t best = clef__fastest(caps, candidates, n, 1);
    return best < 0 ? (shape){0} : shapes[best];
}

static int matrix_fits(const clef_lowering *lo, const clef_value *n)
{
    const clef_x_form x = form_of(lo->caps, n);
    if (lo->caps->is_cpu || x == CLEF_X_FLOATS || clef__expert_attrs_of(n)->batch_invariant)
        return 0;
    const clef__expert_tiles t = clef__expert_tiles_of(lo, n, x);
    const shape s = shape_of(lo->caps, &t);
    const clef_dtype dtype = n->in[1]->dtype;
    const expert_args *a = &t.args.a;
    return a->k % 32 == 0 && s.group &&
           (!clef__experts_need_aligned(dtype) || clef__expert_rows_aligned(dtype, a->w, a->k));
}

static clef_status matrix_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    const clef_caps *caps = lo->caps;
    const clef__expert_tiles t = clef__expert_tiles_of(lo, n, form_of(caps, n));
    const shape s = shape_of(caps, &t);
    const clef_status status = clef__lower_expert_order(lo, n, &t, err);
    if (status)
        return status;
    return clef__launch(lo,
                        &(clef_launch){.source = "expert_tiles_mma",
                                       .kernel = "expert_tiles_mma",
                                       .c_version = clef__matrix_c_version(caps),
                                       .defs = {{"ROWS", (int32_t)s.rows},
                                                {"COLUMNS", (int32_t)s.columns},
                                                {"UNIT_COLUMNS", (int32_t)units[caps->matrix].unit_columns},
                                                {"UNIT_ROWS", (int32_t)s.unit_rows},
                                                {"BLOCKS", (int32_t)s.blocks},
                                                {"BUFFERS", (int32_t)s.buffers},
                                                {"TAIL", t.args.a.k % (32 * s.blocks) != 0},
                                                {"HALVES", s.x == CLEF_X_ROW_HALVES},
                                                {"W_TYPE", (int32_t)n->in[1]->dtype},
                                                {"BIAS_TYPE", clef__panel_dtype(n->in[3])},
                                                {"MATRIX", (int32_t)caps->matrix},
                                                {"MATRIX_PLAIN", caps->matrix_plain},
                                                {"SUBGROUPS", clef__matrix_subgroups(caps)},
                                                {"SUBGROUP_SIZE", clef__matrix_subgroup_size(caps)}},
                                       .args = &t.args,
                                       .args_bytes = sizeof t.args,
                                       .bufs = {n, CLEF__SCRATCH, n->in[1], CLEF__SCRATCH, n->in[3]},
                                       .n_bufs = 5,
                                       .groups = {clef__ceil_div(t.args.a.n, s.columns), t.tiles},
                                       .local = {s.group}},
                        err);
}

const clef_variant clef__expert_matmul_gpu_mma = {
    .name = "gpu_mma",
    .device_text = CLEF_NEEDS_MATRIX,
    .shape_text = "x that may be rounded, and Q8_0, Q4_0, Q4_K, Q5_K, Q6_K, F16 or BF16",
    .cap = CLEF_CAP(matrix),
    .runs_on = clef__experts_have_groups,
    .fits = matrix_fits,
    .is_default = clef__experts_have_many_pairs,
    .lower = matrix_lower};
