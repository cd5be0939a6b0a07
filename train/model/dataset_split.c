/* Which documents are for training and which for validation. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "train/model/dataset.h"
#include "train/model/dataset_order.h"

enum { KEPT_APART = 0 }; /* the seed of the split, which is the same whatever opts.seed is */

/* All documents of all files, numbered in the order of the files. */
typedef struct documents {
    const clef_dataset *ds;
    int64_t *firsts;        /* [n_files + 1]: the number of each file's first document */
    uint8_t *is_validation; /* [n] */
    int64_t n, n_training;  /* n_training: of the files for training */
    int64_t longest;        /* of the training files; its last n_cut tokens are for validation */
    int64_t n_cut;
} documents;

static int64_t texts_of(const clef_dataset *ds)
{
    return ds->objective == CLEF_TEXT_PAIRS ? 2 : 1;
}

static clef__piece piece_of(const documents *d, int64_t document)
{
    int32_t low = 0, high = d->ds->n_files; /* firsts[low] <= document < firsts[high] */
    while (high - low > 1) {
        const int32_t middle = (low + high) / 2;
        if (d->firsts[middle] <= document)
            low = middle;
        else
            high = middle;
    }
    const int64_t n_texts = texts_of(d->ds);
    const uint64_t *starts = d->ds->files[low].starts + (document - d->firsts[low]) * n_texts;
    clef__piece p = {.start = (int64_t)starts[0],
                     .n = (int64_t)(starts[1] - starts[0]),
                     .file = low,
                     .begins = 1,
                     .ends = 1};
    if (n_texts == 2)
        p.n_target = (int64_t)(starts[2] - starts[1]);
    return p;
}

static int64_t tokens_of(const documents *d, int64_t document)
{
    const clef__piece p = piece_of(d, document);
    return p.n + (texts_of(d->ds) == 2 ? p.n_target : 0);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Draws documents until they have the wanted number of tokens. A document that would make it more ends this,
 * or is passed over if they do not have half of it yet. Returns how many they have. */
static int64_t draw_documents(documents *d, int64_t wanted)
{
    int64_t drawn = 0;
    for (int64_t i = 0; i < d->n_training; i++) {
        const int64_t document =
            (int64_t)clef__draw_order(KEPT_APART, CLEF_DRAW_SPLIT, 0, (uint64_t)d->n_training, (uint64_t)i);
        const int64_t n = tokens_of(d, document);
        if (n <= wanted - drawn) {
            d->is_validation[document] = 1;
            drawn += n;
        } else if (2 * drawn >= wanted) {
            break;
        }
    }
    return drawn;
}

static void choose(documents *d, double part)
{
    int64_t total = 0, most = -1;
    for (int64_t i = 0; i < d->n_training; i++) {
        const int64_t n = tokens_of(d, i);
        total += n;
        if (n > most) {
            most = n;
            d->longest = i;
        }
    }
    const int64_t wanted = (int64_t)(part * (double)total);
    if (draw_documents(d, wanted) > 0 || texts_of(d->ds) == 2 || most < 2)
        return;
    d->n_cut = wanted < 1 ? 1 : wanted < most ? wanted : most - 1;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* A text may have no tokens, if the tokenizer's normalizer drops all of it. */
static void add_piece(clef_dataset *ds, clef_split split, clef__piece p)
{
    clef__share *share = &ds->shares[split];
    if (p.n == 0 || (texts_of(ds) == 2 && p.n_target == 0))
        ds->info.n_empty++;
    else
        share->pieces[share->n_pieces++] = p;
}

/* Training pieces are in an order drawn from the seed, since documents that are near each other in a file are
 * often alike; validation pieces are in the files' order. */
static void fill_pieces(clef_dataset *ds, const documents *d)
{
    for (int64_t i = 0; i < d->n_training; i++) {
        const int64_t document =
            (int64_t)clef__draw_order(ds->seed, CLEF_DRAW_DOCUMENTS, 0, (uint64_t)d->n_training, (uint64_t)i);
        clef__piece p = piece_of(d, document);
        if (d->n_cut && document == d->longest) {
            p.n -= d->n_cut;
            p.ends = 0;
        }
        if (!d->is_validation[document])
            add_piece(ds, CLEF_TRAINING, p);
    }
    for (int64_t i = 0; i < d->n; i++) {
        clef__piece p = piece_of(d, i);
        if (d->n_cut && i == d->longest) {
            p.start += p.n - d->n_cut;
            p.n = d->n_cut;
            p.begins = 0;
            add_piece(ds, CLEF_VALIDATION, p);
        } else if (d->is_validation[i]) {
            add_piece(ds, CLEF_VALIDATION, p);
        }
    }
}

static clef_status allocate(clef_dataset *ds, documents *d, clef_error *err)
{
    const int32_t n_files = ds->n_files;
    d->firsts = malloc(((size_t)n_files + 1) * sizeof *d->firsts);
    if (!d->firsts)
        return clef__fail(err, CLEF_E_NOMEM, "dataset: no memory for a list of %d files", n_files);
    for (int32_t i = 0; i < n_files; i++) {
        d->firsts[i] = d->n;
        d->n += ds->files[i].n_texts / texts_of(ds);
    }
    d->firsts[n_files] = d->n;
    d->n_training = d->firsts[ds->n_training_files];
    const size_t n = (size_t)d->n + 1;
    d->is_validation = calloc(n, 1);
    for (int s = 0; s < 2; s++)
        ds->shares[s].pieces = malloc(n * sizeof *ds->shares[s].pieces);
    if (d->is_validation && ds->shares[0].pieces && ds->shares[1].pieces)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_NOMEM, "dataset: no memory for a list of %lld documents", (long long)d->n);
}

/* Gives back what a list of pieces does not need. */
static void shrink(clef__share *share)
{
    clef__piece *less = realloc(share->pieces, ((size_t)share->n_pieces + 1) * sizeof *less);
    if (less)
        share->pieces = less;
}

clef_status clef__dataset_split(clef_dataset *ds, const clef_dataset_opts *opts, clef_error *err)
{
    documents d = {.ds = ds};
    const double part = opts->validation > 0 ? opts->validation : opts->validation < 0 ? 0 : 0.05;
    const clef_status st = allocate(ds, &d, err);
    if (st == CLEF_OK) {
        if (ds->n_training_files < ds->n_files)
            memset(d.is_validation + d.n_training, 1, (size_t)(d.n - d.n_training));
        else if (part > 0 && d.n_training > 0)
            choose(&d, part);
        fill_pieces(ds, &d);
        ds->info.from_cut = d.n_cut > 0;
        shrink(&ds->shares[CLEF_TRAINING]);
        shrink(&ds->shares[CLEF_VALIDATION]);
    }
    free(d.firsts);
    free(d.is_validation);
    return st;
}
