/* All that the operating system differs in. One implementation a system (os_posix.c); nothing else includes a
 * system header. */
#ifndef CLEF_RUNTIME_OS_H
#define CLEF_RUNTIME_OS_H

#include <stddef.h>
#include <stdint.h>

#include "clef/status.h"

/** A file mapped read-only. data is NULL when n_bytes is 0. */
typedef struct clef_mapping {
    const void *data;
    size_t      n_bytes;
} clef_mapping;

/** Maps a regular file. CLEF_E_IO names path and reason (a folder, missing, no permission). */
clef_status clef__os_map(const char *path, clef_mapping *out, clef_error *err);
void        clef__os_unmap(clef_mapping *mapping); /* takes a zeroed one */

/** Reads a whole file of at most max_bytes into memory, NUL-terminated (the NUL is not counted); the caller
 *  frees *out with free(). CLEF_E_IO, CLEF_E_LIMIT, CLEF_E_NOMEM. */
clef_status clef__os_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, clef_error *err);

/** Writes a file so that `path` is never half-written: a temporary name beside it, flushed, then renamed over
 *  it. */
clef_status clef__os_write(const char *path, const void *data, size_t n_bytes, clef_error *err);

/** The same for a long file, piece by piece. begin: *out is the open file; write appends; commit renames (and
 *  frees), abort removes the temporary (and frees; takes NULL). */
typedef struct clef_os_file clef_os_file;
clef_status clef__os_file_begin(const char *path, clef_os_file **out, clef_error *err);
clef_status clef__os_file_write(clef_os_file *file, const void *data, size_t n_bytes, clef_error *err);
clef_status clef__os_file_commit(clef_os_file *file, clef_error *err);
void        clef__os_file_abort(clef_os_file *file);

/** Memory for large, long-lived arrays: aligned to 2 MiB, zeroed, on huge pages where the system grants them.
 *  NULL when there is none. free takes NULL. */
void *clef__os_alloc_large(size_t n_bytes);
void  clef__os_free_large(void *memory, size_t n_bytes);
/** Asks for huge pages where a whole one lies within memory that is somebody else's, before it is first
 *  touched. */
void clef__os_prefer_large(void *memory, size_t n_bytes);

/** Starts reading a part of a mapped file from its disk, and does not wait. */
void clef__os_read_ahead(const void *data, size_t n_bytes);
/** Lets the physical memory of a part of a mapped file go; it is read again from the file when it is
 *  touched. */
void clef__os_forget(const void *data, size_t n_bytes);

int clef__os_is_dir(const char *path);
int clef__os_is_file(const char *path);
/** Makes a folder and its parents. CLEF_E_IO. */
clef_status clef__os_make_dirs(const char *path, clef_error *err);
void        clef__os_remove(const char *path); /* a file; a missing one is no matter */

/** Calls visit() for each regular file of a folder, until it returns another status than CLEF_OK, and returns
 *  that. A folder that is missing has none. The texts live until visit() returns. */
typedef struct clef__os_file_info {
    const char *path, *name;
    uint64_t    n_bytes;
    int64_t     when; /* it was written or touched last, in seconds since 1970 */
} clef__os_file_info;
clef_status clef__os_list(const char *folder, clef_status (*visit)(void *user,
                          const clef__os_file_info *file), void *user);
/** Marks a file as used now. One that cannot be marked stays as it is. */
void        clef__os_touch(const char *path);

/** Seconds since an arbitrary start; monotonic. */
double clef__os_seconds(void);
/** $XDG_CACHE_HOME/clef or ~/.cache/clef into out; 0 when neither is known or it does not fit. */
int clef__os_cache_dir(char *out, size_t capacity);
/** The folder of the file that holds this code (the shared library, or the program) into out; 0 when
 *  unknown. */
int clef__os_library_dir(char *out, size_t capacity);
/** Peak resident memory of this process in bytes, 0 when unknown. */
uint64_t clef__os_peak_rss(void);
/** Asks the system to let this process use the tiles of x86 AMX (Linux: arch_prctl, ARCH_REQ_XCOMP_PERM). 1
 *  when it may. */
