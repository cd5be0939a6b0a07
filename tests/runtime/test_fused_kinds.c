/* Fused steps of every kind of substep, and of weights in every format, give what their launches give one by
 * one. Many kinds are joined into one source, where each has to compile beside all others. Ids are equal;
 * floats nearly, because the driver may round a product and its sum once in one program, and twice in
 * another. Counts launches with tests/layers/count_layer.c (OPENCL_LAYERS). */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

#include "cl/formats.def"
#include "graph/cases/oracle.h"
#include "graph/substep.h"
#include "run_graph.h"
#include "runtime/plan/fused.h"
#include "tests/debug.h"
#include "tests/layers/count.h"

enum { RUNS = 2, MOST_TEXT = 8192, MOST_OUTPUTS = 16 };

static const float TOLERANCE = 1e-6f; /* of the largest element of an output */

static clef_device *dev;
static count_layer layer;

/* ---- what was a substep -------------------------------------------------------------------------- */

static const struct {
    const char *source, *kernel;
} rows[] = {
#define SUBSTEP_WITH(source, kernel, type, companion, n_bufs) {#source, #kernel},
#define SUBSTEP(source, kernel, type) {#source, #kernel},
#define SMALL_SUBSTEP SUBSTEP
#define WHOLE_BODY(source, kernel, type)
#include "graph/lower/substeps.def"
#undef WHOLE_BODY
#undef SMALL_SUBSTEP
#undef SUBSTEP
#undef SUBSTEP_WITH
};
enum { N_ROWS = sizeof rows / sizeof *rows };
static int was_seen[N_ROWS];

static void note_substeps(const clef_plan *plan)
{
    for (int32_t i = 0; i < plan->n_launches; i++) {
        const clef_launch *l = &plan->launches[i];
        clef_fused_kind kind;
        for (int k = 0; k < N_ROWS && clef__fused_kind_of(l, &kind); k++)
            if (!strcmp(kind.source, rows[k].source) && !strcmp(kind.kernel, rows[k].kernel))
                was_seen[k] = 1;
    }
}

/* ---- a graph in both ways ------------------------------------------------------------------------ */

typedef struct results {
    unsigned char *bytes[MOST_OUTPUTS];
    size_t n_bytes[MOST_OUTPUTS];
    int32_t n;
    long n_enqueued; /* kernels of the last run */
} results;

/* Runs the graph with the oracle's data, with fused steps ("1": or an error) or without ("0"). */
static void run(const clef_graph *g, clef__oracle *o, const char *fused, results *out)
{
    const clef_plan_opts opts = {
        .weights = clef__oracle_weight, .weights_user = o, .compile = {.no_tune = 1, .no_proof = 1}};
    clef_error err = {0};
    clef_plan *plan;
    set_debug("fused", fused);
    ok(clef_plan_create(dev, g, &opts, &plan, &err), &err);
    for (int32_t id = 0; id < g->n_values; id++) {
        const int32_t input =
            g->values[id]->kind == CLEF_INPUT ? clef_plan_input(plan, g->values[id]->name) : -1;
        if (input >= 0)
            ok(clef_plan_write(plan, input, o->leaves[id].bytes, o->leaves[id].n_bytes, &err), &err);
    }
    for (int i = 0; i < RUNS; i++) {
        layer.reset();
        ok(clef_plan_run(plan, &err), &err);
    }
    out->n_enqueued = layer.count("clEnqueueNDRangeKernel");
    out->n = clef_graph_n_outputs(g);
    assert_true(out->n <= MOST_OUTPUTS);
    for (int32_t i = 0; i < out->n; i++) {
        int32_t rank;
        out->n_bytes[i] = clef_plan_output_bytes(plan, i, &rank, NULL);
        out->bytes[i] = malloc(out->n_bytes[i]);
        assert_non_null(out->bytes[i]);
        ok(clef_plan_read(plan, i, out->bytes[i], out->n_bytes[i], &err), &err);
    }
    note_substeps(plan);
    clef_plan_destroy(plan);
}

