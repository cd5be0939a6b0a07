/* Messages from rank to rank. What is sent is copied, so that no rank waits for another to receive. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/mpi/state.h"

/* A rank waits when so much that it has sent was not received yet. */
enum { MAX_MESSAGES = 64 };
static const size_t max_bytes = (size_t)256 << 20;
/* MPI counts in int. */
static const size_t piece_bytes = (size_t)1 << 30;

typedef struct message {
    clef__mpi_request request;
    unsigned char *data;
    size_t capacity, n_bytes; /* n_bytes is 0 when it has left */
} message;

struct clef__mpi_outbox {
    message messages[MAX_MESSAGES];
    int32_t n_made, n_away; /* that have memory; that are on their way */
    size_t bytes_away;
};

clef_status clef__mpi_outbox_make(clef__mpi *m, clef_error *err)
{
    m->outbox = calloc(1, sizeof *m->outbox);
    return m->outbox ? CLEF_OK : clef__fail(err, CLEF_E_NOMEM, "transport: no memory for messages");
}

void clef__mpi_outbox_move(clef__mpi *m)
{
    clef__mpi_outbox *box = m->outbox;
    for (int32_t i = 0; box && box->n_away > 0 && i < box->n_made; i++) {
        message *out = &box->messages[i];
        int done = 0;
        if (out->n_bytes == 0)
            continue;
        clef__mpi_check(m, MPI_Test(&out->request.mpi, &done, MPI_STATUS_IGNORE), out->request.peer);
        if (!done)
            continue;
        box->n_away--;
        box->bytes_away -= out->n_bytes;
        out->n_bytes = 0;
    }
}

void clef__mpi_outbox_free(clef__mpi *m)
{
    clef__mpi_outbox *box = m->outbox;
    if (!box)
        return;
    clef__mpi_wait wait = {0};
    while (box->n_away > 0)
        clef__mpi_wait_step(m, &wait);
    for (int32_t i = 0; i < box->n_made; i++)
        free(box->messages[i].data);
    free(box);
    m->outbox = NULL;
}

/* A message of any size may leave if no other is away: two ranks may send it to each other. */
static int has_room(const clef__mpi_outbox *box, size_t n_bytes)
{
    return box->n_away == 0 || (box->n_away < MAX_MESSAGES && box->bytes_away + n_bytes <= max_bytes);
}

/* The free message with the least memory that suffices; else the largest free one, which grows; else a new
 * one. */
static message *pick(clef__mpi_outbox *box, size_t n_bytes)
{
    message *fitting = NULL, *largest = NULL;
    for (int32_t i = 0; i < box->n_made; i++) {
        message *one = &box->messages[i];
        if (one->n_bytes > 0)
            continue;
        if (one->capacity >= n_bytes && (!fitting || one->capacity < fitting->capacity))
            fitting = one;
        if (!largest || one->capacity > largest->capacity)
            largest = one;
    }
    if (fitting)
        return fitting;
    return largest ? largest : &box->messages[box->n_made++];
}

static clef_status send_piece(clef__mpi *m, int32_t to, const void *data, size_t n_bytes, clef_error *err)
{
    clef__mpi_outbox *box = m->outbox;
    for (clef__mpi_wait wait = {0}; box->n_away == MAX_MESSAGES;)
        clef__mpi_wait_step(m, &wait);
    message *out = pick(box, n_bytes);
    if (out->capacity < n_bytes) {
        free(out->data);
        out->data = malloc(n_bytes);
        out->capacity = out->data ? n_bytes : 0;
        if (!out->data)
            return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for a message of %zu bytes", n_bytes);
    }
    memcpy(out->data, data, n_bytes);
    out->request.peer = to;
    clef__mpi_check(m, MPI_Isend(out->data, (int)n_bytes, MPI_BYTE, to, 0, m->talk, &out->request.mpi), to);
    out->n_bytes = n_bytes;
    m->n_sent += n_bytes;
    box->n_away++;
    box->bytes_away += n_bytes;
    clef__mpi_outbox_move(m); /* small ones have left already */
    return CLEF_OK;
}

static clef_status check_rank(const clef__transport *t, int32_t rank, clef_error *err)
{
    if (rank >= 0 && rank < t->size && rank != t->rank)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG, "transport: expected another rank below %d, got %d", t->size, rank);
}

clef_status clef__mpi_send(clef__transport *t, int32_t to, const void *data, size_t n_bytes, clef_error *err)
{
    clef__mpi *m = t->state;
    clef_status s = check_rank(t, to, err);
    clef__mpi_outbox_move(m);
    for (clef__mpi_wait wait = {0}; !s && !has_room(m->outbox, n_bytes);)
        clef__mpi_wait_step(m, &wait);
    for (size_t at = 0; !s && at < n_bytes;) {
        const size_t n = n_bytes - at < piece_bytes ? n_bytes - at : piece_bytes;
        s = send_piece(m, to, (const char *)data + at, n, err);
        at += n;
    }
    return s;
}

clef_status clef__mpi_receive(clef__transport *t, int32_t from, void *data, size_t n_bytes, clef_error *err)
{
    clef__mpi *m = t->state;
    const clef_status s = check_rank(t, from, err);
    for (size_t at = 0; !s && at < n_bytes;) {
        const size_t n = n_bytes - at < piece_bytes ? n_bytes - at : piece_bytes;
        clef__mpi_request in = {.peer = from};
        clef__mpi_check(m, MPI_Irecv((char *)data + at, (int)n, MPI_BYTE, from, 0, m->talk, &in.mpi), from);
        clef__mpi_finish(m, &in);
        at += n;
    }
    return s;
}
