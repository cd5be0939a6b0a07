/* pack: repacks weights as panels (cl/panel/panel.h). */
#include "graph/lower/choose.h"
#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"
#include "graph/shrink.h"

enum { MAX_WEIGHTS = 4, MAX_BLOCK_ELEMS = 256, MAX_BLOCK_BYTES = 256, BY_GROUPS = 1 };

static const clef_attr_def pack_attrs[] = {
    {"in_out", CLEF_ATTR_INT, offsetof(clef_pack_opts, in_out), NULL},
    {"interleave", CLEF_ATTR_INT, offsetof(clef_pack_opts, interleave), NULL},
    {NULL, 0, 0, NULL},
};

clef_value *clef__pack(clef_graph *g, clef_value *const *weights, int32_t n, const clef_pack_opts *opts)
{
    return clef__node(g, CLEF_OP_pack, weights, n, opts);
}

static int64_t rows_of(const clef_value *n, int32_t i)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_shape *w = &n->in[i]->shape;
    return w->dim[o->in_out ? 1 : 0].n * (w->rank == 3 ? w->dim[1].n : 1);
}

static int64_t columns_of(const clef_value *n, int32_t i)
{
    const clef_pack_opts *o = (const void *)n->attr;
    return n->in[i]->shape.dim[o->in_out ? 0 : n->in[i]->shape.rank - 1].n;
}

static int64_t all_rows(const clef_value *n)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < n->n_in; i++)
        rows += rows_of(n, i);
    return rows;
}

/* The index of tile `tile` of input i among the tiles of all inputs. */
static int64_t place_of_tile(const clef_value *n, int32_t i, int64_t tile)
{
    const clef_pack_opts *o = (const void *)n->attr;
    if (o->interleave)
        return 2 * tile + i;
    for (int32_t k = 0; k < i; k++)
        tile += rows_of(n, k) / PANEL_ROWS;
    return tile;
}

static clef_status infer_weight(const clef_value *n, int32_t i, clef_error *err)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_value *w = n->in[i];
    char text[96];
    const char *shape = clef__shape_text(n->graph, &w->shape, text);
    if ((w->shape.rank != 2 && (w->shape.rank != 3 || o->in_out)) || w->shape.dim[0].symbol ||
        w->shape.dim[1].symbol || w->shape.dim[w->shape.rank - 1].symbol)
        return clef__fail(err, CLEF_E_SHAPE,
                          "weight %s %s, expected two dims in numbers, or three without in_out", w->name,
                          shape);
    if (w->dtype != n->in[0]->dtype || columns_of(n, i) != columns_of(n, 0))
        return clef__fail(err, CLEF_E_SHAPE,
                          "weight %s %s of %lld columns, expected %s of %lld as the first has", w->name,
                          clef_dtype_name(w->dtype), (long long)columns_of(n, i),
                          clef_dtype_name(n->in[0]->dtype), (long long)columns_of(n, 0));
    if (!clef__panel_has(w->dtype, columns_of(n, i)) || (o->in_out && clef_dtype_block_elems(w->dtype) > 1))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s %s has no panel layout%s", clef_dtype_name(w->dtype),
                          shape, o->in_out ? " with in_out" : "");
    if (!o->interleave && i + 1 < n->n_in && rows_of(n, i) % PANEL_PAD)
        return clef__fail(err, CLEF_E_SHAPE, "weight %s of %lld rows, expected a multiple of %d", w->name,
                          (long long)rows_of(n, i), PANEL_PAD);
    return CLEF_OK;
}

static clef_status pack_infer(clef_value *n, clef_error *err)
{
    const clef_pack_opts *o = (const void *)n->attr;
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n->n_in && !s; i++)
        s = infer_weight(n, i, err);
    if (s)
        return s;
    if (o->interleave && (n->n_in != 2 || rows_of(n, 0) != rows_of(n, 1)))
        return clef__fail(err, CLEF_E_SHAPE,
                          "interleave of %d weights of %lld and %lld rows, expected two alike", n->n_in,
                          (long long)rows_of(n, 0), (long long)rows_of(n, n->n_in - 1));
    n->dtype = CLEF_I8;
    n->shape = clef_shape_1(clef_n(clef__panel_bytes(n->in[0]->dtype, all_rows(n), columns_of(n, 0))));
    return CLEF_OK;
}

