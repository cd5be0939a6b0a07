#include "train/plan/train_ranks.h"

#include <stdlib.h>

#include "runtime/plan/plan.h"
#include "train/plan/train_buckets.h"

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
                             .staging = malloc(CLEF__TRAIN_BUCKET * sizeof *r->staging)};
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

/* Copies elements `from` to from + n - 1 to `host`, or with `writes` from there. */
static clef_status copy_range(clef__train_ranks *r, const clef__plan_state *states, int64_t from, int64_t n,
                              int writes, float *host, clef_error *err)
{
    const int32_t n_pieces = clef__train_pieces(r->graphs, states, from, n, r->pieces);
    if (!n_pieces)
        return CLEF_OK;
    const clef__train_when when = {.queue = r->pieces->state->stage->dev->queue};
    if (!clef__train_is_shared(r->pieces))
        return clef__train_copy(r->pieces, n_pieces, writes, (char *)host, &when, err);
    clef_status s = clef__train_map(r->pieces, n_pieces, writes ? CL_MAP_WRITE : CL_MAP_READ, &when, err);
    if (s)
        return s;
    clef__train_copy_mapped(r->pieces, n_pieces, writes, (char *)host);
    return clef__train_unmap(r->pieces, n_pieces, when.queue, err);
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
    const int64_t most = CLEF__TRAIN_BUCKET / r->n ? CLEF__TRAIN_BUCKET / r->n : 1;
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
