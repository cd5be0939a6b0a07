#include "tools/ranks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/hash.h"

enum { MAX_LINE = 900 };
/* The exit code of a rank whose failure rank 0 reports. A launcher ends all ranks as soon as one fails, and
 * rank 0 might not have said why by then; its own exit code becomes that of the launcher. */
enum { RANK_0_SAYS_WHY = CLI_OK };

static clef_ranks *ranks;
static int is_apart, ends_with_all;              /* the ranks work apart; they have agreed to end */
static char held[sizeof((clef_error *)0)->text]; /* the message of a rank that prints none */
static char command_line[MAX_LINE];
static int32_t n_named; /* devices that -d names */

/* A hash of all arguments, with their ends. */
static uint64_t hash_of(int argc, char **argv)
{
    uint64_t hash = CLEF__HASH_START;
    for (int i = 1; i < argc; i++)
        hash = clef__hash(hash, argv[i], strlen(argv[i]) + 1);
    return hash;
}

void cli_ranks_command_line(int argc, char **argv)
{
    enum { HASH_BYTES = 24 };
    size_t n = 0;
    for (int i = 1; i < argc && n < sizeof command_line; i++) {
        const int wrote =
            snprintf(command_line + n, sizeof command_line - n, "%s%s", i > 1 ? " " : "", argv[i]);
        n += wrote > 0 ? (size_t)wrote : 0;
    }
    if (n >= sizeof command_line) /* the hash stands for what has no room */
        snprintf(command_line + sizeof command_line - HASH_BYTES, HASH_BYTES, "... (%016" PRIx64 ")",
                 hash_of(argc, argv));
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
        n_named = entry_of(which, info.local_rank, own, n_own);
    if (!opts->n_threads) /* the launcher may have bound this rank to some of the processors */
        opts->n_threads = info.n_processors;
    return CLEF_OK;
}

/* Ranks on one GPU would wait for each other, so that has to be asked for: by naming it once for each. A CPU
 * is divided. */
static clef_status check_device(const clef_ranks_info *info, clef_device *device, clef_error *err)
{
    const clef_device_info *d = clef_device_describe(device);
    if (d->caps.is_cpu || n_named >= info->n_local || info->n_local == 1)
        return CLEF_OK;
    return cli_error(err, CLEF_E_DEVICE,
                     "%s: %" PRId32
                     " ranks of %s would share it; expected -d with a device for each rank of a "
                     "machine, A,B, or one named several times",
                     d->name, info->n_local, info->host);
}

clef_status cli_ranks_begin(clef_status status, clef_device *device, clef_error *err)
{
    static int has_begun;
    clef_ranks_info info;
    if (!ranks)
        return status;
    if (is_apart)
        return status;
    clef_ranks_describe(ranks, &info);
    if (has_begun) /* rank 0 opens its device once more */
        return status ? status : clef_ranks_lead(ranks, device, err);
    has_begun = 1;
    if (!status)
        status = check_device(&info, device, err);
    status = clef_ranks_agree(ranks, status, err);
    if (info.rank == 0) {
        if (status) {
            clef_ranks_close(ranks);
            ranks = NULL;
            return status;
        }
        return clef_ranks_lead(ranks, device, err);
    }
    int rc = RANK_0_SAYS_WHY;
    if (!status && clef_ranks_follow(ranks, device, clef_model_open_for_rank, NULL, err) != CLEF_OK)
        rc = CLI_FAILED;
    clef_device_close(device);
    clef_ranks_close(ranks);
    exit(rc);
}

/* ---- starting -------------------------------------------------------------------------------- */

static const cli_option *option_of(const cli_command *command, const char *name)
{
    for (const cli_option *o = command->options; o && o->names; o++)
        if (strcmp(o->names, name) == 0)
            return o;
    return NULL;
}

static const char *text_of(const cli_command *command, const void *options, const char *name)
{
    const cli_option *o = option_of(command, name);
    const char *text = NULL;
    if (o && o->type == CLI_TEXT)
        memcpy(&text, (const char *)options + o->offset, sizeof text);
    return text;
}

static int is_set(const cli_command *command, const void *options, const char *name)
{
    const cli_option *o = option_of(command, name);
    int32_t value = 0;
    if (o && o->type == CLI_SWITCH)
        memcpy(&value, (const char *)options + o->offset, sizeof value);
    return value != 0;
}

