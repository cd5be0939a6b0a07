/* Every op of the table, every case, every variant that fits it, on every OpenCL device, against the op's
 * reference in double. Environment variables choose a part of that work:
 *   CLEF_TEST_DEVICE    one device only, as clef_device_open() reads it
 *   CLEF_TEST_OPS       only the ops whose name contains this text; "=name": only the op of that name
 *   CLEF_TEST_SHARD     "i/n": part i of n of about equal length (1/n to n/n); each op is in one part
 *   CLEF_TEST_VARIANT   of ops with variants only the variant of that name
 *   CLEF_TEST_CASES     of each variant at most so many cases, spread over its list
 *   CLEF_TEST_MOST      only cases of at most so many operations (for simulators)
 *   CLEF_TEST_BEYOND    only cases that launch something else than with CLEF_CAPS set to this text ("" for
 *                       unset): what another run has tested is not tested again
 *   CLEF_TEST_SECONDS   no case of an op begins after so many seconds of processor time, which its variants
 *                       share; the cases that are left are counted and reported
 *   CLEF_TEST_VERBOSE   the error of each run is printed, too
 *   CLEF_TEST_REPORT    a file that gets a line "op variant cases failed left" for each op and variant that
 *                       ran (tools/matrix)
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "clef/clef.h"
#include "graph/cases/cases.h"
#include "graph/cases/oracle.h"
#include "graph/hash.h"
#include "graph/lower/variant.h"

enum { MAX_DEVICES = 8 };

static clef_device *devices[MAX_DEVICES];
static clef_caps other_caps[MAX_DEVICES]; /* of the devices under CLEF_TEST_BEYOND */
static int n_devices, verbose, most_cases = INT_MAX;
static const char *beyond;
static double most_flops = INFINITY, most_seconds = INFINITY;

/* ---- a case's data --------------------------------------------------------------------------- */

typedef struct case_data {
    const clef_op_case *of;
    clef_graph *graph;
    clef__oracle oracle;
} case_data;

static uint64_t random_state;

static double uniform(void) /* (0, 1) */
{
    return clef__random_uniform(&random_state);
}

/* ---- running and comparing ------------------------------------------------------------------- */

typedef struct run {
    const clef_op_def *op;
    clef_device *dev;
    const clef_caps *other; /* NULL, or what the device can do under CLEF_TEST_BEYOND */
    clef_gemm gemm;
    const clef_variant *variant; /* forced; NULL: free choice */
    case_data *data;
    clef_plan *plan;
    double worst; /* error relative to what is allowed */
} run;

static double tolerance(const run *r)
{
    return (double)(r->data->of->tol != 0 ? r->data->of->tol : r->op->tol);
}

static void complain(const run *r, const char *what)
{
    static const char *const gemms[] = {"auto", "own", "clblast"};
    print_error("%s on %s, variant %s, gemm %s, symbols", r->op->name, clef_device_describe(r->dev)->name,
                r->variant ? r->variant->name : "free", gemms[r->gemm]);
    for (int32_t i = 1; i <= r->data->graph->n_symbols; i++)
        print_error(" %s=%lld", clef_graph_symbol(r->data->graph, i, NULL),
                    (long long)r->data->oracle.symbols[i - 1]);
    print_error(": %s\n%s", what, r->data->of->graph);
}

static int check_output(run *r, int32_t i)
{
    const clef_value *v = r->data->graph->outputs[i].value;
    const size_t n_bytes = (size_t)clef__bytes(v, r->data->oracle.symbols);
    char text[400];
    int64_t at = 0;
    clef_error err;
    void *data = malloc(n_bytes);
    assert_non_null(data);
    if (clef_plan_read(r->plan, clef_plan_output(r->plan, r->data->graph->outputs[i].name), data, n_bytes,
                       &err)) {
        complain(r, err.text);
        free(data);
        return 0;
    }
    const double *want = r->data->oracle.results[v->id].x;
    const double e = clef__worst_error(v->dtype, data, want, clef__elements(v, r->data->oracle.symbols),
                                       tolerance(r), &at);
    r->worst = fmax(r->worst, e);
    if (e > 1) {
        snprintf(text, sizeof text, "element %lld is %.9g, expected %.9g (%.3g of the tolerance %.3g)",
                 (long long)at, clef__stored_element(v->dtype, data, at), want[at], e, tolerance(r));
        complain(r, text);
    }
    free(data);
    return e <= 1;
}

