/* Heartbeats: how ranks notice that one of them is lost.
 *
 * The ranks form a tree in which each has up to 64 children, so up to 65 ranks are rank 0 and its children.
 * Each rank sends a beat to its parent and to its children every half second, and listens to theirs. A rank
 * whose parent or child has been silent for too long writes a line and ends all ranks. Silence is counted in
 * this thread's own beats. A beat is half a second in which the thread has looked again and again: of the
 * time between two looks a quarter of a second counts at most. So a process that was stopped, or had no
 * processor, has made no beats meanwhile, and does not take the others for lost.
 *
 * Only its parent notices the loss of a rank without children. All children notice the loss of their parent.
 * Those of one node agree on who writes the line (end.c); those of different nodes wait for different
 * times, so that the first ends the others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"

enum { N_CHILDREN = 64, SECONDS_FOR_GOODBYE = 2 };
static const double beat_seconds = 0.5, look_seconds = 0.05, longest_look = 0.25;

/* What a beat says of its sender. */
typedef struct beat {
    int64_t number;
    int32_t says_goodbye;
    char what[CLEF__MPI_WHAT];
} beat;

/* A parent or a child. */
typedef struct peer {
    int32_t rank, patience; /* beats of silence after which it is lost */
    MPI_Request get, put;
    beat in, out, said; /* `said` is the last beat that was received */
    int32_t silent;     /* beats of this rank since then */
} peer;

struct clef__mpi_heart {
    clef__mpi *m;
    clef__mpi_thread *thread;
    _Atomic int stop;
    int32_t n_peers;
    peer *peers;
    beat own;
};

/* ---- beats ---- */

static void send_beat(clef__mpi_heart *h, peer *p)
{
    int left = 1;
    if (p->put != MPI_REQUEST_NULL)
        clef__mpi_check(h->m, MPI_Test(&p->put, &left, MPI_STATUS_IGNORE), p->rank);
    if (!left)
        return; /* it has not taken the last one yet */
    p->out = h->own;
    clef__mpi_check(h->m, MPI_Isend(&p->out, sizeof p->out, MPI_BYTE, p->rank, 0, h->m->beat, &p->put),
                    p->rank);
}

static void expect_beat(clef__mpi_heart *h, peer *p)
{
    clef__mpi_check(h->m, MPI_Irecv(&p->in, sizeof p->in, MPI_BYTE, p->rank, 0, h->m->beat, &p->get),
                    p->rank);
}

/* Takes all beats that have come. */
static void listen(clef__mpi_heart *h, peer *p)
{
    int got = 1;
    while (p->get != MPI_REQUEST_NULL && got) {
        clef__mpi_check(h->m, MPI_Test(&p->get, &got, MPI_STATUS_IGNORE), p->rank);
        if (!got)
            return;
        clef__mpi_lock(&h->m->said_locked);
        p->said = p->in;
        p->said.what[sizeof p->said.what - 1] = '\0';
        clef__mpi_unlock(&h->m->said_locked);
        p->silent = 0;
        if (!p->said.says_goodbye)
            expect_beat(h, p);
    }
}

static void describe_own(clef__mpi_heart *h)
{
    clef__mpi *m = h->m;
    h->own.number = atomic_load_explicit(&m->number, memory_order_relaxed);
    snprintf(h->own.what, sizeof h->own.what, "%s", atomic_load_explicit(&m->what, memory_order_relaxed));
}

/* ---- what they tell ---- */

static _Noreturn void end_for(clef__mpi_heart *h, int32_t rank, const beat *said)
{
    char line[512];
    clef__mpi_describe(h->m, rank, said->what, said->number, line, sizeof line);
    clef__mpi_end(h->m, line);
}

/* What a rank said last; NULL where this rank does not hear it. */
static const beat *beat_of(const clef__mpi_heart *h, int32_t rank)
{
    for (int32_t i = 0; i < h->n_peers; i++)
        if (h->peers[i].rank == rank)
            return &h->peers[i].said;
    return NULL;
}

static void make_beat(clef__mpi_heart *h)
{
    describe_own(h);
    for (int32_t i = 0; i < h->n_peers; i++) {
        peer *p = &h->peers[i];
        send_beat(h, p);
        if (++p->silent > p->patience && !p->said.says_goodbye)
            end_for(h, p->rank, &p->said);
    }
}

static void run(void *user)
{
    clef__mpi_heart *h = user;
    double passed = beat_seconds, last = clef__mpi_seconds();
    while (!atomic_load(&h->stop)) {
        for (int32_t i = 0; i < h->n_peers; i++)
            listen(h, &h->peers[i]);
        if (passed >= beat_seconds) {
            passed = 0;
            make_beat(h);
        }
        clef__mpi_nap(look_seconds);
        const double now = clef__mpi_seconds(), look = now - last;
        passed += look < longest_look ? look : longest_look;
        last = now;
    }
}

