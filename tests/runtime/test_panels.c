/* What a plan makes of products with weights: panels give what the stored weights give; 8-bit activations
 * stay within 1 % of a row's norm. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pass/pass.h"
#include "run_graph.h"
#include "tests/check.h"

enum { M = 29, N = 150, K = 256 };

static float x[M * K], decoded[N * K];
static unsigned char stored[N * K * 4];
static int32_t n_released;

static const void *source(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user, (void)dtype;
    return strcmp(name, "w") == 0 && n_bytes <= sizeof stored ? stored : NULL;
}

static void released(void *user, const char *name)
{
    (void)user;
    assert_string_equal(name, "w");
    n_released++;
}

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (1 << 23) - 1;
}

static void fill(clef_dtype dtype)
{
    uint32_t state = 42;
    for (int i = 0; i < N * K; i++)
        decoded[i] = noise(&state);
    for (int i = 0; i < M * K; i++)
        x[i] = noise(&state) + noise(&state) + noise(&state); /* nearly normal */
    clef_dtype_encode(dtype, decoded, N * K, stored);
    clef_dtype_decode(dtype, stored, N * K, decoded);
}

static void product(clef_dtype dtype, const clef_plan_opts *opts, int32_t m, float *y)
{
    char text[256];
    clef_error err = {0};
    clef_graph *g;
    clef_plan *plan = NULL;
    snprintf(text, sizeof text,
             "symbol T <= %d\ninput x f32 [T, %d]\nweight w %s [%d, %d]\ny = matmul(x, w) "
             "transpose_b=1\noutput y\n",
             M, K, clef_dtype_name(dtype), N, K);
    clef_status s = clef_graph_parse(text, strlen(text), "product", &g, &err);
    if (!s)
        s = clef_plan_create(shared_device, g, opts, &plan, &err);
    if (!s)
        s = clef_plan_bind(plan, 1, m, &err);
    if (!s)
        s = clef_plan_write(plan, 0, x, (size_t)m * K * sizeof *x, &err);
    if (!s)
        s = clef_plan_run(plan, &err);
    if (!s)
        s = clef_plan_read(plan, 0, y, (size_t)m * N * sizeof *y, &err);
    if (s)
        fail_msg("%s: %s", clef_dtype_name(dtype), err.text);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

/* The largest error of a row, relative to the row's norm over the square root of its length. */
static double worst_row(const float *y, int32_t m)
{
    double worst = 0;
    for (int32_t t = 0; t < m; t++) {
        double norm = 0, error = 0;
        for (int32_t r = 0; r < N; r++) {
            double want = 0;
            for (int32_t k = 0; k < K; k++)
                want += (double)x[t * K + k] * (double)decoded[r * K + k];
            norm += want * want;
            error += ((double)y[t * N + r] - want) * ((double)y[t * N + r] - want);
        }
        worst = fmax(worst, sqrt(error / norm));
    }
    return worst;
}

TEST(products)
{
    static const clef_dtype dtypes[] = {CLEF_F32,  CLEF_F16,    CLEF_BF16, CLEF_Q8_0, CLEF_Q4_0,
                                        CLEF_Q4_1, CLEF_Q5_0,   CLEF_Q5_1, CLEF_Q4_K, CLEF_Q5_K,
                                        CLEF_Q6_K, CLEF_IQ4_NL, CLEF_MXFP4};
    static const int32_t ms[] = {13, 1, 2, 7, 12, 29};
    static float y[M * N];
    const int n_dtypes = (int)(sizeof dtypes / sizeof *dtypes);
    for (int d = 0; d < n_dtypes; d++) {
        if (!is_in_turn(d, n_dtypes))
            continue;
        fill(dtypes[d]);
        const int quantised = clef_dtype_block_elems(dtypes[d]) > 1;
        const size_t n_ms = dtypes[d] <= CLEF_Q4_0 ? sizeof ms / sizeof *ms
                                                   : 1; /* the others differ by how they are read alone */
        for (size_t i = 0; i < n_ms; i++) {
            product(dtypes[d], &(clef_plan_opts){.as_stored = 1, .weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < 1e-5);
            product(dtypes[d], &(clef_plan_opts){.compile.exact = 1, .weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < 1e-5);
            product(dtypes[d], &(clef_plan_opts){.weights = source}, ms[i], y);
            assert_true(worst_row(y, ms[i]) < (quantised ? 1e-2 : 1e-5));
        }
    }
}

/* With batch_invariant, each row of x has the same result to the bit, however many other rows there are. */
TEST(rows_alone)
{
    static const clef_dtype types[] = {CLEF_Q8_0, CLEF_Q4_0, CLEF_Q4_K, CLEF_Q6_K};
    static const int32_t counts[] = {1, 2, 3, 5, 8, 9, 12, 13, 16, 17, 20};
    static float all[M * N], some[M * N];
    const clef_plan_opts opts = {.batch_invariant = 1, .weights = source};
    const int n_types = (int)(sizeof types / sizeof *types);
    for (int t = 0; t < n_types; t++) {
        if (!is_in_turn(t, n_types))
            continue;
        fill(types[t]);
        product(types[t], &opts, M, all);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            product(types[t], &opts, counts[i], some);
            assert_memory_equal(some, all, (size_t)counts[i] * N * sizeof *all);
        }
    }
}

/* The source hears of a packed weight once, and of one used as it is stored never. */
TEST(sources_are_reported)
{
    static float y[M * N];
    fill(CLEF_F16);
    n_released = 0;
    product(CLEF_F16, &(clef_plan_opts){.as_stored = 1, .weights = source, .release = released}, 1, y);
    assert_int_equal(n_released, 0);
    product(CLEF_F16, &(clef_plan_opts){.weights = source, .release = released}, 1, y);
    assert_int_equal(n_released, clef_device_describe(shared_device)->caps.is_cpu ? 1 : 0);
}

static int count(const clef_graph *g, const char *op)
{
    int n = 0;
    for (int32_t i = 0; i < clef_graph_n_values(g); i++) {
        const char *name = clef_value_describe(clef_graph_value(g, i)).op;
        n += name && strcmp(name, op) == 0;
    }
    return n;
}

/* Products with one weight share its panels; an embedding keeps the stored rows. */
TEST(shares)
{
    static const char text[] =
        "input i i32 [2]\nweight e q8_0 [64, 32]\nweight w q4_0 [32, 32]\nx = gather(e, i)\na = matmul(x, w) "
        "transpose_b=1\n"
        "b = matmul(x, w) transpose_b=1 alpha=2\nc = add(a, b)\ny = matmul(c, e) transpose_b=1\noutput y\n";
    static const clef_caps cpu = {.is_cpu = 1}, gpu = {.is_gpu = 1};
    clef_error err = {0};
    clef_graph *g;
    for (int gpu_too = 0; gpu_too < 2; gpu_too++) {
        assert_int_equal(clef_graph_parse(text, sizeof text - 1, "shares", &g, &err), CLEF_OK);
        assert_int_equal(clef__pass_choose(g, gpu_too ? &gpu : &cpu, CLEF_GEMM_AUTO, 0, &err), CLEF_OK);
        assert_int_equal(count(g, "panel_matmul"), gpu_too ? 0 : 3);
        assert_int_equal(count(g, "pack"), gpu_too ? 0 : 2);
        assert_int_equal(count(g, "gather"), 1);
        assert_int_equal(clef_graph_optimize(g, "verify", &err), CLEF_OK);
        clef_graph_destroy(g);
    }
}

/* A layer as model code writes it, %s its weights' dtype. h is the first norm. */
static const char layer[] =
    "symbol T <= 9\ninput x f32 [1, T, 64]\nweight g f32 [64]\nh = rms_norm(x, g) eps=1e-5\n"
    "weight wq %s [64, 64]\nweight bq f32 [64]\nq = matmul(h, wq, bq) transpose_b=1\nqh = reshape(q) : f32 "
    "[1, T, 4, 16]\n"
    "weight wk %s [32, 64]\nweight bk f16 [32]\nk = matmul(h, wk, bk) transpose_b=1\nkh = reshape(k) : f32 "
    "[1, T, 2, 16]\n"
    "weight wv %s [32, 64]\nweight bv f32 [32]\nv = matmul(h, wv, bv) transpose_b=1\nvh = reshape(v) : f32 "
    "[1, T, 2, 16]\n"
    "kp = permute(kh) axes=[0, 2, 1, 3]\nvp = permute(vh) axes=[0, 2, 1, 3]\nqp = permute(qh) axes=[0, 2, 1, "
    "3]\n"
    "a = attention(qp, kp, vp) causal=1\nb = reshape(a) : f32 [1, T, 64]\n"
    "weight wo %s [64, 64]\no = matmul(b, wo) transpose_b=1\nc = add(x, o)\n"
    "weight f f32 [64]\nweight e f32 [64]\ni = layer_norm(c, f, e) eps=1e-5\n"
    "weight wg %s [96, 64]\ngate = matmul(i, wg) transpose_b=1\nweight wu %s [96, 64]\nup = matmul(i, wu) "
    "transpose_b=1\n"
    "s = swiglu(gate, up)\nweight wd %s [64, 96]\nd = matmul(s, wd) transpose_b=1\nm = add(d, c)\n"
    "weight w1 %s [64, 64]\nl = matmul(m, w1) transpose_b=1\nt = gelu_tanh(l)\noutput t\n";

/* Weights as small as a trained layer's: with larger ones attention sees one key, and a small error of a
 * product makes it another. */
static const void *any_source(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user;
    const size_t at = (size_t)(name[strlen(name) - 1] - 'a') % 26 * 64; /* the weights differ */
    static float floats[1024];
    static unsigned char coded[2 * K * K], halves[2048];
    const size_t n = 64 * (96 + 26);
    float values[64 * (96 + 26)];
    uint32_t state = 7;
    for (size_t i = 0; i < n; i++)
        values[i] = noise(&state) / 8;
    clef_dtype_encode(CLEF_F16, values, 1024, halves);
    memcpy(floats, values, sizeof floats);
    if (n_bytes <= 64 * sizeof *floats)
        return dtype == CLEF_F16 ? (const void *)(halves + at / 64 * 2) : (const void *)(floats + at / 64);
    clef_dtype_encode(dtype, values, n, coded);
    return coded + at / (size_t)clef_dtype_block_elems(dtype) * (size_t)clef_dtype_block_bytes(dtype);
}

static clef_graph *layer_of(const char *dtype, const char *more)
{
    char text[3000];
    clef_error err = {0};
    clef_graph *g;
    int n = snprintf(text, sizeof text, layer, dtype, dtype, dtype, dtype, dtype, dtype, dtype, dtype);
    n += snprintf(text + n, sizeof text - (size_t)n, "%s", more);
    if (clef_graph_parse(text, (size_t)n, "layer", &g, &err))
        fail_msg("%s", err.text);
    return g;
}

static void run_layer(const char *dtype, const clef_plan_opts *opts, int32_t m, float *y)
{
    clef_error err = {0};
    clef_graph *g = layer_of(dtype, "");
    clef_plan *plan = NULL;
    clef_status s = clef_plan_create(shared_device, g, opts, &plan, &err);
    if (!s)
        s = clef_plan_bind(plan, 1, m, &err);
    if (!s)
        s = clef_plan_write(plan, 0, x, (size_t)m * 64 * sizeof *x, &err);
    if (!s)
        s = clef_plan_run(plan, &err);
    if (!s)
        s = clef_plan_read(plan, 0, y, (size_t)m * 64 * sizeof *y, &err);
    if (s)
        fail_msg("%s: %s", dtype, err.text);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

static double difference(const float *a, const float *b, int32_t n)
{
    double norm = 0, error = 0;
    for (int32_t i = 0; i < n; i++) {
        norm += (double)b[i] * (double)b[i];
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(error / norm);
}

/* Fused, a layer is four products and gives what it gave. */
TEST(layers)
{
    static const char *const dtypes[] = {"f32", "bf16", "q8_0", "q4_0"};
    static const int32_t ms[] = {1, 3, 9};
    float plain[9 * 64], fused[9 * 64];
    fill(CLEF_F32);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
            run_layer(dtypes[d], &(clef_plan_opts){.as_stored = 1, .weights = any_source}, ms[i], plain);
            run_layer(dtypes[d], &(clef_plan_opts){.compile.exact = 1, .weights = any_source}, ms[i], fused);
            assert_true(difference(fused, plain, ms[i] * 64) < 1e-5);
            run_layer(dtypes[d], &(clef_plan_opts){.weights = any_source}, ms[i], fused);
            const double e = difference(fused, plain, ms[i] * 64);
            if (e >= (dtypes[d][0] == 'q' ? 1e-2 : 1e-5)) /* five products behind one another */
                fail_msg("%s, %d rows: %g", dtypes[d], ms[i], e);
        }
}

/* Experts in blocks are packed on CPUs; others, those of odd sizes, and exact products stay. */
TEST(experts)
{
    static const struct {
        const char *weight;
        int cpu, exact, packed;
    } cases[] = {{"q4_0 [8, 32, 64]", 1, 0, 1},
                 {"q4_0 [8, 32, 64]", 1, 1, 0},
                 {"q4_0 [8, 32, 64]", 0, 0, 0},
                 {"q8_0 [8, 24, 64]", 1, 0, 0},
                 {"f16 [8, 32, 64]", 1, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const clef_caps caps = {
            .is_cpu = cases[i].cpu, .max_group = cases[i].cpu ? 1 : 256, .max_alloc_bytes = 1u << 30};
        char text[256];
        clef_graph *g = NULL;
        clef_error err = {0};
        snprintf(text, sizeof text,
                 "weight w %s\ninput x f32 [1, 3, 64]\ninput i i32 [1, 3, 2]\ny = expert_matmul(x, w, i) "
                 "transpose_b=1\n"
                 "output y\n",
                 cases[i].weight);
        assert_int_equal(clef_graph_parse(text, strlen(text), "test", &g, &err), CLEF_OK);
        assert_int_equal(clef__pass_choose(g, &caps, CLEF_GEMM_AUTO, cases[i].exact, &err), CLEF_OK);
        assert_int_equal(count(g, "panel_experts"), cases[i].packed);
        assert_int_equal(count(g, "expert_matmul"), !cases[i].packed);
        clef_graph_destroy(g);
    }
}

/* What becomes part of a product, and what stays because somebody looks at it. */
TEST(fuses)
{
    static const struct {
        const char *more;
        int products, norms, adds, gates, activations, slices;
    } cases[] = {{"", 5, 0, 0, 0, 0, 3},
                 {"output h\n", 5, 1, 0, 0, 0, 3},
                 {"output k\n", 6, 0, 0, 0, 0, 2},
                 {"output gate\n", 6, 0, 0, 1, 0, 3},
                 {"output o\noutput l\n", 5, 0, 1, 0, 1, 3},
                 {"z = affine(i) scale=2\noutput z\n", 5, 1, 0, 0, 0, 3}};
    static const clef_caps cpu = {.is_cpu = 1, .max_alloc_bytes = 1u << 30};
    clef_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_graph *g = layer_of("q8_0", cases[i].more);
        assert_int_equal(clef__pass_choose(g, &cpu, CLEF_GEMM_AUTO, 0, &err), CLEF_OK);
        assert_int_equal(count(g, "panel_matmul"), cases[i].products);
        assert_int_equal(count(g, "rms_norm") + count(g, "layer_norm"), cases[i].norms);
        assert_int_equal(count(g, "add"), cases[i].adds);
        assert_int_equal(count(g, "swiglu"), cases[i].gates);
        assert_int_equal(count(g, "gelu_tanh"), cases[i].activations);
        assert_int_equal(count(g, "slice"), cases[i].slices);
        assert_int_equal(clef_graph_optimize(g, "verify", &err), CLEF_OK);
        clef_graph_destroy(g);
    }
}

/* ---- products with adapters --------------------------------------------------------------------- */

/* A product, what an adapter adds, and a residual on either side. %s: the weight's dtype, the sum. */
static const char adapted[] =
    "symbol T <= 9\ninput x f32 [1, T, 64]\ninput id i32 [1]\nweight w %s [64, 64]\n"
    "p = matmul(x, w) transpose_b=1\nweight d f32 [2, 4, 64]\nweight u f32 [2, 4, 64]\n"
    "l = low_rank_add(p, x, d, u, id)\n%s\noutput m\n";

static clef_graph *adapted_of(const char *dtype, const char *sum)
{
    char text[600];
    clef_error err = {0};
    clef_graph *g;
    const int n = snprintf(text, sizeof text, adapted, dtype, sum);
    if (clef_graph_parse(text, (size_t)n, "adapted", &g, &err))
        fail_msg("%s", err.text);
    return g;
}

/* The residual becomes part of the product, unless somebody looks at what is between them. */
TEST(fuses_before_adapters)
{
    static const struct {
        const char *sum;
        int adds;
    } cases[] = {{"m = add(x, l)", 0},
                 {"m = add(l, x)", 0},
                 {"m = add(l, x)\noutput l", 1},
                 {"m = add(l, x)\noutput p", 1},
                 {"m = add(l, x)\nz = exp(l)\noutput z", 1},
                 {"m = add(l, x)\nz = exp(p)\noutput z", 1},
                 {"m = add(l, l)", 1},
                 {"weight b f32 [64]\nm = add(l, b)", 1}};
    static const clef_caps cpu = {.is_cpu = 1, .max_alloc_bytes = 1u << 30};
    clef_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clef_graph *g = adapted_of("q8_0", cases[i].sum);
        assert_int_equal(clef__pass_choose(g, &cpu, CLEF_GEMM_AUTO, 0, &err), CLEF_OK);
        assert_int_equal(count(g, "panel_matmul"), 1);
        assert_int_equal(count(g, "low_rank_add"), 1);
        if (count(g, "add") != cases[i].adds)
            fail_msg("%s: %d sums, expected %d", cases[i].sum, count(g, "add"), cases[i].adds);
        assert_int_equal(clef_graph_optimize(g, "verify", &err), CLEF_OK);
        clef_graph_destroy(g);
    }
}

static void run_adapted(const char *sum, int32_t id, const clef_plan_opts *opts, int32_t m, float *y)
{
    clef_error err = {0};
    clef_graph *g = adapted_of("f32", sum);
    clef_plan *plan = NULL;
    ok(clef_plan_create(shared_device, g, opts, &plan, &err), &err);
    ok(clef_plan_bind(plan, 1, m, &err), &err);
    ok(clef_plan_write(plan, clef_plan_input(plan, "x"), x, (size_t)m * 64 * sizeof *x, &err), &err);
    ok(clef_plan_write(plan, clef_plan_input(plan, "id"), &id, sizeof id, &err), &err);
    ok(clef_plan_run(plan, &err), &err);
    ok(clef_plan_read(plan, 0, y, (size_t)m * 64 * sizeof *y, &err), &err);
    clef_plan_destroy(plan);
    clef_graph_destroy(g);
}

TEST(adapters)
{
    static const char *const sums[] = {"m = add(x, l)", "m = add(l, x)"};
    static const int32_t ms[] = {1, 3, 9};
    float plain[9 * 64], fused[9 * 64], none[9 * 64];
    fill(CLEF_F32);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            for (int32_t id = 0; id < 3; id++) {
                run_adapted(sums[k], id, &(clef_plan_opts){.as_stored = 1, .weights = any_source}, ms[i],
                            plain);
                run_adapted(sums[k], id, &(clef_plan_opts){.compile.exact = 1, .weights = any_source}, ms[i],
                            fused);
                assert_true(difference(fused, plain, ms[i] * 64) < 1e-5);
                if (id == 0)
                    memcpy(none, fused, sizeof none);
                else
                    assert_true(difference(fused, none, ms[i] * 64) > 1e-3);
            }
}

TESTS(open_shared_device, close_shared_device)
