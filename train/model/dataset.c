/* Opening a dataset. */
#include "train/model/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clef/cache.h"
#include "graph/fail.h"

/* ---- options --------------------------------------------------------------------------------- */

static clef_status check_opts(const clef_dataset_opts *o, clef_error *err)
{
    if (!o->files || o->n_files < 1)
        return clef__fail(err, CLEF_E_ARG, "dataset: expected one text file at least, got none");
    if (o->n_validation_files < 0 || (o->n_validation_files > 0 && !o->validation_files))
        return clef__fail(err, CLEF_E_ARG, "dataset: the list of validation files is NULL");
    if (o->n_tokens < 2 || o->n_target < 0)
        return clef__fail(err, CLEF_E_ARG, "dataset: expected rows of 2 tokens at least, got %d and %d",
                          o->n_tokens, o->n_target);
    if (!(o->validation < 1))
        return clef__fail(err, CLEF_E_ARG, "dataset: expected a validation part below 1, got %g",
                          o->validation);
    if (!(o->mask_rate >= 0 && o->mask_rate <= 1))
        return clef__fail(err, CLEF_E_ARG, "dataset: expected a mask rate from 0 to 1, got %g", o->mask_rate);
    if ((uint32_t)o->objective > CLEF_TEXT_PAIRS || (uint32_t)o->documents > CLEF_DOCUMENTS_FILES ||
        (uint32_t)o->packing > CLEF_PACK_WHOLE)
        return clef__fail(err, CLEF_E_ARG, "dataset: an unknown objective, rule for documents, or packing");
    if (o->separator && (!*o->separator || strchr(o->separator, '\n')))
        return clef__fail(err, CLEF_E_ARG, "dataset: expected a separator of one line, got '%.40s'",
                          o->separator);
    return CLEF_OK;
}

/* The special tokens around a document, as the tokenizer's template for one text has them. */
static void read_template(clef_dataset *ds, const clef_tokenizer *tok)
{
    int is_after = 0;
    for (int32_t i = 0; i < tok->single.n; i++) {
        const int32_t id = tok->single.items[i].id;
        if (id < 0)
            is_after = 1;
        else if (is_after)
            ds->after[ds->n_after++] = id;
        else
            ds->before[ds->n_before++] = id;
    }
}

static clef_status set_end_of_text(clef_dataset *ds, const clef_tokenizer *tok, const char *text,
                                   clef_error *err)
{
    if (ds->n_after > 0 || (text && !*text))
        return CLEF_OK;
    const int32_t id = text ? clef_tokenizer_find(tok, text) : tok->eos;
    if (text && id < 0)
        return clef__fail(err, CLEF_E_NOT_FOUND,
                          "dataset: the tokenizer has no token '%.40s' to end documents with", text);
    if (id >= 0)
        ds->after[ds->n_after++] = id;
    return CLEF_OK;
}

static clef_status set_tokens(clef_dataset *ds, const clef_tokenizer *tok, const clef_dataset_opts *o,
                              clef_error *err)
{
    read_template(ds, tok);
    if (o->objective == CLEF_NEXT_TOKEN)
        return set_end_of_text(ds, tok, o->end_of_text, err);
    if (o->objective == CLEF_MASKED_TOKENS && tok->mask < 0)
        return clef__fail(err, CLEF_E_NOT_FOUND, "dataset: the tokenizer has no mask token");
    if (o->objective == CLEF_TEXT_PAIRS && (o->decoder_start < 0 || o->decoder_start >= ds->n_vocab))
        return clef__fail(err, CLEF_E_ARG, "dataset: expected a decoder_start of 0 to %d, got %d",
                          ds->n_vocab - 1, o->decoder_start);
    const int32_t least =
        ds->n_tokens < ds->n_target || o->objective == CLEF_MASKED_TOKENS ? ds->n_tokens : ds->n_target;
    if (least <= ds->n_before + ds->n_after)
        return clef__fail(err, CLEF_E_LIMIT,
                          "dataset: rows of %d tokens have no room for a text beside %d special tokens",
                          least, ds->n_before + ds->n_after);
    return CLEF_OK;
}