int clef__mpi_heart_last(clef__mpi *m, int32_t rank, char what[CLEF__MPI_WHAT], int64_t *number)
{
    const beat *said = m->heart && rank != m->t.rank ? beat_of(m->heart, rank) : NULL;
    if (!said)
        return 0;
    clef__mpi_lock(&m->said_locked);
    memcpy(what, said->what, sizeof said->what);
    *number = said->number;
    clef__mpi_unlock(&m->said_locked);
    return 1;
}

/* ---- begin and end ---- */

static void add_peer(clef__mpi_heart *h, int32_t rank, int32_t patience)
{
    peer *p = &h->peers[h->n_peers++];
    *p = (peer){.rank = rank, .patience = patience, .get = MPI_REQUEST_NULL, .put = MPI_REQUEST_NULL};
    p->said.number = -1;
    snprintf(p->said.what, sizeof p->said.what, "starting");
    expect_beat(h, p);
}

/* The beats for which this rank lets other nodes speak first when its parent is lost: two for each node of
 * its siblings before its own, up to six. */
static int32_t turn(const clef__mpi *m, int32_t parent)
{
    const int32_t first = parent * N_CHILDREN + 1;
    int32_t n_nodes = 0;
    for (int32_t i = first; i < m->t.rank; i++)
        n_nodes += m->nodes[i] != m->t.node && (i == first || m->nodes[i] != m->nodes[i - 1]);
    return n_nodes < 3 ? 2 * n_nodes : 6;
}

/* Takes back the beats that did not come, and frees. */
static void release(clef__mpi_heart *h)
{
    for (int32_t i = 0; i < h->n_peers; i++)
        if (h->peers[i].get != MPI_REQUEST_NULL && MPI_Cancel(&h->peers[i].get) == MPI_SUCCESS)
            MPI_Wait(&h->peers[i].get, MPI_STATUS_IGNORE);
    h->m->heart = NULL;
    free(h->peers);
    free(h);
}

clef_status clef__mpi_heart_start(clef__mpi *m, clef_error *err)
{
    const int32_t rank = m->t.rank, size = m->t.size;
    const double seconds = clef__mpi_env_number("CLEF_RANK_TIMEOUT", CLEF__MPI_SILENCE);
    const int32_t patience = seconds < 1 ? 2 : (int32_t)(seconds / beat_seconds);
    clef__mpi_heart *h = calloc(1, sizeof *h);
    peer *peers = calloc(N_CHILDREN + 1, sizeof *peers);
    if (!h || !peers) {
        free(peers);
        free(h);
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for heartbeats");
    }
    *h = (clef__mpi_heart){.m = m, .peers = peers};
    m->heart = h;
    if (rank > 0)
        add_peer(h, (rank - 1) / N_CHILDREN, patience + 1 + turn(m, (rank - 1) / N_CHILDREN));
    for (int32_t child = rank * N_CHILDREN + 1; child < size && child <= (rank + 1) * N_CHILDREN; child++)
        add_peer(h, child, patience);
    h->thread = clef__mpi_thread_start(run, h);
    if (h->thread)
        return CLEF_OK;
    release(h);
    return clef__fail(err, CLEF_E_NOMEM, "transport: cannot start the thread for heartbeats");
}

/* Each rank sends a last beat to its peers and waits for theirs, so that no message is left behind. */
static void say_goodbye(clef__mpi_heart *h)
{
    const double begin = clef__mpi_seconds();
    int32_t n_left = h->n_peers;
    h->own.says_goodbye = 1;
    clef__mpi_wait wait = {0};
    while (n_left > 0 && clef__mpi_seconds() - begin < SECONDS_FOR_GOODBYE) {
        n_left = 0;
        for (int32_t i = 0; i < h->n_peers; i++) {
            peer *p = &h->peers[i];
            if (!p->out.says_goodbye)
                send_beat(h, p);
            int sent = 1;
            if (p->put != MPI_REQUEST_NULL)
                MPI_Test(&p->put, &sent, MPI_STATUS_IGNORE);
            listen(h, p);
            n_left += !p->out.says_goodbye || !sent || !p->said.says_goodbye;
        }
        clef__mpi_wait_step(h->m, &wait);
    }
}

void clef__mpi_heart_stop(clef__mpi *m)
{
    clef__mpi_heart *h = m->heart;
    if (!h)
        return;
    atomic_store(&h->stop, 1);
    clef__mpi_thread_join(h->thread);
    say_goodbye(h);
    release(h);
}
