/* Tunes CLBlast's GEMM from outside. CLBlast's own tuner never tries what suits a CPU (groups of one
 * work-item, wide vectors), and its database has CPUs of one vendor only. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/tune/tune.h"

enum { SIDE = 1024, RUNS = 3, ROUGH_M = 200, ROUGH_N = 136, ROUGH_K = 72, SAMPLES = 64 };
static const double tolerance = 1e-5; /* relative to the largest result: f32 sums of 1024 products */

/* The candidates for the kernel Xgemm: GEMMK=0 with one work-item in a group, which holds MWG x NWG results
 * in vectors of VWM. */
typedef struct candidate {
    int32_t mwg, nwg, kwg, kwi, vwm, vwn;
} candidate;
static const candidate candidates[] = {{32, 8, 32, 8, 16, 1},  {64, 4, 32, 2, 16, 1}, {64, 4, 32, 2, 16, 4},
                                       {64, 6, 32, 2, 16, 1},  {32, 8, 32, 2, 16, 1}, {16, 16, 32, 2, 16, 1},
                                       {32, 12, 32, 2, 16, 1}, {32, 8, 32, 2, 8, 1}};

typedef struct param {
    const char *name;
    int32_t value;
} param;

static void make_kernel(clef_clblast_kernel *k, const char *name, const param *params, size_t n)
{
    *k = (clef_clblast_kernel){0};
    snprintf(k->name, sizeof k->name, "%s", name);
    for (size_t i = 0; i < n && i < CLEF_MAX_CLBLAST_PARAMS; i++) {
        snprintf(k->names[i], sizeof k->names[i], "%s", params[i].name);
        k->values[i] = params[i].value;
        k->n++;
    }
}
#define MAKE_KERNEL(k, name, ...)                                                                            \
    make_kernel(k, name, (const param[]){__VA_ARGS__}, sizeof((const param[]){__VA_ARGS__}) / sizeof(param))

static void make_xgemm(const candidate *c, clef_clblast_kernel *k)
{
    MAKE_KERNEL(k, "Xgemm", {"GEMMK", 0}, {"KREG", 1}, {"KWG", c->kwg}, {"KWI", c->kwi}, {"MDIMA", 1},
                {"MDIMC", 1}, {"MWG", c->mwg}, {"NDIMB", 1}, {"NDIMC", 1}, {"NWG", c->nwg}, {"SA", 0},
                {"SB", 0}, {"STRM", 0}, {"STRN", 0}, {"VWM", c->vwm}, {"VWN", c->vwn});
}

/* The kernels that move matrices into CLBlast's order, with groups of few work-items. */
static void make_movers(clef_clblast_kernel k[4])
{
    MAKE_KERNEL(&k[0], "Copy", {"COPY_DIMX", 1}, {"COPY_DIMY", 1}, {"COPY_VW", 8}, {"COPY_WPT", 8});
    MAKE_KERNEL(&k[1], "Pad", {"PAD_DIMX", 1}, {"PAD_DIMY", 1}, {"PAD_WPTX", 16}, {"PAD_WPTY", 4});
    MAKE_KERNEL(&k[2], "Transpose", {"TRA_DIM", 4}, {"TRA_PAD", 0}, {"TRA_SHUFFLE", 0}, {"TRA_WPT", 8});
    MAKE_KERNEL(&k[3], "Padtranspose", {"PADTRA_PAD", 0}, {"PADTRA_TILE", 4}, {"PADTRA_WPT", 8});
}

/* A cautious set. CLBlast's C interface cannot report which parameters it uses for a device. So after a set
 * was tried and rejected, this one stays in use until the process ends. */
static void make_plain(clef_clblast_kernel k[5])
{
    MAKE_KERNEL(&k[0], "Xgemm", {"GEMMK", 0}, {"KREG", 1}, {"KWG", 32}, {"KWI", 2}, {"MDIMA", 8},
                {"MDIMC", 8}, {"MWG", 32}, {"NDIMB", 8}, {"NDIMC", 8}, {"NWG", 32}, {"SA", 0}, {"SB", 0},
                {"STRM", 0}, {"STRN", 0}, {"VWM", 4}, {"VWN", 2});
    MAKE_KERNEL(&k[1], "Copy", {"COPY_DIMX", 8}, {"COPY_DIMY", 8}, {"COPY_VW", 1}, {"COPY_WPT", 1});
    MAKE_KERNEL(&k[2], "Pad", {"PAD_DIMX", 8}, {"PAD_DIMY", 8}, {"PAD_WPTX", 1}, {"PAD_WPTY", 1});
    MAKE_KERNEL(&k[3], "Transpose", {"TRA_DIM", 8}, {"TRA_PAD", 0}, {"TRA_SHUFFLE", 0}, {"TRA_WPT", 1});
    MAKE_KERNEL(&k[4], "Padtranspose", {"PADTRA_PAD", 0}, {"PADTRA_TILE", 8}, {"PADTRA_WPT", 1});
}

