/* Values of more than 2^31 elements and of more than 4 GB: kernels read the last of them as they read the
 * first. The memory is sparse. Only a few pages of it have values; all others are one page of zeros. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "graph/lower/panel/panel_ops.h"
#include "graph/pass/pass.h"
#include "graph/value.h"
#include "run_graph.h"
#include "tests/check.h"
#include "tests/debug.h"

enum { COLUMNS = 128, TILE = 64, WIDTH = 4096, HALF_BYTES = 2 };
static const int64_t ROWS = ((int64_t)1 << 31) / COLUMNS + TILE; /* of COLUMNS halves: 4.3 GB */
static const int64_t N_ROWS = 524256;                            /* of WIDTH halves: almost 2^32 bytes */

static unsigned char *tall, few[TILE * COLUMNS * HALF_BYTES];

static int64_t tall_bytes(void)
{
    return ROWS * COLUMNS * HALF_BYTES;
}

static int setup(void **state)
{
    (void)state;
    tall = mmap(NULL, (size_t)tall_bytes(), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return tall == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(tall, (size_t)tall_bytes());
}

/* The weights of the tall plans, and of those that they are compared with. */
static const void *weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user, (void)name, (void)dtype;
    return n_bytes > sizeof few ? tall : few;
}

/* Small integers, whose sums are exact. */
static float value_at(int64_t i)
{
    return (float)((uint32_t)i * 2654435761u >> 29) - 3;
}

/* Writes n halves from element `at` of the tall memory on. */
static void put_halves(int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = value_at(at + i);
        clef_dtype_encode(CLEF_F16, &x, 1, tall + (at + i) * HALF_BYTES);
    }
}

/* NULL: the device has no buffer of this size, or it copies the host's memory. */
static clef_device *open_for(const char *caps)
{
    clef_device *dev = NULL;
    clef_error err = {0};
    set_debug("caps", caps);
    const clef_status s = clef_device_open(getenv("CLEF_TEST_DEVICE"), test_device_opts(), &dev, &err);
    set_debug("caps", NULL);
    ok(s, &err);
    const clef_caps *has = &clef_device_describe(dev)->caps;
    if (has->max_alloc_bytes >= (uint64_t)tall_bytes() && has->unified_memory)
        return dev;
    printf("skipped: %s: no buffers of %lld bytes in the host's memory\n", __func__, (long long)tall_bytes());
    clef_device_close(dev);
    return NULL;
}

typedef struct run {
    const char *variants;
    const void *x, *extra; /* the inputs x and, if it is there, i */
    size_t x_bytes, extra_bytes;
} run;

/* Destroys the graph. */
static void run_graph(clef_device *dev, clef_graph *g, const run *r, float *y, size_t y_bytes)
{
    clef_error err = {0};
    clef_plan *plan;
    const clef_plan_opts opts = {
        .weights = weight, .as_stored = 1, .variants = r->variants, .compile = {.no_proof = 1, .no_tune = 1}};
    ok(clef_plan_create(dev, g, &opts, &plan, &err), &err);
    if (r->x)
        ok(clef_plan_write(plan, clef_plan_input(plan, "x"), r->x, r->x_bytes, &err), &err);
    if (r->extra)
        ok(clef_plan_write(plan, clef_plan_input(plan, "i"), r->extra, r->extra_bytes, &err), &err);
    ok(clef_plan_run(plan, &err), &err);
    ok(clef_plan_read(plan, 0, y, y_bytes, &err), &err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

static void run_text(clef_device *dev, const char *text, const run *r, float *y, size_t y_bytes)
{
    clef_error err = {0};
    clef_graph *g;
    ok(clef_graph_parse(text, strlen(text), "tall", &g, &err), &err);
    run_graph(dev, g, r, y, y_bytes);
}

static const char *const as[] = {NULL, "-cpu"};

TEST(rows_of_a_table)
{
    const int32_t ids[4] = {0, 1, (int32_t)ROWS - 2, (int32_t)ROWS - 1};
    static float y[4 * COLUMNS];
    char text[200];
    snprintf(text, sizeof text, "weight w f16 [%lld, %d]\ninput i i32 [4]\ny = gather(w, i)\noutput y\n",
             (long long)ROWS, COLUMNS);
    put_halves(0, 2 * COLUMNS);
    put_halves((ROWS - 2) * COLUMNS, 2 * COLUMNS);
    for (int k = 0; k < 2; k++) {
        clef_device *dev = open_for(as[k]);
        if (!dev)
            return;
        run_text(dev, text, &(run){.extra = ids, .extra_bytes = sizeof ids}, y, sizeof y);
        clef_device_close(dev);
        for (int i = 0; i < 4 * COLUMNS; i++)
            assert_true(y[i] == value_at((int64_t)ids[i / COLUMNS] * COLUMNS + i % COLUMNS));
    }
}

/* Keys and values of the first and the last TILE positions, against a cache that has only those. */
static void check_attention(clef_device *dev, const char *variant, int32_t queries, int64_t first)
{
    static const char form[] = "input x f32 [1, 1, %d, %d]\nweight k f16 [1, 1, %lld, %d]\ninput i i32 [1]\n"
                               "y = attention(x, k, k, _, i) causal=1 window=%d scale=0.1\noutput y\n";
    static float x[TILE * COLUMNS], y[TILE * COLUMNS], want[TILE * COLUMNS];
    const size_t n = (size_t)queries * COLUMNS;
    const int32_t in_tall = (int32_t)(first + TILE - queries), in_few = TILE - queries,
                  window = TILE - queries + 1; /* no query looks at keys before the tile */
    char text[400], forced[64];
    snprintf(forced, sizeof forced, "attention=%s", variant);
    for (size_t i = 0; i < n; i++)
        x[i] = value_at((int64_t)i + 7) / 8;
    memcpy(few, tall + first * COLUMNS * HALF_BYTES, sizeof few);
    run r = {.variants = forced, .x = x, .x_bytes = n * sizeof *x, .extra = &in_few, .extra_bytes = 4};
    snprintf(text, sizeof text, form, queries, COLUMNS, (long long)TILE, COLUMNS, window);
    run_text(dev, text, &r, want, n * sizeof *want);
    r.extra = &in_tall;
    snprintf(text, sizeof text, form, queries, COLUMNS, (long long)ROWS, COLUMNS, window);
    run_text(dev, text, &r, y, n * sizeof *y);
    int n_zeros = 0;
    for (size_t i = 0; i < n; i++) {
        n_zeros += want[i] == 0;
        if (!(y[i] - want[i] < 1e-4f && want[i] - y[i] < 1e-4f))
            fail_msg("%s, %d queries, position %d: expected %g, got %g", variant, (int)queries, (int)in_tall,
                     (double)want[i], (double)y[i]);
    }
    assert_true(n_zeros < (int)n / 2);
}

TEST(keys_and_values)
{
    static const struct {
        const char *caps, *variant;
        int32_t queries;
    } runs[] = {{NULL, "cpu_decode", 1},
                {NULL, "cpu_prefill", 17},
                {"-cpu", "gpu_decode", 1},
                {"-cpu", "gpu_flash", 17},
                {"-cpu", "gpu_query", 1}};
    put_halves(0, TILE * COLUMNS);
    put_halves((ROWS - TILE) * COLUMNS, TILE * COLUMNS);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        clef_device *dev = open_for(runs[i].caps);
        if (!dev)
            return;
        check_attention(dev, runs[i].variant, runs[i].queries, 0);
        check_attention(dev, runs[i].variant, runs[i].queries, ROWS - TILE);
        clef_device_close(dev);
    }
}

/* The text form has no dims over 2^31. */
static clef_graph *product_of_panels(int32_t tokens)
{
    const clef_panel_matmul_opts opts = {.n = (int32_t)N_ROWS, .k = WIDTH, .dtype = CLEF_F16};
    clef_graph *g = clef_graph_create();
    clef_error err = {0};
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_2(clef_n(tokens), clef_n(WIDTH))),
               *p = clef_weight(g, "p", CLEF_I8, clef_shape_1(clef_n(N_ROWS * WIDTH * HALF_BYTES)));
    clef_output(g, "y", clef__panel_matmul(g, x, p, &(clef_panel_inputs){0}, &opts));
    ok(clef_graph_error(g, &err), &err);
    return g;
}

