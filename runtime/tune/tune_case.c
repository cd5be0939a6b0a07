/* Tries one candidate of the tuner: runs a graph of the op alone on random data, compares its result with the
 * reference, and times it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/cases/oracle.h"
#include "graph/hash.h"
#include "graph/pass/pass.h"
#include "runtime/os/os.h"
#include "runtime/plan/plan.h"
#include "runtime/tune/tune.h"

enum {
    CHECK_N = 48,    /* rows of the weight in a check: some tiles, the last one incomplete */
    DRAWN_N = 64,    /* rows of the weight with random data; later rows repeat them */
    LEAST_N = 128,   /* fewest rows of the weight in a timing */
    MAX_COPIES = 48, /* most copies of a weight in a timing */
    MIN_RUNS = 3,
    GIVE_UP = 3, /* runs stop when one takes longer than this many times the best */
    ALIGN = 128, /* alignment of a weight: CLBlast loads whole vectors */
    TEXT_BYTES = 16 * 1024
};
static const int32_t timed_rows[CLEF_N_ROWS] = {1, 4, 96}, checked_rows[CLEF_N_ROWS] = {1, 3, 23},
                     brief_rows[CLEF_N_ROWS] = {1, 4, 24};

/* A graph with its plan: `copies` products of n columns, for up to `rows` rows. */
typedef struct setup {
    clef_graph *graph;
    clef_plan *plan;
    const clef_value *node; /* node of the plan's graph */
    unsigned char *weights; /* the copies' weights, `step` bytes apart */
    size_t all_bytes, weight_bytes, step;
    int32_t n, copies, rows;
    clef_tune_choice choice; /* the choice in the plan's tuning */
} setup;

typedef enum which { CHECK, ROTATE, SINGLE, N_SETUPS } which;

struct clef_tune_case {
    clef_device *dev;
    clef_tune_key key;
    clef_tune_case_opts opts;
    setup setups[N_SETUPS];
    float *x;
    size_t n_x;
    double *want[CLEF_N_ROWS]; /* the reference's result */
    size_t n_want[CLEF_N_ROWS];
    uint64_t random;
};

static int32_t rows_of_check(const clef_tune_case *c, int32_t class_of_rows)
{
    return (c->opts.brief ? brief_rows : checked_rows)[class_of_rows];
}

static const clef__tune_op *op_of(const clef_tune_case *c)
{
    return clef__ops[c->key.op]->tune;
}

