/* The ops that the tuner tries: their keys, and the text of a case. */
#include <inttypes.h>
#include <stdio.h>

#include "graph/lower/panel/panel.h"
#include "graph/lower/variant.h"

enum { CASE_KEYS = 512 /* cached positions in a case of attention */ };

int clef__tune_key_order(const clef_tune_key *a, const clef_tune_key *b)
{
    const int32_t x[] = {a->op, a->dtype, a->n, a->k, a->rows, a->form},
                  y[] = {b->op, b->dtype, b->n, b->k, b->rows, b->form};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int32_t rows_class(uint32_t rows)
{
    return rows == 1 ? CLEF_ROWS_ONE : rows <= CLEF_FEW_ROWS ? CLEF_ROWS_FEW : CLEF_ROWS_MANY;
}

/* The key of an op without a clef__tune_op: the weight's dtype and last dim, and the last dim of the
 * result. */
static clef_tune_key any_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *w = n->in[1] ? n->in[1] : n->in[0];
    return (clef_tune_key){.dtype = w ? (int32_t)w->dtype : 0,
                           .n = (int32_t)clef__bound_n(lo, n, 0),
                           .k = w ? (int32_t)clef__bound_n(lo, w, 0) : 0,
                           .rows = rows_class(clef__rows(lo, n))};
}

clef_tune_key clef__tune_key(const clef_lowering *lo, const clef_value *n)
{
    const clef__tune_op *tune = clef__ops[n->op]->tune;
    clef_tune_key key = tune ? tune->key(lo, n) : any_key(lo, n);
    key.op = (int32_t)n->op;
    return key;
}

/* ---- matrix products ------------------------------------------------------------------------- */

static int has_whole_blocks(const clef_tune_key *key)
{
    return key->k % clef_dtype_block_elems((clef_dtype)key->dtype) == 0;
}

static clef__tune_sizes product_sizes(const clef_tune_key *key, int32_t n)
{
    return (clef__tune_sizes){.weight_rows = n, .x_elements = key->k};
}

static int write_product(const clef_tune_key *key, int32_t n, int32_t i, int n_by_k, char *text, size_t room)
{
    return snprintf(text, room,
                    "input x%" PRId32 " f32 [T, %" PRId32 "]\nweight w%" PRId32 " %s [%" PRId32 ", %" PRId32
                    "]\ny%" PRId32 " = matmul(x%" PRId32 ", w%" PRId32 ")%s\noutput y%" PRId32 "\n",
                    i, key->k, i, clef_dtype_name((clef_dtype)key->dtype), n_by_k ? n : key->k,
                    n_by_k ? key->k : n, i, i, i, n_by_k ? " transpose_b=1" : "", i);
}

static void describe_product(const clef_tune_key *key, const char *end, char *text, size_t room)
{
    static const char *const rows[CLEF_N_ROWS] = {"1 row", "2-8 rows", "many rows"};
    snprintf(text, room, "%s [%" PRId32 ", %" PRId32 "] x %s%s", clef_dtype_name((clef_dtype)key->dtype),
             key->n, key->k, rows[key->rows], end);
}

enum { FORM_TRANSPOSE_B = 1, FORM_TRANSPOSE_A = 2 };

/* form: which operands are transposed. */
static clef_tune_key matmul_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    return (clef_tune_key){.dtype = (int32_t)n->in[1]->dtype,
                           .n = (int32_t)clef__bound_n(lo, n, 0),
                           .k = (int32_t)clef__bound_n(lo, n->in[0], o->transpose_a ? 1 : 0),
                           .rows = rows_class(clef__matmul_args(lo, n).m),
                           .form = (o->transpose_b ? FORM_TRANSPOSE_B : 0) |
                                   (o->transpose_a ? FORM_TRANSPOSE_A : 0)};
}

static int matmul_takes_node(const clef_value *n)
{
    const clef_matmul_opts *o = (const void *)n->attr;
    return n->in[1]->kind == CLEF_WEIGHT && n->in[1]->shape.rank == 2 && !o->transpose_a;
}

static int matmul_takes_key(const clef_tune_key *key)
{
    return has_whole_blocks(key) && !(key->form & FORM_TRANSPOSE_A) &&
           (clef_dtype_block_elems((clef_dtype)key->dtype) == 1 || key->form);
}

static int matmul_write(const clef_tune_key *key, int32_t n, int32_t i, char *text, size_t room)
{
    return write_product(key, n, i, key->form, text, room);
}

static void matmul_describe(const clef_tune_key *key, char *text, size_t room)
{
    describe_product(key, "", text, room);
}

const clef__tune_op clef__tune_matmul = {.key = matmul_key,
                                         .takes_node = matmul_takes_node,
                                         .takes_key = matmul_takes_key,
                                         .sizes = product_sizes,
                                         .write = matmul_write,
                                         .describe = matmul_describe,
                                         .at_load = 1};