enum { LANES = 16, TOKENS = 5 };

/* Element (row, k) of a panel is at (row / 16 WIDTH + k) 16 + row % 16. Only the first and the last tile have
 * values. */
static void check_products(const float *x, const float *y, int32_t tokens)
{
    const int64_t last = N_ROWS / LANES - 1;
    for (int64_t at = 0; at < tokens * N_ROWS; at++) {
        const int64_t row = at % N_ROWS, tile = row / LANES;
        float want = 0;
        for (int i = 0; i < WIDTH && (tile == 0 || tile == last); i++)
            want += x[at / N_ROWS * WIDTH + i] * value_at((tile * WIDTH + i) * LANES + row % LANES);
        if (y[at] != want)
            fail_msg("token %d of %d, row %lld: expected %g, got %g", (int)(at / N_ROWS), (int)tokens,
                     (long long)row, (double)want, (double)y[at]);
    }
}

TEST(a_packed_weight)
{
    static const int32_t tokens[] = {1, TOKENS};
    static float x[TOKENS * WIDTH];
    float *y = malloc((size_t)(TOKENS * N_ROWS) * sizeof *y);
    assert_non_null(y);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        x[i] = value_at(i + 3);
    put_halves(0, LANES * WIDTH);
    put_halves((N_ROWS / LANES - 1) * LANES * WIDTH, LANES * WIDTH);
    for (int k = 0; k < 4; k++) {
        const int32_t m = tokens[k / 2];
        clef_device *dev = open_for(as[k % 2]);
        if (!dev)
            break;
        run_graph(dev, product_of_panels(m), &(run){.x = x, .x_bytes = (size_t)m * WIDTH * sizeof *x}, y,
                  (size_t)(m * N_ROWS) * sizeof *y);
        clef_device_close(dev);
        check_products(x, y, m);
    }
    free(y);
}

/* Where a buffer may be larger, packed weights stay below 4 GiB. */
TEST(packed_weights_are_split)
{
    static const clef_caps caps = {.is_cpu = 1, .max_alloc_bytes = (uint64_t)20 << 30};
    static const char text[] =
        "input x f32 [1, 16384]\nweight a f32 [128256, 16384]\nweight b f16 [100000, 16384]\n"
        "weight c f16 [100000, 16384]\ny = matmul(x, a) transpose_b=1\n"
        "g = matmul(x, b) transpose_b=1\nu = matmul(x, c) transpose_b=1\nz = swiglu(g, u)\n"
        "output y\noutput z\n";
    clef_error err = {0};
    clef_graph *g;
    int n = 0;
    ok(clef_graph_parse(text, sizeof text - 1, "large", &g, &err), &err);
    ok(clef__pass_split(g, caps.max_alloc_bytes, &err), &err);
    ok(clef__pass_choose(g, &caps, CLEF_GEMM_AUTO, 0, &err), &err);
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        if (v->op != CLEF_OP_pack)
            continue;
        n++;
        assert_true(v->shape.dim[0].n <= UINT32_MAX);
    }
    assert_int_equal(n, 4); /* two of a, and b beside c */
    clef_graph_destroy(g);
}

TESTS(setup, teardown)
