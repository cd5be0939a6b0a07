/* What the transport needs of the operating system. The library is one of its own, so it has no access to
 * runtime/os/. */
#ifndef CLEF_RUNTIME_MPI_SYSTEM_H
#define CLEF_RUNTIME_MPI_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/ranks/transport.h"

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

/** This host's name. */
void clef__mpi_host_name(char *out, size_t capacity);
/** The number of this rank by the launcher's environment variables; -1: unknown. */
int clef__mpi_env_rank(void);

/** Writes `line` and a line end to stderr in one piece. */
void clef__mpi_write_line(const char *line);
/** Ends this process with exit code 1 when `seconds` have passed, whatever its threads do then. */
void clef__mpi_exit_after(unsigned seconds);
/** Ends this process so, after `line` was written to stderr, unless clef__mpi_in_time() is called before. */
void clef__mpi_end_unless(unsigned seconds, const char *line);
void clef__mpi_in_time(void);
/** Starts a process of its own that ends this one, after `line` was written to stderr, when this one has been
 *  stopped (SIGSTOP) for `seconds` and its launcher has not; until clef__mpi_guard_end(). The launcher then
 *  ends the other ranks. Linux; elsewhere nothing happens. */
void clef__mpi_guard_begin(double seconds, const char *line);
void clef__mpi_guard_end(void);
/** Starts a process of its own that ends the launcher of this process, and the launcher's other children, if
 *  the launcher still runs when `seconds` have passed. Only a parent with the name mpirun, orterun, orted,
 *  prterun or prted is a launcher. Linux; elsewhere nothing happens. */
void clef__mpi_end_launcher_after(double seconds);
/** Ends this process at once: nothing is flushed, and no handlers run. */
_Noreturn void clef__mpi_exit_now(void);

/** A thread that takes none of the process's signals. Returns NULL if it cannot be made. */
typedef struct clef__mpi_thread clef__mpi_thread;
clef__mpi_thread *clef__mpi_thread_start(void (*work)(void *user), void *user);
/** Waits for the thread's end, and frees it. Accepts NULL. */
void clef__mpi_thread_join(clef__mpi_thread *thread);

#endif