static clef_status write_inputs(run *r, clef_error *err)
{
    clef_status s = clef_plan_reset(r->plan, err);
    for (int32_t i = 1; i <= r->data->graph->n_symbols && !s; i++)
        s = clef_plan_bind(r->plan, clef_plan_symbol(r->plan, clef_graph_symbol(r->data->graph, i, NULL)),
                           r->data->oracle.symbols[i - 1], err);
    for (int32_t i = 0; i < r->data->graph->n_values && !s; i++) {
        const clef_value *v = r->data->graph->values[i];
        if (v->kind == CLEF_INPUT)
            s = clef_plan_write(r->plan, clef_plan_input(r->plan, v->name), r->data->oracle.leaves[i].bytes,
                                r->data->oracle.leaves[i].n_bytes, err);
    }
    return s ? s : clef_plan_run(r->plan, err);
}

/* One run at the present symbols. */
static int check_run(run *r)
{
    clef_error err;
    int ok = 1;
    if (clef__oracle_eval(&r->data->oracle, &err) || write_inputs(r, &err)) {
        complain(r, err.text);
        ok = 0;
    }
    for (int32_t i = 0; i < r->data->graph->n_outputs && ok; i++)
        ok = check_output(r, i);
    return ok;
}

static int32_t count_rounds(const clef_graph *g)
{
    return g->n_symbols ? (g->n_symbols > 1 ? g->n_symbols : 0) + 4 : 1;
}

/* The symbols' values in a round: at the bounds, all at 1, each at 1 alone, in the middle, and back at the
 * bounds. */
static void set_symbols(const clef_graph *g, int32_t round, int64_t *symbols)
{
    const int32_t n = g->n_symbols, alone = n > 1 ? n : 0, rounds = count_rounds(g);
    for (int32_t i = 0; i < n; i++)
        symbols[i] = round == 1 || (alone && round == i + 2) ? 1
                     : round == rounds - 2                   ? (g->symbols[i].bound + 1) / 2
                                                             : g->symbols[i].bound;
}

/* One plan of `planned` (the case's graph, or what the passes made of it) serves all rounds. */
static int check_symbols(run *r, const clef_graph *planned)
{
    const clef_graph *g = r->data->graph;
    char forced[64] = "";
    if (r->variant)
        snprintf(forced, sizeof forced, "%s=%s", r->op->name, r->variant->name);
    const clef_plan_opts opts = {.compile.gemm = r->gemm,
                                 .as_stored = 1,
                                 .variants = forced,
                                 .compile.no_tune = 1,
                                 .weights = clef__oracle_weight,
                                 .weights_user = &r->data->oracle};
    clef_error err;
    int ok = 1;
    for (int32_t round = 0; round < count_rounds(g); round++) {
        set_symbols(g, round, r->data->oracle.symbols);
        if (clef__oracle_draw(&r->data->oracle, &err)) {
            complain(r, err.text);
            ok = 0;
            break;
        }
        if (round == 0 && clef_plan_create(r->dev, planned, &opts, &r->plan, &err)) {
            complain(r, err.text);
            return 0;
        }
        ok = check_run(r) && ok;
    }
    clef_plan_destroy(r->plan);
    return ok;
}