/* Follows rank 0. Returns only when this rank cannot begin. */
static clef_status follow(const cli_command *command, const void *options, const cli_split *split,
                          clef_error *err)
{
    const cli_option *threads = option_of(command, "threads");
    const char *which = text_of(command, options, "device");
    clef_device_opts opts = {.notice = cli_say_notice};
    clef_device *device;
    if (threads)
        memcpy(&opts.n_threads, (const char *)options + threads->offset, sizeof opts.n_threads);
    return cli_devices_open(which ? which : text_of(command, options, "use-device"), split, &opts, &device,
                            err);
}

/* What fails on every rank is said by rank 0. A module or an MPI may be missing on one of them alone. */
static int report(const clef_error *err)
{
    return clef_ranks_own() == 0 ? cli_report(err)
           : err->status == CLEF_E_NOT_FOUND
               ? cli_fail(CLI_FAILED, "rank %" PRId32 ": %s", clef_ranks_own(), err->text)
               : RANK_0_SAYS_WHY;
}

static int32_t number_of(const cli_command *command, const void *options, const char *name)
{
    const cli_option *o = option_of(command, name);
    int32_t value = 0;
    if (o && o->type == CLI_INT)
        memcpy(&value, (const char *)options + o->offset, sizeof value);
    return value;
}

/* 1 where each rank runs the command by itself: it joins the ranks when it needs them. */
static int runs_apart(const cli_command *command, const void *options)
{
    return command->apart || is_set(command, options, "network") || /* clef bench --network */
           number_of(command, options, "dp") > 0;
}

int cli_ranks_start(const cli_command *command, const void *options)
{
    const cli_option *tp = option_of(command, "tp");
    clef_ranks_info info;
    clef_error err = {0};
    cli_split split;
    if (clef_ranks_started() == 1 || runs_apart(command, options))
        return CLI_GO_ON;
    if (!tp && clef_ranks_own())
        return RANK_0_SAYS_WHY;
    if (!tp)
        return cli_fail(CLI_USAGE, "%s: runs in one process, %" PRId32 " ranks were started", command->name,
                        clef_ranks_started());
    memcpy(&split, (const char *)options + tp->offset - offsetof(cli_split, width), sizeof split);
    if (clef_ranks_open(&(clef_ranks_opts){.width = split.width,
                                           .stages = split.stages,
                                           .wire = cli_wire_names[split.wire],
                                           .agree = command_line},
                        &ranks, &err) != CLEF_OK)
        return report(&err);
    clef_ranks_describe(ranks, &info);
    return info.rank && follow(command, options, &split, &err) != CLEF_OK ? report(&err) : CLI_GO_ON;
}

clef_status cli_ranks_sent(uint64_t **out, int32_t *n, clef_error *err)
{
    clef_ranks_info info = {0};
    *n = 0;
    *out = NULL;
    if (!ranks)
        return CLEF_OK;
    clef_ranks_describe(ranks, &info);
    *out = calloc((size_t)info.n, sizeof **out);
    if (!*out)
        return cli_error(err, CLEF_E_NOMEM, "out of host memory");
    *n = info.n;
    return clef_ranks_sent(ranks, *out, err);
}

void cli_ranks_before_end(void (*call)(void *user), void *user)
{
    if (ranks)
        clef_ranks_before_end(ranks, call, user);
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

int cli_ranks_join_apart(const char *command, int32_t n, clef_ranks **out)
{
    clef_error err = {0};
    *out = NULL;
    if (n && n != clef_ranks_started()) {
        cli_error(&err, CLEF_E_ARG, "%s: --dp %" PRId32 ": expected the number of ranks, %" PRId32 "%s",
                  command, n, clef_ranks_started(),
                  clef_ranks_started() == 1 ? ": start them with mpirun -n N clef .." : "");
        return report(&err);
    }
    if (clef_ranks_started() == 1)
        return CLI_GO_ON;
    const clef_ranks_opts opts = {.agree = command_line, .apart = 1};
    if (clef_ranks_open(&opts, &ranks, &err) != CLEF_OK)
        return report(&err);
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
