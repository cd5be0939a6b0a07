/* How a run of several ranks ends when something is wrong. */
#include <stdio.h>

#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"

/* What is called before the end may take a second: so many naps of 10 ms. They are counted because a process
 * that was stopped has made none meanwhile. */
enum { NAPS_FOR_CALL = 100 };

/* ---- which rank reports ---- */

static _Atomic int32_t *find_flag(clef__mpi *m)
{
    int *model = NULL, found = 0, unit;
    MPI_Aint n_bytes;
    void *first = NULL;
    if (MPI_Win_get_attr(m->end_window, MPI_WIN_MODEL, &model, &found) || !found ||
        *model != MPI_WIN_UNIFIED || MPI_Win_shared_query(m->end_window, 0, &n_bytes, &unit, &first))
        return NULL;
    return first;
}

/* 1 if `mine` is 1 on all ranks of the node. */
static int all_have(MPI_Comm node, int mine)
{
    int all = 0;
    return !MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, node) && all;
}

void clef__mpi_report_make(clef__mpi *m, MPI_Comm node)
{
    void *own = NULL;
    const MPI_Aint n_bytes = m->t.local_rank == 0 ? sizeof *m->has_reported : 0;
    MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN);
    const int made = !MPI_Win_allocate_shared(n_bytes, 1, MPI_INFO_NULL, node, &own, &m->end_window);
    if (!all_have(node, made)) {
        m->end_window = MPI_WIN_NULL; /* freeing it needs all ranks */
        return;
    }
    MPI_Win_lock_all(MPI_MODE_NOCHECK, m->end_window);
    _Atomic int32_t *flag = find_flag(m);
    if (flag && m->t.local_rank == 0)
        atomic_store(flag, 0);
    m->has_reported = all_have(node, flag != NULL) ? flag : NULL; /* it is 0 when this returns */
}

void clef__mpi_report_free(clef__mpi *m)
{
    m->has_reported = NULL;
    if (m->end_window == MPI_WIN_NULL)
        return;
    MPI_Win_unlock_all(m->end_window);
    MPI_Win_free(&m->end_window);
}

/* Several ranks notice at nearly the same time that one is lost; one of them says so. */
static int may_report(clef__mpi *m)
{
    return !m->has_reported || atomic_exchange(m->has_reported, 1) == 0;
}

/* ---- before the end ---- */

void clef__mpi_before_end(clef__transport *t, void (*call)(void *user), void *user)
{
    clef__mpi *m = t->state;
    clef__mpi_lock(&m->last_locked);
    m->last_call = call;
    m->last_user = user;
    clef__mpi_unlock(&m->last_locked);
}

static void run_last_call(void *user)
{
    clef__mpi *m = user;
    clef__mpi_lock(&m->last_locked); /* so that whoever takes the call away waits for it */
    if (m->last_call)
        m->last_call(m->last_user);
    clef__mpi_unlock(&m->last_locked);
    atomic_store(&m->has_called, 1);
}

/* It runs in a thread of its own, so that it delays the end by a second at most, whatever it waits for. */
static void make_last_call(clef__mpi *m)
{
    clef__mpi_lock(&m->last_locked);
    const int is_wanted = m->last_call != NULL;
    clef__mpi_unlock(&m->last_locked);
    if (!is_wanted || !clef__mpi_thread_start(run_last_call, m))
        return;
    for (int32_t i = 0; i < NAPS_FOR_CALL && !atomic_load(&m->has_called); i++)
        clef__mpi_nap(0.01);
}

/* ---- the end ---- */

/* This process ends by itself. MPI_Abort() would need the others, of which one may be lost. They hear this
 * rank's heart no more and end, too; a launcher that sees a rank fail ends them sooner. */
_Noreturn void clef__mpi_end(clef__mpi *m, const char *line)
{
    if (atomic_flag_test_and_set(&m->ending)) /* another thread ends this process */
        for (;;)
            clef__mpi_nap(1);
    if (may_report(m) && *line) /* without a line the caller has written why */
        clef__mpi_write_line(line);
    make_last_call(m);
    clef__mpi_exit_now();
}

const char *clef__mpi_host(const clef__mpi *m, int32_t rank)
{
    return m->hosts + (size_t)rank * MPI_MAX_PROCESSOR_NAME;
}

void clef__mpi_describe(const clef__mpi *m, int32_t rank, const char *what, int64_t number, char *out,
                        size_t capacity)
{
    char count[32] = "";
    if (number >= 0)
        snprintf(count, sizeof count, " %lld", (long long)number);
    snprintf(out, capacity, "clef: rank %d on %s is lost (last: %s%s)", rank, clef__mpi_host(m, rank), what,
             count);
}

void clef__mpi_check(clef__mpi *m, int code, int32_t peer)
{
    if (code == MPI_SUCCESS)
        return;
    char line[512], reason[MPI_MAX_ERROR_STRING] = "an unknown error";
    char what[CLEF__MPI_WHAT];
    int64_t number;
    int n;
    if (peer >= 0 && clef__mpi_heart_last(m, peer, what, &number)) {
        clef__mpi_describe(m, peer, what, number, line, sizeof line);
    } else {
        MPI_Error_string(code, reason, &n);
        if (peer >= 0)
            snprintf(line, sizeof line, "clef: rank %d on %s is lost (%.200s)", peer, clef__mpi_host(m, peer),
                     reason);
        else
            snprintf(line, sizeof line, "clef: rank %d on %s cannot reach the other ranks (%.200s)",
                     m->t.rank, clef__mpi_host(m, m->t.rank), reason);
    }
    clef__mpi_end(m, line);
}