int clef__tune_can(const clef_tune_key *key)
{
    const clef__tune_op *tune = clef__ops[key->op]->tune;
    return tune && tune->takes_key(key);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* Draws from roughly a normal distribution, at little cost. */
static float draw_number(clef_tune_case *c)
{
    uint64_t *state = &c->random;
    const double sum =
        clef__random_uniform(state) + clef__random_uniform(state) + clef__random_uniform(state);
    return (float)((sum - 1.5) * 2);
}

static void draw_weight(clef_tune_case *c, setup *s, size_t drawn_bytes)
{
    const clef_dtype dtype = (clef_dtype)c->key.dtype;
    const size_t block = (size_t)clef_dtype_block_bytes(dtype);
    for (size_t at = 0; at + block <= drawn_bytes; at += block) {
        const float x = draw_number(c);
        if (clef_dtype_block_elems(dtype) > 1)
            clef__random_block(&c->random, dtype, s->weights + at, NULL);
        else
            clef_dtype_encode(dtype, &x, 1, s->weights + at);
    }
    for (size_t at = drawn_bytes; at < s->all_bytes; at += drawn_bytes)
        memcpy(s->weights + at, s->weights,
               drawn_bytes < s->all_bytes - at ? drawn_bytes : s->all_bytes - at);
}

/* Returns the weight of a copy: "w12" is that of copy 12. Packing copies a weight, so packed weights share
 * one source. */
static const void *weight_of(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    const setup *s = user;
    const size_t at = (size_t)strtoul(name + 1, NULL, 10) * s->step;
    (void)dtype;
    return n_bytes == s->weight_bytes && at + s->weight_bytes <= s->all_bytes ? s->weights + at : NULL;
}

static clef_status make_data(clef_tune_case *c, setup *s, clef_error *err)
{
    const clef_tune_key *key = &c->key;
    const clef_dtype dtype = (clef_dtype)key->dtype;
    const int64_t rows = op_of(c)->sizes(key, s->n).weight_rows;
    const int64_t row_bytes = key->k / clef_dtype_block_elems(dtype) * clef_dtype_block_bytes(dtype);
    const int packed = op_of(c)->packs;
    s->weight_bytes = (size_t)(rows * row_bytes);
    s->step = packed ? 0 : (s->weight_bytes + ALIGN - 1) / ALIGN * ALIGN;
    s->all_bytes = packed ? s->weight_bytes : s->step * (size_t)s->copies;
    s->weights = clef__os_alloc_large(s->all_bytes);
    if (!s->weights)
        return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for %zu bytes of weights", s->all_bytes);
    const size_t drawn = (size_t)((rows < DRAWN_N ? rows : DRAWN_N) * row_bytes);
    draw_weight(c, s, drawn);
    return CLEF_OK;
}

/* ---- graph and plan -------------------------------------------------------------------------- */

static clef_status make_graph(const clef_tune_case *c, setup *s, clef_error *err)
{
    char *text = malloc(TEXT_BYTES);
    if (!text)
        return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for a graph");
    int at = snprintf(text, TEXT_BYTES, "symbol T <= %" PRId32 "\n", s->rows);
    for (int32_t i = 0; i < s->copies && at < TEXT_BYTES; i++)
        at += op_of(c)->write(&c->key, s->n, i, text + at, (size_t)(TEXT_BYTES - at));
    clef_status status = at < TEXT_BYTES
                             ? clef_graph_parse(text, strlen(text), "tuning", &s->graph, err)
                             : clef__fail(err, CLEF_E_LIMIT, "tuning: a graph of over %d bytes", TEXT_BYTES);
    free(text);
    if (!status && op_of(c)->packs)
        status = clef__pass_choose(s->graph, &c->dev->info.caps, CLEF_GEMM_OWN, !c->key.form, err);
    return status;
}

static clef_status find_node(const clef_tune_case *c, setup *s, clef_error *err)
{
    const clef_graph *g = s->plan->graph;
    for (int32_t i = 0; i < g->n_values; i++)
        if ((int32_t)g->values[i]->op == c->key.op) {
            s->node = g->values[i];
            return CLEF_OK;
        }
    return clef__fail(err, CLEF_E_UNSUPPORTED, "tuning: on this device no plan has %s",
                      clef__ops[c->key.op]->name);
}

static clef_status make_x(clef_tune_case *c, clef_error *err)
{
    c->n_x = (size_t)timed_rows[CLEF_ROWS_MANY] * (size_t)op_of(c)->sizes(&c->key, c->key.n).x_elements;
    c->x = malloc(c->n_x * sizeof *c->x);
    if (!c->x)
        return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for %zu activations", c->n_x);
    for (size_t i = 0; i < c->n_x; i++)
        c->x[i] = draw_number(c);
    return CLEF_OK;
}

static uint64_t row_bytes(const clef_tune_key *key)
{
    const clef_dtype dtype = (clef_dtype)key->dtype;
    return (uint64_t)key->k / (uint64_t)clef_dtype_block_elems(dtype) *
           (uint64_t)clef_dtype_block_bytes(dtype);
}

/* Returns how many copies of the weight exceed rotate_bytes together, MAX_COPIES at most. */
static int32_t copies_for(const clef_tune_case *c, const setup *s)
{
    const uint64_t rows = (uint64_t)op_of(c)->sizes(&c->key, s->n).weight_rows;
    const uint64_t copies = c->opts.rotate_bytes / (rows * row_bytes(&c->key)) + 1;
    return copies > MAX_COPIES ? MAX_COPIES : (int32_t)copies;
}

/* Returns how many rows of the weight a setup has: CHECK_N for a check, and for a timing as many as
 * rotate_bytes holds. A smaller weight, or one that the op needs whole, has all its rows. */
static int32_t n_for(const clef_tune_case *c, which w)
{
    uint64_t most = w == CHECK ? CHECK_N : c->opts.rotate_bytes / row_bytes(&c->key) / LEAST_N * LEAST_N;
    if (most < LEAST_N && w != CHECK)
        most = LEAST_N;
    return op_of(c)->whole || (uint64_t)c->key.n <= most ? c->key.n : (int32_t)most;
}

/* Returns the setup, which is made at its first use. */
static clef_status take_setup(clef_tune_case *c, which w, setup **out, clef_error *err)
{
    setup *s = *out = &c->setups[w];
    if (s->plan)
        return s->node ? CLEF_OK : find_node(c, s, err);
    s->n = n_for(c, w);
    s->copies = w == ROTATE ? copies_for(c, s) : 1;
    s->rows = w == CHECK ? rows_of_check(c, CLEF_ROWS_MANY)
                         : timed_rows[w == SINGLE ? CLEF_ROWS_MANY : CLEF_ROWS_FEW];
    clef_status status = c->x ? CLEF_OK : make_x(c, err);
    if (!status && !s->weights)
        status = make_data(c, s, err);
    if (!status && !s->graph)
        status = make_graph(c, s, err);
    if (!status)
        status = clef__plan_make(c->dev, s->graph,
                                 &(clef_plan_opts){.as_stored = 1,
                                                   .variants = "",
                                                   .compile.no_tune = 1,
                                                   .weights = weight_of,
                                                   .weights_user = s},
                                 c->opts.hooks, NULL, &s->plan, err);
    return status ? status : find_node(c, s, err);
}

static clef_lowering lowering_of(const setup *s)
{
    return (clef_lowering){.graph = s->plan->graph,
                           .caps = &s->plan->dev->info.caps,
                           .symbols = s->plan->symbols,
                           .gemm = s->plan->opts.compile.gemm,
                           .node = s->node};
}

/* Removes the setup's choice from the plan, which must not free it. */
static void stop_serving(setup *s)
{
    if (s->plan && s->plan->tuning.choices == &s->choice)
        s->plan->tuning = (clef_tuning){0};
}

/* Makes the plan run the candidate, and writes its inputs to the device. */
static clef_status serve_by(clef_tune_case *c, setup *s, int32_t row, const int32_t *values, int32_t rows,
                            clef_error *err)
{
    clef_plan *plan = s->plan;
    clef_status status = clef_plan_bind(plan, 1, rows, err);
    const clef_lowering lo = lowering_of(s);
    s->choice =
        (clef_tune_choice){.key = clef__tune_key(&lo, s->node), .variant = clef__variant_row(row, NULL)};
    memcpy(s->choice.values, values, sizeof s->choice.values);
    stop_serving(s);
    clef__tuning_finish(&plan->tuning);
    plan->forced[s->node->op] = s->choice.variant;
    plan->tuning = (clef_tuning){.choices = &s->choice, .n = 1};
    plan->stale = 1;
    if (!status)
        status = clef__plan_lower(plan, err);
    for (int32_t i = 0; i < plan->n_launches && !status; i++)
        status = clef__plan_grow_scratch(plan, plan->launches[i].scratch_bytes, err);
    for (int32_t i = 0; i < plan->graph->n_values; i++)
        for (clef_bound *b = plan->bound[i]; b; b = b->next)
            b->n_bufs = 0; /* set all arguments again: the scratch may be another buffer */
    for (int32_t i = 0; i < plan->n_inputs && !status; i++)
        status = clef_plan_write(plan, i, c->x, clef_plan_input_bytes(plan, i, NULL, NULL), err);
    return status;
}

/* ---- check ----------------------------------------------------------------------------------- */

static clef_status fill_leaf(void *user, const clef_value *v, double *x, int64_t n, clef_error *err)
{
    const clef_tune_case *c = user;
    const setup *s = &c->setups[CHECK];
    const size_t elems = (size_t)clef_dtype_block_elems(v->dtype),
                 bytes = (size_t)clef_dtype_block_bytes(v->dtype);
    float block[256];
    (void)err;
    if (v->kind != CLEF_WEIGHT) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (double)c->x[i];
        return CLEF_OK;
    }
    for (size_t i = 0; i < (size_t)n; i++) {
        if (i % elems == 0)
            clef_dtype_decode(v->dtype, s->weights + i / elems * bytes, elems, block);
        x[i] = (double)block[i % elems];
    }
    return CLEF_OK;
}

