/* The gradient rule of every op, on every case of the op: against finite differences of the references in
 * double, and on the test's device against the references of the gradient's own nodes.
 *   CLEF_TEST_OPS       only the ops whose name contains this text; "=name": only the op of that name
 *   CLEF_TEST_HOST      1: only the finite differences, without a device; 0: only the device
 *   CLEF_TEST_SECONDS   no case of an op begins after so many seconds of processor time
 *   CLEF_TEST_MOST      only cases of at most so many elements (for simulators)
 *   CLEF_TEST_TURN      "i/n": of each op every nth case with a gradient, and one at least (tests/check.h)
 *   CLEF_TEST_REPORT    a file that gets a line "op gradient cases failed left" for each op */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/value.h"
#include "op_run.h"
#include "run_graph.h"
#include "tests/check.h"

enum {
    MOST_LEAVES = 12,
    SAMPLES = 8 /* elements of each leaf that are moved */
};

static clef_device *device;
static int on_host = 1;
static int64_t most_elements = 200000; /* of a case */
static double most_seconds = INFINITY;

/* A case's graph with the loss sum(out * r) over its outputs, for random r. */
typedef struct gradient_case {
    const clef_op_case *of;
    clef_graph *plain, *graph; /* with the loss; and with the gradients, too */
    clef_value *loss, *leaves[MOST_LEAVES], *gradients[MOST_LEAVES];
    int n_leaves;
    clef__oracle oracle;
} gradient_case;

static clef_value *weighted_sum(clef_graph *g, clef_value *x, int number)
{
    char name[32];
    snprintf(name, sizeof name, "random.%d", number);
    clef_value *r = clef_input(g, name, CLEF_F32, x->shape);
    clef_value *all = clef_sum_axes(g, clef_mul(g, x, r), &(clef_sum_axes_opts){(1 << x->shape.rank) - 1});
    return clef_reshape(g, all, (clef_shape){0});
}

static void add_loss(gradient_case *c)
{
    clef_graph *g = c->graph;
    const int n = clef_graph_n_outputs(g);
    for (int i = 0; i < n; i++) {
        clef_value *out = clef_graph_output(g, i, NULL);
        if (out->dtype != CLEF_F32)
            continue;
        clef_value *sum = weighted_sum(g, out, i);
        c->loss = c->loss ? clef_add(g, c->loss, sum) : sum;
    }
}

/* Whether a node takes the leaf as a constant. */
static int is_fixed(const clef_graph *g, const clef_value *leaf)
{
    for (int32_t i = 0; i < g->n_values; i++) {
        const clef_value *v = g->values[i];
        for (int32_t k = 0; k < v->n_in; k++)
            if (v->in[k] && clef__base(v->in[k]) == leaf && clef__ops[v->op]->fixed >> k & 1)
                return 1;
    }
    return 0;
}

static void find_leaves(gradient_case *c)
{
    for (int32_t i = 0; i < c->graph->n_values && c->n_leaves < MOST_LEAVES; i++) {
        clef_value *v = c->graph->values[i];
        const int is_float = v->dtype == CLEF_F32 || v->dtype == CLEF_F16 || v->dtype == CLEF_BF16;
        if (v->op == CLEF_OP_NONE && v->kind != CLEF_CONSTANT && is_float &&
            strncmp(v->name, "random.", 7) != 0 && !is_fixed(c->graph, v))
            c->leaves[c->n_leaves++] = v;
    }
}

static clef_status open_case(gradient_case *c, clef_error *err)
{
    clef_status s = clef_graph_parse(c->of->graph, strlen(c->of->graph), "case", &c->graph, err);
    if (!s)
        s = clef_graph_fix_symbols(c->graph, err);
    if (s)
        return s;
    add_loss(c);
    find_leaves(c);
    s = clef_graph_error(c->graph, err);
    c->plain = s ? NULL : clef_graph_clone(c->graph);
    if (!s && c->loss)
        s = clef_graph_gradients(c->graph, c->loss, c->leaves, c->n_leaves, NULL, c->gradients, err);
    return s;
}

static void close_case(gradient_case *c)
{
    if (c->oracle.graph)
        clef__oracle_finish(&c->oracle);
    clef_graph_destroy(c->plain);
    clef_graph_destroy(c->graph);
}

/* ---- finite differences ------------------------------------------------------------------------ */

typedef struct moved_leaf {
    const clef__oracle *oracle;
    int32_t leaf;
    int64_t element;
    double by;
} moved_leaf;

