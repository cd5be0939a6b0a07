/* The sums of gradients over the ranks, bucket by bucket. While the ranks sum a bucket, the next one is
 * already on its way to the host. */
#include "train/plan/train_buckets.h"

#include <stdlib.h>

#include "runtime/plan/plan.h"

typedef struct clef__train_bucket {
    int64_t n; /* floats */
    int32_t first, n_pieces;
    int32_t mark; /* of the plan, at the launch that completes it; -1: none */
} bucket;

/* ---- which launch completes a bucket ---------------------------------------------------------- */

int32_t clef__train_completed_by(const clef_plan *plan, const clef__train_piece *pieces, int32_t n)
{
    int32_t last = -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t use = clef__plan_last_use(plan, pieces[i].state->value);
        last = use > last ? use : last;
    }
    return last;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts n numbers, and leaves each once. Returns how many are left. */
static int32_t sort_unique(int32_t *x, int32_t n)
{
    int32_t n_left = 0;
    qsort(x, (size_t)n, sizeof *x, by_number);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || x[i] != x[i - 1])
            x[n_left++] = x[i];
    return n_left;
}

/* Marks the launches that complete buckets. launches: room for n. */
static clef_status mark_launches(clef__train_buckets *b, int32_t *launches, clef_error *err)
{
    int32_t n = 0;
    for (int32_t k = 0; k < b->n; k++) {
        bucket *u = &b->buckets[k];
        u->mark = clef__train_completed_by(b->plan, b->pieces + u->first, u->n_pieces);
        if (u->mark >= 0)
            launches[n++] = u->mark;
    }
    n = sort_unique(launches, n);
    for (int32_t k = 0; k < b->n; k++)
        for (int32_t i = 0; i < n; i++)
            if (b->buckets[k].mark == launches[i]) {
                b->buckets[k].mark = i;
                break;
            }
    return clef__plan_set_marks(b->plan, launches, n, err);
}

static clef_status find_marks(clef__train_buckets *b, clef_error *err)
{
    int32_t *launches = malloc((size_t)b->n * sizeof *launches);
    if (!launches)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for %d buckets of gradients", b->n);
    const clef_status s = mark_launches(b, launches, err);
    free(launches);
    return s;
}

/* ---- making them ------------------------------------------------------------------------------ */

static clef_status allocate(clef__train_buckets *b, int32_t n_parameters, clef_error *err)
{
    const size_t n_staging = CLEF__TRAIN_BUCKET * sizeof **b->staging;
    b->buckets = calloc((size_t)b->n, sizeof *b->buckets);
    b->pieces = calloc((size_t)b->n + (size_t)n_parameters, sizeof *b->pieces); /* a bucket's end cuts one */
    b->staging[0] = malloc(n_staging);
    if (!b->plan->dev->info.caps.unified_memory)
        b->staging[1] = malloc(n_staging);
    return b->buckets && b->pieces && b->staging[0] &&
                   (b->staging[1] || b->plan->dev->info.caps.unified_memory)
               ? CLEF_OK
               : clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for %d buckets of gradients", b->n);
}

static void cut(clef__train_buckets *b, const clef__train_graphs *graphs, const clef__plan_state *gradients,
                int64_t n_elements)
{
    for (int32_t k = 0, n_pieces = 0; k < b->n; k++) {
        const int64_t from = (int64_t)k * CLEF__TRAIN_BUCKET, left = n_elements - from;
        bucket *u = &b->buckets[k];
        *u = (bucket){.n = left < CLEF__TRAIN_BUCKET ? left : CLEF__TRAIN_BUCKET, .first = n_pieces};
        u->n_pieces = clef__train_pieces(graphs, gradients, from, u->n, b->pieces + n_pieces);
        n_pieces += u->n_pieces;
    }
}

clef_status clef__train_buckets_init(clef__train_buckets *b, clef_ranks *ranks,
                                     const clef__train_graphs *graphs, clef_plan *plan,
                                     const clef__plan_state *gradients, clef_error *err)
{
    const int64_t n = graphs->parameters[0].start + graphs->parameters[0].n; /* the first one is the last */
    cl_int code;
    *b = (clef__train_buckets){
        .ranks = ranks, .plan = plan, .n = (int32_t)((n + CLEF__TRAIN_BUCKET - 1) / CLEF__TRAIN_BUCKET)};
    clef_status s = allocate(b, graphs->n_parameters, err);
    if (s)
        return s;
    cut(b, graphs, gradients, n);
    b->copies = clCreateCommandQueue(plan->dev->context, plan->dev->id, 0, &code);
    s = clef__train_overlap_init(&b->overlap, b->copies != NULL, err);
    return s || !b->overlap.is_on ? s : find_marks(b, err);
}

void clef__train_buckets_finish(clef__train_buckets *b)
{
    if (b->plan)
        clef__plan_set_marks(b->plan, NULL, 0, NULL);
    if (b->copies)
        clReleaseCommandQueue(b->copies);
    free(b->buckets);
    free(b->pieces);
    free(b->staging[0]);
    free(b->staging[1]);
    *b = (clef__train_buckets){0};
}

/* ---- one bucket ------------------------------------------------------------------------------- */

static void release_event(cl_event *event)
{
    if (*event)
        clReleaseEvent(*event);
    *event = NULL;
}

static cl_command_queue queue_of(const clef__train_buckets *b)
{
    return b->overlap.is_on ? b->copies : b->plan->dev->queue;
}

static float *staging_of(const clef__train_buckets *b, int32_t k)
{
    return b->staging[1] ? b->staging[k % 2] : b->staging[0];
}

