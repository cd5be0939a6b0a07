/* Everything that depends on the operating system, with one implementation for each system (os_posix.c,
 * os_windows.c).
 * Nothing else includes a system header. */
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
void        clef__os_unmap(clef_mapping *mapping); /* accepts a zeroed one */

/** Reads a whole file of at most max_bytes into memory, with a NUL after it that is not counted. The caller
 *  frees *out with free(). CLEF_E_IO, CLEF_E_LIMIT, CLEF_E_NOMEM. */
clef_status clef__os_read(const char *path, size_t max_bytes, char **out, size_t *n_bytes, clef_error *err);

/** Writes a file so that `path` never holds half of it: to a temporary name beside it, flushed, then
 *  renamed. */
clef_status clef__os_write(const char *path, const void *data, size_t n_bytes, clef_error *err);

/** Writes a long file in pieces, in the same way. begin: *out is the open file; write appends; commit renames
 *  and frees; abort removes the temporary file and frees (accepts NULL). */
typedef struct clef_os_file clef_os_file;
clef_status clef__os_file_begin(const char *path, clef_os_file **out, clef_error *err);
clef_status clef__os_file_write(clef_os_file *file, const void *data, size_t n_bytes, clef_error *err);
clef_status clef__os_file_commit(clef_os_file *file, clef_error *err);
void        clef__os_file_abort(clef_os_file *file);

/** Writes a folder so that `path` never holds half of it. begin: makes a temporary folder beside it, and the
 *  parents; files are written into clef__os_folder_path(). keep: a file of the folder that is there now is
 *  also one of the new folder. commit: flushes, puts the new folder into its place, removes the old one, and
 *  frees. abort: removes the temporary folder and frees (accepts NULL). The folders have files alone, no
 *  folders. begin also removes temporary folders of the same path whose writers were killed; those of living
 *  ones are locked. */
typedef struct clef_os_folder clef_os_folder;
clef_status clef__os_folder_begin(const char *path, clef_os_folder **out, clef_error *err);
const char *clef__os_folder_path(const clef_os_folder *folder);
clef_status clef__os_folder_keep(clef_os_folder *folder, const char *name, clef_error *err);
clef_status clef__os_folder_commit(clef_os_folder *folder, clef_error *err);
void        clef__os_folder_abort(clef_os_folder *folder);
/** Writes a folder's list of names to the disk, so that a renamed file has its new name after a power cut. */
clef_status clef__os_sync_folder(const char *path, clef_error *err);
/** Calls visit() for each entry of a folder until it returns another status than CLEF_OK, and returns that. A
 *  missing folder has no entries. CLEF_E_IO: it cannot be read. */
clef_status clef__os_entries(const char *folder,
                             clef_status (*visit)(void *user, const char *name, int is_folder), void *user,
                             clef_error *err);

/** Memory for large, long-lived arrays: aligned to 2 MiB, zeroed, on huge pages if the system has them. NULL
 *  when out of memory. free accepts NULL. */
void *clef__os_alloc_large(size_t n_bytes);
void  clef__os_free_large(void *memory, size_t n_bytes);
/** Requests huge pages for memory of another owner, where a whole page is inside it. Call it before the
 *  memory is first touched. */
void clef__os_prefer_large(void *memory, size_t n_bytes);

/** Starts reading a part of a mapped file from the disk, and does not wait. */
void clef__os_read_ahead(const void *data, size_t n_bytes);
/** Releases the physical memory of a part of a mapped file, which is read again when it is touched. */
void clef__os_forget(const void *data, size_t n_bytes);

int clef__os_is_dir(const char *path);
int clef__os_is_file(const char *path);
/** Makes a folder and its parents. CLEF_E_IO. */
clef_status clef__os_make_dirs(const char *path, clef_error *err);
/** POSIX alone: whether files can be made in a folder, or in the nearest parent that is there, and n_bytes
 *  are left on its disk. Makes nothing. Where it returns 0, *why is the system's reason, valid until this
 *  thread's next call. */