static clef_status read_moved(void *user, const clef_value *v, double *x, int64_t n, clef_error *err)
{
    const moved_leaf *m = user;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        x[i] = (double)m->oracle->leaves[v->id].x[i];
    if (v->id == m->leaf)
        x[m->element] += m->by;
    return CLEF_OK;
}

static double loss_at(const gradient_case *c, int32_t leaf, int64_t element, double by)
{
    moved_leaf m = {&c->oracle, leaf, element, by};
    clef_error err;
    clef_ref_tensor *results = calloc((size_t)c->plain->n_values, sizeof *results);
    assert_non_null(results);
    assert_int_equal(clef__ref_eval(c->plain, NULL, read_moved, &m, results, &err), CLEF_OK);
    const double loss = results[c->loss->id].x[0];
    clef__ref_free(results, c->plain->n_values);
    free(results);
    return loss;
}

/* Fourth-order central differences: their error is some h^4 = 1e-12 of the fifth derivative. */
static double slope_at(const gradient_case *c, int32_t leaf, int64_t element)
{
    const double h = 1e-3;
    return (8 * (loss_at(c, leaf, element, h) - loss_at(c, leaf, element, -h)) -
            (loss_at(c, leaf, element, 2 * h) - loss_at(c, leaf, element, -2 * h))) /
           (12 * h);
}

static int check_leaf(const gradient_case *c, int k)
{
    const double tolerance = 1e-5;
    const clef_value *leaf = c->leaves[k], *d = c->gradients[k];
    const int64_t n = clef__elements(leaf, NULL);
    double most = 0;
    for (int64_t i = 0; i < n && d; i++)
        most = fmax(most, fabs(c->oracle.results[d->id].x[i]));
    for (int64_t s = 0; s < SAMPLES && s < n; s++) {
        const int64_t at = n <= SAMPLES ? s : (int64_t)((double)n * (double)s / (double)SAMPLES + 7) % n;
        const double want = slope_at(c, leaf->id, at), got = d ? c->oracle.results[d->id].x[at] : 0;
        /* a loss that is NaN has no slope; 0 is right for what it does not depend on */
        const int is_nan = isnan(want) && (isnan(got) || got == 0);
        if (!is_nan && !(fabs(want - got) <= tolerance * (most + fabs(want) + 1e-3))) {
            print_error("%s: element %lld of the gradient is %.9g, finite differences give %.9g, in\n%s\n",
                        leaf->name, (long long)at, got, want, c->of->graph);
            return 0;
        }
    }
    return 1;
}

static clef_status draw(gradient_case *c, clef_error *err)
{
    c->oracle = (clef__oracle){.int_lo = c->of->int_lo, .int_hi = c->of->int_hi, .spread = c->of->spread};
    clef_status s = clef__oracle_init(&c->oracle, c->graph, err);
    if (!s)
        s = clef__oracle_draw(&c->oracle, err);
    return s ? s : clef__oracle_eval(&c->oracle, err);
}

/* ---- on the device ----------------------------------------------------------------------------- */

/* A sum whose terms cancel to nearly nothing has no relative accuracy. */
static int is_tiny(const gradient_case *c, const clef_value *d)
{
    double most = 0;
    for (int64_t i = 0; i < clef__elements(d, NULL); i++)
        most = fmax(most, fabs(c->oracle.results[d->id].x[i]));
    return most < 1e-5;
}

static int check_on_device(gradient_case *c)
{
    static const clef_op_def gradient_op = {.name = "gradient",
                                            .tol = 5e-5f}; /* errors of several ops add up */
    char *text = NULL, name[32];
    size_t n_bytes = 0;
    clef_error err;
    if (c->of->tol > 0) /* its outputs are less exact than gradients; test_ops checks them */
        c->graph->n_outputs = 0;
    for (int k = 0; k < c->n_leaves; k++) {
        snprintf(name, sizeof name, "gradient.%d", k);
        if (c->gradients[k] && !is_tiny(c, c->gradients[k]))
            clef_output(c->graph, name, c->gradients[k]);
    }
    if (c->graph->n_outputs == 0) /* nothing to check: all gradients cancel */
        return 1;
    FILE *f = open_memstream(&text, &n_bytes);
    assert_non_null(f);
    assert_int_equal(clef_graph_write_text(c->graph, f, &err), CLEF_OK);
    fclose(f);
    const clef_op_case of = {
        .graph = text, .int_lo = c->of->int_lo, .int_hi = c->of->int_hi, .spread = c->of->spread};
    case_data data;
    op_run run;
    int ok = op_run_open(&run, &data, &gradient_op, &of, device, NULL, NULL);
    if (ok)
        ok = op_run_check(&run);
    op_run_close(&data);
    if (!ok)
        print_error("%s\n", text);
    free(text);
    return ok;
}

