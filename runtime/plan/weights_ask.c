/* How a rank gets the bytes of its weights from rank 0 (runtime/plan/sent.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/os/os.h"
#include "runtime/plan/sent.h"

enum { MOST_PENDING = 16 };

struct clef__sent {
    clef_ranks *ranks;
    const clef_plan *plan;                   /* whose questions are pending */
    const clef_value *pending[MOST_PENDING]; /* asked for and not received, in this order */
    int32_t n_pending;
    char *unwanted; /* memory for a piece that nobody keeps */
};

/* ---- checksums ------------------------------------------------------------------------------- */

/* Four sums side by side, each over every fourth word, keep the processor's multipliers busy. A word changes
 * its sum in a way that can be undone, so one wrong word always changes the result. */
uint64_t clef__sent_checksum(const void *data, size_t n_bytes)
{
    static const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15); /* odd, so that products can be undone */
    const unsigned char *at = data;
    uint64_t sums[4] = {1, 2, 3, 4}, all = n_bytes;
    for (; n_bytes >= 32; n_bytes -= 32, at += 32)
        for (int i = 0; i < 4; i++) {
            uint64_t word;
            memcpy(&word, at + 8 * i, sizeof word);
            sums[i] = (sums[i] ^ word) * prime;
            sums[i] ^= sums[i] >> 29;
        }
    for (; n_bytes > 0; n_bytes--, at++) {
        sums[0] = (sums[0] ^ *at) * prime;
        sums[0] ^= sums[0] >> 29;
    }
    for (int i = 0; i < 4; i++) {
        all = (all ^ sums[i]) * prime;
        all ^= all >> 32;
    }
    return all;
}

/* ---- asking ---------------------------------------------------------------------------------- */

const void *clef__sent_weight(void *user, const char *name, clef_dtype dtype, uint64_t n_bytes)
{
    (void)user;
    (void)name;
    (void)dtype;
    (void)n_bytes;
    return NULL;
}

int clef__sent_serves(const clef_plan *plan)
{
    return plan->opts.weights == clef__sent_weight;
}

clef_status clef__sent_begin(clef_ranks *ranks, clef__sent **out, clef_error *err)
{
    clef__sent *sent = calloc(1, sizeof *sent);
    *out = sent;
    if (!sent)
        return clef__fail(err, CLEF_E_NOMEM, "no memory for weights from rank 0");
    sent->ranks = ranks;
    sent->unwanted = malloc(CLEF__SENT_PIECE);
    return sent->unwanted ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "no memory for weights from rank 0");
}

static clef_status put_question(clef_ranks *ranks, clef__sent_question *q, clef_error *err)
{
    q->checksum = clef__sent_checksum(q, offsetof(clef__sent_question, checksum));
    return ranks->transport->calls->send(ranks->transport, 0, q, sizeof *q, err);
}

static clef_status ask(clef__sent *sent, const clef_plan *plan, const clef_value *v, clef_error *err)
{
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
    clef__sent_question q = {
        .dtype = (int32_t)v->dtype, .whole_bytes = n_bytes, .n_runs = 1, .run_bytes = n_bytes};
    if (v->part) {
        q.whole_bytes = v->part->whole_bytes;
        q.offset = v->part->offset;
        q.n_runs = v->part->n_runs;
        q.stride = v->part->stride;
        q.run_bytes = v->part->n_runs > 1 ? v->part->run_bytes : n_bytes;
    }
    snprintf(q.name, sizeof q.name, "%s", v->part ? v->part->whole : v->name);
    const clef_status s = put_question(sent->ranks, &q, err);
    if (s)
        return s;
    sent->plan = plan;
    sent->pending[sent->n_pending++] = v;
    return CLEF_OK;
}

static int is_pending(const clef__sent *sent, const clef_value *v)
{
    for (int32_t i = 0; i < sent->n_pending; i++)
        if (sent->pending[i] == v)
            return 1;
    return 0;
}

