/* Every op of the table, every case, every variant that fits it, on every OpenCL device, against the op's
 * reference in double. Environment variables choose a part of that work:
 *   CLEF_TEST_DEVICE    one device only, as clef_device_open() reads it
 *   CLEF_TEST_OPS       only the ops whose name contains this text; "=name": only the op of that name
 *   CLEF_TEST_SHARD     "i/n": part i of n of about equal length (1/n to n/n); each op is in one part
 *   CLEF_TEST_TURN      "i/n": of each variant every nth of its cases, and one at least, on each device; a
 *                       shard is a part of these (tests/check.h)
 *   CLEF_TEST_VARIANT   of ops with variants only those of these names (a list with commas)
 *   CLEF_TEST_CASES     of each variant at most so many cases, spread over its list
 *   CLEF_TEST_MOST      only cases of at most so many operations (for simulators)
 *   CLEF_TEST_BEYOND    only cases that launch something else than with these caps of CLEF_DEBUG ("" for
 *                       none): what another run has tested is not tested again
 *   CLEF_TEST_SECONDS   no case of an op begins after so many seconds of processor time, which its variants
 *                       share; the cases that are left are counted and reported
 *   CLEF_TEST_STORE     "0": clef's cache keeps no program (run_graph.h)
 *   CLEF_TEST_VERBOSE   the error of each run is printed, too
 *   CLEF_TEST_REPORT    a file that gets a line "op variant cases failed left" for each op and variant that
 *                       ran (lab/matrix) */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "op_run.h"
#include "random_graph.h"
#include "run_graph.h"
#include "tests/check.h"
#include "tests/debug.h"

enum { MAX_DEVICES = 8 };

static clef_device *devices[MAX_DEVICES];
static clef_caps other_caps[MAX_DEVICES]; /* of the devices under CLEF_TEST_BEYOND */
static int n_devices, verbose, most_cases = INT_MAX;
static const char *beyond;
static double most_flops = INFINITY, most_seconds = INFINITY;

/* Cases of an op or of one of its variants. */
typedef struct tally {
    int cases, failed, left;
} tally;

static int open_run(op_run *r, case_data *c, const clef_op_def *op, const clef_op_case *of, int device,
                    const clef_variant *variant)
{
    return op_run_open(r, c, op, of, devices[device], beyond ? &other_caps[device] : NULL, variant);
}

static int check_case(const clef_op_def *op, const clef_op_case *of, int device, const clef_variant *variant,
                      tally *count)
{
    case_data c;
    op_run r;
    int ok = open_run(&r, &c, op, of, device, variant);
    if (ok) {
        ok = op_run_check(&r);
        if (verbose)
            print_message("%s %s: %.3f of the tolerance\n", op->name, variant ? variant->name : "", r.worst);
    }
    count->cases++;
    count->failed += !ok;
    op_run_close(&c);
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
    op_run r;
    const int due = !open_run(&r, &c, op, of, device, variant) || op_run_is_due(&r, most_flops);
    op_run_close(&c);
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

/* Of the n_due cases with due[i] = 1 keeps those that is_kept(place, n_due) has; returns how many. */
static int keep_cases(unsigned char *due, int n_cases, int n_due, int (*is_kept)(int place, int n))
{
    int n_kept = 0, place = 0;
    for (int i = 0; i < n_cases; i++)
        if (due[i])
            n_kept += due[i] = (unsigned char)is_kept(place++, n_due);
    return n_kept;
}

/* Sets due[i] to 1 for the cases that run; returns how many do. */
static int choose_cases(const clef_op_def *op, int device, const clef_variant *variant, unsigned char *due)
{
    const int n_cases = count_cases(op);
    int n = 0;
    for (int i = 0; i < n_cases; i++)
        n += due[i] = (unsigned char)is_due(op, &cases_of(op)[i], device, variant);
    n = keep_cases(due, n_cases, n, is_in_sample);
    return keep_cases(due, n_cases, n, is_in_turn);
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

/* 1 for a variant that this build does not have. */
static int is_left_out(const clef_variant *variant)
{
#if defined(CLEF_HAVE_CLBLAST)
    (void)variant;
    return 0;
#else
    return variant->clblast;
#endif
}

/* 1 when the list with commas has the name, or there is none. */
static int is_listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strcspn(at, ",") == length && memcmp(at, name, length) == 0)
            return 1;
    return !list;
}

/* Row i or a later one of the variants that run of the op; *i is set behind it. NULL behind the last. */
static const clef_variant *next_variant(const clef_op_def *op, int32_t *i)
{
    const char *only = getenv("CLEF_TEST_VARIANT");
    const clef_variant *variant;
    clef_op of;
    while ((variant = clef__variant_row((*i)++, &of)))
        if (clef__ops[of] == op && !is_left_out(variant) && is_listed(only, variant->name))
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

enum { RANDOM_GRAPHS = 60 };

static const clef_op_def random_op = {.name = "random graph",
                                      .tol = 1e-4f}; /* far from the bounds of single ops, as errors add up */

/* The random graphs that are due, on all devices; of these `visit`, where it is given, is called for the
 * shard's. */
static int walk_random_graphs(void (*visit)(const clef_op_case *of, int device, tally *count), tally *count)
{
    int n = 0;
    for (int i = 0; i < RANDOM_GRAPHS; i++) {
        random_graph g;
        if (!is_in_turn(i, RANDOM_GRAPHS))
            continue;
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
    const char *now = getenv("CLEF_DEBUG");
    char *kept = now ? strdup(now) : NULL;
    clef_device *dev = NULL;
    set_debug("caps", beyond);
    const clef_status s = clef_device_open(name, test_device_opts(), &dev, err);
    if (!s)
        *caps = clef_device_describe(dev)->caps;
    clef_device_close(dev);
    if (kept)
        setenv("CLEF_DEBUG", kept, 1);
    else
        unsetenv("CLEF_DEBUG");
    free(kept);
    return s;
}

static clef_status add_device(const char *name, clef_error *err)
{
    clef_status s = beyond ? read_other_caps(name, &other_caps[n_devices], err) : CLEF_OK;
    if (!s)
        s = clef_device_open(name, test_device_opts(), &devices[n_devices], err);
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

/* With CLEF_TEST_VARIANT: 1 when the variant has no run at all, as when the device's probe fails. */
static int variant_is_idle(const planned_test *planned, int n)
{
    const char *only = getenv("CLEF_TEST_VARIANT");
    int n_runs = 0;
    for (int i = 0; i < n; i++)
        n_runs += planned[i].op && has_variants(planned[i].op) ? planned[i].n_runs : 0;
    if (!only || beyond || n_runs)
        return 0;
    print_error("no case runs by variant %s\n", only);
    return 1;
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

/* The tests that have a run in the shard. An op without a case is tested in the first. */
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

enum { SKIPPED = 77 }; /* the exit code that CTest is reported (SKIP_RETURN_CODE) */

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
    int code = variant_is_idle(planned, n) ||
               (part && !choose_shard(part, n ? planned[n - 1].first + planned[n - 1].n_runs : 0));
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