static void finish(results *r)
{
    for (int32_t i = 0; i < r->n; i++)
        free(r->bytes[i]);
}

static int are_alike(const results *a, const results *b, int32_t i, clef_dtype dtype)
{
    const size_t n = a->n_bytes[i] / sizeof(float);
    const float *x = (const void *)a->bytes[i], *y = (const void *)b->bytes[i];
    float most = 0;
    if (dtype != CLEF_F32)
        return memcmp(x, y, a->n_bytes[i]) == 0;
    for (size_t k = 0; k < n; k++)
        most = fmaxf(most, fabsf(x[k]));
    for (size_t k = 0; k < n; k++)
        if (!(fabsf(x[k] - y[k]) <= TOLERANCE * most)) /* nor a NaN */
            return 0;
    return most > 0;
}

/* ints: those of the inputs are drawn from [lo, hi). */
static void compare(const char *text, int32_t lo, int32_t hi)
{
    clef__oracle o = {.int_lo = lo, .int_hi = hi};
    clef_error err = {0};
    clef_graph *g;
    results plain = {0}, fused = {0};
    ok(clef_graph_parse(text, strlen(text), "kinds", &g, &err), &err);
    ok(clef__oracle_init(&o, g, &err), &err);
    ok(clef__oracle_draw(&o, &err), &err);
    run(g, &o, "0", &plain);
    run(g, &o, "1", &fused);
    assert_true(plain.n_enqueued > 2);
    assert_int_equal(fused.n_enqueued, 1);
    for (int32_t i = 0; i < plain.n; i++) {
        const clef_value *v = g->outputs[i].value;
        assert_int_equal(plain.n_bytes[i], fused.n_bytes[i]);
        if (!are_alike(&plain, &fused, i, v->dtype))
            fail_msg("%s differs from what the launches give", v->name);
    }
    finish(&plain);
    finish(&fused);
    clef__oracle_finish(&o);
    clef_graph_destroy(g);
}

/* ---- formats in blocks --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int has_panels;
} formats[] = {
#define ROW(number, NAME, name, elems, bytes, ggml, vectors, scales, offset, most, table)                    \
    {#name, vectors > 0},
    BLOCK_FORMATS(ROW)
#undef ROW
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* A fused step has a state, so the last value goes into one. */
static const char head[] = "input x f32 [1, 1, 256]\ninput p i32 [1]\ninput i i32 [1, 1]\n"
                           "state c f32 [1, 1, 4, 256]\n";
static const char tail[] =
    "last = reshape(y) : f32 [1, 1, 1, 256]\nkept = cache_write(c, last, p)\noutput kept\n";

static void put(char text[MOST_TEXT], const char *format, ...)
{
    const size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(text + n, MOST_TEXT - n, format, args);
    va_end(args);
    assert_true(more >= 0 && (size_t)more < MOST_TEXT - n);
}

/* A chain of products with panels, one of each format. */
TEST(test_products)
{
    char text[MOST_TEXT] = "", from[16] = "x";
    put(text, "%s", head);
    for (int i = 0; i < N_FORMATS; i++)
        if (formats[i].has_panels) {
            put(text, "weight w%d %s [256, 256]\ny%d = matmul(%s, w%d) transpose_b=1\n", i, formats[i].name,
                i, from, i);
            snprintf(from, sizeof from, "y%d", i);
        }
    put(text, "y = affine(%s) scale=0.5\n%s", from, tail);
    compare(text, 0, 4);
}

/* Rows of embeddings in each format without panels, whose sum is kept. Gathering decodes all formats in the
 * same way, by cl/blocks.h. */
TEST(test_embeddings)
{
    char text[MOST_TEXT] = "", sum[16] = "x";
    put(text, "%s", head);
    for (int i = 0; i < N_FORMATS; i++)
        if (!formats[i].has_panels) {
            put(text, "weight w%d %s [4, 256]\ng%d = gather(w%d, i)\ns%d = add(%s, g%d)\n", i,
                formats[i].name, i, i, i, sum, i);
            snprintf(sum, sizeof sum, "s%d", i);
        }
    put(text, "y = affine(%s) scale=0.5\n%s", sum, tail);
    compare(text, 0, 4);
}

