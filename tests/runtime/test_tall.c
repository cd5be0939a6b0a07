/* Values of more than 2^31 elements and of more than 4 GB: kernels read the last of them as they read the
 * first. The memory is sparse. Only a few pages of it have values; all others are one page of zeros. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, setenv */
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

enum { COLUMNS = 128, TILE = 64, WIDTH = 4096, EDGE = 32, TOKENS = 5 };
static const int64_t ROWS = ((int64_t)1 << 31) / COLUMNS + TILE; /* of COLUMNS elements */

/* Halves reach beyond 4 GB, and packed ones, which are never larger, to it. Of Q4_0 a buffer of 1.2 GB has
 * more than 2^31 elements. */
static const struct {
    clef_dtype dtype;
    int64_t n_rows; /* of WIDTH, packed */
} kinds[] = {{CLEF_F16, 524256}, {CLEF_Q4_0, 524288 + TILE}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static unsigned char *tall, few[EDGE * WIDTH * 2]; /* EDGE rows of a packed weight, or TILE of COLUMNS */

static int64_t bytes_of(clef_dtype dtype, int64_t n)
{
    return n / clef_dtype_block_elems(dtype) * clef_dtype_block_bytes(dtype);
}

static int64_t tall_bytes(clef_dtype dtype)
{
    return bytes_of(dtype, ROWS * COLUMNS);
}

static int setup(void **state)
{
    (void)state;
    /* PoCL allows buffers of a quarter of the memory that hwloc reports. */
    setenv("HWLOC_SYNTHETIC", "numa:1(memory=68719476736) core:2 pu:1", 0);
    setenv("HWLOC_THISSYSTEM", "1", 0);
    tall = mmap(NULL, (size_t)tall_bytes(CLEF_F16), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return tall == MAP_FAILED;
}

static int teardown(void **state)
{
    (void)state;
    return munmap(tall, (size_t)tall_bytes(CLEF_F16));
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

/* Encodes the values of elements at .. at + n. Those of Q4_0 are rounded. */
static void put(clef_dtype dtype, int64_t at, int64_t n, unsigned char *to)
{
    static float x[EDGE * WIDTH];
    for (int64_t i = 0; i < n; i++)
        x[i] = value_at(at + i);
    clef_dtype_encode(dtype, x, (size_t)n, to);
}

static void put_in_tall(clef_dtype dtype, int64_t at, int64_t n)
{
    put(dtype, at, n, tall + bytes_of(dtype, at));
}

static void clear(void)
{
    madvise(tall, (size_t)tall_bytes(CLEF_F16), MADV_DONTNEED);
}

/* The device as it is, then, if it is a CPU, as a GPU. NULL: no more, or no buffer of this size. */
static clef_device *open_as(int k, int64_t n_bytes)
{
    static int is_cpu;
    clef_device *dev = NULL;
    clef_error err = {0};
    if (k > is_cpu)
        return NULL;
    set_debug("caps", k ? "-cpu" : NULL);
    const clef_status s = clef_device_open(getenv("CLEF_TEST_DEVICE"), test_device_opts(), &dev, &err);
    set_debug("caps", NULL);
    ok(s, &err);
    const clef_device_info *info = clef_device_describe(dev);
    is_cpu = k || info->caps.is_cpu;
    if (info->caps.max_alloc_bytes >= (uint64_t)n_bytes)
        return dev;
    printf("skipped: expected buffers of %lld bytes, %s has at most %llu\n", (long long)n_bytes, info->name,
           (unsigned long long)info->caps.max_alloc_bytes);
    clef_device_close(dev);
    return NULL;
}

typedef struct run {
    const char *variants;
    const void *x, *extra; /* the inputs x and, if it is there, i */
    size_t x_bytes, extra_bytes;
} run;

/* Destroys the graph. */
static void run_graph(clef_device *dev, clef_graph *g, const run *r, void *y, size_t y_bytes)
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

static void check_rows(clef_dtype dtype)
{
    const int32_t ids[4] = {0, 1, (int32_t)ROWS - 2, (int32_t)ROWS - 1};
    static float y[4 * COLUMNS], want[COLUMNS];
    char text[200];
    clef_device *dev;
    snprintf(text, sizeof text, "weight w %s [%lld, %d]\ninput i i32 [4]\ny = gather(w, i)\noutput y\n",
             clef_dtype_name(dtype), (long long)ROWS, COLUMNS);
    put_in_tall(dtype, 0, 2 * COLUMNS);
    put_in_tall(dtype, (ROWS - 2) * COLUMNS, 2 * COLUMNS);
    for (int k = 0; (dev = open_as(k, tall_bytes(dtype))) != NULL; k++) {
        run_text(dev, text, &(run){.extra = ids, .extra_bytes = sizeof ids}, y, sizeof y);
        clef_device_close(dev);
        for (int i = 0; i < 4; i++) {
            clef_dtype_decode(dtype, tall + bytes_of(dtype, (int64_t)ids[i] * COLUMNS), COLUMNS, want);
            for (int c = 0; c < COLUMNS; c++)
                assert_true(y[i * COLUMNS + c] == want[c]);
        }
    }
    clear();
}

TEST(rows_of_a_table)
{
    for (int i = 0; i < N_KINDS; i++)
        check_rows(kinds[i].dtype);
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
    memcpy(few, tall + bytes_of(CLEF_F16, first * COLUMNS), TILE * COLUMNS * 2);
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
        int32_t is_cpu, queries;
        const char *variant;
    } runs[] = {{1, 1, "cpu_decode"},
                {1, 17, "cpu_prefill"},
                {0, 1, "gpu_decode"},
                {0, 17, "gpu_flash"},
                {0, 1, "gpu_query"}};
    clef_device *dev;
    put_in_tall(CLEF_F16, 0, TILE * COLUMNS);
    put_in_tall(CLEF_F16, (ROWS - TILE) * COLUMNS, TILE * COLUMNS);
    for (int k = 0; (dev = open_as(k, tall_bytes(CLEF_F16))) != NULL; k++) {
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
            if (runs[i].is_cpu == clef_device_describe(dev)->caps.is_cpu) {
                check_attention(dev, runs[i].variant, runs[i].queries, 0);
                check_attention(dev, runs[i].variant, runs[i].queries, ROWS - TILE);
            }
        clef_device_close(dev);
    }
    clear();
}

/* The text form has no dims over 2^31. */
static clef_graph *product_of_panels(clef_dtype dtype, int64_t n_rows, int32_t tokens)
{
    const clef_panel_matmul_opts opts = {.n = (int32_t)n_rows, .k = WIDTH, .dtype = dtype};
    clef_graph *g = clef_graph_create();
    clef_error err = {0};
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_2(clef_n(tokens), clef_n(WIDTH))),
               *p = clef_weight(g, "p", CLEF_I8, clef_shape_1(clef_n(bytes_of(dtype, n_rows * WIDTH))));
    clef_output(g, "y", clef__panel_matmul(g, x, p, &(clef_panel_inputs){0}, &opts));
    ok(clef_graph_error(g, &err), &err);
    return g;
}

/* Packs EDGE rows, whose values are `w`, into the tall memory from row `first` of n_rows on. The codes of all
 * blocks are before their scales. */
static void put_packed(clef_device *dev, clef_dtype dtype, int64_t first, int64_t n_rows, float *w)
{
    static unsigned char packed[sizeof few];
    const int64_t all = bytes_of(dtype, EDGE * WIDTH), codes = dtype == CLEF_Q4_0 ? EDGE * WIDTH / 2 : all;
    clef_graph *g = clef_graph_create();
    clef_value *v = clef_weight(g, "w", dtype, clef_shape_2(clef_n(EDGE), clef_n(WIDTH)));
    put(dtype, first * WIDTH, EDGE * WIDTH, few);
    clef_dtype_decode(dtype, few, EDGE * WIDTH, w);
    clef_output(g, "p", clef__pack(g, &v, 1, &(clef_pack_opts){0}));
    run_graph(dev, g, &(run){0}, packed, (size_t)all);
    memcpy(tall + first / EDGE * codes, packed, (size_t)codes);
    memcpy(tall + n_rows / EDGE * codes + first / EDGE * (all - codes), packed + codes,
           (size_t)(all - codes));
}

/* w: the first and the last EDGE rows. All others are zeros. */
static void check_products(const float *x, const float *w, const float *y, int32_t tokens, int64_t n_rows)
{
    for (int64_t at = 0; at < tokens * n_rows; at++) {
        const int64_t row = at % n_rows, edge = row < EDGE ? row : row - n_rows + 2 * EDGE;
        float want = 0;
        for (int i = 0; i < WIDTH && edge >= (row < EDGE ? 0 : EDGE); i++)
            want += x[at / n_rows * WIDTH + i] * w[edge * WIDTH + i];
        if (y[at] != want)
            fail_msg("token %d of %d, row %lld: expected %g, got %g", (int)(at / n_rows), (int)tokens,
                     (long long)row, (double)want, (double)y[at]);
    }
}

static void check_packed(clef_dtype dtype, int64_t n_rows)
{
    static const int32_t tokens[] = {1, TOKENS};
    static float x[TOKENS * WIDTH], w[2 * EDGE * WIDTH];
    const size_t y_bytes = (size_t)(TOKENS * n_rows) * sizeof(float);
    float *y = malloc(y_bytes);
    clef_device *dev;
    assert_non_null(y);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        x[i] = value_at(i + 3);
    for (int k = 0; (dev = open_as(k, bytes_of(dtype, n_rows * WIDTH))) != NULL; k++) {
        put_packed(dev, dtype, 0, n_rows, w);
        put_packed(dev, dtype, n_rows - EDGE, n_rows, w + EDGE * WIDTH);
        for (int i = 0; i < 2; i++) {
            const int32_t m = tokens[i];
            run_graph(dev, product_of_panels(dtype, n_rows, m),
                      &(run){.x = x, .x_bytes = (size_t)m * WIDTH * sizeof *x}, y,
                      y_bytes / TOKENS * (size_t)m);
            check_products(x, w, y, m, n_rows);
        }
        clef_device_close(dev);
    }
    free(y);
    clear();
}

TEST(a_packed_weight)
{
    for (int i = 0; i < N_KINDS; i++)
        check_packed(kinds[i].dtype, kinds[i].n_rows);
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