int         clef__os_takes_files(const char *folder, uint64_t n_bytes, const char **why);
/** POSIX alone: makes a folder for temporary files that only this user can write, clef-UID in $TMPDIR or
 *  /tmp, and writes its path to `out`. Returns 0 where that cannot be done, or another user was there
 *  first. */
int         clef__os_private_temp(char *out, size_t capacity);
/** Makes an empty file. Returns 0 where it exists, or cannot be made: of several processes one alone gets
 *  1. */
int         clef__os_create(const char *path);
void        clef__os_remove(const char *path); /* removes a file; ignores a missing one */

/** Calls visit() for each regular file of a folder until it returns another status than CLEF_OK, and returns
 *  that. A missing folder has no files. The texts live until visit() returns. */
typedef struct clef__os_file_info {
    const char *path, *name;
    uint64_t    n_bytes;
    int64_t     when; /* last time it was written or touched, in seconds since 1970 */
} clef__os_file_info;
clef_status clef__os_list(const char *folder, clef_status (*visit)(void *user,
                          const clef__os_file_info *file), void *user);
/** Marks a file as used now. Ignores failures. */
void        clef__os_touch(const char *path);

/** Waits until no other process has locked this place (any number) of a file, and locks it. Makes the file
 *  if it is missing. The lock ends with clef__os_unlock(), or with the process. Returns -1, which unlock
 *  accepts, when the file cannot be opened or its file system has no locks. */
int  clef__os_lock(const char *path, uint64_t place);
/** Waits until no other process has locked any place of the file, and locks all. */
int  clef__os_lock_all(const char *path);
void clef__os_unlock(int lock);

/** Seconds since an arbitrary start; monotonic. */
double clef__os_seconds(void);
/** The local time of now, as seconds since 1970 if it were UTC. */
int64_t clef__os_local_time(void);
/** Writes $XDG_CACHE_HOME/clef or ~/.cache/clef to `out`. Returns 0 when neither is known or it does not
 *  fit. */
int clef__os_cache_dir(char *out, size_t capacity);
/** Writes the folder of the file with this code (the shared library, or the program) to `out`. Returns 0 when
 *  it is unknown. */
int clef__os_library_dir(char *out, size_t capacity);
/** Opens a shared library for the rest of the process. Returns NULL when that fails; err (or NULL) then has
 *  the name and the system's reason. */
void *clef__os_library(const char *name, clef_error *err);
/** The address of a function of a library; NULL if it has none of this name. */
void *clef__os_symbol(void *library, const char *name);
/** Asks the system to let this process use the tiles of x86 AMX (Linux: arch_prctl, ARCH_REQ_XCOMP_PERM).
 *  Returns 1 if it may. */
int clef__os_allow_tiles(void);
/** An environment variable, NULL when unset or empty. */
const char *clef__os_env(const char *name);
/** Sets a variable for this process. Ignores failures. */
void clef__os_set_env(const char *name, const char *value);
/** Calls work(user, i) once for each i below n, in no order, and returns when all are done. It uses as many
 *  threads as the process has processors, this one included, or this one alone if no thread can be made. */
void clef__os_parallel(int32_t n, void (*work)(void *user, int32_t i), void *user);
/** A lock between threads of this process. create: NULL when out of memory. destroy accepts NULL. */
typedef struct clef__mutex clef__mutex;
clef__mutex *clef__mutex_create(void);
void clef__mutex_destroy(clef__mutex *m);
void clef__mutex_take(clef__mutex *m);
void clef__mutex_release(clef__mutex *m);
/** Starts a program (argv[0] is its path; NULL ends the list). It has this process's environment, changed by
 *  the "NAME=value" of `environment` (NULL ends it, CLEF_OS_MAX_SET at most). Its stdin, stdout and stderr
 *  are the null device: a driver that dies in a trial would otherwise write to the user's terminal.
 *  CLEF_E_IO, CLEF_E_NOMEM. */