static clef_status make_reference(clef_tune_case *c, const setup *s, int32_t class_of_rows, clef_error *err)
{
    const clef_graph *g = s->graph;
    const int64_t symbols[CLEF_MAX_SYMBOLS] = {rows_of_check(c, class_of_rows)};
    clef_ref_tensor *results = calloc((size_t)g->n_values, sizeof *results);
    if (!results)
        return clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for a reference");
    for (int32_t i = 0; i < g->n_values; i++)
        results[i].stored = g->values[i]->kind == CLEF_WEIGHT ? s->weights : NULL;
    const clef_status status = clef__ref_eval(g, symbols, fill_leaf, c, results, err);
    const clef_value *out = g->outputs[0].value;
    if (!status) {
        c->want[class_of_rows] = results[out->id].x;
        c->n_want[class_of_rows] = (size_t)clef__elements(out, symbols);
        results[out->id].x = NULL;
    }
    clef__ref_free(results, g->n_values);
    free(results);
    return status;
}

static int64_t error_in_ppm(const float *x, const double *want, size_t n, double tol)
{
    const double worst = clef__worst_error(CLEF_F32, x, want, (int64_t)n, tol, NULL);
    return worst * 1e6 < (double)CLEF_TUNE_NO_NUMBER ? (int64_t)(worst * 1e6) : CLEF_TUNE_NO_NUMBER;
}

