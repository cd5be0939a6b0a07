#include "runtime/train/train_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/plan/plan.h"

/* Floats that are exchanged at once. Messages of some MiB use a network well, and a bucket still fits into a
 * processor's cache. */
enum { BUCKET = 1 << 20 };

/* A part of a parameter's array. */
typedef struct clef__train_piece {
    const clef__plan_state *state;
    size_t offset, n_bytes;
    char *at; /* while it is mapped */
} piece;

clef_status clef__train_ranks_init(clef__train_ranks *r, clef_ranks *ranks, const clef__train_graphs *graphs,
                                   clef_error *err)
{
    const int32_t n = ranks->transport->size;
    *r = (clef__train_ranks){.ranks = ranks,
                             .graphs = graphs,
                             .n = n,
                             .begins = calloc((size_t)n + 1, sizeof *r->begins),
                             .counts = calloc((size_t)n, sizeof *r->counts),
                             .pieces = calloc((size_t)graphs->n_parameters + 1, sizeof *r->pieces),
                             .staging = malloc(BUCKET * sizeof *r->staging)};
    if (!r->begins || !r->counts || !r->pieces || !r->staging)
        return clef__fail(err, CLEF_E_NOMEM, "trainer: no memory for what %d ranks exchange", n);
    for (int32_t k = 0; k <= n; k++)
        for (int32_t i = 0; i < graphs->n_parameters; i++) {
            const clef__train_parameter *p = &graphs->parameters[i];
            r->begins[k] += clef__train_cut(graphs, i, k, n) * clef__train_row(p);
        }
    return CLEF_OK;
}

void clef__train_ranks_finish(clef__train_ranks *r)
{
    free(r->begins);
    free(r->counts);
    free(r->pieces);
    free(r->staging);
    *r = (clef__train_ranks){0};
}

/* ---- ranges of elements in host memory -------------------------------------------------------- */

/* The pieces of elements `from` to from + n - 1, in their order. Returns how many there are. */
static int32_t find_pieces(const clef__train_ranks *r, const clef__plan_state *states, int64_t from,
                           int64_t n)
{
    int32_t n_pieces = 0;
    for (int32_t i = r->graphs->n_parameters - 1; i >= 0; i--) {
        const clef__train_parameter *p = &r->graphs->parameters[i];
        const int64_t first = from > p->start ? from : p->start,
                      end = from + n < p->start + p->n ? from + n : p->start + p->n;
        if (first < end)
            r->pieces[n_pieces++] = (piece){.state = &states[i],
                                            .offset = (size_t)(first - p->start) * sizeof(float),
                                            .n_bytes = (size_t)(end - first) * sizeof(float)};
    }
    return n_pieces;
}

static cl_command_queue queue_of(const piece *p)
{
    return p->state->stage->dev->queue;
}

static cl_mem memory_of(const piece *p)
{
    return p->state->stage->mem[p->state->value->id];
}

static int is_shared(const piece *p)
{
    return p->state->stage->dev->info.caps.unified_memory;
}

/* Unmaps the first n pieces. */
static clef_status unmap(clef__train_ranks *r, int32_t n, clef_error *err)
{
    clef_status s = CLEF_OK;
    for (int32_t i = 0; i < n; i++) {
        piece *p = &r->pieces[i];
        const cl_int code = clEnqueueUnmapMemObject(queue_of(p), memory_of(p), p->at, 0, NULL, NULL);
        if (code && !s)
            s = clef__cl_fail(err, "clEnqueueUnmapMemObject", p->state->value->name, code);
    }
    return s;
}

/* Maps n pieces. Only the last call waits: the queue runs its commands in order. */
static clef_status map(clef__train_ranks *r, int32_t n, cl_map_flags flags, clef_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        piece *p = &r->pieces[i];
        cl_int code = CL_SUCCESS;
        p->at = clEnqueueMapBuffer(queue_of(p), memory_of(p), i == n - 1 ? CL_TRUE : CL_FALSE, flags,
                                   p->offset, p->n_bytes, 0, NULL, NULL, &code);
        if (!code)
            continue;
        unmap(r, i, NULL);
        return clef__cl_fail(err, "clEnqueueMapBuffer", p->state->value->name, code);
    }
    return CLEF_OK;
}

/* Copies elements of a device with memory of its own, and waits. */
static clef_status transfer(clef__train_ranks *r, int32_t n, int writes, char *host, clef_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        const piece *p = &r->pieces[i];
        const cl_bool wait = i == n - 1 ? CL_TRUE : CL_FALSE;
        const cl_int code = writes ? clEnqueueWriteBuffer(queue_of(p), memory_of(p), wait, p->offset,
                                                          p->n_bytes, host, 0, NULL, NULL)
                                   : clEnqueueReadBuffer(queue_of(p), memory_of(p), wait, p->offset,
                                                         p->n_bytes, host, 0, NULL, NULL);
        if (code)
            return clef__cl_fail(err, writes ? "clEnqueueWriteBuffer" : "clEnqueueReadBuffer",
                                 p->state->value->name, code);
        host += p->n_bytes;
    }
    return CLEF_OK;
}

