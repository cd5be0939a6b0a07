/* Rounds in memory that the ranks of a node share.
 *
 * Each rank has a segment: a counter of the rounds that it has raised, and two slots that rounds use in turn.
 * A rank that has raised round k has read all that it wanted of round k-1. So when every counter is at k or
 * beyond, the slots of round k-1 are free for round k+1: two slots suffice, and no barrier is needed. */
#include <stdlib.h>
#include <string.h>

#include "graph/fail.h"
#include "runtime/mpi/state.h"

enum { LINE = 128 }; /* two cache lines, which processors fetch together */

typedef struct segment {
    _Alignas(LINE) _Atomic uint64_t raised;
    _Alignas(LINE) unsigned char slots[2][CLEF__MPI_SLOT];
} segment;

struct clef__mpi_shared {
    MPI_Win win;
    uint64_t round; /* raised by this rank */
    segment **of;   /* [n] */
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

static int allocate(clef__group *g, clef__mpi_shared *s, segment **mine)
{
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true"); /* each segment near its rank */
    const int code =
        MPI_Win_allocate_shared((MPI_Aint)(sizeof(segment) + LINE), 1, info, g->comm, mine, &s->win);
    MPI_Info_free(&info);
    return code == MPI_SUCCESS;
}

static segment *aligned(void *base)
{
    return (segment *)(((uintptr_t)base + LINE - 1) / LINE * LINE);
}

/* The addresses of all segments. Returns 0 if stores of other ranks would not be seen (MPI's separate model).
 */
static int map(clef__group *g, clef__mpi_shared *s)
{
    int *model = NULL, found = 0;
    if (MPI_Win_get_attr(s->win, MPI_WIN_MODEL, &model, &found) || !found || *model != MPI_WIN_UNIFIED)
        return 0;
    for (int32_t i = 0; i < g->n; i++) {
        MPI_Aint n_bytes;
        int unit;
        void *base;
        if (MPI_Win_shared_query(s->win, i, &n_bytes, &unit, &base) || !base)
            return 0;
        s->of[i] = aligned(base);
    }
    return 1;
}

clef_status clef__mpi_shared_make(clef__group *g, clef_error *err)
{
    if (g->n < 2 || !is_on_one_node(g))
        return CLEF_OK;
    clef__mpi_shared *s = calloc(1, sizeof *s);
    segment **of = calloc((size_t)g->n, sizeof *of);
    uint64_t *seen = calloc((size_t)g->n, sizeof *seen);
    if (!s || !of || !seen) {
        free(seen);
        free(of);
        free(s);
        return clef__fail(err, CLEF_E_NOMEM, "transport: no memory for a group of %d ranks", g->n);
    }
    *s = (clef__mpi_shared){.win = MPI_WIN_NULL, .of = of, .seen = seen};
    g->shared = s;
    segment *mine = NULL;
    uint32_t usable = (uint32_t)allocate(g, s, &mine);
    clef__mpi_agree_and(g, &usable);
    if (!usable) {
        s->win = MPI_WIN_NULL; /* freeing a window needs all ranks */
        clef__mpi_shared_free(g);
        return CLEF_OK;
    }
    MPI_Win_set_errhandler(s->win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, s->win);
    usable = (uint32_t)map(g, s);
    if (usable)
        atomic_store(&s->of[g->me]->raised, 0);
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
    free(s->of);
    free(s);
    g->shared = NULL;
}

static void wait_for(clef__group *g, int32_t rank, uint64_t round)
{
    clef__mpi_shared *s = g->shared;
    if (s->seen[rank] >= round)
        return;
    clef__mpi_wait wait = {0};
    while ((s->seen[rank] = atomic_load_explicit(&s->of[rank]->raised, memory_order_acquire)) < round)
        clef__mpi_wait_step(g->m, &wait);
}

void *clef__mpi_shared_begin(clef__group *g)
{
    clef__mpi_shared *s = g->shared;
    const uint64_t round = s->round + 1;
    for (int32_t i = 0; i < g->n; i++)
        if (i != g->me)
            wait_for(g, i, round - 1);
    return s->of[g->me]->slots[round & 1];
}

void clef__mpi_shared_raise(clef__group *g)
{
    clef__mpi_shared *s = g->shared;
    s->round++;
    s->seen[g->me] = s->round;
    atomic_store_explicit(&s->of[g->me]->raised, s->round, memory_order_release);
}

const void *clef__mpi_shared_of(clef__group *g, int32_t rank)
{
    wait_for(g, rank, g->shared->round);
    return g->shared->of[rank]->slots[g->shared->round & 1];
}