/* The bytes of a block of input i: those of the file if they are known, else the decoded values encoded
 * again. */
static const unsigned char *stored_block(const clef_value *n, const clef_ref_tensor *in, int32_t i,
                                         int64_t row, int64_t col, unsigned char room[MAX_BLOCK_BYTES])
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_dtype dtype = n->in[0]->dtype;
    const int64_t block = clef_dtype_block_elems(dtype), columns = columns_of(n, i), rows = rows_of(n, i);
    float x[MAX_BLOCK_ELEMS];
    if (in[i].stored && block > 1)
        return (const unsigned char *)in[i].stored +
               (row * columns + col) / block * clef_dtype_block_bytes(dtype);
    for (int64_t j = 0; j < block; j++)
        x[j] = (float)in[i].x[o->in_out ? (col + j) * rows + row : row * columns + col + j];
    clef_dtype_encode(dtype, x, (size_t)block, room);
    return room;
}

/* ---- the reference: the inverse of clef__panel_element, by rules of its own, so that the two check each
 * other ---- */

static unsigned nibble_of(const unsigned char *p, int64_t i)
{
    return i < 16 ? p[i] & 15u : p[i - 16] >> 4;
}

static unsigned nibble_of_64(const unsigned char *p, int64_t i)
{
    return (unsigned)p[i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15u;
}

/* The code of element i of a stored block (the layouts: cl/blocks.h). */
static unsigned stored_code(clef_dtype dtype, const unsigned char *raw, int64_t i)
{
    const unsigned char *end = raw + clef_dtype_block_bytes(dtype);
    switch (dtype) {
    case CLEF_Q8_0:
        return raw[2 + i] ^ 0x80u;
    case CLEF_I8_32:
    case CLEF_I8_64:
        return raw[5 + i] ^ 0x80u;
    case CLEF_I4_64:
    case CLEF_A4_64:
        return nibble_of(end - 32 + i / 32 * 16, i % 32);
    case CLEF_Q5_0:
    case CLEF_Q5_1:
        return nibble_of(end - 16, i) | ((unsigned)end[-20 + i / 8] >> i % 8 & 1u) << 4;
    case CLEF_Q4_K:
        return nibble_of_64(raw + 16, i);
    case CLEF_Q5_K:
        return nibble_of_64(raw + 48, i) | ((unsigned)raw[16 + i % 32] >> i / 32 & 1u) << 4;
    case CLEF_Q6_K:
        return ((unsigned)raw[i / 128 * 64 + i % 64] >> i % 128 / 64 * 4 & 15u) |
               ((unsigned)raw[128 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3u) << 4;
    case CLEF_IQ4_XS:
        return nibble_of(raw + 8 + i / 32 * 16, i % 32);
    case CLEF_NVFP4:
        return (unsigned)raw[4 + i / 16 * 8 + i % 8] >> i % 16 / 8 * 4 & 15u;
    default:
        return nibble_of(end - 16, i); /* q4_0, q4_1, iq4_nl, mxfp4 */
    }
}

/* Says where bytes of a block that are not codes are stored: `n` bytes from offset `from` of the block to
 * offset `to`. Pieces of `each` bytes are stored for all 16 rows before the next pieces. */
typedef struct scale_move {
    int32_t from, to, n, each;
} scale_move;

enum { MAX_MOVES = 4 };

static const scale_move *scale_moves(clef_dtype dtype)
{
    static const scale_move half[MAX_MOVES] = {{0, 0, 2, 2}}, two[MAX_MOVES] = {{0, 0, 4, 2}},
                            byte[MAX_MOVES] = {{0, 0, 1, 1}}, word[MAX_MOVES] = {{0, 0, 4, 4}},
                            zero[MAX_MOVES] = {{0, 0, 2, 2}, {2, 32, 1, 1}},
                            affine[MAX_MOVES] = {{0, 0, 4, 2}, {4, 64, 1, 1}},
                            zero_8[MAX_MOVES] = {{0, 0, 4, 4}, {4, 64, 1, 1}};
    static const scale_move k[MAX_MOVES] = {{4, 0, 12, 4}, {0, 192, 4, 2}},
                            q6_k[MAX_MOVES] = {{192, 0, 16, 4}, {208, 256, 2, 2}};
    static const scale_move iq4_xs[MAX_MOVES] = {{4, 0, 4, 4}, {2, 64, 2, 2}, {0, 96, 2, 2}};
    switch (dtype) {
    case CLEF_Q4_1:
    case CLEF_Q5_1:
        return two;
    case CLEF_MXFP4:
        return byte;
    case CLEF_NVFP4:
        return word;
    case CLEF_I4_32:
    case CLEF_I4_64:
        return zero;
    case CLEF_A4_32:
    case CLEF_A4_64:
        return affine;
    case CLEF_I8_32:
    case CLEF_I8_64:
        return zero_8;
    case CLEF_Q4_K:
    case CLEF_Q5_K:
        return k;
    case CLEF_Q6_K:
        return q6_k;
    case CLEF_IQ4_XS:
        return iq4_xs;
    default:
        return half;
    }
}

/* Sets bits in a byte of the result, which is stored as a signed number. */
static void add_bits(double *byte, unsigned bits)
{
    const unsigned sum = ((unsigned)(int)*byte & 255u) | bits;
    *byte = (double)(sum < 128 ? (int)sum : (int)sum - 256);
}

/* Writes row r's codes of 32 columns to their vectors. */
static void put_codes(clef_dtype dtype, const unsigned char *raw, int64_t first, double *to, int64_t r)
{
    for (int64_t i = 0; i < 32; i++) {
        const unsigned code = stored_code(dtype, raw, first + i);
        const int64_t byte = r * 4 + i % 4;
        if (dtype == CLEF_Q8_0 || dtype == CLEF_I8_32 || dtype == CLEF_I8_64) {
            add_bits(&to[i / 4 * 64 + byte], code);
            continue;
        }
        add_bits(&to[i % 16 / 4 * 64 + byte], (code & 15u) << i / 16 * 4);
        if (dtype == CLEF_Q6_K)
            add_bits(&to[256 + i / 16 * 64 + byte], code >> 4 << i % 16 / 4 * 2);
        else if (code >> 4)
            add_bits(&to[256 + byte], 1u << i / 4);
    }
}

/* Writes row r of block b; b counts through all tiles, one after the other. */
static void put_block(clef_dtype dtype, const unsigned char *raw, clef_ref_tensor *out, int64_t b, int64_t r)
{
    const int64_t block = clef_dtype_block_elems(dtype), size = clef_dtype_block_bytes(dtype),
                  all = out->n[3] / size;
    int64_t beside = 0; /* bytes of a stored block that are not codes */
    for (const scale_move *m = scale_moves(dtype); m->n; m++)
        beside += m->n;
    for (int64_t i = 0; i < block; i += 32)
        put_codes(dtype, raw, i,
                  out->x + (b * PANEL_ROWS * (size - beside)) +
                      i / 32 * ((size - beside) / (block / 32)) * PANEL_ROWS,
                  r);
    double *scales = out->x + all * (size - beside) + b * beside * PANEL_ROWS;
    for (const scale_move *m = scale_moves(dtype); m->n; m++)
        for (int32_t j = 0; j < m->n; j++)
            scales[m->to + j / m->each * m->each * PANEL_ROWS + r * m->each + j % m->each] =
                (signed char)raw[m->from + j];
}

/* Rows of input i, with the zeros that pad them. If inputs are interleaved, each is padded to whole tiles;
 * otherwise only the last one is padded. */
static int64_t rows_with_pad(const clef_value *n, int32_t i)
{
    const clef_pack_opts *o = (const void *)n->attr;
    if (o->interleave)
        return (rows_of(n, i) + PANEL_ROWS - 1) / PANEL_ROWS * PANEL_ROWS;
    const int64_t all = all_rows(n), pad = (PANEL_PAD - all % PANEL_PAD) % PANEL_PAD;
    return rows_of(n, i) + (i + 1 == n->n_in ? pad : 0);
}

static void pack_ref(const clef_value *n, const clef_ref_tensor *in, clef_ref_tensor *out)
{
    const clef_dtype dtype = n->in[0]->dtype;
    const int64_t columns = columns_of(n, 0), block = clef_dtype_block_elems(dtype),
                  size = clef_dtype_block_bytes(dtype);
    for (int64_t i = 0; i < out->n[3]; i++)
        out->x[i] = 0;
    for (int32_t i = 0; i < n->n_in; i++)
        for (int64_t row = 0; row < rows_with_pad(n, i); row++)
            for (int64_t col = 0; col < columns; col += block) {
                unsigned char room[MAX_BLOCK_BYTES] = {0};
                const unsigned char *raw =
                    row < rows_of(n, i) ? stored_block(n, in, i, row, col, room) : room;
                const int64_t tile = place_of_tile(n, i, row / PANEL_ROWS), r = row % PANEL_ROWS,
                              b = tile * (columns / block) + col / block;
                if (block > 1)
                    put_block(dtype, raw, out, b, r);
                for (int64_t j = 0; j < size && block == 1; j++)
                    out->x[(b * PANEL_ROWS + r) * size + j] = (signed char)raw[j];
            }
}

static clef_cost pack_cost(const clef_value *n, const int64_t *symbols)
{
    clef_cost cost = {.bytes = (double)clef__bytes(n, symbols)};
    for (int32_t i = 0; i < n->n_in; i++)
        cost.bytes += (double)clef__bytes(n->in[i], symbols);
    return cost;
}

/* The number of tiles of input i for one launch. When a plan is made, weights pass through memory launch by
 * launch. So a large weight is cut in pieces, if its rows are contiguous. */
static uint32_t tiles_of_piece(const clef_value *n, int32_t i, uint32_t tiles)
{
    enum { PIECE_BYTES = 8 << 20 };
    const clef_pack_opts *o = (const void *)n->attr;
    const int64_t tile_bytes = clef__bytes(n->in[i], NULL) / rows_of(n, i) * PANEL_ROWS;
    const uint32_t most = clef__ceil_div(tiles, PACK_MAX_PIECES),
                   fit = (uint32_t)(PIECE_BYTES / (tile_bytes + 1)) + 1;
    return o->in_out ? tiles : most > fit ? most : fit;
}

/* Launches that pack `now` tiles: on GPUs by many work-items, else one a tile. */
static clef_launch launch_of(const clef_lowering *lo, const clef_value *n, const clef_value *w, uint32_t now)
{
    const int64_t each =
        clef_dtype_block_elems(w->dtype) > 1 ? clef_dtype_block_elems(w->dtype) : PACK_COLUMNS;
    const uint32_t items = clef__group_most(lo->caps) / PANEL_ROWS * PANEL_ROWS,
                   steps = clef__ceil_div((uint32_t)columns_of(n, 0), (uint32_t)each);
    const int by_groups = lo->serving->method == BY_GROUPS;
    return (clef_launch){.source = by_groups ? "pack_gpu" : "pack",
                         .kernel = by_groups ? "pack_gpu" : "pack",
                         .defs = {{"W_TYPE", (int32_t)w->dtype}},
                         .args_bytes = sizeof(pack_args),
                         .bufs = {n, w},
                         .n_bufs = 2,
                         .groups = {now, by_groups ? clef__ceil_div(steps, items / PANEL_ROWS) : 1},
                         .local = {by_groups ? items : 1}};
}

static clef_status pack_weight(clef_lowering *lo, const clef_value *n, int32_t i, clef_error *err)
{
    const clef_pack_opts *o = (const void *)n->attr;
    const clef_value *w = n->in[i];
    const uint32_t tiles = clef__ceil_div((uint32_t)all_rows(n), PANEL_PAD) * (PANEL_PAD / PANEL_ROWS);
    pack_args args = {.n = (args_uint)rows_of(n, i),
                      .k = (args_uint)columns_of(n, i),
                      .row_stride = o->in_out ? 1 : (args_uint)columns_of(n, i),
                      .col_stride = o->in_out ? (args_uint)rows_of(n, i) : 1,
                      .tile = (args_uint)place_of_tile(n, i, 0),
                      .step = o->interleave ? 2 : 1,
                      .tiles = tiles};
    const int is_last = !o->interleave && i + 1 == n->n_in;
    const uint32_t mine =
        is_last ? tiles - args.tile : clef__ceil_div(args.n, PANEL_ROWS); /* the last input's padding, too */
    const uint32_t piece = tiles_of_piece(n, i, mine);
    const uint64_t row_bytes = (uint64_t)clef__bytes(w, NULL) / args.n;
    uint64_t at = 0;
    clef_status s = CLEF_OK;
    for (uint32_t left = mine, now; left > 0 && !s; left -= now) {
        now = args.n > piece * PANEL_ROWS ? piece : left; /* the padding is written with the last rows */
        const uint32_t rows = args.n < now * PANEL_ROWS ? args.n : now * PANEL_ROWS;
        clef_launch l = launch_of(lo, n, w, now);
        l.args = &args;
        l.part_at = at;
        l.part_bytes = rows * row_bytes;
        s = clef__launch(lo, &l, err);
        args.n -= now * PANEL_ROWS;
        at += rows * row_bytes;
        args.tile += now * args.step;
    }
    return s;
}

static clef_status pack_lower(clef_lowering *lo, const clef_value *n, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n->n_in && !s; i++)
        s = pack_weight(lo, n, i, err);
    return s;
}

clef_value *clef__shrink_pack(clef__shrinker *s, const clef_value *packed, int32_t *n)
{
    enum {
        TILE_ROWS = 3 * 16,
        STACK_ROWS = 4 * 16
    }; /* rows kept: some tiles; of stacked weights whole pairs of tiles */
    const clef_pack_opts *o = (const void *)packed->attr;
    const int64_t most = packed->n_in > 1 && !o->interleave ? STACK_ROWS : TILE_ROWS;
    const int32_t axis = o->in_out ? 1 : 0;
    clef_value *weights[CLEF_MAX_INPUTS];
    *n = 0;
    if (packed->op != CLEF_OP_pack)
        return NULL;
    for (int32_t i = 0; i < packed->n_in; i++) {
        const int64_t rows = clef__shrink_rows(packed->in[i], axis, most);
        if (packed->in[i]->kind != CLEF_WEIGHT)
            return NULL;
        weights[i] = clef__shrink_cut(s, packed->in[i], axis, rows);
        *n += (int32_t)rows;
    }
    return clef__pack(clef__shrink_graph(s), weights, packed->n_in, o);
}

static clef_value *pack_shrink(clef__shrinker *s, const clef_value *n)
{
    int32_t rows;
    return clef__shrink_pack(s, n, &rows);
}

static int has_rows_of_items(const clef_caps *caps)
{
    return !caps->is_cpu && clef__group_most(caps) >= PANEL_ROWS;
}

const clef_variant clef__pack_groups = {.name = "groups",
                                        .device_text = "a GPU",
                                        .runs_on = has_rows_of_items,
                                        .method = BY_GROUPS,
                                        .lower = pack_lower};
const clef_variant clef__pack_tiles = {.name = "tiles", .lower = pack_lower};

const clef_op_def clef__op_pack = {
    .name = "pack",
    .formula = "out = weights in panels of 16 rows, as bytes",
    .n_min = 1,
    .n_max = MAX_WEIGHTS,
    .in = {CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_WEIGHT | CLEF_IN_DENSE, CLEF_IN_WEIGHT | CLEF_IN_DENSE,
           CLEF_IN_WEIGHT | CLEF_IN_DENSE},
    .attrs = pack_attrs,
    .attr_bytes = sizeof(clef_pack_opts),
    .infer = pack_infer,
    .ref = pack_ref,
    .cost = pack_cost,
    .lower = clef__lower_variant,
    .shrink = pack_shrink,
    .at_load = 1,
    .proof = CLEF__PROOF_BY_READERS,
    .tol = 0, /* bytes */
};
