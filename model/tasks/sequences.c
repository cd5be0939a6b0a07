#include "model/tasks/sequences.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/open/model.h"

/* ---- checks ---------------------------------------------------------------------------------- */

static clef_status check_sequence(const clef_sequence_plan *p, const clef__sequences *s, int32_t i,
                                  clef_error *err)
{
    const clef_hparams *hp = clef_model_hparams(p->model);
    const int32_t n = s->n_ids[i], *types = s->types && p->build.token_types ? s->types[i] : NULL;
    if (n < 1)
        return clef__fail(err, CLEF_E_ARG, "text %" PRId32 " has no tokens", i);
    if (n > p->max_tokens)
        return clef__fail(err, CLEF_E_LIMIT,
                          "text %" PRId32 " has %" PRId32 " tokens, %s accepts at most %" PRId32, i, n,
                          clef_model_path(p->model), p->max_tokens);
    for (int32_t k = 0; k < n; k++)
        if (s->ids[i][k] < 0 || s->ids[i][k] >= hp->n_vocab)
            return clef__fail(err, CLEF_E_ARG,
                              "text %" PRId32 ": token %" PRId32 " is %" PRId32
                              ", the vocabulary has 0 to %" PRId32,
                              i, k, s->ids[i][k], hp->n_vocab - 1);
    for (int32_t k = 0; types && k < n; k++)
        if (types[k] < 0 || types[k] >= hp->n_token_types)
            return clef__fail(err, CLEF_E_ARG,
                              "text %" PRId32 ": token %" PRId32 " is of type %" PRId32
                              ", the model has 0 to %" PRId32,
                              i, k, types[k], hp->n_token_types - 1);
    return clef__check_padding(p->model, s->ids[i], n, err);
}

static clef_status check_row(const float *row, size_t width, const char *what, int32_t text, clef_error *err)
{
    for (size_t k = 0; k < width; k++)
        if (!isfinite(row[k]))
            return clef__fail(err, CLEF_E_NOT_FINITE,
                              "text %" PRId32 ": %s[%zu]: expected a finite value, got %s; clef compare "
                              "--stats finds the first value that is not finite",
                              text, what, k,
                              isnan(row[k]) ? "NaN"
                              : row[k] > 0  ? "inf"
                                            : "-inf");
    return CLEF_OK;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* A sequence and its length, sorted with the longest first. */
typedef struct entry {
    int32_t n_ids, index;
} entry;

static int by_length(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->n_ids != y->n_ids ? (x->n_ids < y->n_ids) - (x->n_ids > y->n_ids)
                                : (x->index > y->index) - (x->index < y->index);
}

/** Memory of a call. */
typedef struct work {
    const clef__sequences *s;
    const char *what;
    size_t width;
    entry *entries;
    int32_t *ids, *types; /* [max_B, max_T] */
    float *rows;          /* [max_B, width] */
    float *out;
} work;

/* Runs the n entries from `first` on, all of one length. */
static clef_status run_batch(clef_sequence_plan *p, const work *w, const entry *first, int32_t n,
                             clef_error *err)
{
    const size_t T = (size_t)first->n_ids, width = w->width;
    for (int32_t i = 0; i < n; i++)
        memcpy(w->ids + (size_t)i * T, w->s->ids[first[i].index], T * sizeof *w->ids);
    for (int32_t i = 0; w->s->types && i < n; i++)
        memcpy(w->types + (size_t)i * T, w->s->types[first[i].index], T * sizeof *w->types);
    clef_status status = clef__sequence_plan_run(p, w->ids, w->types, n, first->n_ids, w->rows,
                                                 (size_t)n * width * sizeof *w->rows, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        status = check_row(w->rows + (size_t)i * width, width, w->what, first[i].index, err);
    for (int32_t i = 0; status == CLEF_OK && i < n; i++)
        memcpy(w->out + (size_t)first[i].index * width, w->rows + (size_t)i * width, width * sizeof *w->out);
    return status;
}

/* The number of entries in the next run: those with the length of the first of the `n_left`, divided into
 * runs of nearly equal size. */
static int32_t batch_size(const clef_sequence_plan *p, const entry *entries, int32_t n_left)
{
    int32_t n = 1;
    while (n < n_left && entries[n].n_ids == entries->n_ids)
        n++;
    const int32_t n_runs = (n + p->max_B - 1) / p->max_B;
    return (n + n_runs - 1) / n_runs;
}

static clef_status run_all(clef_sequence_plan *p, const work *w, clef_error *err)
{
    const clef_compile_opts *o = &p->opts.compile;
    const int32_t n = w->s->n;
    for (int32_t i = 0; i < n;) {
        const int32_t size = batch_size(p, w->entries + i, n - i);
        const clef_status status = run_batch(p, w, w->entries + i, size, err);
        if (status != CLEF_OK)
            return status;
        i += size;
        if (o->progress && o->progress(o->progress_user, w->what, (uint64_t)i, (uint64_t)n))
            return clef__fail(err, CLEF_E_CANCELLED, "%s: interrupted at %" PRId32 " of %" PRId32 " texts",
                              w->what, i, n);
    }
    return CLEF_OK;
}

clef_status clef__sequences_run(clef_sequence_plan *p, const clef__sequences *s, const char *what,
                                size_t width, float *out, clef_error *err)
{
    if (s->n < 1)
        return s->n == 0 ? CLEF_OK
                         : clef__fail(err, CLEF_E_ARG, "%" PRId32 " texts, expected 0 or more", s->n);
    clef_status status = CLEF_OK;
    for (int32_t i = 0; !status && i < s->n; i++)
        status = check_sequence(p, s, i, err);
    if (status)
        return status;
    work w = {.s = s,
              .what = what,
              .width = width,
              .out = out,
              .entries = malloc((size_t)s->n * sizeof *w.entries)};
    if (!w.entries)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " texts", s->n);
    for (int32_t i = 0; i < s->n; i++)
        w.entries[i] = (entry){s->n_ids[i], i};
    qsort(w.entries, (size_t)s->n, sizeof *w.entries, by_length);
    status = clef__sequence_plan_for(p, w.entries->n_ids, err);
    if (status == CLEF_OK) {
        const size_t n_tokens = (size_t)p->max_B * (size_t)p->max_T;
        w.ids = malloc(n_tokens * sizeof *w.ids);
        w.types = calloc(n_tokens, sizeof *w.types);
        w.rows = malloc((size_t)p->max_B * width * sizeof *w.rows);
        status = w.ids && w.types && w.rows
                     ? run_all(p, &w, err)
                     : clef__fail(err, CLEF_E_NOMEM, "no memory for %" PRId32 " texts a run", p->max_B);
    }
    free(w.entries);
    free(w.ids);
    free(w.types);
    free(w.rows);
    return status;
}