int clef__os_allow_tiles(void);
/** An environment variable, NULL when unset or empty. */
const char *clef__os_env(const char *name);
/** Sets one for this process; a failure is no matter. */
void clef__os_set_env(const char *name, const char *value);
/** Calls work(user, i) once for each i below n, in no order, on as many threads as the process has
 *  processors, this one among them; returns when all are done. Where no thread can be made, this one does
 *  all. */
void clef__os_parallel(int32_t n, void (*work)(void *user, int32_t i), void *user);
/** Starts a program (argv[0] is its path; NULL ends the list). It has this process's environment, changed by
 *  the "NAME=value" of `environment` (NULL ends it, CLEF_OS_MAX_SET at most). Its stdin, stdout and stderr
 *  are the null device: a driver that dies in a trial would otherwise write to the user's terminal.
 *  CLEF_E_IO, CLEF_E_NOMEM. */
enum { CLEF_OS_MAX_SET = 4 };
clef_status clef__os_spawn(const char *const *argv, const char *const *environment, int64_t *process,
                           clef_error *err);
/** 0 while it runs; 1 when it has ended: *code is its exit code, or minus the signal that ended it. */
int         clef__os_ended(int64_t process, int *code);
/** It goes on by itself, and nobody asks for it any more (0: none is left). Those that have ended meanwhile
 *  are forgotten here, and when a process is started; of more than 64 at once the rest stay in the system's
 *  list to the end of this process. */
void        clef__os_leave(int64_t process);
/** What an exit code says of a process that did not end by its own doing. Interrupted: Ctrl-C, which comes to
 *  all of a terminal's processes. Killed: ended by somebody else, or by want of memory. */
int clef__os_was_interrupted(int code);
int clef__os_was_killed(int code);
/** Makes this process one that works behind the user's back: out of the terminal's reach, its stderr the null
 *  device, and on processors that nobody else wants. */
void        clef__os_go_to_background(void);
/** Ends it, and waits until it has. */
void        clef__os_kill(int64_t process);
/** A process's journal, in which it notes what it tries (os_guard_posix.c). Open makes the file where it is
 *  missing, and waits while another process has it open. It stays open to the end of the process; one in a
 *  process. CLEF_E_IO. */
clef_status clef__os_journal_open(const char *path, clef_error *err);
void        clef__os_journal_clear(void);
void        clef__os_journal_write(const char *text); /* nothing without a journal */
/** From here to guard_end this process notes an end that it did not choose. `if_crashed` is written on a
 *  fault's signal and on an exit; `if_hung` when `seconds` of its time have passed since the last step
 *  (os_clock.h), and then the process ends. A kill from outside leaves no note, nor does a fault while memory
 *  is short. Texts: 63 bytes at most. A step writes "." and starts the time anew; where nothing is guarded it
 *  does nothing. */
enum { CLEF_OS_EXIT_NOTED = 70, CLEF_OS_EXIT_NO_MEMORY = 71 };
void        clef__os_guard(double seconds, const char *if_crashed, const char *if_hung);
void        clef__os_guard_is_cpu(int is_cpu); /* whether the device is; 1 before the first call */
void        clef__os_guard_step(void);
void        clef__os_guard_end(void);
/** 1 when this process cannot have 256 MiB more. */
int         clef__os_memory_is_short(void);
/** Waits some milliseconds. */
void        clef__os_sleep(int32_t ms);
/** This process's number. */
int64_t     clef__os_pid(void);
/** Processors that this process may run on; at least 1. */
int32_t clef__os_n_cpus(void);
/** 1 when the process may run on every processor of the machine; 0 when it may not, or nobody knows. */
int clef__os_has_all_cpus(void);
/** 1 when nothing but this process runs now; 0 when something does, or nobody knows. */
int clef__os_is_idle(void);

#endif