void clef__sent_ask(const clef_plan *plan, const clef_value *v)
{
    clef__sent *sent = plan->opts.weights_user;
    if (!plan->gathered[v->id].data && !is_pending(sent, v) && sent->n_pending < MOST_PENDING)
        ask(sent, plan, v, NULL); /* a failure comes again when the weight is needed */
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* What this rank and rank 0 still agree on is unknown, so all ranks end. */
static void end_all(const clef__sent *sent, const char *name)
{
    char line[CLEF_NAME_BYTES + 512];
    const int32_t rank = sent->ranks->transport->rank;
    snprintf(line, sizeof line,
             "clef: rank %" PRId32 " on %s: the answer of rank 0 for weight %s has a wrong checksum", rank,
             clef_ranks_host(sent->ranks, rank), name);
    clef_ranks_abort(sent->ranks, line);
}

/* Receives what follows an answer; `to` is NULL where nobody keeps it. All pieces are received, also after a
 * wrong one: the next message is an answer. */
static clef_status receive_pieces(clef__sent *sent, const clef_value *v, char *to, clef_error *err)
{
    clef__transport *t = sent->ranks->transport;
    const uint64_t n_bytes = (uint64_t)clef__bytes(v, NULL);
    clef_status status = CLEF_OK, s = CLEF_OK;
    for (uint64_t at = 0; at < n_bytes && !s;) {
        const size_t n = n_bytes - at < CLEF__SENT_PIECE ? (size_t)(n_bytes - at) : (size_t)CLEF__SENT_PIECE;
        char *piece = to ? to + at : sent->unwanted;
        uint64_t wanted = 0;
        s = t->calls->receive(t, 0, &wanted, sizeof wanted, err);
        if (!s)
            s = t->calls->receive(t, 0, piece, n, err);
        const uint64_t came = s ? 0 : clef__sent_checksum(piece, n);
        if (!s && !status && came != wanted)
            status = clef__fail(err, CLEF_E_FORMAT,
                                "weight %s: bytes %" PRIu64 " to %" PRIu64
                                " came from rank 0 with checksum %016" PRIx64 ", expected %016" PRIx64,
                                v->name, at, at + n - 1, came, wanted);
        at += n;
    }
    return s ? s : status;
}

/* Receives the first pending weight. */
static clef_status receive_first(clef__sent *sent, int is_wanted, clef_error *err)
{
    clef__transport *t = sent->ranks->transport;
    const clef_value *v = sent->pending[0];
    clef__sent_answer answer = {0};
    memmove(sent->pending, sent->pending + 1, (size_t)--sent->n_pending * sizeof *sent->pending);
    clef_status s = t->calls->receive(t, 0, &answer, sizeof answer, err);
    if (s)
        return s;
    if (answer.checksum != clef__sent_checksum(&answer, offsetof(clef__sent_answer, checksum)))
        end_all(sent, v->name);
    answer.text[sizeof answer.text - 1] = 0;
    if (answer.status)
        return clef__fail(err, (clef_status)answer.status, "%s", answer.text);
    const size_t n_bytes = (size_t)clef__bytes(v, NULL);
    char *to = is_wanted ? clef__os_alloc_large(n_bytes) : NULL;
    s = receive_pieces(sent, v, to, err);
    if (is_wanted && !to)
        s = clef__fail(err, CLEF_E_NOMEM, "weight %s: no memory for %zu bytes", v->name, n_bytes);
    if (s)
        clef__os_free_large(to, n_bytes);
    else if (to)
        sent->plan->gathered[v->id].data = to;
    return s;
}

clef_status clef__sent_fetch(const clef_plan *plan, const clef_value *v, clef_error *err)
{
    clef__sent *sent = plan->opts.weights_user;
    clef_status s = CLEF_OK;
    if (!plan->gathered[v->id].data && !is_pending(sent, v)) {
        while (sent->n_pending == MOST_PENDING && !s)
            s = receive_first(sent, 1, err);
        if (!s)
            s = ask(sent, plan, v, err);
    }
    while (!plan->gathered[v->id].data && sent->n_pending > 0 && !s)
        s = receive_first(sent, 1, err);
    return s;
}

void clef__sent_end(clef_ranks *ranks, clef__sent *sent)
{
    clef_status s = CLEF_OK;
    while (sent && sent->n_pending > 0)
        receive_first(sent, 0, NULL);
    s = put_question(ranks, &(clef__sent_question){.is_last = 1}, NULL);
    if (s)
        clef_ranks_abort(ranks, "clef: no memory for a message to rank 0");
    if (sent)
        free(sent->unwanted);
    free(sent);
}
