/* The command on several ranks (clef/ranks.h): every rank has the same command line. Rank 0 does what one process
 * would do; the others follow it. */
#ifndef CLEF_TOOLS_RANKS_H
#define CLEF_TOOLS_RANKS_H

#include "tools/common.h"

/** Keeps the command line, which all ranks have to have in common. */
void cli_ranks_command_line(int argc, char **argv);
/** Joins the ranks, if that has not been done yet. */
clef_status cli_ranks_join(const cli_split *split, clef_error *err);
/** The device of this rank: of a list with commas, the one with its number among the ranks of its node. CPUs are
 *  divided: each rank of a node gets its share of the processors. `own` is empty for the default. */
clef_status cli_ranks_device(const char *which, char *own, size_t n_own, clef_device_opts *opts, clef_error *err);
/** To be called when the device is open, or failed to open (`status`, and *err with the reason). Rank 0 leads from now
 *  on; the others follow, and end the process when rank 0 ends. */
clef_status cli_ranks_begin(clef_status status, clef_device *device, clef_error *err);
/** Lets the other ranks end, with rank 0's exit code: after a failure they are stopped. Does nothing without them. */
void cli_ranks_end(int rc);

#endif