/* ---- all ops ----------------------------------------------------------------------------------- */

static int is_large(const gradient_case *c)
{
    int64_t n = 0;
    for (int32_t i = 0; i < c->graph->n_values; i++)
        n += clef__elements(c->graph->values[i], NULL);
    return n > most_elements;
}

/* Cases by what became of them. */
typedef struct tally {
    int n, failed, refused, left; /* left: too large, or out of time */
} tally;

/* A case that uses an input without a gradient is refused, and the refusal must say so. */
static void check_case(const clef_op_case *of, tally *count)
{
    gradient_case c = {.of = of};
    clef_error err = {0};
    int ok = 1;
    clef_status s = open_case(&c, &err);
    if (s == CLEF_E_UNSUPPORTED) {
        ok = strstr(err.text, "gradient") != NULL;
        count->refused++;
    } else if (!s && is_large(&c)) {
        count->left++;
    } else if (!s && c.loss) {
        s = draw(&c, &err);
        for (int k = 0; k < c.n_leaves && on_host && ok && !s; k++)
            ok = check_leaf(&c, k);
        if (ok && !s && device)
            ok = check_on_device(&c);
    }
    if (s && s != CLEF_E_UNSUPPORTED)
        print_error("%s\n%s\n", err.text, of->graph);
    close_case(&c);
    count->failed += !ok || (s && s != CLEF_E_UNSUPPORTED);
}

static int is_refused(const clef_op_case *of)
{
    gradient_case c = {.of = of};
    clef_error err = {0};
    const int is = open_case(&c, &err) == CLEF_E_UNSUPPORTED;
    close_case(&c);
    return is;
}

static int count_accepted(const clef_op_case *cases)
{
    int n = 0;
    for (; cases->graph; cases++)
        n += !is_refused(cases);
    return n;
}

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static void report(const clef_op_def *op, const tally *t)
{
    const char *path = getenv("CLEF_TEST_REPORT");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (f) {
        fprintf(f, "%s gradient %d %d %d\n", op->name, t->n - t->refused - t->left, t->failed, t->left);
        fclose(f);
    }
}

static void test_op(void **state)
{
    const clef_op_def *op = *state;
    const double start = processor_seconds();
    clef_op_case *cases = NULL;
    clef_error err;
    tally count = {0};
    assert_int_equal(clef__cases_load(op, &cases, &err), CLEF_OK);
    const int n_accepted = count_accepted(cases);
    for (int i = 0, place = 0; cases[i].graph; i++) {
        if (!is_refused(&cases[i]) && !is_in_turn(place++, n_accepted))
            continue;
        count.n++;
        if (processor_seconds() - start > most_seconds)
            count.left++;
        else
            check_case(&cases[i], &count);
    }
    clef__cases_free(cases);
    print_message("%s: %d cases, %d refused, %d left\n", op->name, count.n, count.refused, count.left);
    report(op, &count);
    assert_int_equal(count.failed, 0);
    assert_true(count.refused < count.n);
}

static int is_wanted(const char *only, const char *name)
{
    return !only || (*only == '=' ? strcmp(only + 1, name) == 0 : strstr(name, only) != NULL);
}

int main(void)
{
    static struct CMUnitTest tests[CLEF_N_OPS];
    size_t n = 0;
    for (int32_t i = 0; i < CLEF_N_OPS; i++)
        if (clef__ops[i]->grad && is_wanted(getenv("CLEF_TEST_OPS"), clef__ops[i]->name))
            tests[n++] = (struct CMUnitTest){.name = clef__ops[i]->name,
                                             .test_func = test_op,
                                             .initial_state = (void *)(uintptr_t)clef__ops[i]};
    if (!n)
        return 77; /* skipped: no op with a gradient is wanted */
    const char *host = getenv("CLEF_TEST_HOST");
    if (getenv("CLEF_TEST_SECONDS"))
        most_seconds = atof(getenv("CLEF_TEST_SECONDS"));
    if (getenv("CLEF_TEST_MOST"))
        most_elements = atol(getenv("CLEF_TEST_MOST"));
    on_host = !host || *host != '0';
    device = host && *host != '0' ? NULL : test_device();
    const int code = _cmocka_run_group_tests("gradients", tests, n, NULL, NULL);
    clef_device_close(device);
    return code;
}
