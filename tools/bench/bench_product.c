/* clef bench --product: how fast each kernel multiplies matrices of given sizes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/cli/terminal.h"

enum { MAX_SIDE = 65536 };
static const double ROUND_SECONDS = 0.1; /* a round repeats the product until it takes this long */
static const double MAX_ELEMENTS = 1e9;  /* of a matrix */

/* x times a weight [N, K], which a plan may repack, or times another input. */
static const struct {
    const char *name;
    clef_dtype dtype;
    int is_weight;
    clef_gemm gemm;
} kinds[BENCH_N_PRODUCTS] = {
    {"weight f32", CLEF_F32, 1, CLEF_GEMM_OWN},
    {"weight f16", CLEF_F16, 1, CLEF_GEMM_OWN},
    {"input f32", CLEF_F32, 0, CLEF_GEMM_OWN},
    {"weight f32", CLEF_F32, 1, CLEF_GEMM_CLBLAST},
};

typedef struct contender {
    clef_plan *plan;
    int32_t output, repeats;
} contender;

typedef struct contest {
    bench *b;
    bench_product p;
    contender c[BENCH_N_PRODUCTS];
    float *x, *w, *row; /* [M, K], [N, K], and the row of the result that is read back */
    void *encoded;      /* w in the weight's dtype */
} contest;

/* ---- the products ---------------------------------------------------------------------------- */

/* Parses "MxNxK" at *text, up to a comma or the end, and moves *text after it. Returns 0 for any other
 * text. */
static int read_shape(const char **text, bench_product *p)
{
    int32_t *const sides[] = {&p->m, &p->n, &p->k};
    const char *s = *text;
    for (int i = 0; i < 3; i++) {
        char *end;
        if (*s < '0' || *s > '9')
            return 0;
        const long side = strtol(s, &end, 10);
        if (side < 1 || side > MAX_SIDE || *end != (i < 2 ? 'x' : *end == ',' ? ',' : '\0'))
            return 0;
        *sides[i] = (int32_t)side;
        s = *end ? end + 1 : end;
        if (i == 2 && *end == ',' && !*s)
            return 0;
    }
    *text = s;
    return (double)p->m * p->k <= MAX_ELEMENTS && (double)p->n * p->k <= MAX_ELEMENTS &&
           (double)p->m * p->n <= MAX_ELEMENTS;
}

static int is_asked(const bench *b, int i)
{
    return b->o->compile.gemm == CLEF_GEMM_AUTO || b->o->compile.gemm == kinds[i].gemm;
}

/* ---- a contest ------------------------------------------------------------------------------- */

static int make_data(contest *c)
{
    const size_t m = (size_t)c->p.m, n = (size_t)c->p.n, k = (size_t)c->p.k;
    c->x = malloc(m * k * sizeof *c->x);
    c->w = malloc(n * k * sizeof *c->w);
    c->encoded = malloc(n * k * sizeof *c->w);
    c->row = malloc(n * sizeof *c->row);
    if (!c->x || !c->w || !c->encoded || !c->row)
        return 0;
    for (size_t i = 0; i < m * k; i++)
        c->x[i] = (float)(i * 7 % 61) / 61 - 0.5f;
    for (size_t i = 0; i < n * k; i++)
        c->w[i] = (float)(i * 5 % 59) / 59 - 0.5f;
    return 1;
}

static const void *weight_bytes(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    contest *c = user;
    (void)name;
    (void)n_bytes;
    clef_dtype_encode(dtype, c->w, (size_t)c->p.n * (size_t)c->p.k, c->encoded);
    return c->encoded;
}

/* The output is one row of the result, so that reading it costs little compared with the product. */
static clef_graph *make_graph(const bench_product *p, int i)
{
    clef_graph *g = clef_graph_create();
    if (!g)
        return NULL;
    const clef_shape shape = clef_shape_2(clef_n(p->n), clef_n(p->k));
    clef_value *x = clef_input(g, "x", CLEF_F32, clef_shape_2(clef_n(p->m), clef_n(p->k)));
    clef_value *w = kinds[i].is_weight ? clef_weight(g, "w", kinds[i].dtype, shape)
                                       : clef_input(g, "w", kinds[i].dtype, shape);
    clef_value *y = clef_matmul(g, x, w, NULL, &(clef_matmul_opts){.transpose_b = 1});
    clef_output(g, "row", clef_slice(g, y, &(clef_slice_opts){.size = clef_n(1)}));
    return g;
}

static clef_status run_product(contest *c, int i, int32_t repeats, double *seconds, clef_error *err)
{
    const double start = cli_terminal_seconds();
    clef_status status = CLEF_OK;
    for (int32_t k = 0; k < repeats && status == CLEF_OK; k++)
        status = clef_plan_run(c->c[i].plan, err);
    if (status == CLEF_OK)
        status = clef_plan_read(c->c[i].plan, c->c[i].output, c->row, (size_t)c->p.n * sizeof *c->row, err);
    *seconds = cli_terminal_seconds() - start;
    return status;
}