enum { CLEF_OS_MAX_SET = 5 };
clef_status clef__os_spawn(const char *const *argv, const char *const *environment, int64_t *process,
                           clef_error *err);
/** Returns 0 while the process runs, 1 when it has ended. *code is its exit code, or minus the signal that
 *  ended it. */
int         clef__os_ended(int64_t process, int *code);
/** Leaves a process to run by itself (0: none). Processes that have ended are reaped here, and when another
 *  is started. Of more than 64 at once the rest stay in the system's process list until this process ends. */
void        clef__os_leave(int64_t process);
/** Reasons for an exit code that the process did not choose. Interrupted: by Ctrl-C, which reaches all
 *  processes of a terminal. Killed: by another process, or for lack of memory. On Windows only kills by
 *  clef__os_kill() count: others leave code 1, as exit(1) does. */
int clef__os_was_interrupted(int code);
int clef__os_was_killed(int code);
/** Moves this process to the background: detached from the terminal, with stderr on the null device, and only
 *  on processors that are idle. */
void        clef__os_go_to_background(void);
/** Ends a process, and waits until it has ended: up to 2 s, then as clef__os_leave(). */
void        clef__os_kill(int64_t process);
/** A process's journal, in which it notes what it tries (os_guard_*.c). Open makes the file if it is
 *  missing, and waits while another process has it open. A process has one journal at a time. CLEF_E_IO. */
clef_status clef__os_journal_open(const char *path, clef_error *err);
void        clef__os_journal_close(void); /* does nothing without a journal */
void        clef__os_journal_clear(void);
void        clef__os_journal_write(const char *text); /* does nothing without a journal */
/** Between guard and guard_end this process notes an end that it did not choose. It writes `if_crashed` on
 *  the signal of a fault and on an exit. It writes `if_hung`, and then ends, when `seconds` of its time have
 *  passed since the last step (os_clock.h). A kill from outside leaves no note, nor does a fault while memory
 *  is short. Texts have 63 bytes at most. A step writes "." and starts the time anew; without a guard it does
 *  nothing. */
enum { CLEF_OS_EXIT_NOTED = 70, CLEF_OS_EXIT_NO_MEMORY = 71 };
void        clef__os_guard(double seconds, const char *if_crashed, const char *if_hung);
void        clef__os_guard_is_cpu(int is_cpu); /* sets whether the device is a CPU; 1 before the first call */
void        clef__os_guard_step(void);
void        clef__os_guard_allow(double seconds); /* sets how long a step may take, for the running guard */
/** A compiler begins to work, or has ended, which starts the time anew. On a GPU's driver it may take
 *  CLEF_OS_BUILD_SHARE times as long as a step: Adreno's needs minutes for a kernel (docs/drivers.md). */
enum { CLEF_OS_BUILD_SHARE = 5 };
void        clef__os_guard_build_begins(void);
void        clef__os_guard_build_ends(void);
void        clef__os_guard_end(void);
/** 1 when this process cannot get 256 MiB more. */
int         clef__os_memory_is_short(void);
/** Waits some milliseconds. */
void        clef__os_sleep(int32_t ms);
/** The id of this process. */
int64_t     clef__os_pid(void);
/** A number for the names of files that processes of several containers, which may have the same id, make in
 *  one folder: of the id, the time and how often it was called. */
uint64_t    clef__os_unique(void);
/** Children of a rank, which prove kernels, are not ranks: they see no launcher (os_launcher.c). */
void        clef__launcher_hide(void);
/** Processors that this process may run on; at least 1. */
int32_t clef__os_n_cpus(void);
/** 1 when the process may run on every processor of the machine; 0 when it may not, or it is unknown. */
int clef__os_has_all_cpus(void);
/** Limits this thread, and those that it starts from now on, to the processors of `mask`: a bit for each, in
 *  n_bytes bytes. Does nothing where that cannot be done. */
void clef__os_use_cpus(const unsigned char *mask, size_t n_bytes);
/** 1 when nothing but this process runs now; 0 when something does, or it is unknown. */
int clef__os_is_idle(void);

#endif