/* Whether the variant can do a node of the case, at the symbols' bounds or at 1. */
static int variant_fits(const run *r)
{
    const clef_graph *g = r->data->graph;
    for (int32_t i = 0; i < 2 * g->n_values; i++) {
        const clef_value *n = g->values[i / 2];
        const clef_lowering lo = {.graph = g,
                                  .caps = &clef_device_describe(r->dev)->caps,
                                  .symbols = r->data->oracle.symbols,
                                  .gemm = r->gemm,
                                  .node = n};
        for (int32_t k = 0; k < g->n_symbols; k++)
            r->data->oracle.symbols[k] = i % 2 ? 1 : g->symbols[k].bound;
        if (n->op != CLEF_OP_NONE && clef__ops[n->op] == r->op && clef__variant_fits(&lo, n, r->variant))
            return 1;
    }
    return 0;
}

/* ---- what another run has tested: a digest of launches stands for the work of a graph -------- */

static uint64_t add_launch(uint64_t digest, const clef_launch *l)
{
    if (l->source)
        digest = clef__hash(digest, l->source, strlen(l->source) + 1);
    if (l->kernel)
        digest = clef__hash(digest, l->kernel, strlen(l->kernel) + 1);
    for (int i = 0; i < CLEF_MAX_DEFS && l->defs[i].name; i++) {
        digest = clef__hash(digest, l->defs[i].name, strlen(l->defs[i].name) + 1);
        digest = clef__hash(digest, &l->defs[i].value, sizeof l->defs[i].value);
    }
    digest = clef__hash(digest, l->args, l->args_bytes);
    digest = clef__hash(digest, l->bufs, l->n_bufs * sizeof *l->bufs);
    digest = clef__hash(digest, l->groups, sizeof l->groups);
    digest = clef__hash(digest, l->local, sizeof l->local);
    return clef__hash(digest, &(uint64_t[]){l->call, (uint64_t)l->c_version, l->scratch_bytes},
                      3 * sizeof(uint64_t));
}

/* All launches of the graph on a device of these capabilities, in every round. 0: it cannot be lowered there.
 */
static uint64_t digest_graph(const run *r, const clef_graph *g, const clef_caps *caps)
{
    static clef_launch launches[64];
    static unsigned char args[64 * CLEF_MAX_ARGS_BYTES];
    const clef_variant *forced[CLEF_N_OPS] = {0};
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    uint64_t digest = CLEF__HASH_START;
    for (int32_t i = 0; i < CLEF_N_OPS; i++)
        forced[i] = clef__ops[i] == r->op ? r->variant : NULL;
    for (int32_t round = 0; round < count_rounds(g); round++) {
        set_symbols(g, round, symbols);
        for (int32_t i = 0; i < g->n_values; i++) {
            const clef_value *n = g->values[i];
            clef_error err;
            clef_lowering lo = {.graph = g,
                                .caps = caps,
                                .symbols = symbols,
                                .gemm = r->gemm,
                                .forced = forced,
                                .node = n,
                                .launches = launches,
                                .cap = 64,
                                .args = args};
            if (n->op == CLEF_OP_NONE || !clef__ops[n->op]->lower)
                continue;
            if (clef__ops[n->op]->lower(&lo, n, &err))
                return 0;
            for (int32_t k = 0; k < lo.n; k++)
                digest = add_launch(digest, &launches[k]);
        }
    }
    return digest;
}

/* Whether the run under CLEF_TEST_BEYOND has launched for this graph what this run would. A graph that cannot
 * be lowered counts as not tested. */
static int is_tested(const run *r, const clef_graph *g)
{
    const clef_caps *caps = &clef_device_describe(r->dev)->caps;
    const uint64_t digest = r->other ? digest_graph(r, g, caps) : 0;
    return digest && digest == digest_graph(r, g, r->other);
}

static int differ(const clef_graph *a, const clef_graph *b)
{
    int same = a->n_values == b->n_values;
    for (int32_t i = 0; i < a->n_values && same; i++)
        same = a->values[i]->op == b->values[i]->op &&
               clef__shape_equal(&a->values[i]->shape, &b->values[i]->shape);
    return !same;
}

