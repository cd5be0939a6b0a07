/* What the server needs from the system beside sockets and threads: private files, signals, memory and time.
 * Each system has one implementation (system_posix.c, system_windows.c). */
#ifndef CLEF_TOOLS_SERVE_OS_SYSTEM_H
#define CLEF_TOOLS_SERVE_OS_SYSTEM_H

#include <stdint.h>

struct tm;

/** 1 if only its owner, and who administers the system, can read the file. 0 sets errno, or clears it where
 *  others can. */
int serve_file_is_private(const char *path);
/** The command of this system that makes FILE so. */
const char *serve_private_advice(void);

/** From now on signals are noted, and end nothing: SIGTERM and SIGINT as 'e', SIGHUP as 'r'. SIGPIPE is
 *  ignored. On Windows Ctrl-C, Ctrl-Break and closing the console are noted as 'e'; a service also gets the
 *  system's shutdown. Returns 0 if that fails. */
int serve_signals_catch(void);
/** The next signal; 0 when `seconds` have passed. */
int serve_signal_wait(double seconds);

/** Calls look(user, name) for each entry of a folder, in any order. 0: it cannot be read. */
int serve_folder_list(const char *path, void (*look)(void *user, const char *name), void *user);

/** Bytes of memory that the process has now; 0: unknown. */
uint64_t serve_resident_bytes(void);
/** From now on large blocks of memory go back to the system as soon as they are freed. */
void serve_memory_begin(void);
/** Gives memory that was freed back to the system, where that is not done by itself. */
void serve_give_memory_back(void);
/** Seconds since 1970. */
double serve_time(void);
/** The date and time of such a second in UTC. */
void serve_utc(int64_t seconds, struct tm *out);
void serve_sleep(double seconds);

#endif
