/* Opens the models and devices that the command line names. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/common.h"
#include "tools/cli/progress.h"
#include "tools/cli/terminal.h"
#include "tools/hub/hub.h"
#include "tools/ranks.h"

enum { MAX_SHARES = 64, MAX_NAME = 256 };

/* Parses "60,40". */
static clef_status parse_split(const char *text, float shares[MAX_SHARES], int32_t *n, clef_error *err)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        const float x = strtof(at, &end);
        if (end == at || (*end && *end != ',') || !isfinite(x) || x <= 0)
            return cli_error(err, CLEF_E_ARG,
                             "--split: expected numbers above 0 with commas between (60,40), got '%.60s'",
                             text);
        if (*n == MAX_SHARES)
            return cli_error(err, CLEF_E_ARG, "--split: more than %d numbers", MAX_SHARES);
        shares[(*n)++] = x;
        at = end;
        if (!*at)
            return CLEF_OK;
    }
}

static clef_status open_devices(const char *which, const cli_split *split, clef_device_opts *o,
                                clef_device **out, clef_error *err)
{
    float shares[MAX_SHARES];
    const clef_status status =
        split->shares ? parse_split(split->shares, shares, &o->n_shares, err) : CLEF_OK;
    o->several = 1;
    o->experts_on = split->experts_on;
    o->shares = split->shares ? shares : NULL;
    return status == CLEF_OK ? clef_device_open(which, o, out, err) : status;
}

clef_status cli_devices_open(const char *which, const cli_split *split, const clef_device_opts *opts,
                             clef_device **out, clef_error *err)
{
    clef_device_opts o = opts ? *opts : (clef_device_opts){0};
    char own[MAX_NAME];
    *out = NULL;
    if (clef_ranks_started() == 1 && (split->width > 1 || split->stages > 1))
        return cli_error(err, CLEF_E_ARG,
                         "--tp and --pp are for several ranks: start them with mpirun -n N clef ..");
    if (clef_ranks_started() == 1)
        return open_devices(which, split, &o, out, err);
    clef_status s = cli_ranks_device(which, own, sizeof own, &o, err);
    if (!s)
        s = open_devices(*own ? own : NULL, split, &o, out, err);
    return cli_ranks_begin(s, *out, err);
}

int cli_one_device(clef_device *device, const char *command, const char *what)
{
    return clef_device_part(device, 1)
               ? cli_fail(CLI_USAGE, "%s: %s works on one device, got several", command, what)
               : CLI_GO_ON;
}

void cli_say_device(clef_device *device)
{
    for (int32_t i = 0; clef_device_part(device, i); i++) {
        const clef_device_info *d = clef_device_describe(clef_device_part(device, i));
        fprintf(stderr, "clef: device %" PRId32 ":%" PRId32 " %s (%s)\n", d->platform, d->index, d->name,
                d->platform_name);
    }
}

const char *cli_model_path(const char *command, int32_t n_args, char **args, const char *flag)
{
    if (n_args > 0 && flag) {
        cli_fail(CLI_USAGE, "%s: one model at a time: got '%s' and --model '%s'", command, args[0], flag);
        return NULL;
    }
    const char *path = n_args > 0 ? args[0] : flag ? flag : clef_demo_model();
    if (!path)
        cli_fail(
            CLI_FAILED,
            "%s: no MODEL given, and the bundled one is not installed; set $CLEF_DEMO_MODEL or name a model",
            command);
    return path ? hub_find(path) : NULL;
}

/* Such a model has no tokenizer. */
static int reads_no_texts(const clef_model *model)
{
    const clef_hparams *hp = clef_model_hparams(model);
    return clef_model_pictures(model, NULL) == hp || hp->n_convs > 0;
}

int cli_model_open(const char *path, const cli_place *place, cli_progress *progress, clef_model **model,
                   clef_device **device)
{
    clef_error err = {0};
    const clef_device_opts opts = {.notice = cli_say_notice,
                                   .n_threads = place->n_threads,
                                   .progress = cli_progress_step,
                                   .progress_user = progress};
    const char *found = hub_find(path);
    if (!found)
        return CLI_FAILED;
    cli_terminal_catch_interrupt();
    cli_progress_init(progress, place->quiet);
    if (clef_model_open(found, model, &err) != CLEF_OK ||
        (!reads_no_texts(*model) && !clef_model_tokenizer(*model, &err)) ||
        cli_devices_open(place->device, &place->split, &opts, device, &err) != CLEF_OK)
        return cli_report(&err);
    if (!place->quiet)
        cli_say_device(*device);
    return CLI_GO_ON;
}