clef_status clef__tune_case_check(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, int64_t *error_ppm, clef_error *err)
{
    setup *s;
    clef_status status = take_setup(c, CHECK, &s, err);
    if (!status && !c->want[class_of_rows])
        status = make_reference(c, s, class_of_rows, err);
    if (!status)
        status = serve_by(c, s, row, values, rows_of_check(c, class_of_rows), err);
    if (!status)
        status = clef_plan_run(s->plan, err);
    const size_t n = c->n_want[class_of_rows];
    float *x = status ? NULL : malloc(n * sizeof *x);
    if (!status && !x)
        status = clef__fail(err, CLEF_E_NOMEM, "tuning: no memory for %zu results", n);
    if (!status)
        status = clef_plan_read(s->plan, 0, x, n * sizeof *x, err);
    if (!status)
        *error_ppm = error_in_ppm(x, c->want[class_of_rows], n, (double)clef__tolerance(s->node));
    free(x);
    return status;
}

/* ---- time ------------------------------------------------------------------------------------ */

static clef_status run_once(const setup *s, double *seconds, clef_error *err)
{
    const double start = clef__os_seconds();
    const clef_status status = clef_plan_run(s->plan, err);
    const cl_int code = status ? CL_SUCCESS : clFinish(s->plan->dev->queue);
    *seconds = clef__os_seconds() - start;
    return code ? clef__cl_fail(err, "clFinish", "tuning", code) : status;
}