/* Names the kernel with the longest launch. */
static clef_status name_kernel(contest *c, int i, clef_error *err)
{
    clef_launch_time times[8] = {{0}};
    const int32_t n = clef_plan_profile(c->c[i].plan, times, 8, err);
    double longest = 0;
    for (int32_t k = 0; k < n && k < 8; k++)
        if (times[k].us > longest) {
            longest = times[k].us;
            snprintf(c->p.runs[i].kernel, sizeof c->p.runs[i].kernel, "%s", times[k].kernel);
        }
    return n < 0 ? CLEF_E_CL : CLEF_OK;
}

static clef_status enter_contest(contest *c, int i, clef_error *err)
{
    const clef_plan_opts opts = {.compile.gemm = kinds[i].gemm, .weights = weight_bytes, .weights_user = c};
    double seconds = 0;
    clef_graph *g = make_graph(&c->p, i);
    if (!g)
        return cli_error(err, CLEF_E_NOMEM, "bench: out of host memory");
    clef_status status = clef_graph_error(g, err);
    if (status == CLEF_OK)
        status = clef_plan_create(c->b->device, g, &opts, &c->c[i].plan, err);
    clef_graph_destroy(g);
    if (status == CLEF_OK)
        status = clef_plan_write(c->c[i].plan, clef_plan_input(c->c[i].plan, "x"), c->x,
                                 sizeof(float) * (size_t)c->p.m * (size_t)c->p.k, err);
    if (status == CLEF_OK && !kinds[i].is_weight)
        status = clef_plan_write(c->c[i].plan, clef_plan_input(c->c[i].plan, "w"), c->w,
                                 sizeof(float) * (size_t)c->p.n * (size_t)c->p.k, err);
    if (status != CLEF_OK)
        return status;
    c->c[i].output = clef_plan_output(c->c[i].plan, "row");
    for (int round = 0; round < 2 && status == CLEF_OK;
         round++) /* the first round finishes the driver's delayed work */
        status = run_product(c, i, 1, &seconds, err);
    c->c[i].repeats =
        seconds < ROUND_SECONDS ? (int32_t)(ROUND_SECONDS / (seconds > 1e-5 ? seconds : 1e-5)) : 1;
    c->p.runs[i].form = kinds[i].name;
    return status == CLEF_OK ? name_kernel(c, i, err) : status;
}

/* Runs the rounds of all contestants in turn, so that a disturbance affects all of them. */
static clef_status run_rounds(contest *c, clef_error *err)
{
    const double flops = 2.0 * c->p.m * c->p.n * c->p.k;
    clef_status status = CLEF_OK;
    for (int i = 0; i < BENCH_N_PRODUCTS && status == CLEF_OK; i++)
        if (is_asked(c->b, i))
            status = enter_contest(c, i, err);
    for (int32_t round = 0; round < c->b->o->n_rounds; round++)
        for (int i = 0; i < BENCH_N_PRODUCTS && status == CLEF_OK; i++) {
            double seconds = 0;
            if (!c->c[i].plan)
                continue;
            bench_rate *rate = &c->p.runs[i].rate;
            status = run_product(c, i, c->c[i].repeats, &seconds, err);
            rate->samples[rate->n_samples++] = seconds > 0 ? flops * c->c[i].repeats / seconds * 1e-9 : 0;
            if (status == CLEF_OK && cli_terminal_interrupted())
                status = cli_error(err, CLEF_E_CANCELLED, "bench: interrupted");
        }
    return status;
}

static int make_contest(bench *b, const bench_product *p, double limit)
{
    contest *c = calloc(1, sizeof *c);
    clef_error err = {0};
    if (!c)
        return cli_fail(CLI_FAILED, "bench: out of host memory");
    c->b = b;
    c->p = *p;
    clef_status status =
        make_data(c) ? run_rounds(c, &err) : cli_error(&err, CLEF_E_NOMEM, "bench: out of host memory");
    if (status == CLEF_OK)
        cli_bench_print_product(b, &c->p, limit);
    for (int i = 0; i < BENCH_N_PRODUCTS; i++)
        clef_plan_destroy(c->c[i].plan);
    free(c->x);
    free(c->w);
    free(c->encoded);
    free(c->row);
    free(c);
    return status == CLEF_OK ? CLI_OK : cli_report(&err);
}

int cli_bench_product(bench *b)
{
    clef_error err = {0};
    clef_device_speed speed;
    bench_product p = {0};
    for (const char *s = b->o->product; *s;)
        if (!read_shape(&s, &p))
            return cli_fail(CLI_USAGE, "bench: --product %s: expected MxNxK[,MxNxK..], sides of 1 to %d",
                            b->o->product, MAX_SIDE);
    if (!p.m)
        return cli_fail(CLI_USAGE, "bench: --product needs MxNxK[,MxNxK..]");
    if (clef_device_measure(b->device, &speed, &err) != CLEF_OK)
        return cli_report(&err);
    int rc = CLI_OK;
    for (const char *s = b->o->product; *s && rc == CLI_OK;) {
        read_shape(&s, &p);
        rc = make_contest(b, &p, speed.mad_gflop_s);
    }
    return rc;
}
