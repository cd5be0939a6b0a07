/* The self-test: runs the cases of the op table on one device, variant by variant. */
#include "clef/selftest.h"

#include <stdio.h>
#include <string.h>

#include "graph/cases/cases.h"
#include "runtime/prove/proof.h"
#include "runtime/prove/selftest_child.h"
#include "runtime/tune/tune.h"

typedef struct tester {
    clef_device *dev;
    const clef_selftest_opts *opts;
    clef_tuning tuning;
    uint64_t done, total;
    int32_t n_failed;
    char why[sizeof((clef_error *)0)->text];
} tester;

/* ---- the variants of a case ------------------------------------------------------------------- */

/* Returns 1 if the variant fits a node of the graph, with the symbols at their bounds or at 1. Sets *serves
 * to 1 if lowering would choose it there. */
static int fits_case(const tester *t, const clef_graph *g, clef_op op, const clef_variant *variant,
                     clef_gemm gemm, int *serves)
{
    int64_t symbols[CLEF_MAX_SYMBOLS];
    int fit = 0;
    for (int32_t i = 0; i < 2 * g->n_values; i++) {
        const clef_value *n = g->values[i / 2];
        const clef_lowering lo = {.graph = g,
                                  .caps = &t->dev->info.caps,
                                  .symbols = symbols,
                                  .gemm = gemm,
                                  .tuning = &t->tuning,
                                  .node = n};
        for (int32_t k = 0; k < g->n_symbols; k++)
            symbols[k] = i % 2 ? 1 : g->symbols[k].bound;
        if (n->op != op)
            continue;
        fit |= clef__variant_fits(&lo, n, variant);
        *serves |= clef__variant_of(&lo, n, NULL) == variant;
    }
    return fit;
}

/* ---- running --------------------------------------------------------------------------------- */

static clef_status tell_progress(tester *t, clef_error *err)
{
    if (t->opts->progress && t->opts->progress(t->opts->progress_user, "selftest", t->done, t->total))
        return clef__fail(err, CLEF_E_CANCELLED, "selftest: interrupted at case %llu of %llu",
                          (unsigned long long)t->done, (unsigned long long)t->total);
    t->done++;
    return CLEF_OK;
}

static void note_failure(tester *t, clef_selftest_row *row, const char *why)
{
    if (!row->failed++)
        snprintf(t->why, sizeof t->why, "%s", why);
}

/* Runs one case; skips it if the variant fits none of its nodes. */
static clef_status run_case(tester *t, clef_op op, const clef_variant *variant, const clef_op_case *of,
                            clef_selftest_row *row, clef_error *err)
{
    const clef_op_def *def = clef__ops[op];
    clef_graph *g = NULL;
    char forced[64] = "", text[200];
    clef_error why = {0};
    double worst = 0;
    int serves = 0;
    clef_status s = tell_progress(t, err);
    if (!s)
        s = clef_graph_parse(of->graph, strlen(of->graph), def->name, &g, err);
    if (s)
        return s;
    const clef_gemm gemm = variant && variant->clblast ? CLEF_GEMM_CLBLAST
                           : variant                   ? CLEF_GEMM_OWN
                                                       : CLEF_GEMM_AUTO;
    const int fit =
        !variant ||
        fits_case(t, g, op, variant, gemm == CLEF_GEMM_CLBLAST ? CLEF_GEMM_CLBLAST : CLEF_GEMM_AUTO, &serves);
    row->used |= !variant || serves;
    if (fit && (row->used || t->opts->all)) {
        if (variant)
            snprintf(forced, sizeof forced, "%s=%s", def->name, variant->name);
        const clef_proof_case c = {.graph = g,
                                   .variants = forced,
                                   .gemm = gemm,
                                   .int_lo = of->int_lo,
                                   .int_hi = of->int_hi,
                                   .spread = of->spread,
                                   .tol = (double)(of->tol != 0 ? of->tol : def->tol)};
        s = clef__proof_run(t->dev, &c, &worst, &why);
        row->cases++;
        row->worst = worst > row->worst ? worst : row->worst;
        snprintf(text, sizeof text, "an error of %.3g times what is allowed", worst);
        if (s || worst > 1)
            note_failure(t, row, s ? why.text : text);
    }
    clef_graph_destroy(g);
    return s == CLEF_E_NOMEM ? clef__fail(err, s, "%s", why.text) : CLEF_OK;
}