/* form: clef_panel_activations; n: rows of the packed weight. A batch-invariant product runs by one kernel
 * for any number of rows, so it has one class of rows. */
static clef_tune_key panel_matmul_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_panel_matmul_opts *o = (const void *)n->attr;
    return (clef_tune_key){.dtype = (int32_t)o->dtype,
                           .n = (int32_t)clef__panel_rows(o),
                           .k = o->k,
                           .rows = o->batch_invariant ? CLEF_ROWS_MANY : rows_class(clef__rows(lo, n)),
                           .form = (int32_t)o->activations};
}

static int panel_matmul_write(const clef_tune_key *key, int32_t n, int32_t i, char *text, size_t room)
{
    return write_product(key, n, i, 1, text, room);
}

static void panel_matmul_describe(const clef_tune_key *key, char *text, size_t room)
{
    const char *end = key->form == CLEF_PANEL_F32    ? ""
                      : key->form == CLEF_PANEL_INT8 ? ", 8-bit activations"
                                                     : ", half activations";
    describe_product(key, end, text, room);
}

const clef__tune_op clef__tune_panel_matmul = {.key = panel_matmul_key,
                                               .takes_key = has_whole_blocks,
                                               .sizes = product_sizes,
                                               .write = panel_matmul_write,
                                               .describe = panel_matmul_describe,
                                               .packs = 1,
                                               .at_load = 1};

int clef__tune_common_text(int32_t i, char text[CLEF_TUNE_TEXT_BYTES])
{
    static const int32_t shapes[][2] = {{896, 896},   {4864, 896},  {896, 4864},  {2048, 2048},
                                        {8192, 2048}, {4096, 4096}, {14336, 4096}}; /* rows, columns */
    static const clef_dtype dtypes[] = {CLEF_F32, CLEF_F16, CLEF_Q8_0, CLEF_Q4_0, CLEF_Q4_K, CLEF_Q6_K};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            const clef_tune_key key = {.n = shapes[s][0], .k = shapes[s][1], .dtype = (int32_t)dtypes[d]};
            if (!has_whole_blocks(&key) || i--)
                continue;
            const int n = snprintf(text, CLEF_TUNE_TEXT_BYTES, "symbol T <= 512\n");
            write_product(&key, key.n, 0, 1, text + n, CLEF_TUNE_TEXT_BYTES - (size_t)n);
            return 1;
        }
    return 0;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* n: heads of q; k: the width of a head; rows: positions; form: heads of k and v. */
static clef_tune_key attention_key(const clef_lowering *lo, const clef_value *n)
{
    const clef_value *q = n->in[0], *k = n->in[1];
    return (clef_tune_key){.dtype = (int32_t)k->dtype,
                           .n = (int32_t)clef__bound_n(lo, q, 2),
                           .k = (int32_t)clef__bound_n(lo, q, 0),
                           .rows = rows_class(clef__n(lo, q, 1)),
                           .form = (int32_t)clef__bound_n(lo, k, 2)};
}

static int attention_takes_key(const clef_tune_key *key)
{
    return key->form > 0 && key->n % key->form == 0 && has_whole_blocks(key);
}

/* The weight is used for both k and v. */
static clef__tune_sizes attention_sizes(const clef_tune_key *key, int32_t n)
{
    return (clef__tune_sizes){.weight_rows = (int64_t)key->form * CASE_KEYS,
                              .x_elements = (int64_t)n * key->k};
}

static int attention_write(const clef_tune_key *key, int32_t n, int32_t i, char *text, size_t room)
{
    return snprintf(text, room,
                    "input x%" PRId32 " f32 [1, %" PRId32 ", T, %" PRId32 "]\nweight w%" PRId32
                    " %s [1, %" PRId32 ", %d, %" PRId32 "]\ny%" PRId32 " = attention(x%" PRId32 ", w%" PRId32
                    ", w%" PRId32 ") scale=0.125\noutput y%" PRId32 "\n",
                    i, n, key->k, i, clef_dtype_name((clef_dtype)key->dtype), key->form, CASE_KEYS, key->k, i,
                    i, i, i, i);
}

static void attention_describe(const clef_tune_key *key, char *text, size_t room)
{
    static const char *const positions[CLEF_N_ROWS] = {"1 position", "2-8 positions", "many positions"};
    snprintf(text, room, "%s, %" PRId32 " heads of %" PRId32 " on %" PRId32 ", %s",
             clef_dtype_name((clef_dtype)key->dtype), key->n, key->k, key->form, positions[key->rows]);
}

const clef__tune_op clef__tune_attention = {.key = attention_key,
                                            .takes_key = attention_takes_key,
                                            .sizes = attention_sizes,
                                            .write = attention_write,
                                            .describe = attention_describe,
                                            .whole = 1};
