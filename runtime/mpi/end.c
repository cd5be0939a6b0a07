/* How a run of several ranks ends when something is wrong. */
#include <stdio.h>

#include "runtime/mpi/state.h"
#include "runtime/mpi/system.h"

/* MPI_Abort() needs other processes, which may be lost, too. Open MPI's launcher then waits for its other
 * half for ever, so it is ended from here. */
enum { SECONDS_FOR_ABORT = 2 };

static _Noreturn void end(clef__mpi *m, const char *line, int is_lost)
{
    if (atomic_flag_test_and_set(&m->ending)) /* another thread ends this process */
        for (;;)
            clef__mpi_nap(1);
    if (*line)
        clef__mpi_write_line(line);
    clef__mpi_exit_after(SECONDS_FOR_ABORT);
    if (is_lost)
        clef__mpi_end_launcher_after(SECONDS_FOR_ABORT);
    MPI_Abort(MPI_COMM_WORLD, 1);
    clef__mpi_exit_now();
}

_Noreturn void clef__mpi_end(clef__mpi *m, const char *line)
{
    end(m, line, 0);
}

_Noreturn void clef__mpi_end_lost(clef__mpi *m, const char *line)
{
    end(m, line, 1);
}

const char *clef__mpi_host(const clef__mpi *m, int32_t rank)
{
    return m->hosts + (size_t)rank * MPI_MAX_PROCESSOR_NAME;
}

void clef__mpi_describe(const clef__mpi *m, int32_t rank, const char *state, const char *what, int64_t number,
                        char *out, size_t capacity)
{
    char count[32] = "";
    if (number >= 0)
        snprintf(count, sizeof count, " %lld", (long long)number);
    snprintf(out, capacity, "clef: rank %d on %s %s (last: %s%s)", rank, clef__mpi_host(m, rank), state, what,
             count);
}

void clef__mpi_check(clef__mpi *m, int code, int32_t peer)
{
    if (code == MPI_SUCCESS)
        return;
    char line[512], reason[MPI_MAX_ERROR_STRING] = "an unknown error";
    const char *what;
    int64_t number;
    int n;
    if (peer >= 0 && clef__mpi_heart_last(m, peer, &what, &number)) {
        clef__mpi_describe(m, peer, "is lost", what, number, line, sizeof line);
    } else {
        MPI_Error_string(code, reason, &n);
        if (peer >= 0)
            snprintf(line, sizeof line, "clef: rank %d on %s is lost (%.200s)", peer, clef__mpi_host(m, peer),
                     reason);
        else
            snprintf(line, sizeof line, "clef: rank %d on %s cannot reach the other ranks (%.200s)",
                     m->t.rank, clef__mpi_host(m, m->t.rank), reason);
    }
    clef__mpi_end_lost(m, line);
}
