/* The command on several ranks (clef/ranks.h): every rank has the same command line. Rank 0 does what one
 * process would do; the others follow it. */
#ifndef CLEF_TOOLS_RANKS_H
#define CLEF_TOOLS_RANKS_H

#include "tools/cli/common.h"

/** Keeps the command line, which all ranks have to have in common. */
void cli_ranks_command_line(int argc, char **argv);
/** Without a launcher of ranks: CLI_GO_ON. Else joins them, by the flags of RANKS_OPTIONS among the
 *  command's options. Rank 0 then goes on; the others follow it at once, without reading what the command
 *  reads, and end the process when rank 0 ends. An exit code after a message, also for a command that runs
 *  in one process alone. */
int cli_ranks_start(const cli_command *command, const void *options);
/** The device of this rank: of a list with commas, the one with its number among the ranks of its node.
 *  CPUs are divided: each rank of a node gets its share of the processors. `own` is empty for the default. */
clef_status cli_ranks_device(const char *which, char *own, size_t n_own, clef_device_opts *opts,
                             clef_error *err);
/** To be called when the device is open, or failed to open (`status`, and *err with the reason). Rank 0
 *  leads from now on; the others follow, and end the process when rank 0 ends. */
clef_status cli_ranks_begin(clef_status status, clef_device *device, clef_error *err);
/** On rank 0: the bytes that each rank has sent so far, *n of them, which the caller frees. *n is 0 in one
 *  process. */
clef_status cli_ranks_sent(uint64_t **out, int32_t *n, clef_error *err);
/** clef_ranks_before_end(), on several ranks; else nothing. */
void cli_ranks_before_end(void (*call)(void *user), void *user);
/** Lets the other ranks end, with rank 0's exit code: after a failure they are stopped. Does nothing without
 *  them. After cli_ranks_join_apart() a rank that fails alone stops the others, and its message names it. */
void cli_ranks_end(int rc);

/* ---- commands whose ranks work apart: all do the same, each with a part of the work ------------- */

/** Joins the ranks; *out is NULL without a launcher. From now on only rank 0 prints messages of failures.
 *  n: as many as the user expects (--dp); 0: any number. CLI_GO_ON, or an exit code after a message, which
 *  begins with the command's name. */
int cli_ranks_join_apart(const char *command, int32_t n, clef_ranks **out);
/** The code that all ranks go on with: CLI_GO_ON if each has it. Else an exit code, after rank 0 has printed
 *  the message of the first rank that failed. Those who then end do not stop the others. All ranks call this.
 *  Without ranks: `code`. */
int cli_ranks_agree(int code);
/** The same where `text` has to be equal on all ranks. */
int cli_ranks_compare(const char *text);

#endif
