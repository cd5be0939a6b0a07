/* What the transport needs of the operating system. The library is one of its own, so it has no access to
 * runtime/os/. */
#ifndef CLEF_RANKS_MPI_SYSTEM_H
#define CLEF_RANKS_MPI_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#include "ranks/join/transport.h"

/** Seconds since an arbitrary start; monotonic. */
double clef__mpi_seconds(void);
/** Lets another thread have this core, if one is ready to run. */
void clef__mpi_yield(void);
void clef__mpi_nap(double seconds);
/** Tells the core that this thread polls. */
void clef__mpi_pause(void);

/** The processors that this process may run on. All 0 where the system does not say it. */
void clef__mpi_cores(unsigned char mask[CLEF__TRANSPORT_CORE_BYTES]);

/** An environment variable that holds a number from 0 on; `otherwise` where it is unset or no such number. */
double clef__mpi_env_number(const char *name, double otherwise);

/** Writes `line` and a line end to stderr in one piece. */
void clef__mpi_write_line(const char *line);
/** Ends this process with exit code 1 after `seconds`, whatever its threads do then, after `line` was written
 *  to stderr, unless clef__mpi_in_time() is called before. */
void clef__mpi_end_unless(unsigned seconds, const char *line);
void clef__mpi_in_time(void);
/** Ends this process at once with exit code 1: nothing is flushed, and no handlers run. */
_Noreturn void clef__mpi_exit_now(void);

/** A thread that takes none of the process's signals. Returns NULL if it cannot be made. */
typedef struct clef__mpi_thread clef__mpi_thread;
clef__mpi_thread *clef__mpi_thread_start(void (*work)(void *user), void *user);
/** Waits for the thread's end, and frees it. Accepts NULL. */
void clef__mpi_thread_join(clef__mpi_thread *thread);

#endif