/* What the passes make of the case's graph; NULL where that is the same graph, or after a complaint (*ok is
 * 0). */
static clef_graph *optimize_copy(const run *r, int *ok)
{
    clef_error err;
    clef_graph *g = clef_graph_clone(r->data->graph);
    assert_non_null(g);
    *ok = clef_graph_optimize(g, NULL, &err) == CLEF_OK && clef_graph_optimize(g, "verify", &err) == CLEF_OK;
    if (!*ok)
        complain(r, err.text);
    if (*ok && differ(g, r->data->graph))
        return g;
    clef_graph_destroy(g);
    return NULL;
}

/* What the passes make of the case's graph gives what the graph as written gives. */
static int check_optimized(run *r)
{
    int ok;
    clef_graph *g = optimize_copy(r, &ok);
    if (g)
        ok = check_symbols(r, g);
    if (!ok)
        print_error("after the passes\n");
    clef_graph_destroy(g);
    return ok;
}

static double flops_at_bounds(const clef_graph *g)
{
    int64_t symbols[CLEF_MAX_SYMBOLS] = {0};
    double flops = 0;
    for (int32_t i = 0; i < g->n_symbols; i++)
        symbols[i] = g->symbols[i].bound;
    for (int32_t i = 0; i < g->n_values; i++)
        if (g->values[i]->op != CLEF_OP_NONE) {
            const clef_cost cost = clef__ops[g->values[i]->op]->cost(g->values[i], symbols);
            flops += cost.flops + cost.bytes / 8;
        }
    return flops;
}

/* Cases of an op or of one of its variants. */
typedef struct tally {
    int cases, failed, left;
} tally;

/* Makes the run of a case by a variant (NULL: free choice) on a device. 0 after a message. */
static int open_run(run *r, case_data *c, const clef_op_def *op, const clef_op_case *of, int device,
                    const clef_variant *variant)
{
    clef_error err;
    *c = (case_data){.of = of};
    *r = (run){.op = op,
               .dev = devices[device],
               .other = beyond ? &other_caps[device] : NULL,
               .gemm = variant && variant->clblast ? CLEF_GEMM_CLBLAST : CLEF_GEMM_OWN,
               .variant = variant,
               .data = c};
    if (clef_graph_parse(of->graph, strlen(of->graph), op->name, &c->graph, &err)) {
        print_error("%s\n%s", err.text, of->graph);
        return 0;
    }
    c->oracle = (clef__oracle){.int_lo = of->int_lo, .int_hi = of->int_hi, .spread = of->spread};
    assert_int_equal(clef__oracle_init(&c->oracle, c->graph, &err), CLEF_OK);
    return 1;
}

static void close_run(case_data *c)
{
    clef__oracle_finish(&c->oracle);
    clef_graph_destroy(c->graph);
}

static int check_case(const clef_op_def *op, const clef_op_case *of, int device, const clef_variant *variant,
                      tally *count)
{
    case_data c;
    run r;
    int ok = open_run(&r, &c, op, of, device, variant);
    if (ok) {
        ok = check_symbols(&r, c.graph);
        ok = check_optimized(&r) && ok;
        if (verbose)
            print_message("%s %s: %.3f of the tolerance\n", op->name, variant ? variant->name : "", r.worst);
    }
    count->cases++;
    count->failed += !ok;
    close_run(&c);
    return ok;
}

/* ---- which cases run ------------------------------------------------------------------------- */

/* Runs are numbered over all devices, ops, variants and cases. A shard does those from begin up to end. */
static struct {
    int next, begin, end;
} shard = {0, 0, INT_MAX};

static int is_in_shard(void)
{
    const int number = shard.next++;
    return number >= shard.begin && number < shard.end;
}

/* Whether the variant can do the case, and another run has not tested what it launches. A case that cannot be
 * read is due, so that it fails. */
