/* How rank 0 sends the other ranks the bytes of their weights (runtime/plan/sent.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plan/sent.h"

typedef struct server {
    clef_ranks *ranks;
    const clef_plan_opts *opts;
    clef_status own;         /* what rank 0's part of the plan came to */
    char *staging;           /* a piece that is put together from several runs */
    clef__sent_question now; /* the question that is answered, */
    int32_t rank;            /* of this rank */
} server;

static clef_status send_to(const server *sv, const void *data, size_t n_bytes, clef_error *err)
{
    clef__transport *t = sv->ranks->transport;
    return t->calls->send(t, sv->rank, data, n_bytes, err);
}

/* 1 if all bytes that the question names lie in the weight. */
static int is_inside(const clef__sent_question *q)
{
    const uint64_t whole = q->whole_bytes;
    if (q->offset > whole || q->run_bytes > whole - q->offset || q->run_bytes == 0 || q->n_runs == 0)
        return 0;
    const uint64_t room = whole - q->offset - q->run_bytes; /* for the runs after the first */
    return q->n_runs == 1 || (q->stride >= q->run_bytes && q->n_runs - 1 <= room / q->stride);
}

static clef_status find_weight(const server *sv, const char **out, clef_error *err)
{
    const clef__sent_question *q = &sv->now;
    const clef_plan_opts *o = sv->opts;
    *out = NULL;
    if (sv->own)
        return clef__fail(err, sv->own, "rank 0 could not make its part of the plan");
    if (!is_inside(q))
        return clef__fail(err, CLEF_E_ARG,
                          "weight %s has %" PRIu64 " bytes: %" PRIu64 " runs of %" PRIu64 " at %" PRIu64
                          " are not in it",
                          q->name, q->whole_bytes, q->n_runs, q->run_bytes, q->offset);
    *out = o->weights(o->weights_user, q->name, (clef_dtype)q->dtype, q->whole_bytes);
    return *out ? CLEF_OK
                : clef__fail(err, CLEF_E_NOT_FOUND,
                             "weight %s: expected %s of %" PRIu64 " bytes, rank 0 does not have it", q->name,
                             clef_dtype_name((clef_dtype)q->dtype), q->whole_bytes);
}

/* The n bytes of the rank's part from `at` on. */
static const char *piece_of(const server *sv, const char *whole, uint64_t at, size_t n)
{
    const clef__sent_question *q = &sv->now;
    if (q->n_runs == 1)
        return whole + q->offset + at;
    for (size_t done = 0; done < n;) {
        const uint64_t run = (at + done) / q->run_bytes, in_run = (at + done) % q->run_bytes;
        const size_t rest = (size_t)(q->run_bytes - in_run), m = rest < n - done ? rest : n - done;
        memcpy(sv->staging + done, whole + q->offset + run * q->stride + in_run, m);
        done += m;
    }
    return sv->staging;
}

static clef_status send_pieces(const server *sv, const char *whole, clef_error *err)
{
    const uint64_t n_bytes = sv->now.n_runs * sv->now.run_bytes;
    clef_status s = CLEF_OK;
    for (uint64_t at = 0; at < n_bytes && !s;) {
        const size_t n = n_bytes - at < CLEF__SENT_PIECE ? (size_t)(n_bytes - at) : (size_t)CLEF__SENT_PIECE;
        const char *piece = piece_of(sv, whole, at, n);
        const uint64_t checksum = clef__sent_checksum(piece, n);
        s = send_to(sv, &checksum, sizeof checksum, err);
        if (!s)
            s = send_to(sv, piece, n, err);
        at += n;
    }
    return s;
}

static clef_status answer(const server *sv, clef_error *err)
{
    const char *whole;
    clef_error why = {0};
    clef__sent_answer head = {.status = (int32_t)find_weight(sv, &whole, &why)};
    snprintf(head.text, sizeof head.text, "%.500s", why.text);
    head.checksum = clef__sent_checksum(&head, offsetof(clef__sent_answer, checksum));
    clef_status s = send_to(sv, &head, sizeof head, err);
    if (!s && !head.status)
        s = send_pieces(sv, whole, err);
    if (whole && sv->opts->release) /* its pages come back from the file where another rank asks for it */
        sv->opts->release(sv->opts->weights_user, sv->now.name);
    return s;
}

/* Receives a question of sv->rank, and answers it. *left counts the ranks that may have more. */
static clef_status serve_one(server *sv, char *is_done, int32_t *left, clef_error *err)
{
    clef__transport *t = sv->ranks->transport;
    const clef_status s = t->calls->receive(t, sv->rank, &sv->now, sizeof sv->now, err);
    if (s)
        return s;
    if (sv->now.checksum != clef__sent_checksum(&sv->now, offsetof(clef__sent_question, checksum)))
        return clef__fail(err, CLEF_E_FORMAT,
                          "a question of rank %" PRId32 " on %s for a weight has a wrong checksum", sv->rank,
                          clef_ranks_host(sv->ranks, sv->rank));
    sv->now.name[sizeof sv->now.name - 1] = 0;
    if (!sv->now.is_last)
        return answer(sv, err);
    *is_done = 1;
    --*left;
    return CLEF_OK;
}

clef_status clef__send_weights(clef_ranks *ranks, const clef_plan_opts *opts, clef_status own,
                               clef_error *err)
{
    server sv = {.ranks = ranks, .opts = opts, .own = own, .staging = malloc(CLEF__SENT_PIECE)};
    const int32_t n = ranks->transport->size;
    int32_t left = n - 1;
    char *is_done = calloc((size_t)n, 1);
    clef_status s = sv.staging && is_done
                        ? CLEF_OK
                        : clef__fail(err, CLEF_E_NOMEM, "no memory for the weights of the other ranks");
    ranks->transport->calls->at(ranks->transport, "sending weights", -1);
    while (left > 0 && !s)
        for (sv.rank = 1; sv.rank < n && !s; sv.rank++)
            if (!is_done[sv.rank])
                s = serve_one(&sv, &is_done[sv.rank], &left, err);
    free(is_done);
    free(sv.staging);
    return s;
}
