/* How a rank waits for others. */
#include "ranks/mpi/state.h"
#include "ranks/mpi/system.h"

/* Ranks that come at the same time meet within some microseconds. To yield costs about one when no other
 * thread wants the core. If the system has put two ranks on one core, though, every poll keeps the other from
 * coming. */
static const double spin_seconds = 1e-6, yield_seconds = 2e-3;
static const double first_nap = 20e-6, longest_nap = 500e-6;

void clef__mpi_wait_step(clef__mpi *m, clef__mpi_wait *wait)
{
    if (wait->n++ == 0) {
        wait->since = clef__mpi_seconds();
        wait->nap = first_nap;
    }
    const double waited = clef__mpi_seconds() - wait->since;
    if (m->may_spin && waited < spin_seconds) {
        clef__mpi_pause();
        return;
    }
    clef__mpi_outbox_move(m);
    if (waited < yield_seconds) {
        clef__mpi_yield();
        return;
    }
    clef__mpi_nap(wait->nap);
    wait->nap = wait->nap * 1.25 < longest_nap ? wait->nap * 1.25 : longest_nap;
}

void clef__mpi_finish(clef__mpi *m, clef__mpi_request *request)
{
    clef__mpi_wait wait = {0};
    for (;;) {
        int done = 0;
        clef__mpi_check(m, MPI_Test(&request->mpi, &done, MPI_STATUS_IGNORE), request->peer);
        if (done)
            return;
        clef__mpi_wait_step(m, &wait);
    }
}

void clef__mpi_lock(atomic_flag *lock)
{
    while (atomic_flag_test_and_set(lock))
        clef__mpi_nap(0.001);
}

void clef__mpi_unlock(atomic_flag *lock)
{
    atomic_flag_clear(lock);
}