static int is_due(const clef_op_def *op, const clef_op_case *of, int device, const clef_variant *variant)
{
    case_data c;
    run r;
    int ok = 1, due = 1;
    if (open_run(&r, &c, op, of, device, variant)) {
        due = flops_at_bounds(c.graph) <= most_flops && (!variant || variant_fits(&r));
        if (due && is_tested(&r, c.graph)) {
            clef_graph *g = optimize_copy(&r, &ok);
            due = !ok || (g && !is_tested(&r, g));
            clef_graph_destroy(g);
        }
    }
    close_run(&c);
    return due;
}

/* Whether case i of n is among the CLEF_TEST_CASES that are spread over the list. */
static int is_in_sample(int i, int n)
{
    return n <= most_cases || (int64_t)(i + 1) * most_cases / n > (int64_t)i * most_cases / n;
}

static clef_op_case *loaded[CLEF_N_OPS];

static const clef_op_case *cases_of(const clef_op_def *op)
{
    clef_error err = {0};
    int i = 0;
    while (clef__ops[i] != op)
        i++;
    if (!loaded[i] && clef__cases_load(op, &loaded[i], &err)) {
        print_error("%s\n", err.text);
        exit(1);
    }
    return loaded[i];
}

static void free_cases(void)
{
    for (int i = 0; i < CLEF_N_OPS; i++)
        clef__cases_free(loaded[i]);
}

static int count_cases(const clef_op_def *op)
{
    int n = 0;
    while (cases_of(op)[n].graph)
        n++;
    return n;
}

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Sets due[i] to 1 for the cases that run; returns how many do. */
static int choose_cases(const clef_op_def *op, int device, const clef_variant *variant, unsigned char *due)
{
    const int n_cases = count_cases(op);
    int n_due = 0, n_chosen = 0, place = 0;
    for (int i = 0; i < n_cases; i++)
        n_due += due[i] = (unsigned char)is_due(op, &cases_of(op)[i], device, variant);
    for (int i = 0; i < n_cases; i++)
        if (due[i])
            n_chosen += due[i] = (unsigned char)is_in_sample(place++, n_due);
    return n_chosen;
}

/* The chosen cases of this shard on all devices, none of which begins after so many seconds. */
static tally check_variant(const clef_op_def *op, const clef_variant *variant, double seconds)
{
    const char *report = getenv("CLEF_TEST_REPORT");
    tally count = {0};
    const double start = processor_seconds();
    const int n_cases = count_cases(op);
    unsigned char *due = calloc((size_t)n_cases + 1, 1);
    assert_non_null(due);
    for (int d = 0; d < n_devices; d++) {
        choose_cases(op, d, variant, due);
        for (int i = 0; i < n_cases; i++)
            if (due[i] && is_in_shard()) {
                if (processor_seconds() - start > seconds)
                    count.left++;
                else
                    check_case(op, &cases_of(op)[i], d, variant, &count);
            }
    }
    free(due);
    FILE *f = report && count.cases ? fopen(report, "a") : NULL;
    if (f) {
        fprintf(f, "%s %s %d %d %d\n", op->name, variant ? variant->name : "-", count.cases, count.failed,
                count.left);
        fclose(f);
    }
    if (count.left)
        print_message("%s %s: %d cases left: no time\n", op->name, variant ? variant->name : "", count.left);
    return count;
}

/* Row i or a later one of the variants that run of the op; *i is set behind it. NULL behind the last. */
static const clef_variant *next_variant(const clef_op_def *op, int32_t *i)
{
    const char *only = getenv("CLEF_TEST_VARIANT");
    const clef_variant *variant;
    clef_op of;
    while ((variant = clef__variant_row((*i)++, &of)))
        if (clef__ops[of] == op && !(only && strcmp(only, variant->name) != 0))
            return variant;
    return NULL;
}

