#include "tools/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 900 };

static clef_ranks *ranks;
static char command_line[MAX_LINE];

void cli_ranks_command_line(int argc, char **argv)
{
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        const int wrote = snprintf(command_line + n, sizeof command_line - n, "%s%s", i > 1 ? " " : "", argv[i]);
        n += wrote > 0 ? (size_t)wrote : 0;
        if (n >= sizeof command_line)
            return;
    }
}

clef_status cli_ranks_join(const cli_split *split, clef_error *err)
{
    return ranks ? CLEF_OK
                 : clef_ranks_open(&(clef_ranks_opts){.width = split->width,
                                                      .stages = split->stages,
                                                      .wire = cli_wire_names[split->wire],
                                                      .agree = command_line},
                                   &ranks, err);
}

/* Entry number i of a list with commas; it begins again after the last. Returns the number of entries. */
static int32_t entry_of(const char *list, int32_t i, char *out, size_t n_out)
{
    int32_t n = 1;
    for (const char *at = list; *at; at++)
        n += *at == ',';
    const char *at = list;
    for (int32_t k = 0; k < i % n; k++)
        at = strchr(at, ',') + 1;
    snprintf(out, n_out, "%.*s", (int)strcspn(at, ","), at);
    return n;
}

clef_status cli_ranks_device(const char *which, char *own, size_t n_own, clef_device_opts *opts, clef_error *err)
{
    clef_ranks_info info;
    clef_ranks_describe(ranks, &info);
    *own = 0;
    if (which && strlen(which) >= n_own)
        return cli_error(err, CLEF_E_ARG, "-d: expected less than %zu characters, got %zu", n_own, strlen(which));
    if (which)
        entry_of(which, info.local_rank, own, n_own);
    if (!opts->n_threads && info.n_local > 1)
        opts->n_threads = info.n_processors;
    return CLEF_OK;
}

static clef_status open_weights(void *user, const char *name, clef_ranks_weights *out, clef_error *err)
{
    (void)user;
    return clef_model_open_for_rank(name, out, err);
}

clef_status cli_ranks_begin(clef_status status, clef_device *device, clef_error *err)
{
    clef_ranks_info info;
    if (!ranks)
        return status;
    clef_ranks_describe(ranks, &info);
    status = clef_ranks_agree(ranks, status, err);
    if (info.rank == 0) {
        if (status) {
            clef_ranks_close(ranks);
            ranks = NULL;
            return status;
        }
        return clef_ranks_lead(ranks, device, err);
    }
    if (!status)
        status = clef_ranks_follow(ranks, device, open_weights, NULL, err);
    clef_device_close(device);
    clef_ranks_close(ranks);
    exit(status ? CLI_FAILED : CLI_OK);
}

void cli_ranks_end(int rc)
{
    if (ranks && rc) /* the others may wait for values */
        clef_ranks_abort(ranks, "");
    clef_ranks_close(ranks);
    ranks = NULL;
}
