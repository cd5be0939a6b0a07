/* Groups of ranks, and what all collectives use. */
#include <stdlib.h>

#include "graph/fail.h"
#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"

enum { TAG_MEET = 1, TAG_GROUP = 2, TAG_DATA = 3 };

/* Waits until every rank of the group is here. MPI's own calls that make and free things wait, too, but they
 * keep the core busy. */
static void meet(clef__group *g)
{
    clef__mpi *m = g->m;
    g->n_pending = 0;
    for (int32_t i = 0; i < g->n; i++) {
        if (i == g->me)
            continue;
        clef__mpi_request *in = &g->pending[g->n_pending++], *out = &g->pending[g->n_pending++];
        in->peer = out->peer = g->ranks[i];
        clef__mpi_check(m, MPI_Irecv(NULL, 0, MPI_BYTE, in->peer, TAG_MEET, m->world, &in->mpi), in->peer);
        clef__mpi_check(m, MPI_Isend(NULL, 0, MPI_BYTE, out->peer, TAG_MEET, m->world, &out->mpi), out->peer);
    }
    clef__mpi_post_finish(g);
}

static void make_communicator(clef__group *g)
{
    MPI_Group all, some;
    MPI_Comm_group(g->m->world, &all);
    MPI_Group_incl(all, g->n, g->ranks, &some);
    clef__mpi_check(g->m, MPI_Comm_create_group(g->m->world, some, TAG_GROUP, &g->comm), -1);
    MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

static clef_status check_ranks(const clef__mpi *m, const int32_t *ranks, int32_t n, int32_t *me,
                               clef_error *err)
{
    *me = -1;
    for (int32_t i = 0; i < n; i++) {
        if (ranks[i] < 0 || ranks[i] >= m->t.size)
            return clef__fail(err, CLEF_E_ARG, "transport: expected ranks below %d, got %d", m->t.size,
                              ranks[i]);
        for (int32_t j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return clef__fail(err, CLEF_E_ARG, "transport: rank %d is twice in a group", ranks[i]);
        if (ranks[i] == m->t.rank)
            *me = i;
    }
    if (*me >= 0)
        return CLEF_OK;
    return clef__fail(err, CLEF_E_ARG, "transport: expected rank %d in its group of %d", m->t.rank, n);
}

clef_status clef__mpi_group(clef__transport *t, const int32_t *ranks, int32_t n, clef__group **out,
                            clef_error *err)
{
    clef__mpi *m = t->state;
    int32_t me;
    *out = NULL;
    clef_status s = check_ranks(m, ranks, n, &me, err);
    if (s)
        return s;
    clef__group *g = calloc(1, sizeof *g);
    if (!g)
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for a group of %d ranks", n);
    *g = (clef__group){.m = m, .comm = MPI_COMM_NULL, .n = n, .me = me, .piece_bytes = CLEF__MPI_WHOLE};
    g->ranks = calloc((size_t)n, sizeof *g->ranks);
    g->pending = calloc(2 * (size_t)n * CLEF__MPI_PIECES, sizeof *g->pending);
    g->parts = calloc((size_t)n, sizeof *g->parts);
    if (!g->ranks || !g->pending || !g->parts) {
        s = clef__fail(err, CLEF_E_NOMEM, "transport: no memory for a group of %d ranks", n);
        goto out;
    }
    for (int32_t i = 0; i < n; i++)
        g->ranks[i] = ranks[i];
    meet(g);
    make_communicator(g);
    if (m->shares_memory)
        s = clef__mpi_shared_make(g, err);
    if (!s)
        s = clef__mpi_measure(g, err);
out:
    if (s) {
        clef__mpi_group_free(g);
        return s;
    }
    *out = g;
    return CLEF_OK;
}

void clef__mpi_group_free(clef__group *g)
{
    if (!g)
        return;
    if (g->comm != MPI_COMM_NULL) {
        meet(g);
        clef__mpi_shared_free(g);
        MPI_Comm_free(&g->comm);
    }
    free(g->scratch);
    free(g->parts);
    free(g->pending);
    free(g->ranks);
    free(g);
}

/* Pieces arrive in their order: MPI keeps that of messages with one tag. A message of no bytes is one piece.
 */
static size_t piece(const clef__group *g, size_t left)
{
    return left < g->piece_bytes ? left : g->piece_bytes;
}

void clef__mpi_post_send(clef__group *g, int32_t to, const void *data, size_t n_bytes)
{
    size_t at = 0;
    g->m->n_sent += n_bytes;
    do {
        clef__mpi_request *out = &g->pending[g->n_pending++];
        const size_t n = piece(g, n_bytes - at);
        out->peer = g->ranks[to];
        clef__mpi_check(
            g->m, MPI_Isend((const char *)data + at, (int)n, MPI_BYTE, to, TAG_DATA, g->comm, &out->mpi),
            out->peer);
        at += n;
    } while (at < n_bytes);
}

void clef__mpi_post_receive(clef__group *g, int32_t from, void *data, size_t n_bytes)
{
    size_t at = 0;
    do {
        clef__mpi_request *in = &g->pending[g->n_pending++];
        const size_t n = piece(g, n_bytes - at);
        in->peer = g->ranks[from];
        clef__mpi_check(g->m,
                        MPI_Irecv((char *)data + at, (int)n, MPI_BYTE, from, TAG_DATA, g->comm, &in->mpi),
                        in->peer);
        at += n;
    } while (at < n_bytes);
}

void clef__mpi_post_finish(clef__group *g)
{
    for (int32_t i = 0; i < g->n_pending; i++)
        clef__mpi_finish(g->m, &g->pending[i]);
    g->n_pending = 0;
}

clef_status clef__mpi_scratch(clef__group *g, size_t n_bytes, clef_error *err)
{
    if (g->scratch_bytes >= n_bytes)
        return CLEF_OK;
    free(g->scratch);
    g->scratch = malloc(n_bytes);
    g->scratch_bytes = g->scratch ? n_bytes : 0;
    return g->scratch ? CLEF_OK
                      : clef__fail(err, CLEF_E_NOMEM, "transport: no memory for %zu bytes", n_bytes);
}

void clef__mpi_agree_max(clef__group *g, double *values, int32_t n)
{
    clef__mpi_request all = {.peer = -1};
    clef__mpi_check(g->m, MPI_Iallreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE, MPI_MAX, g->comm, &all.mpi),
                    -1);
    clef__mpi_finish(g->m, &all);
}

void clef__mpi_agree_and(clef__group *g, uint32_t *bits)
{
    clef__mpi_request all = {.peer = -1};
    clef__mpi_check(g->m, MPI_Iallreduce(MPI_IN_PLACE, bits, 1, MPI_UINT32_T, MPI_BAND, g->comm, &all.mpi),
                    -1);
    clef__mpi_finish(g->m, &all);
}