static int has_variants(const clef_op_def *op)
{
    clef_op of;
    for (int32_t i = 0; clef__variant_row(i, &of); i++)
        if (clef__ops[of] == op)
            return 1;
    return 0;
}

/* A test and the number of its first run. */
typedef struct planned_test {
    const clef_op_def *op; /* NULL: random graphs */
    int first, n_runs;
} planned_test;

static void test_op(void **state)
{
    const planned_test *planned = *state;
    const clef_op_def *op = planned->op;
    const clef_variant *variant;
    const double start = processor_seconds();
    int failed = 0, left = 0;
    assert_non_null(op->ref);
    assert_non_null(op->cost);
    shard.next = planned->first;
    for (int32_t i = 0; next_variant(op, &i);)
        left++;
    for (int32_t i = 0; (variant = next_variant(op, &i));) {
        const double share = (most_seconds - (processor_seconds() - start)) / left--;
        failed += check_variant(op, variant, share).failed;
    }
    if (!has_variants(op))
        failed += check_variant(op, NULL, most_seconds).failed;
    assert_int_equal(failed, 0);
}

/* ---- random graphs --------------------------------------------------------------------------- */

enum { RANDOM_GRAPHS = 60, RANDOM_NODES = 14, RANDOM_TEXT = 4096 };

/* A graph of values [1, 2, 4, 4], so that everything fits everything. shows[i]: which version of the state
 * value i shows, -1 none. */
typedef struct random_graph {
    char text[RANDOM_TEXT];
    size_t n_bytes;
    int shows[RANDOM_NODES + 2];
    int n, version, last_write; /* last_write: the value that gives the state as it is */
} random_graph;

static int below(int n)
{
    return (int)(uniform() * n);
}

/* A value that may still be read, of the younger ones rather. */
static int pick(const random_graph *g)
{
    for (;;) {
        const int i = below(2) ? below(g->n) : g->n - 1 - below(g->n < 3 ? g->n : 3);
        if (g->shows[i] < 0 || g->shows[i] == g->version)
            return i;
    }
}

static void add_random_node(random_graph *g)
{
    static const char *const forms[] = {"affine(v%d) scale=1",
                                        "affine(v%d) scale=0.5 shift=1",
                                        "copy(v%d)",
                                        "silu(v%d)",
                                        "softmax(v%d)",
                                        "softmax(v%d) causal=1 scale=2",
                                        "softmax(v%d)",
                                        "matmul(v%d, v%d) transpose_b=1 alpha=0.5",
                                        "matmul(v%d, v%d)",
                                        "matmul(v%d, v%d)",
                                        "mul(v%d, v%d)",
                                        "add(v%d, v%d)",
                                        "add(v%d, b)",
                                        "cache_write(v%d, v%d)",
                                        "permute(v%d) axes=[0, 1, 2, 3]",
                                        "permute(v%d) axes=[0, 1, 3, 2]",
                                        "permute(v%d) axes=[0, 1, 3, 2]",
                                        "slice(v%d) size=1",
                                        "reshape(v%d) : f32 [1, 2, 4, 4]"};
    const int f = below((int)(sizeof forms / sizeof *forms)), writes = strncmp(forms[f], "cache", 5) == 0;
    const int is_view = strncmp(forms[f], "permute", 7) == 0 || strncmp(forms[f], "slice", 5) == 0;
    int a = pick(g), b = pick(g);
    if (writes) { /* the state, or the last write of it */
        a = g->last_write;
        if (g->shows[b] >= 0)
            return;
        g->last_write = g->n;
    }
    g->n_bytes += (size_t)snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, "v%d = ", g->n);
    g->n_bytes += (size_t)snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, forms[f], a, b);
    g->text[g->n_bytes++] = '\n';
    g->version += writes;
    g->shows[g->n++] = writes                                            ? g->version
                       : is_view || strncmp(forms[f], "reshape", 7) == 0 ? g->shows[a]
                                                                         : -1;
}