static void copy(piece *pieces, int32_t n, int writes, char *host)
{
    for (int32_t i = 0; i < n; i++) {
        memcpy(writes ? pieces[i].at : host, writes ? host : pieces[i].at, pieces[i].n_bytes);
        host += pieces[i].n_bytes;
    }
}

/* Copies elements `from` to from + n - 1 to `host`, or with `writes` from there. */
static clef_status copy_range(clef__train_ranks *r, const clef__plan_state *states, int64_t from, int64_t n,
                              int writes, float *host, clef_error *err)
{
    const int32_t n_pieces = find_pieces(r, states, from, n);
    if (!n_pieces)
        return CLEF_OK;
    if (!is_shared(r->pieces))
        return transfer(r, n_pieces, writes, (char *)host, err);
    clef_status s = map(r, n_pieces, writes ? CL_MAP_WRITE : CL_MAP_READ, err);
    if (s)
        return s;
    copy(r->pieces, n_pieces, writes, (char *)host);
    return unmap(r, n_pieces, err);
}

/* ---- exchanges -------------------------------------------------------------------------------- */

static const clef__transport_calls *calls(const clef__train_ranks *r)
{
    return r->ranks->transport->calls;
}

void clef__train_ranks_at(clef__train_ranks *r, int64_t step)
{
    calls(r)->at(r->ranks->transport, "training step", step);
}

clef_status clef__train_ranks_sum_few(clef__train_ranks *r, float *x, size_t n, clef_error *err)
{
    return calls(r)->all_reduce(r->ranks->all, x, n, r->ranks->wire, err);
}

/* The elements of a bucket where they are, if they are all of one parameter; else in a copy. */
static clef_status sum_bucket(clef__train_ranks *r, const clef__plan_state *states, int64_t from, int64_t n,
                              clef_error *err)
{
    clef_status s;
    if (find_pieces(r, states, from, n) == 1 && is_shared(r->pieces)) {
        s = map(r, 1, CL_MAP_READ | CL_MAP_WRITE, err);
        if (!s)
            s = clef__train_ranks_sum_few(r, (float *)(void *)r->pieces[0].at, (size_t)n, err);
        return s ? s : unmap(r, 1, err);
    }
    s = copy_range(r, states, from, n, 0, r->staging, err);
    if (!s)
        s = clef__train_ranks_sum_few(r, r->staging, (size_t)n, err);
    return s ? s : copy_range(r, states, from, n, 1, r->staging, err);
}

clef_status clef__train_ranks_sum(clef__train_ranks *r, const clef__plan_state *gradients, clef_error *err)
{
    const int64_t all = r->begins[r->n];
    clef_status s = CLEF_OK;
    for (int64_t at = 0; at < all && !s; at += BUCKET)
        s = sum_bucket(r, gradients, at, all - at < BUCKET ? all - at : BUCKET, err);
    return s;
}

/* The elements of rank k's range that it sends in the round which begins at element `at` of each range. */
static int64_t n_of_round(const clef__train_ranks *r, int32_t k, int64_t at, int64_t most)
{
    const int64_t left = r->begins[k + 1] - r->begins[k] - at;
    return left < 0 ? 0 : left < most ? left : most;
}

static clef_status gather_round(clef__train_ranks *r, const clef__plan_state *weights, int64_t at,
                                int64_t most, clef_error *err)
{
    const int32_t me = r->ranks->rank;
    float *mine = r->staging;
    for (int32_t k = 0; k < r->n; k++) {
        const int64_t n = n_of_round(r, k, at, most);
        r->counts[k] = (size_t)n * sizeof(float);
        mine += k < me ? n : 0;
    }
    clef_status s = copy_range(r, weights, r->begins[me] + at, n_of_round(r, me, at, most), 0, mine, err);
    if (!s)
        s = calls(r)->all_gather(r->ranks->all, mine, r->staging, r->counts, err);
    float *from = r->staging;
    for (int32_t k = 0; k < r->n && !s; k++) {
        const int64_t n = n_of_round(r, k, at, most);
        if (k != me)
            s = copy_range(r, weights, r->begins[k] + at, n, 1, from, err);
        from += n;
    }
    return s;
}

clef_status clef__train_ranks_gather(clef__train_ranks *r, const clef__plan_state *weights, clef_error *err)
{
    const int64_t most = BUCKET / r->n ? BUCKET / r->n : 1;
    int64_t longest = 0;
    clef_status s = CLEF_OK;
    for (int32_t k = 0; k < r->n; k++)
        longest = n_of_round(r, k, 0, INT64_MAX) > longest ? n_of_round(r, k, 0, INT64_MAX) : longest;
    for (int64_t at = 0; at < longest && !s; at += most)
        s = gather_round(r, weights, at, most, err);
    return s;
}

clef_status clef__train_ranks_join(clef__train_ranks *r, int32_t i, float *data, clef_error *err)
{
    const int64_t row = clef__train_row(&r->graphs->parameters[i]);
    for (int32_t k = 0; k < r->n; k++)
        r->counts[k] =
            (size_t)((clef__train_cut(r->graphs, i, k + 1, r->n) - clef__train_cut(r->graphs, i, k, r->n)) *
                     row) *
            sizeof *data;
    const float *mine = data + clef__train_cut(r->graphs, i, r->ranks->rank, r->n) * row;
    return calls(r)->all_gather(r->ranks->all, mine, data, r->counts, err);
}
