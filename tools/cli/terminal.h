/* What the command needs from the operating system: terminals, interruption, files, a clock. Each system has
 * one implementation (terminal_posix.c, terminal_windows.c); nothing else in tools/ includes a system
 * header. */
#ifndef CLEF_TOOLS_CLI_TERMINAL_H
#define CLEF_TOOLS_CLI_TERMINAL_H

#include <stdint.h>
#include <stdio.h>

/** Prepares the streams of the process. main() calls it first. Windows: bytes go in and out as they are, and
 *  the console shows UTF-8 and colours. */
void cli_terminal_start(void);
/** 1 when stderr, or stdout, is a terminal. */
int cli_terminal_stderr(void);
int cli_terminal_stdout(void);

/** After this call the first Ctrl-C only sets the result of cli_terminal_interrupted(); the second one ends
 *  the process. */
void cli_terminal_catch_interrupt(void);
/** The same for SIGTERM, which launchers send; it then counts as Ctrl-C. Windows: nothing. */
void cli_terminal_catch_term(void);
int  cli_terminal_interrupted(void);
/** Forgets a Ctrl-C, and catches the next one again. */
void cli_terminal_forget_interrupt(void);

/** Lets the C library read UTF-8 from the terminal, whatever the language of messages. */
void cli_terminal_use_utf8(void);
/** 1 when stdin is a terminal. */
int cli_terminal_stdin(void);
/** Makes the folders of a file's path that are missing, and the file if it is missing, which only its owner
 *  can read. Returns 0 where that fails. */
int cli_terminal_make_private(const char *path);

/** Removes a progress line from the terminal, before something else is written to stderr. Does nothing if
 *  none is shown. */
void cli_terminal_clear_line(void);
/** Shows `line` in place of the previous one (stderr must be a terminal). */
void cli_terminal_show_line(const char *line);

/** 1 when a new file may be renamed to `path`: it is a plain file, or does not exist. 0 for devices, pipes,
 *  links and folders. */
int cli_terminal_can_replace(const char *path);
/** Makes a file that does not exist yet, and opens it for writing. NULL sets errno. */
FILE *cli_terminal_create(const char *path);
/** Renames a file, over another one if there is one. Returns 0 and sets errno when that fails. */
int cli_terminal_rename(const char *from, const char *to);
/** The file that a link names, which the caller frees; NULL if it is not a link, or names nothing. */
char *cli_terminal_link_target(const char *path);
/** 1 when `path` is a folder. */
int cli_terminal_is_folder(const char *path);
/** Tells the names of what is in a folder, without "." and "..". A folder that cannot be read is empty. */
void cli_terminal_list(const char *path, void (*tell)(void *user, const char *name), void *user);
/** Makes a folder, unless it exists, inside an existing one. Returns 0 and sets errno when that fails. */
int cli_terminal_make_folder(const char *path);

/** Sets $CLEF_PROVER, unless it is set, to this program, which can prove kernels
 *  (clef_device_opts.prover). */
void cli_terminal_offer_prover(void);

/** Seconds since an arbitrary start; monotonic. */
double cli_terminal_seconds(void);
/** Peak resident memory of this process in bytes, 0 if unknown. */
uint64_t cli_terminal_peak_rss(void);
/** A number that differs from one process to the next. */
uint64_t cli_terminal_entropy(void);

#endif