static void make_random_graph(int seed, random_graph *g)
{
    *g = (random_graph){.n = 2, .shows = {-1, 0}, .last_write = 1};
    random_state = 977 * (uint64_t)seed + 5;
    g->n_bytes = (size_t)snprintf(g->text, sizeof g->text,
                                  "weight b f32 [4]\ninput v0 f32 [1, 2, 4, 4]\nstate v1 f32 [1, 2, 4, 4]\n");
    while (g->n < RANDOM_NODES)
        add_random_node(g);
    snprintf(g->text + g->n_bytes, sizeof g->text - g->n_bytes, "output v%d\n", g->n - 1);
}

static const clef_op_def random_op = {.name = "random graph",
                                      .tol = 1e-4f}; /* far from the bounds of single ops, as errors add up */

/* The random graphs that are due, on all devices; of these `visit`, where it is given, is called for the
 * shard's. */
static int walk_random_graphs(void (*visit)(const clef_op_case *of, int device, tally *count), tally *count)
{
    int n = 0;
    for (int i = 0; i < RANDOM_GRAPHS; i++) {
        random_graph g;
        make_random_graph(i, &g);
        const clef_op_case of = {.graph = g.text};
        for (int d = 0; d < n_devices; d++)
            if (is_due(&random_op, &of, d, NULL)) {
                n++;
                if (visit && is_in_shard())
                    visit(&of, d, count);
            }
    }
    return n;
}

static void check_random_graph(const clef_op_case *of, int device, tally *count)
{
    check_case(&random_op, of, device, NULL, count);
}

