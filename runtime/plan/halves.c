#include "runtime/plan/halves.h"

#include <string.h>

#include "runtime/plan/exchange.h"

/* Fewer rows are no faster: a product then takes as long as the reading of its weights. */
enum { LEAST_OF_HALF = 32 };
/* Runs of each kind that are measured, and before them one that builds kernels. */
enum { N_MEASURED = 2 };

/* ---- the second plan -------------------------------------------------------------------------- */

clef__halves clef__halves_of(clef_plan *plan)
{
    return (clef__halves){.first = plan, .last = plan};
}

void clef__halves_finish(clef__halves *h)
{
    if (h->second) {
        h->second->tuning = (clef_tuning){0}; /* it is the first plan's */
        h->second->dev->n_plans++;
    }
    clef_plan_destroy(h->second);
    *h = clef__halves_of(h->first);
}

clef_status clef__halves_make(clef__halves *h, int32_t symbol, clef_error *err)
{
    clef_plan_opts opts = h->first->opts;
    clef_plan *plan;
    opts.states_of = h->first;
    opts.compile.progress = NULL;
    clef_status s = clef__plan_new(h->first->dev, h->first->graph, &opts, &plan, err);
    if (s)
        return s;
    h->second = plan;
    plan->dev->n_plans--; /* callers know of one plan */
    plan->memory_of = h->first;
    plan->hooks = h->first->hooks;
    plan->tuning = h->first->tuning;
    memcpy(plan->forced, h->first->forced, sizeof plan->forced);
    int64_t *bound = &plan->graph->symbols[symbol - 1].bound;
    *bound = (*bound + 1) / 2;
    s = clef__plan_finish(plan, CLEF__BUILD_AT_USE, err);
    if (s)
        clef__halves_finish(h);
    return s;
}

/* ---- what both plans must agree on ------------------------------------------------------------- */

/* Gives `to` the inputs and symbols of `from`, as runs so far leave them. */
static clef_status pass_on(const clef_plan *from, clef_plan *to, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < from->graph->n_symbols && !s; i++)
        s = clef_plan_bind(to, i + 1, from->symbols[i], err);
    for (int32_t i = 0; i < from->n_inputs && !s; i++) {
        const clef_value *a = from->inputs[i].value, *b = to->inputs[i].value;
        const int64_t has = clef__bytes(a, NULL), room = clef__bytes(b, NULL);
        const cl_int code = clEnqueueCopyBuffer(from->dev->queue, from->mem[a->id], to->mem[b->id], 0, 0,
                                                (size_t)(has < room ? has : room), 0, NULL, NULL);
        if (code)
            s = clef__cl_fail(err, "clEnqueueCopyBuffer", a->name, code);
    }
    return s;
}

clef_plan *clef__halves_open(const clef__halves *h)
{
    return h->waits ? h->second : h->first;
}

clef_status clef__halves_first(clef__halves *h, clef_error *err)
{
    clef_status s = clef__halves_drop(h, err);
    if (!s && !h->second)
        return clef__halves_run(h, err);
    if (s)
        return s;
    h->waits = 1; /* after a failure, too: other ranks may wait, until the caller drops it */
    return pass_on(h->first, h->second, err);
}

/* ---- running ---------------------------------------------------------------------------------- */

/* One half on its way through its launches. */
typedef struct half {
    const clef_plan *plan;
    char *copies;
    int32_t at;    /* the next launch */
    int32_t waits; /* 1: launch `at` is an exchange that has begun */
    clef__sum sum;
} half;

/* Ends the exchange that has begun, enqueues launches up to the next one, and begins that. */
static clef_status advance(half *h, clef_error *err)
{
    const clef_plan *plan = h->plan;
    clef_status s = CLEF_OK;
    if (h->waits) {
        h->waits = 0;
        s = clef__plan_exchange_end(plan, h->at++, &h->sum, err);
    }
    while (!s && h->at < plan->n_launches && plan->launches[h->at].call != CLEF_CALL_EXCHANGE)
        s = clef__plan_enqueue_launch(plan, h->at++, err);
    if (s || h->at == plan->n_launches)
        return s;
    s = clef__plan_exchange_begin(plan, h->at, h->copies, &h->sum, err);
    h->waits = !s;
    return s;
}