/* ---- products -------------------------------------------------------------------------------- */

typedef struct bench {
    clef_device *dev;
    float *a, *b, *c; /* SIDE x SIDE */
    cl_mem mem[3];    /* c, a, b */
    clef_tune_opts opts;
    uint64_t done, total;
} bench;

static clef_status make_bench(bench *t, clef_error *err)
{
    const size_t n = (size_t)SIDE * SIDE, n_bytes = n * sizeof(float);
    uint32_t random = 12345;
    t->a = malloc(n_bytes);
    t->b = malloc(n_bytes);
    t->c = malloc(n_bytes);
    if (!t->a || !t->b || !t->c)
        return clef__fail(err, CLEF_E_NOMEM, "CLBlast: no memory for matrices of %zu bytes", n_bytes);
    for (size_t i = 0; i < n; i++) {
        random = random * 1664525u + 1013904223u;
        t->a[i] = (float)(random >> 16) / 32768.0f - 1;
        random = random * 1664525u + 1013904223u;
        t->b[i] = (float)(random >> 16) / 32768.0f - 1;
    }
    for (int i = 0; i < 3; i++) {
        cl_int code;
        float *const data[] = {NULL, t->a, t->b};
        t->mem[i] = clCreateBuffer(t->dev->context, CL_MEM_READ_WRITE | (data[i] ? CL_MEM_COPY_HOST_PTR : 0),
                                   n_bytes, data[i], &code);
        if (!t->mem[i])
            return clef__cl_fail(err, "clCreateBuffer", "CLBlast", code);
    }
    return CLEF_OK;
}

static void free_bench(bench *t)
{
    for (int i = 0; i < 3; i++)
        if (t->mem[i])
            clReleaseMemObject(t->mem[i]);
    free(t->a);
    free(t->b);
    free(t->c);
}

static clef_status multiply_matrices(bench *t, uint32_t m, uint32_t n, uint32_t k, int transpose_b,
                                     clef_error *err)
{
    const clef_gemm_call call = {.m = m,
                                 .n = n,
                                 .k = k,
                                 .batch = 1,
                                 .transpose_b = (uint32_t)transpose_b,
                                 .a_ld = k,
                                 .b_ld = transpose_b ? k : n,
                                 .c_ld = n,
                                 .alpha = 1};
    const clef_status s = clef__clblast_gemm(t->dev, &call, t->mem[0], t->mem[1], t->mem[2], NULL, err);
    const cl_int code = s ? CL_SUCCESS : clFinish(t->dev->queue);
    return code ? clef__cl_fail(err, "clFinish", "CLBlast", code) : s;
}

/* Compares the result with sums in double: all of a small product, samples of a large one. */
static clef_status check_product(bench *t, uint32_t m, uint32_t n, uint32_t k, int transpose_b, int *right,
                                 clef_error *err)
{
    const size_t n_bytes = (size_t)m * n * sizeof(float);
    const uint32_t all = m * n, step = all > 64 * 1024 ? all / SAMPLES + 1 : 1;
    double worst = 0, most = 1e-6;
    memset(t->c, 0, n_bytes);
    clef_status s = multiply_matrices(t, m, n, k, transpose_b, err);
    const cl_int code =
        s ? CL_SUCCESS
          : clEnqueueReadBuffer(t->dev->queue, t->mem[0], CL_TRUE, 0, n_bytes, t->c, 0, NULL, NULL);
    if (code)
        return clef__cl_fail(err, "clEnqueueReadBuffer", "CLBlast", code);
    for (uint32_t i = 0; i < all && !s; i += step) {
        const uint32_t row = i / n, column = i % n;
        double sum = 0;
        for (uint32_t p = 0; p < k; p++)
            sum += (double)t->a[row * k + p] * (double)t->b[transpose_b ? column * k + p : p * n + column];
        const double wrong = fabs((double)t->c[i] - sum);
        worst = wrong > worst || isnan(wrong) ? wrong : worst;
        most = fmax(most, fabs(sum));
    }
    *right = worst <= tolerance * most;
    return s;
}

/* Sets *right to 1 when all kinds of product are right, and then measures their rate. */
static clef_status try_now(bench *t, int *right, double *gflops, clef_error *err)
{
    double least = 1e9;
    clef_status s = check_product(t, SIDE, SIDE, SIDE, 0, right, err);
    if (!s && *right)
        s = check_product(t, SIDE, SIDE, SIDE, 1, right, err);
    for (int transposed = 0; transposed < 2 && !s && *right; transposed++)
        s = check_product(t, ROUGH_M, ROUGH_N, ROUGH_K, transposed, right, err);
    for (int i = 0; i < RUNS && !s && *right; i++) {
        const double start = clef__os_seconds();
        s = multiply_matrices(t, SIDE, SIDE, SIDE, 0, err);
        least = fmin(least, clef__os_seconds() - start);
    }
    *gflops = 2.0 * (double)SIDE * (double)SIDE * (double)SIDE / least / 1e9;
    return s;
}

