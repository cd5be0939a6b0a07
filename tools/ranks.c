#include "tools/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 900 };

static clef_ranks *ranks;
static int is_apart, ends_with_all;              /* the ranks work apart; they have agreed to end */
static char held[sizeof((clef_error *)0)->text]; /* the message of a rank that prints none */
static char command_line[MAX_LINE];

/* A hash (FNV-1a) of all arguments. */
static uint32_t hash_of(int argc, char **argv)
{
    uint32_t hash = 2166136261u;
    for (int i = 1; i < argc; i++)
        for (const char *at = argv[i];; at++) {
            hash = (hash ^ (unsigned char)*at) * 16777619u;
            if (!*at)
                break;
        }
    return hash;
}

void cli_ranks_command_line(int argc, char **argv)
{
    enum { HASH_BYTES = 16 };
    size_t n = 0;
    for (int i = 1; i < argc && n < sizeof command_line; i++) {
        const int wrote =
            snprintf(command_line + n, sizeof command_line - n, "%s%s", i > 1 ? " " : "", argv[i]);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
    if (n >= sizeof command_line) /* the hash stands for what has no room */
        snprintf(command_line + sizeof command_line - HASH_BYTES, HASH_BYTES, "... (%08" PRIx32 ")",
                 hash_of(argc, argv));
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

clef_status cli_ranks_device(const char *which, char *own, size_t n_own, clef_device_opts *opts,
                             clef_error *err)
{
    clef_ranks_info info;
    clef_ranks_describe(ranks, &info);
    *own = 0;
    if (which && strlen(which) >= n_own)
        return cli_error(err, CLEF_E_ARG, "-d: expected less than %zu characters, got %zu", n_own,
                         strlen(which));
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
    if (is_apart)
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

/* Ends all ranks, with the reason of one that fails alone. */
static void stop_others(void)
{
    clef_ranks_info info;
    char line[sizeof held + 300] = "";
    clef_ranks_describe(ranks, &info);
    if (*held)
        snprintf(line, sizeof line, "clef: rank %" PRId32 " on %s: %s", info.rank, info.host, held);
    clef_ranks_abort(ranks, line);
}

void cli_ranks_end(int rc)
{
    if (ranks && rc && !ends_with_all) /* the others may wait for values */
        stop_others();
    clef_ranks_close(ranks);
    ranks = NULL;
}

/* ---- ranks that work apart ------------------------------------------------------------------- */

static int32_t number(void)
{
    clef_ranks_info info;
    clef_ranks_describe(ranks, &info);
    return info.rank;
}

int cli_ranks_join_apart(clef_ranks **out)
{
    clef_error err = {0};
    *out = NULL;
    if (clef_ranks_started() == 1)
        return CLI_GO_ON;
    const clef_ranks_opts opts = {.agree = command_line, .apart = 1};
    if (clef_ranks_open(&opts, &ranks, &err) != CLEF_OK)
        return cli_report(&err);
    *out = ranks;
    is_apart = 1;
    if (number())
        cli_hold_messages(held, sizeof held);
    return CLI_GO_ON;
}

/* What all ranks have found out. Rank 0 has printed its own reason already. */
static int end_with(int code, const clef_error *err)
{
    ends_with_all = 1;
    if (code != CLI_GO_ON)
        return code;
    return number() ? CLI_FAILED : cli_report(err);
}

int cli_ranks_agree(int code)
{
    clef_error err = {0};
    if (!ranks)
        return code;
    if (code != CLI_GO_ON)
        cli_error(&err, CLEF_E_ARG, "%s", held);
    return clef_ranks_agree(ranks, err.status, &err) == CLEF_OK ? CLI_GO_ON : end_with(code, &err);
}

int cli_ranks_compare(const char *text)
{
    clef_error err = {0};
    return !ranks || clef_ranks_compare(ranks, text, &err) == CLEF_OK ? CLI_GO_ON : end_with(CLI_GO_ON, &err);
}