static cl_event completed(const clef__train_buckets *b, const bucket *u)
{
    const int32_t has_mark = u->mark >= 0 && u->mark < b->plan->n_marks && b->plan->marks[u->mark].ended;
    return has_mark ? b->plan->marks[u->mark].ended : b->all_ended;
}

/* Enqueues what brings bucket k to the host, once it is complete. */
static clef_status fetch(clef__train_buckets *b, int32_t k, clef_error *err)
{
    const bucket *u = &b->buckets[k];
    clef__train_piece *pieces = b->pieces + u->first;
    const clef__train_when when = {
        .queue = queue_of(b), .after = b->overlap.is_on ? completed(b, u) : NULL, .done = &b->arrived[k % 2]};
    return clef__train_is_shared(pieces)
               ? clef__train_map(pieces, u->n_pieces, CL_MAP_READ | CL_MAP_WRITE, &when, err)
               : clef__train_copy(pieces, u->n_pieces, 0, (char *)staging_of(b, k), &when, err);
}

static clef_status await(clef__train_buckets *b, int32_t k, clef_error *err)
{
    const cl_int code = clWaitForEvents(1, &b->arrived[k % 2]);
    release_event(&b->arrived[k % 2]);
    return code ? clef__cl_fail(err, "clWaitForEvents", "a bucket of gradients", code) : CLEF_OK;
}

static clef_status add_up(const clef__train_buckets *b, float *x, int64_t n, clef_error *err)
{
    clef_ranks *r = b->ranks;
    return r->transport->calls->all_reduce(r->all, x, (size_t)n, r->wire, err);
}

/* Mapped gradients are summed where they are, if all are of one parameter; else in a copy. */
static clef_status sum_mapped(clef__train_buckets *b, const bucket *u, clef_error *err)
{
    clef__train_piece *pieces = b->pieces + u->first;
    clef_status s;
    if (u->n_pieces == 1) {
        s = add_up(b, (float *)(void *)pieces->at, u->n, err);
    } else {
        clef__train_copy_mapped(pieces, u->n_pieces, 0, (char *)b->staging[0]);
        s = add_up(b, b->staging[0], u->n, err);
        if (!s)
            clef__train_copy_mapped(pieces, u->n_pieces, 1, (char *)b->staging[0]);
    }
    return s ? s : clef__train_unmap(pieces, u->n_pieces, queue_of(b), err);
}

/* The queue runs its commands in order, so the next fetch to this staging memory waits for this write. */
static clef_status sum_copied(clef__train_buckets *b, int32_t k, clef_error *err)
{
    const bucket *u = &b->buckets[k];
    cl_event written = NULL;
    clef_status s = add_up(b, staging_of(b, k), u->n, err);
    if (!s)
        s = clef__train_copy(b->pieces + u->first, u->n_pieces, 1, (char *)staging_of(b, k),
                             &(clef__train_when){.queue = queue_of(b), .done = &written}, err);
    release_event(&written);
    return s;
}

static clef_status sum(clef__train_buckets *b, int32_t k, clef_error *err)
{
    const bucket *u = &b->buckets[k];
    const clef_status s = await(b, k, err);
    if (s)
        return s;
    return clef__train_is_shared(b->pieces + u->first) ? sum_mapped(b, u, err) : sum_copied(b, k, err);
}

/* ---- all of them ------------------------------------------------------------------------------ */

/* An event of all that was enqueued, for buckets whose mark has none. */
static clef_status mark_all(clef__train_buckets *b, clef_error *err)
{
    const cl_command_queue queue = b->plan->dev->queue;
    int is_missing = 0;
    for (int32_t k = 0; k < b->n && b->overlap.is_on; k++)
        is_missing |= !completed(b, &b->buckets[k]);
    if (!is_missing)
        return CLEF_OK;
    cl_int code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &b->all_ended);
    if (!code)
        code = clFlush(queue);
    return code ? clef__cl_fail(err, "clEnqueueMarkerWithWaitList", "the gradients", code) : CLEF_OK;
}

/* After a failure: nothing stays mapped or under way. */
static void abandon(clef__train_buckets *b)
{
    for (int32_t k = 0; k < b->n; k++)
        clef__train_unmap(b->pieces + b->buckets[k].first, b->buckets[k].n_pieces, queue_of(b), NULL);
    clFinish(queue_of(b));
    release_event(&b->arrived[0]);
    release_event(&b->arrived[1]);
}

/* Other queues wait for nothing of this one, and copies come from memory that is freed with the trainer. */
static clef_status finish_copies(const clef__train_buckets *b, clef_error *err)
{
    const cl_int code = b->overlap.is_on || b->staging[1] ? clFinish(queue_of(b)) : CL_SUCCESS;
    return code ? clef__cl_fail(err, "clFinish", "the sums of gradients", code) : CLEF_OK;
}

clef_status clef__train_buckets_sum(clef__train_buckets *b, clef_error *err)
{
    clef_status s = mark_all(b, err);
    if (!s)
        s = fetch(b, 0, err);
    for (int32_t k = 0; k < b->n && !s; k++) {
        s = k + 1 < b->n ? fetch(b, k + 1, err) : CLEF_OK;
        if (!s)
            s = sum(b, k, err);
    }
    if (s)
        abandon(b);
    else
        s = finish_copies(b, err);
    release_event(&b->all_ended);
    return s;
}

void clef__train_buckets_begin(clef__train_buckets *b)
{
    clef__train_overlap_begin(&b->overlap);
}

clef_status clef__train_buckets_end(clef__train_buckets *b, clef_error *err)
{
    const clef_status s = clef__train_overlap_end(&b->overlap, b->ranks, err);
    return s || !b->overlap.is_decided || b->overlap.is_on || !b->plan->n_marks
               ? s
               : clef__plan_set_marks(b->plan, NULL, 0, err);
}
