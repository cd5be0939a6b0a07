/* Rounds in memory that the ranks of a node share.
 *
 * Each rank has a segment: a counter of the rounds that it has raised, and two slots that rounds use in turn.
 * A rank that has raised round k has read all that it wanted of round k-1. So when every counter is at k or
 * beyond, the slots of round k-1 are free for round k+1: two slots suffice, and no barrier is needed.
 * transport.h states the protocol, because a device may take this rank's part in a round. So the number of
 * the round is in the segment alone. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "ranks/mpi/state.h"

enum { LINE = 128 }; /* two cache lines, which processors fetch together */

typedef struct segment {
    _Alignas(LINE) _Atomic uint64_t raised;
    _Alignas(LINE) unsigned char slots[2][CLEF__MPI_SLOT];
} segment;

struct clef__mpi_shared {
    MPI_Win win;
    segment *first; /* [n], then [n] for trials */
    uint64_t *seen; /* [n] counters as last read */
};

/* Whether all ranks of the group are on one node. */
static int is_on_one_node(const clef__group *g)
{
    for (int32_t i = 0; i < g->n; i++)
        if (g->m->nodes[g->ranks[i]] != g->m->nodes[g->ranks[0]])
            return 0;
    return 1;
}

/* The first rank has all segments, one after the other. */
static int allocate(clef__group *g, clef__mpi_shared *s)
{
    void *own;
    const MPI_Aint n_bytes = g->me == 0 ? (MPI_Aint)(2 * (size_t)g->n * sizeof(segment) + LINE) : 0;
    return MPI_Win_allocate_shared(n_bytes, 1, MPI_INFO_NULL, g->comm, &own, &s->win) == MPI_SUCCESS;
}

/* Returns 0 if stores of other ranks would not be seen (MPI's separate model). */
static int map(clef__mpi_shared *s)
{
    int *model = NULL, found = 0, unit;
    MPI_Aint n_bytes;
    void *base = NULL;
    if (MPI_Win_get_attr(s->win, MPI_WIN_MODEL, &model, &found) || !found || *model != MPI_WIN_UNIFIED ||
        MPI_Win_shared_query(s->win, 0, &n_bytes, &unit, &base) || !base)
        return 0;
    s->first = (segment *)(((uintptr_t)base + LINE - 1) / LINE * LINE);
    return 1;
}

clef_status clef__mpi_shared_make(clef__group *g, clef_error *err)
{
    if (g->n < 2 || !is_on_one_node(g))
        return CLEF_OK;
    clef__mpi_shared *s = calloc(1, sizeof *s);
    uint64_t *seen = calloc((size_t)g->n, sizeof *seen);
    if (!s || !seen) {
        free(seen);
        free(s);
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for a group of %d ranks", g->n);
    }
    *s = (clef__mpi_shared){.win = MPI_WIN_NULL, .seen = seen};
    g->shared = s;
    uint32_t usable = (uint32_t)allocate(g, s);
    clef__mpi_agree_and(g, &usable);
    if (!usable) {
        s->win = MPI_WIN_NULL; /* freeing a window needs all ranks */
        clef__mpi_shared_free(g);
        return CLEF_OK;
    }
    MPI_Win_set_errhandler(s->win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, s->win);
    usable = (uint32_t)map(s);
    if (usable) {
        atomic_store(&s->first[g->me].raised, 0);
        atomic_store(&s->first[g->n + g->me].raised, 0);
    }
    clef__mpi_agree_and(g, &usable); /* every counter is 0 when this returns */
    if (!usable)
        clef__mpi_shared_free(g);
    return CLEF_OK;
}

void clef__mpi_shared_free(clef__group *g)
{
    clef__mpi_shared *s = g->shared;
    if (!s)
        return;
    if (s->win != MPI_WIN_NULL) {
        MPI_Win_unlock_all(s->win);
        MPI_Win_free(&s->win);
    }
    free(s->seen);
    free(s);
    g->shared = NULL;
}

static void wait_for(clef__group *g, int32_t rank, uint64_t round)
{
    clef__mpi_shared *s = g->shared;
    if (s->seen[rank] >= round)
        return;
    clef__mpi_wait wait = {0};
    while ((s->seen[rank] = atomic_load_explicit(&s->first[rank].raised, memory_order_acquire)) < round)
        clef__mpi_wait_step(g->m, &wait);
}

/* The rounds that this rank has raised, or its device. */
static uint64_t own_round(const clef__group *g)
{
    return atomic_load_explicit(&g->shared->first[g->me].raised, memory_order_relaxed);
}

void *clef__mpi_shared_begin(clef__group *g)
{
    const uint64_t round = own_round(g) + 1;
    for (int32_t i = 0; i < g->n; i++)
        if (i != g->me)
            wait_for(g, i, round - 1);
    return g->shared->first[g->me].slots[round & 1];
}

void clef__mpi_shared_raise(clef__group *g)
{
    const uint64_t round = own_round(g) + 1;
    g->shared->seen[g->me] = round;
    atomic_store_explicit(&g->shared->first[g->me].raised, round, memory_order_release);
}

const void *clef__mpi_shared_of(clef__group *g, int32_t rank)
{
    const uint64_t round = own_round(g);
    wait_for(g, rank, round);
    return g->shared->first[rank].slots[round & 1];
}

/* Every rank reads what all others wrote. Beyond this, ways in which each rank sums a part are faster. */
enum { MOST_READ = 524288 };

int clef__mpi_memory(clef__group *g, clef__group_memory *out)
{
    uint32_t usable = g->shared && g->m->may_spin && (g->costs.allowed & 1u << CLEF__MPI_SHARED);
    clef__mpi_agree_and(g, &usable);
    if (!usable)
        return 0;
    const size_t most = MOST_READ / (size_t)g->n, n_bytes = (size_t)g->n * sizeof(segment);
    g->most_round = most < CLEF__MPI_SLOT ? most : CLEF__MPI_SLOT;
    *out = (clef__group_memory){.base = (unsigned char *)g->shared->first,
                                .n_bytes = 2 * n_bytes,
                                .trial = n_bytes,
                                .segment_bytes = sizeof(segment),
                                .slots = offsetof(segment, slots),
                                .slot_bytes = CLEF__MPI_SLOT,
                                .most_bytes = g->most_round};
    return 1;
}

void clef__mpi_rounds(clef__group *g, int on)
{
    g->round_bytes = on ? g->most_round : 0;
}