clef_status clef__tune_case_print(clef_tune_case *c, int32_t row, const int32_t *values,
                                  int32_t class_of_rows, uint64_t *print, clef_error *err)
{
    setup *s;
    clef_status status = take_setup(c, class_of_rows == CLEF_ROWS_MANY ? SINGLE : ROTATE, &s, err);
    if (!status)
        status = serve_by(c, s, row, values, timed_rows[class_of_rows], err);
    *print = CLEF__HASH_START;
    for (int32_t i = 0; !status && i < s->plan->n_launches; i++) {
        const clef_launch *l = &s->plan->launches[i];
        *print = clef__hash(*print, l->args, l->args_bytes);
        *print = clef__hash(*print, l->groups, sizeof l->groups);
        *print = clef__hash(*print, l->local, sizeof l->local);
        for (int d = 0; d < CLEF_MAX_DEFS && l->defs[d].name; d++)
            *print = clef__hash(*print, &l->defs[d].value, sizeof l->defs[d].value);
    }
    return status;
}

clef_status clef__tune_case_time(clef_tune_case *c, int32_t row, const int32_t *values, int32_t class_of_rows,
                                 int64_t best, int64_t *ns, clef_error *err)
{
    setup *s;
    double once = 0, least = 1e9;
    clef_status status = take_setup(c, class_of_rows == CLEF_ROWS_MANY ? SINGLE : ROTATE, &s, err);
    if (!status)
        status = serve_by(c, s, row, values, timed_rows[class_of_rows], err);
    if (!status) /* not timed: compiles, and writes the inputs */
        status = run_once(s, &once, err);
    const double start = clef__os_seconds();
    for (int i = 0; !status && (i < MIN_RUNS || clef__os_seconds() - start < c->opts.seconds); i++) {
        status = run_once(s, &once, err);
        least = once < least ? once : least;
        if (best && least / s->copies * 1e9 * c->key.n / s->n > (double)best * (double)GIVE_UP)
            break;
    }
    *ns = status ? 0
                 : (int64_t)(least * 1e9 * ((double)c->key.n / s->n) / s->copies) +
                       1; /* scaled to all rows of the weight */
    return status;
}

/* ---- the case -------------------------------------------------------------------------------- */

int clef__tune_case_fits(clef_tune_case *c, int32_t row, int32_t class_of_rows)
{
    setup *s;
    if (take_setup(c, CHECK, &s, NULL) || clef_plan_bind(s->plan, 1, rows_of_check(c, class_of_rows), NULL))
        return 0;
    const clef_lowering lo = lowering_of(s);
    return clef__variant_fits(&lo, s->node, clef__variant_row(row, NULL));
}

clef_status clef__tune_case_create(clef_device *dev, const clef_tune_key *key,
                                   const clef_tune_case_opts *opts, clef_tune_case **out, clef_error *err)
{
    *out = NULL;
    if (!clef__tune_can(key))
        return clef__fail(err, CLEF_E_UNSUPPORTED, "tuning: no case of %s", clef__ops[key->op]->name);
    clef_tune_case *c = calloc(1, sizeof *c);
    if (!c)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for a case of the tuner");
    *c = (clef_tune_case){.dev = dev, .key = *key, .opts = *opts, .random = 20240817};
    *out = c;
    setup *s;
    const clef_status status = take_setup(c, CHECK, &s, err);
    if (status) {
        clef__tune_case_destroy(c);
        *out = NULL;
    }
    return status;
}

void clef__tune_case_destroy(clef_tune_case *c)
{
    if (!c)
        return;
    for (int i = 0; i < N_SETUPS; i++) {
        setup *s = &c->setups[i];
        stop_serving(s);
        clef_plan_destroy(s->plan);
        clef_graph_destroy(s->graph);
        clef__os_free_large(s->weights, s->all_bytes);
    }
    for (int i = 0; i < CLEF_N_ROWS; i++)
        free(c->want[i]);
    free(c->x);
    free(c);
}
