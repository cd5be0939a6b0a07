/* Pictures in prompts: which rows of a step they fill, where those rows turn and what they see, and by which
 * keys the prefix cache knows them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "model/batch/batch.h"
#include "model/open/model.h"
#include "model/sight/sight.h"

/* The bits of 1.0f: what is_token has for a row of a token. */
enum { ONE = 0x3f800000 };

static size_t row_elems(const clef_batch *b)
{
    return (size_t)(1 + b->model->sight->n_deep) * (size_t)b->hp->d_model;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static clef_status check_span(const clef_batch *b, const clef_request *r, int32_t i, clef_error *err)
{
    const clef_request_picture *p = &r->pictures[i];
    const clef__sight *sight = b->model->sight;
    const int32_t from = i ? p[-1].at + p[-1].n : 0, room = b->opts.step_tokens - b->most_samples;
    const int32_t whole = sight->view == CLEF__SIGHT_PROMPT    ? r->n
                          : sight->view == CLEF__SIGHT_PICTURE ? p->n
                                                               : 0;
    if (p->at < from || p->n < 1 || p->n > r->n - p->at || !p->rows)
        return clef__fail(
            err, CLEF_E_ARG,
            "picture %d: %d rows from token %d on: expected some, after those of the one before, "
            "and within the prompt of %d tokens",
            i, p->n, p->at, r->n);
    if (sight->sections[0] && (p->height < 1 || p->width < 1 || (int64_t)p->height * p->width != p->n))
        return clef__fail(err, CLEF_E_ARG, "picture %d: %d x %d rows, expected %d", i, p->height, p->width,
                          p->n);
    if (whole > room)
        return clef__fail(err, CLEF_E_LIMIT,
                          "picture %d: its %d rows belong into one step, which has room for %d (clef: "
                          "--step-tokens)",
                          i, whole, room);
    return CLEF_OK;
}

clef_status clef__batch_check_pictures(const clef_batch *b, const clef_request *r, clef_error *err)
{
    clef_status s = CLEF_OK;
    if (r->n_pictures && !b->model->sight)
        return clef__fail(err, CLEF_E_UNSUPPORTED, "%s (%s) reads no pictures", clef_model_path(b->model),
                          b->hp->arch);
    for (int32_t i = 0; i < r->n_pictures && !s; i++)
        s = check_span(b, r, i, err);
    return s;
}

/* The key of row i of a picture: a negative number, which no token has. All of the digest is in it (the
 * finaliser of SplitMix64, after each word). */
static int32_t key_of(const uint64_t digest[4], int32_t i)
{
    uint64_t x = (uint64_t)i;
    for (int k = 0; k < 4; k++) {
        x = (x ^ digest[k]) + 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    }
    return -1 - (int32_t)(x & INT32_MAX);
}

int clef__batch_take_pictures(const clef_batch *b, batch_sequence *s, const clef_request *r)
{
    if (!r->n_pictures)
        return 1;
    s->pictures = calloc((size_t)r->n_pictures, sizeof *s->pictures);
    s->keys = malloc((size_t)s->n_most * sizeof *s->keys);
    if (!s->pictures || !s->keys)
        return 0;
    memcpy(s->keys, s->tokens, (size_t)s->n_tokens * sizeof *s->keys);
    for (int32_t i = 0; i < r->n_pictures; i++) {
        const clef_request_picture *p = &r->pictures[i];
        const size_t n_bytes = (size_t)p->n * row_elems(b) * sizeof(float);
        float *rows = malloc(n_bytes);
        if (!rows)
            return 0;
        memcpy(rows, p->rows, n_bytes);
        s->pictures[s->n_pictures] = *p;
        s->pictures[s->n_pictures++].rows = rows;
        for (int32_t k = 0; k < p->n; k++)
            s->keys[p->at + k] = key_of(p->digest, k);
    }
    return 1;
}

void clef__batch_free_pictures(batch_sequence *s)
{
    for (int32_t i = 0; i < s->n_pictures; i++)
        free((float *)(uintptr_t)s->pictures[i].rows);
    free(s->pictures);
    free(s->keys);
}

const int32_t *clef__batch_keys(const batch_sequence *s)
{
    return s->keys ? s->keys : s->tokens;
}

/* ---- what may be cut ----------------------------------------------------------------------------- */

int32_t clef__batch_uncut(const clef_batch *b, const batch_sequence *s, int32_t end)
{
    if (!s->n_pictures || b->model->sight->view == CLEF__SIGHT_CAUSAL)
        return end;
    if (b->model->sight->view == CLEF__SIGHT_PROMPT)
        return end < s->n_prompt ? 0 : end;
    for (int32_t i = 0; i < s->n_pictures; i++) {
        const clef_request_picture *p = &s->pictures[i];
        if (end > p->at && end < p->at + p->n)
            return p->at;
    }
    return end;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

/* The picture that has a position, or NULL. *shift: how far the positions by which tokens turn are ahead of
 * the places in the text, there. */
static const clef_request_picture *picture_at(const batch_sequence *s, int32_t at, int32_t *shift)
{
    *shift = 0;
    for (int32_t i = 0; i < s->n_pictures && s->pictures[i].at <= at; i++) {
        const clef_request_picture *p = &s->pictures[i];
        if (at < p->at + p->n)
            return p;
        *shift += (p->height > p->width ? p->height : p->width) - p->n;
    }
    return NULL;
}

static void fill_turns(batch_picture_rows *r, const clef_request_picture *p, int32_t row, int32_t at,
                       int32_t shift)
{
    const int32_t i = p ? at - p->at : 0, begin = at - i + shift;
    r->turns[0].now[row] = begin;
    r->turns[1].now[row] = begin + (p ? i / p->width : 0);
    r->turns[2].now[row] = begin + (p ? i % p->width : 0);
}

static void fill_sight(const clef_batch *b, batch_picture_rows *r, const batch_sequence *s,
                       const clef_request_picture *p, int32_t row, int32_t at)
{
    const int is_whole = b->model->sight->view == CLEF__SIGHT_PROMPT && s->n_pictures && at < s->n_prompt;
    const int32_t begin = is_whole ? 0
                          : p      ? p->at
                                   : at,
                  window = b->hp->sliding_window, from = at - window + 1 < begin ? at - window + 1 : begin;
    r->sees.now[row] = is_whole ? s->n_prompt - 1 : p ? p->at + p->n - 1 : at;
    r->sees_from.now[row] = from > 0 && window ? from : 0;
}

void clef__batch_picture_row(clef_batch *b, const batch_sequence *s, int32_t row, int32_t at)
{
    batch_picture_rows *r = &b->picture_rows;
    int32_t shift;
    const size_t n = row_elems(b);
    const clef_request_picture *p = picture_at(s, at, &shift);
    r->is_token.now[row] = p ? 0 : ONE;
    if (b->io.time >= 0)
        fill_turns(r, p, row, at, shift);
    if (b->io.sees >= 0)
        fill_sight(b, r, s, p, row, at);
    if (!p)
        return;
    b->rows.ids.now[row] = 0; /* the picture's own token may lie outside of the vocabulary's matrix */
    memcpy(r->rows + (size_t)row * n, p->rows + (size_t)(at - p->at) * n, n * sizeof *r->rows);
    r->n_used = row + 1;
}

void clef__batch_clear_pictures(clef_batch *b)
{
    batch_picture_rows *r = &b->picture_rows;
    if (r->n_used)
        memset(r->rows, 0, (size_t)r->n_used * row_elems(b) * sizeof *r->rows);
    r->n_used = 0;
}

clef_status clef__batch_write_pictures(clef_batch *b, int32_t n, clef_error *err)
{
    batch_picture_rows *r = &b->picture_rows;
    if (!b->build.pictures || (!r->n_used && r->n_zeros >= n))
        return CLEF_OK;
    const clef_status s =
        clef_plan_write(b->plan, b->io.pictures, r->rows, (size_t)n * row_elems(b) * sizeof *r->rows, err);
    r->n_zeros = r->n_used || s ? 0 : n;
    return s;
}

/* ---- memory -------------------------------------------------------------------------------------- */

int clef__batch_make_pictures(clef_batch *b)
{
    batch_picture_rows *r = &b->picture_rows;
    const size_t n = (size_t)b->opts.step_tokens;
    batch_input *const inputs[] = {&r->is_token, &r->turns[0], &r->turns[1],
                                   &r->turns[2], &r->sees,     &r->sees_from};
    int made = 1;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        inputs[i]->now = calloc(n, sizeof *inputs[i]->now);
        inputs[i]->sent = calloc(n, sizeof *inputs[i]->sent);
        made &= inputs[i]->now && inputs[i]->sent;
    }
    r->rows = calloc(n * row_elems(b), sizeof *r->rows);
    return made && r->rows;
}

void clef__batch_drop_pictures(clef_batch *b)
{
    batch_picture_rows *r = &b->picture_rows;
    batch_input *const inputs[] = {&r->is_token, &r->turns[0], &r->turns[1],
                                   &r->turns[2], &r->sees,     &r->sees_from};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        free(inputs[i]->now);
        free(inputs[i]->sent);
    }
    free(r->rows);
    *r = (batch_picture_rows){.rows = NULL};
}