/* Host memory for the exchanges of both, if the device has memory of its own. */
static clef_status find_copies(half halves[2], clef_error *err)
{
    enum { ALIGN = 4096 };
    clef_device *dev = halves[0].plan->dev;
    size_t most = 0;
    if (dev->info.caps.unified_memory)
        return CLEF_OK;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < halves[k].plan->n_launches; i++)
            if (halves[k].plan->launches[i].call == CLEF_CALL_EXCHANGE &&
                clef__plan_exchange_bytes(halves[k].plan, i) > most)
                most = clef__plan_exchange_bytes(halves[k].plan, i);
    const size_t each = (most + ALIGN - 1) / ALIGN * ALIGN;
    halves[0].copies = clef__ranks_copies(dev, 2 * each);
    if (!halves[0].copies)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %zu bytes of values on their way", 2 * each);
    halves[1].copies = halves[0].copies + each;
    return CLEF_OK;
}

static clef_status run_both(clef_plan *first, clef_plan *second, clef_error *err)
{
    half halves[2] = {{.plan = first}, {.plan = second}};
    clef_status s = clef__plan_ready(first, err);
    if (!s)
        s = clef__plan_ready(second, err);
    if (!s)
        s = find_copies(halves, err);
    while (!s && (halves[0].at < first->n_launches || halves[1].at < second->n_launches))
        for (int k = 0; k < 2 && !s; k++)
            s = advance(&halves[k], err);
    for (int k = 0; k < 2; k++)
        if (halves[k].waits)
            clef__plan_exchange_drop(&halves[k].sum);
    return s;
}

static clef_status run_one(clef__halves *h, clef_error *err)
{
    h->first->exchanging = 1;
    const clef_status s = clef_plan_run(h->first, err);
    h->first->exchanging = 0;
    h->last = h->first;
    return s;
}

clef_status clef__halves_run(clef__halves *h, clef_error *err)
{
    if (!h->waits)
        return run_one(h, err);
    h->waits = 0;
    h->first->exchanging = h->second->exchanging = 1;
    clef_status s = run_both(h->first, h->second, err);
    h->first->exchanging = h->second->exchanging = 0;
    h->last = h->second;
    if (!s)
        s = pass_on(h->second, h->first, err);
    const cl_int code = s ? CL_SUCCESS : clFlush(h->first->dev->queue);
    return code ? clef__cl_fail(err, "clFlush", "the launches of two halves", code) : s;
}

clef_status clef__halves_drop(clef__halves *h, clef_error *err)
{
    const int waits = h->waits;
    h->waits = 0;
    return waits ? pass_on(h->second, h->first, err) : CLEF_OK;
}

/* ---- choosing --------------------------------------------------------------------------------- */

/* In halves, whole, whole, in halves ...: so that of the steps of a long prompt, whose later ones take
 * longer, each kind gets some early and some late ones. */
static int32_t next_way(int32_t n_runs)
{
    return n_runs % 4 == 0 || n_runs % 4 == 3;
}

int32_t clef__halves_choose(clef__halves *h, int32_t n)
{
    h->is_measured = 0;
    if (!h->second || n < 2 * LEAST_OF_HALF || h->first->dev->profile)
        return 0;
    if (!h->is_decided) {
        if (n > h->n_rows) { /* begin again: only steps of equal rows can be compared */
            h->n_rows = n;
            h->n_runs[0] = h->n_runs[1] = 0;
            h->best[0] = h->best[1] = 0;
        }
        h->is_measured = n == h->n_rows;
        h->in_halves = next_way(h->n_runs[0] + h->n_runs[1]);
    }
    return h->in_halves ? (n + 1) / 2 : 0;
}

void clef__halves_measured(clef__halves *h, double seconds)
{
    const int way = h->in_halves;
    if (!h->is_measured)
        return;
    h->is_measured = 0;
    if (h->n_runs[way]++ > 0 && (h->best[way] <= 0 || seconds < h->best[way]))
        h->best[way] = seconds;
    if (h->n_runs[0] <= N_MEASURED || h->n_runs[1] <= N_MEASURED)
        return;
    h->is_decided = 1;
    h->in_halves = h->best[1] <= h->best[0];
}