/* ---- the search ------------------------------------------------------------------------------ */

static clef_status report_progress(const bench *t, clef_error *err)
{
    if (t->opts.progress && t->opts.progress(t->opts.progress_user, "tuning", t->done, t->total))
        return clef__fail(err, CLEF_E_CANCELLED,
                          "tuning: interrupted after %" PRIu64 " candidates for CLBlast", t->done);
    return CLEF_OK;
}

/* Tries one set, and keeps it in `best` if it is right and faster. */
static clef_status try_set(bench *t, const clef_clblast_tuning *set, clef_clblast_tuning *best,
                           double *gflops, clef_clblast_report *out, clef_error *err)
{
    double now = 0;
    int right = 0;
    clef_status s = report_progress(t, err);
    if (!s) {
        s = clef__clblast_apply(t->dev, set->kernels, err);
        if (!s)
            s = try_now(t, &right, &now, err);
        out->n_tried++;
        out->n_wrong += s || !right;
        if (s != CLEF_E_NOMEM)
            s = CLEF_OK; /* a set that CLBlast refuses counts as wrong */
    }
    t->done++;
    if (right && now > *gflops) {
        *gflops = now;
        memcpy(best->kernels, set->kernels, sizeof best->kernels);
    }
    return s;
}

static void write_params(const clef_clblast_tuning *best, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < CLEF_MAX_CLBLAST_KERNELS && best->kernels[i].name[0]; i++)
        for (int32_t p = -1; p < best->kernels[i].n && at < room; p++) {
            const clef_clblast_kernel *k = &best->kernels[i];
            const int n = p < 0 ? snprintf(out + at, room - at, "%s%s", at ? "; " : "", k->name)
                                : snprintf(out + at, room - at, " %s=%" PRId32, k->names[p], k->values[p]);
            at += n > 0 ? (size_t)n : 0;
        }
}

/* Makes CLBlast use `best`, and the cautious set for kernels that are not in `best`. */
static clef_status apply_best(bench *t, const clef_clblast_tuning *best, clef_error *err)
{
    clef_clblast_tuning plain = {0};
    make_plain(plain.kernels);
    const clef_status s = clef__clblast_apply(t->dev, plain.kernels, err);
    return s ? s : clef__clblast_apply(t->dev, best->kernels, err);
}

static clef_status search_params(bench *t, double before, clef_clblast_tuning *best, clef_clblast_report *out,
                                 clef_error *err)
{
    clef_clblast_tuning set;
    int right = 1;
    clef_status s = CLEF_OK;
    out->gflops_before = before;
    if (before <= 0)
        s = try_now(t, &right, &out->gflops_before, err);
    double gflops = right ? out->gflops_before : 0;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates && !s; i++) {
        set = (clef_clblast_tuning){0};
        make_xgemm(&candidates[i], &set.kernels[0]);
        s = try_set(t, &set, best, &gflops, out, err);
    }
    if (!s && best->kernels[0].name[0]) { /* the kernels that prepare data for the best Xgemm */
        set = *best;
        make_movers(&set.kernels[1]);
        s = try_set(t, &set, best, &gflops, out, err);
    }
    out->gflops_after = gflops;
    return s;
}

static void report_params(const clef_clblast_tuning *tuning, clef_clblast_report *out)
{
    out->gflops_before = (double)tuning->mflops_before / 1e3;
    out->gflops_after = (double)tuning->mflops_after / 1e3;
    write_params(tuning, out->params, sizeof out->params);
}

clef_status clef_tune_clblast(clef_device *dev, const clef_tune_opts *opts, clef_clblast_report *out,
                              clef_error *err)
{
    bench t = {.dev = dev,
               .opts = opts ? *opts : (clef_tune_opts){0},
               .total = sizeof candidates / sizeof *candidates + 1};
    clef_tune_db *db = NULL;
    clef_clblast_tuning best = {0};
    *out = (clef_clblast_report){0};
    const char *missing = clef__clblast_missing();
    if (missing)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "gemm clblast: %s", missing);
    clef_status s = clef__tune_db_open(dev, &db, err);
    if (s)
        return s;
    if (db->clblast.mflops_before && !t.opts.again) {
        report_params(&db->clblast, out);
        return CLEF_OK;
    }
    /* CLBlast's own parameters can only be measured before this process has changed any. */
    const double before =
        !dev->before_clblast && db->clblast.mflops_before ? (double)db->clblast.mflops_before / 1e3 : 0;
    dev->before_clblast = NULL;
    s = make_bench(&t, err);
    if (!s)
        s = search_params(&t, before, &best, out, err);
    const clef_status settled = apply_best(&t, &best, s ? NULL : err);
    free_bench(&t);
    if (s || settled)
        return s ? s : settled;
    best.mflops_before = (int64_t)(out->gflops_before * 1e3) + 1;
    best.mflops_after = (int64_t)(out->gflops_after * 1e3) + 1;
    db->clblast = best;
    report_params(&best, out);
    return clef__tune_db_save(dev, db, err);
}