static clef_dataset *new_dataset(const clef_tokenizer *tok, const clef_dataset_opts *o)
{
    clef_dataset *ds = calloc(1, sizeof *ds);
    const double rate = o->mask_rate > 0 ? o->mask_rate : 0.15;
    if (!ds)
        return NULL;
    ds->objective = o->objective;
    ds->packing = o->packing;
    ds->n_tokens = o->n_tokens;
    ds->n_target = o->n_target ? o->n_target : o->n_tokens;
    ds->decoder_start = o->decoder_start;
    ds->n_vocab = tok->vocab.n_tokens;
    ds->pad = tok->pad >= 0 ? tok->pad : tok->eos >= 0 ? tok->eos : 0;
    ds->mask = tok->mask;
    ds->mask_below = rate < 1 ? (uint32_t)(rate * 4294967296.0) : UINT32_MAX;
    ds->seed = o->seed;
    return ds;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A tokenizer that was not read from a file, or whose file is gone, has no key for its tokens. */
static clef_status find_cache(clef__tokens_maker *m, clef_error *err)
{
    char dir[512] = "";
    const char *given = m->opts->cache_dir;
    clef_error why = {0};
    const clef_status st = clef__tokenizer_digest(m->tok, m->tokenizer, &why);
    if (st == CLEF_E_NOMEM)
        return clef__fail(err, st, "%s", why.text);
    if (st)
        memset(m->tokenizer, 0, sizeof m->tokenizer);
    else if (given && strlen(given) < sizeof dir)
        strcpy(dir, given);
    else if (given || !clef_cache_dir(dir, sizeof dir))
        *dir = 0;
    if (*dir)
        snprintf(m->dir, sizeof m->dir, "%s/tokens", dir);
    return CLEF_OK;
}

static const char *file_name(const clef_dataset_opts *o, int32_t i)
{
    return i < o->n_files ? o->files[i] : o->validation_files[i - o->n_files];
}

static clef_status check_twice(const clef_dataset *ds, const clef_dataset_opts *o, int32_t file,
                               clef_error *err)
{
    for (int32_t i = 0; i < file; i++)
        if (memcmp(ds->files[i].digest, ds->files[file].digest, CLEF_SHA256_BYTES) == 0)
            return clef__fail(err, CLEF_E_ARG, "%s: holds the same as %s, expected each text once",
                              file_name(o, file), file_name(o, i));
    return CLEF_OK;
}

static clef_status open_files(clef_dataset *ds, clef__tokens_maker *m, clef_error *err)
{
    const clef_dataset_opts *o = m->opts;
    const int32_t n = o->n_files + o->n_validation_files;
    clef_mapping file;
    clef_status st = CLEF_OK;
    ds->files = calloc((size_t)n, sizeof *ds->files);
    if (!ds->files)
        return clef__fail(err, CLEF_E_NOMEM, "dataset: no memory for a list of %d files", n);
    for (int32_t i = 0; i < n && !st; i++) {
        st = file_name(o, i) ? clef__os_map(file_name(o, i), &file, err)
                             : clef__fail(err, CLEF_E_ARG, "dataset: the name of file %d is NULL", i);
        if (st)
            return st;
        m->total += file.n_bytes;
        clef__os_unmap(&file);
    }
    for (int32_t i = 0; i < n && !st; i++) {
        st = clef__tokens_open(m, file_name(o, i), &ds->files[i], err);
        if (st)
            break;
        ds->n_files++;
        ds->info.n_cached += ds->files[i].is_cached;
        ds->info.n_empty += ds->files[i].n_empty;
        st = check_twice(ds, o, i, err);
    }
    ds->n_training_files = o->n_files;
    return st;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void add_text(clef_sha256 *s, const char *text)
{
    clef__sha256_add(s, text, strlen(text) + 1);
}

static void take_fingerprint(clef_dataset *ds, const clef__tokens_maker *m)
{
    const clef_dataset_opts *o = m->opts;
    const int64_t numbers[] = {ds->objective,  ds->packing,       ds->n_tokens, ds->n_target,
                               ds->n_vocab,    ds->pad,           ds->mask,     ds->decoder_start,
                               ds->mask_below, (int64_t)ds->seed, ds->n_before, ds->n_after,
                               o->documents,   ds->n_files,       o->n_files,   CLEF__TOKENS_FORMAT};
    unsigned char sum[CLEF_SHA256_BYTES];
    clef_sha256 s;
    clef__sha256_init(&s);
    clef__sha256_add(&s, numbers, sizeof numbers);
    clef__sha256_add(&s, &o->validation, sizeof o->validation);
    add_text(&s, o->separator ? o->separator : "");
    clef__sha256_add(&s, ds->before, (size_t)ds->n_before * sizeof *ds->before);
    clef__sha256_add(&s, ds->after, (size_t)ds->n_after * sizeof *ds->after);
    clef__sha256_add(&s, m->tokenizer, sizeof m->tokenizer);
    for (int32_t i = 0; i < ds->n_files; i++)
        clef__sha256_add(&s, ds->files[i].digest, sizeof ds->files[i].digest);
    clef__sha256_finish(&s, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(ds->info.fingerprint + 2 * i, 3, "%02x", sum[i]);
}

static clef_status check_counts(const clef_dataset *ds, clef_error *err)
{
    const clef__share *s = &ds->shares[CLEF_TRAINING];
    if (s->counts.n_rows == 0 || (ds->objective == CLEF_NEXT_TOKEN && s->n_stream <= s->n_pieces))
        return clef__fail(err, CLEF_E_FORMAT,
                          "dataset: expected text to train on, got %" PRId64 " documents with %" PRId64
                          " tokens",
                          s->counts.n_documents, s->counts.n_tokens);
    if (s->counts.n_rows > UINT32_MAX || ds->shares[CLEF_VALIDATION].counts.n_rows > UINT32_MAX)
        return clef__fail(err, CLEF_E_LIMIT, "dataset: expected at most %u rows, got %" PRId64, UINT32_MAX,
                          s->counts.n_rows);
    return CLEF_OK;
}

static clef_status fill(clef_dataset *ds, clef__tokens_maker *m, clef_error *err)
{
    clef_status st = set_tokens(ds, m->tok, m->opts, err);
    if (st == CLEF_OK)
        st = open_files(ds, m, err);
    if (st == CLEF_OK)
        st = clef__dataset_split(ds, m->opts, err);
    for (int s = 0; s < 2 && !st; s++) {
        st = clef__dataset_pack(ds, &ds->shares[s], err);
        ds->info.splits[s] = ds->shares[s].counts;
    }
    if (st == CLEF_OK)
        st = check_counts(ds, err);
    if (st == CLEF_OK)
        take_fingerprint(ds, m);
    return st;
}

clef_status clef_dataset_open(const clef_tokenizer *tok, const clef_dataset_opts *opts, clef_dataset **out,
                              clef_error *err)
{
    if (!out)
        return clef__fail(err, CLEF_E_ARG, "dataset: out is NULL");
    *out = NULL;
    if (!tok || !opts)
        return clef__fail(err, CLEF_E_ARG, "dataset: expected a tokenizer and options, got NULL");
    clef_status st = check_opts(opts, err);
    if (st)
        return st;
    clef_dataset *ds = new_dataset(tok, opts);
    if (!ds)
        return clef__fail(err, CLEF_E_NOMEM, "dataset: no memory");
    clef__tokens_maker maker = {.tok = tok, .opts = opts};
    st = find_cache(&maker, err);
    if (st == CLEF_OK)
        st = fill(ds, &maker, err);
    if (st)
        clef_dataset_close(ds);
    else
        *out = ds;
    return st;
}

void clef_dataset_close(clef_dataset *ds)
{
    if (!ds)
        return;
    for (int32_t i = 0; i < ds->n_files; i++)
        clef__tokens_close(&ds->files[i]);
    for (int s = 0; s < 2; s++) {
        free(ds->shares[s].pieces);
        free(ds->shares[s].chunks);
        free(ds->shares[s].row_chunks);
    }
    free(ds->files);
    free(ds);
}

clef_dataset_info clef_dataset_describe(const clef_dataset *ds)
{
    return ds->info;
}

int64_t clef_dataset_n_steps(const clef_dataset *ds, double epochs, int32_t n_rows)
{
    const double steps = ceil(epochs * (double)ds->info.splits[CLEF_TRAINING].n_rows / n_rows - 1e-9);
    return steps >= 1 ? (int64_t)steps : 1;
}
