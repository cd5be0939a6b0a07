/* What the environment says of a launcher that has started several ranks (clef/ranks.h). */
#include <stdatomic.h>
#include <stdlib.h>

#include "clef/ranks.h"
#include "runtime/os/os.h"

/* What launchers call the number of ranks, and the rank. */
static const char *const size_variables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                             "PALS_NRANKS"};
static const char *const rank_variables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK",
                                             "PALS_RANKID"};
enum { N_VARIABLES = sizeof size_variables / sizeof *size_variables };

/* The first of these variables that is a number of at least `least`; -1: none is. */
static int32_t number_of(const char *const *variables, long least)
{
    for (int i = 0; i < N_VARIABLES; i++) {
        const char *text = clef__os_env(variables[i]);
        char *end = NULL;
        const long n = text ? strtol(text, &end, 10) : -1;
        if (text && end != text && n >= least && n <= INT32_MAX)
            return (int32_t)n;
    }
    return -1;
}

int32_t clef_ranks_started(void)
{
    static atomic_int known; /* children do not see it (hide_from_children) */
    if (!atomic_load(&known)) {
        const int32_t n = number_of(size_variables, 1);
        atomic_store(&known, n < 1 ? 1 : n);
    }
    return (int32_t)atomic_load(&known);
}

int32_t clef_ranks_own(void)
{
    const int32_t rank = number_of(rank_variables, 0);
    return rank < 0 ? 0 : rank;
}

void clef__launcher_hide(void)
{
    for (int i = 0; i < N_VARIABLES; i++)
        if (clef__os_env(size_variables[i]))
            clef__os_set_env(size_variables[i], "");
}