static clef_status run_variant(tester *t, clef_op op, const clef_variant *variant, clef_error *err)
{
    const clef_op_def *def = clef__ops[op];
    clef_selftest_row row = {.op = def->name, .variant = variant ? variant->name : "", .why = t->why};
    clef_op_case *cases = NULL;
    clef_status s = clef__cases_load(def, &cases, err);
    if (s)
        return s;
    t->why[0] = 0;
    if (variant && !clef__variant_runs_on(&t->dev->info.caps, variant)) {
        row.state = CLEF_SELFTEST_UNFIT;
        snprintf(t->why, sizeof t->why, "needs %s",
                 variant->device_text ? variant->device_text : "another device");
        for (const clef_op_case *c = cases; c->graph; c++)
            t->done++;
    }
    for (const clef_op_case *c = cases; c->graph && row.state != CLEF_SELFTEST_UNFIT && !s; c++)
        s = run_case(t, op, variant, c, &row, err);
    clef__cases_free(cases);
    if (row.failed)
        row.state = CLEF_SELFTEST_FAILED;
    t->n_failed += row.used && row.failed;
    if (!s && t->opts->row && (row.cases || row.state == CLEF_SELFTEST_UNFIT || t->opts->all))
        t->opts->row(t->opts->user, &row);
    return s;
}

static clef_status run_op(tester *t, clef_op op, clef_error *err)
{
    clef_op of = CLEF_OP_NONE;
    const clef_variant *variant;
    clef_status s = CLEF_OK;
    int n = 0;
    for (int32_t i = 0; (variant = clef__variant_row(i, &of)) && !s; i++)
        if (of == op) {
            s = run_variant(t, op, variant, err);
            n++;
        }
    return s || n ? s : run_variant(t, op, NULL, err);
}

/* Returns the number of an op's cases, times the number of its variants. */
static uint64_t count_cases(clef_op op)
{
    clef_op of = CLEF_OP_NONE;
    uint64_t n = 0, rows = 0;
    clef_op_case *cases = NULL;
    if (clef__cases_load(clef__ops[op], &cases, NULL)) /* run_variant() reports the failure */
        return 0;
    for (const clef_op_case *c = cases; c->graph; c++)
        n++;
    clef__cases_free(cases);
    for (int32_t i = 0; clef__variant_row(i, &of); i++)
        rows += of == op;
    return n * (rows ? rows : 1);
}

static clef_status go_on(void *user, clef_error *err)
{
    tester *t = user;
    const clef_status s = tell_progress(t, err);
    t->done--; /* time has passed, and no case */
    return s;
}

static clef_status test_op(tester *t, clef_op op, clef_error *err)
{
    const int is_alone = t->opts->op && !strchr(t->opts->op, ',');
    if (!t->opts->apart || is_alone || !clef__selftest_can_be_apart(t->dev))
        return run_op(t, op, err);
    const clef_status s = clef__selftest_apart(t->dev, op, t->opts, go_on, t, &t->n_failed, err);
    t->done += count_cases(op);
    return s;
}

/* 1 when the list "OP[,OP]" has the name; NULL has all. */
static int has_op(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strcspn(at, ",") == n && memcmp(at, name, n) == 0)
            return 1;
    return !list;
}

static clef_status check_ops(const char *list, clef_error *err)
{
    for (const char *at = list; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const size_t n = strcspn(at, ",");
        int32_t i = 0;
        while (i < CLEF_N_OPS && (strlen(clef__ops[i]->name) != n || memcmp(clef__ops[i]->name, at, n) != 0))
            i++;
        if (i == CLEF_N_OPS)
            return clef__fail(err, CLEF_E_NOT_FOUND, "no op '%.*s': `clef ops` lists them", (int)n, at);
    }
    return CLEF_OK;
}

clef_status clef_selftest(clef_device *dev, const clef_selftest_opts *opts, int32_t *n_failed,
                          clef_error *err)
{
    static const clef_selftest_opts none;
    tester t = {.dev = dev, .opts = opts ? opts : &none};
    clef_tune_db *db = NULL;
    *n_failed = 0;
    clef_status s = check_ops(t.opts->op, err);
    if (!s)
        s = clef__tune_db_open(dev, &db, err);
    if (!s)
        s = clef__tuning_make(db, &t.tuning, err);
    for (int32_t i = 0; i < CLEF_N_OPS; i++)
        if (has_op(t.opts->op, clef__ops[i]->name))
            t.total += count_cases((clef_op)i);
    for (int32_t i = 0; i < CLEF_N_OPS && !s; i++)
        if (has_op(t.opts->op, clef__ops[i]->name))
            s = test_op(&t, (clef_op)i, err);
    clef__tuning_finish(&t.tuning);
    *n_failed = t.n_failed;
    return s;
}