/* ---- kinds --------------------------------------------------------------------------------------- */

/* One decode step of everything, with weights in floats. Position, ids and adapter are drawn from [4000,
 * 4090). Attention has one head of keys, so several cores share it, and attention_merge joins their parts. */
static const char step[] =
    "input i i32 [1, 1]\ninput p i32 [1]\ninput a i32 [1]\ninput r i32 [1, 5]\n"
    "state k f16 [1, 1, 4096, 32]\nstate v q8_0 [1, 1, 4096, 32]\nstate turned f32 [1, 1, 4096, 32]\n"
    "state history i32 [1, 4096]\n"
    "weight e f16 [4096, 64]\nweight places f32 [4096, 64]\nweight n f32 [64]\nweight b f32 [64]\n"
    "weight f f32 [16]\nweight qkv bf16 [128, 64]\nweight o f16 [64, 64]\n"
    "weight up f32 [128, 64]\nweight down f16 [64, 128]\nweight head f16 [4096, 64]\n"
    "weight d f32 [4096, 4, 64]\nweight u f32 [4096, 4, 64]\n"
    "at = positions(p) length=1\n"
    "x = gather(e, i)\nplace = gather(places, at)\nx0 = add(x, place)\n"
    "n0 = layer_norm(x0, n, b)\n"
    "all = matmul(n0, qkv) transpose_b=1\nheads = reshape(all) : f32 [1, 1, 4, 32]\n"
    "q = slice(heads) axis=2 size=2\nks = slice(heads) axis=2 start=2 size=1\n"
    "vs = slice(heads) axis=2 start=3 size=1\n"
    "mixed = cached_attention(q, ks, vs, k, v, p, f) scale=0.2 causal=1\n"
    "flat = reshape(mixed) : f32 [1, 1, 64]\nout = matmul(flat, o) transpose_b=1\nx1 = add(x0, out)\n"
    "turn = rope(ks, f, p)\nby_head = permute(turn) axes=[0, 2, 1, 3]\n"
    "kept = cache_write(turned, by_head, p)\n"
    "n1 = rms_norm(x1, n)\nwide = matmul(n1, up) transpose_b=1\nactive = gelu(wide)\n"
    "narrow = matmul(active, down) transpose_b=1\n"
    "adapted = low_rank_add(narrow, n1, d, u, a)\nx2 = add(x1, adapted)\n"
    "n2 = rms_norm(x2, n)\nlogits = matmul(n2, head) transpose_b=1\nrow = reshape(logits) : f32 [1, 4096]\n"
    "const greedy i32 [16] = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n"
    "const draw i32 [1, 16] = 2, 0, 0, 1, 1069066811, 1073741824, 1056964608, 0, 0, 0, 671088640, 7, 0, 0, "
    "0, 0\n"
    "id = sample(logits, history, i, p, greedy)\nother = sample_rows(row, r, draw)\n"
    "output logits\noutput kept\noutput id\noutput other\n";

TEST(test_kinds)
{
    compare(step, 4000, 4090);
    const int has_parts = dev->info.caps.n_units > 1;
    for (int i = 0; i < N_ROWS; i++)
        if (!was_seen[i] && (has_parts || strcmp(rows[i].kernel, "attention_merge") != 0) &&
            strcmp(rows[i].kernel, "exchange_sum") != 0) /* needs ranks: tests/mpi/device_sums.sh */
            fail_msg("no graph of this test has a substep %s of cl/%s.cl", rows[i].kernel, rows[i].source);
}

/* ---- setup --------------------------------------------------------------------------------------- */

static int setup(void **state)
{
    (void)state;
    dev = test_device();
    return !dev || !open_count_layer(&layer);
}

static int teardown(void **state)
{
    (void)state;
    clef_device_close(dev);
    return 0;
}

TESTS(setup, teardown)