/* With and without the passes, on each device, against the reference of the graph as written. */
static void test_random_graphs(void **state)
{
    const planned_test *planned = *state;
    tally count = {0};
    shard.next = planned->first;
    walk_random_graphs(check_random_graph, &count);
    assert_int_equal(count.failed, 0);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* What the device can do under CLEF_TEST_BEYOND. */
static clef_status read_other_caps(const char *name, clef_caps *caps, clef_error *err)
{
    const char *now = getenv("CLEF_CAPS");
    char *kept = now ? strdup(now) : NULL;
    clef_device *dev = NULL;
    setenv("CLEF_CAPS", beyond, 1);
    const clef_status s = clef_device_open(name, NULL, &dev, err);
    if (!s)
        *caps = clef_device_describe(dev)->caps;
    clef_device_close(dev);
    if (kept)
        setenv("CLEF_CAPS", kept, 1);
    else
        unsetenv("CLEF_CAPS");
    free(kept);
    return s;
}

static clef_status add_device(const char *name, clef_error *err)
{
    clef_status s = beyond ? read_other_caps(name, &other_caps[n_devices], err) : CLEF_OK;
    if (!s)
        s = clef_device_open(name, NULL, &devices[n_devices], err);
    n_devices += s == CLEF_OK;
    return s;
}

static int open_devices(void)
{
    const char *wanted = getenv("CLEF_TEST_DEVICE");
    clef_device_info *list = NULL;
    int32_t n = 0;
    clef_error err = {0};
    if (wanted && *wanted) {
        add_device(wanted, &err);
    } else if (clef_devices_list(&list, &n, &err) == CLEF_OK) {
        for (int32_t i = 0; i < n && n_devices < MAX_DEVICES; i++) {
            char which[32];
            snprintf(which, sizeof which, "%d:%d", list[i].platform, list[i].index);
            if (!list[i].refused[0])
                add_device(which, &err);
        }
        clef_devices_free(list);
    }
    if (!n_devices)
        print_error("no OpenCL device could be opened: %s\n", err.text);
    return n_devices;
}

static void close_devices(void)
{
    while (n_devices)
        clef_device_close(devices[--n_devices]);
}

static int is_wanted(const char *only, const char *name)
{
    return !only || (*only == '=' ? strcmp(only + 1, name) == 0 : strstr(name, only) != NULL);
}

/* ---- which tests run ------------------------------------------------------------------------- */

static int count_runs(const clef_op_def *op)
{
    unsigned char *due = calloc((size_t)count_cases(op) + 1, 1);
    const clef_variant *variant;
    int n = 0;
    assert_non_null(due);
    for (int d = 0; d < n_devices; d++) {
        for (int32_t i = 0; (variant = next_variant(op, &i));)
            n += choose_cases(op, d, variant, due);
        n += has_variants(op) ? 0 : choose_cases(op, d, NULL, due);
    }
    free(due);
    return n;
}

static int plan_tests(const char *only, planned_test *tests)
{
    int n = 0, first = 0;
    for (int32_t i = 0; i < CLEF_N_OPS; i++)
        if (is_wanted(only, clef__ops[i]->name))
            tests[n++] = (planned_test){.op = clef__ops[i], .n_runs = count_runs(clef__ops[i])};
    if (is_wanted(only, "random graphs"))
        tests[n++] = (planned_test){.n_runs = walk_random_graphs(NULL, NULL)};
    for (int i = 0; i < n; i++) {
        tests[i].first = first;
        first += tests[i].n_runs;
    }
    return n;
}

/* Part i of the `total` runs, of CLEF_TEST_SHARD=i/n. 0: it is no such text. */
static int choose_shard(const char *text, int total)
{
    int i = 0, n = 0;
    if (sscanf(text, "%d/%d", &i, &n) != 2 || i < 1 || i > n) {
        print_error("CLEF_TEST_SHARD: expected i/n with i from 1 to n, got '%s'\n", text);
        return 0;
    }
    shard.begin = (int)((int64_t)total * (i - 1) / n);
    shard.end = (int)((int64_t)total * i / n);
    return 1;
}

/* The tests that have a run in the shard. An op without a case is tested, and fails, in the first. */
static size_t make_tests(planned_test *planned, int n, struct CMUnitTest *tests)
{
    size_t n_tests = 0;
    for (int i = 0; i < n; i++) {
        planned_test *p = &planned[i];
        if (p->n_runs ? p->first + p->n_runs > shard.begin && p->first < shard.end
                      : !beyond && shard.begin == 0)
            tests[n_tests++] = (struct CMUnitTest){.name = p->op ? p->op->name : "random graphs",
                                                   .test_func = p->op ? test_op : test_random_graphs,
                                                   .initial_state = p};
    }
    return n_tests;
}

enum { SKIPPED = 77 }; /* the exit code that CTest is told (SKIP_RETURN_CODE) */

int main(void)
{
    planned_test planned[CLEF_N_OPS + 1];
    struct CMUnitTest tests[CLEF_N_OPS + 1];
    const char *part = getenv("CLEF_TEST_SHARD");
    verbose = getenv("CLEF_TEST_VERBOSE") != NULL;
    beyond = getenv("CLEF_TEST_BEYOND");
    if (getenv("CLEF_TEST_CASES"))
        most_cases = atoi(getenv("CLEF_TEST_CASES"));
    if (getenv("CLEF_TEST_MOST"))
        most_flops = atof(getenv("CLEF_TEST_MOST"));
    if (getenv("CLEF_TEST_SECONDS"))
        most_seconds = atof(getenv("CLEF_TEST_SECONDS"));
    if (!open_devices())
        return 1;
    const int n = plan_tests(getenv("CLEF_TEST_OPS"), planned);
    int code = part && !choose_shard(part, n ? planned[n - 1].first + planned[n - 1].n_runs : 0);
    const size_t n_tests = code ? 0 : make_tests(planned, n, tests);
    if (n_tests)
        code = _cmocka_run_group_tests("ops", tests, n_tests, NULL, NULL);
    else if (!code) {
        puts("skipped: nothing is launched here that another run has not tested");
        code = SKIPPED;
    }
    close_devices();
    free_cases();
    return code;
}
