#include "runtime/prove/selftest_child.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/os/os.h"

enum { POLL_MS = 10, MAX_ROWS_BYTES = 1 << 20, ROW_FIELDS = 6 };

int clef__selftest_can_be_apart(const clef_device *dev)
{
    return dev->prover[0] && dev->cache_dir[0];
}

/* Parses "VARIANT STATE USED CASES FAILED WORST WHY", with "-" for no variant. */
static int read_row(char *line, const char *op, char variant[32], clef_selftest_row *out)
{
    int state = 0, used = 0, cases = 0, failed = 0, at = 0;
    double worst = 0;
    if (sscanf(line, "%31s %d %d %d %d %lf %n", variant, &state, &used, &cases, &failed, &worst, &at) !=
            ROW_FIELDS ||
        state < CLEF_SELFTEST_PASSED || state > CLEF_SELFTEST_UNFIT)
        return 0;
    *out = (clef_selftest_row){.op = op,
                               .variant = strcmp(variant, "-") ? variant : "",
                               .state = (clef_selftest_state)state,
                               .used = used,
                               .cases = cases,
                               .failed = failed,
                               .worst = worst,
                               .why = line + at};
    return 1;
}

static void give_row(const clef_selftest_opts *opts, const clef_selftest_row *row, int32_t *n_failed)
{
    *n_failed += row->used && row->failed;
    if (opts->row)
        opts->row(opts->user, row);
}

static void give_rows(char *text, const char *op, const clef_selftest_opts *opts, int32_t *n_failed)
{
    char variant[32];
    clef_selftest_row row;
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (read_row(line, op, variant, &row))
            give_row(opts, &row, n_failed);
    }
}

/* The process ended before its last row. */
static void give_end(const char *op, int code, const clef_selftest_opts *opts, int32_t *n_failed)
{
    char why[80];
    snprintf(why, sizeof why, "its process ended %s %d", code < 0 ? "by signal" : "with code",
             code < 0 ? -code : code);
    give_row(opts,
             &(clef_selftest_row){
                 .op = op, .variant = "", .state = CLEF_SELFTEST_FAILED, .used = 1, .failed = 1, .why = why},
             n_failed);
}

static clef_status wait_for(int64_t process, clef_status (*go_on)(void *, clef_error *), void *user,
                            int *code, clef_error *err)
{
    clef_status s = CLEF_OK;
    while (!s && !clef__os_ended(process, code)) {
        clef__os_sleep(POLL_MS);
        s = go_on(user, err);
    }
    if (s)
        clef__os_kill(process);
    return s;
}

clef_status clef__selftest_apart(clef_device *dev, clef_op op, const clef_selftest_opts *opts,
                                 clef_status (*go_on)(void *user, clef_error *err), void *user,
                                 int32_t *n_failed, clef_error *err)
{
    const char *name = clef__ops[op]->name;
    char device[32], cache[sizeof dev->cache_dir + 16], rows[sizeof dev->cache_dir + 48], *text = NULL;
    const char *const environment[] = {cache, NULL};
    const char *argv[] = {dev->prover, "selftest", "--op", name, "--rows", rows,
                          "-d",        device,     "-q",   NULL, NULL};
    int64_t process = 0;
    size_t n = 0;
    int code = 0;
    snprintf(device, sizeof device, "%d:%d", (int)dev->info.platform, (int)dev->info.index);
    snprintf(cache, sizeof cache, "CLEF_CACHE_DIR=%s", dev->cache_dir);
    snprintf(rows, sizeof rows, "%s/selftest-%" PRIx64, dev->cache_dir, clef__os_unique());
    if (opts->all)
        argv[9] = "--all";
    clef_status s = clef__os_spawn(argv, environment, &process, err);
    if (!s)
        s = wait_for(process, go_on, user, &code, err);
    if (!s && clef__os_is_file(rows) && !clef__os_read(rows, MAX_ROWS_BYTES, &text, &n, NULL))
        give_rows(text, name, opts, n_failed);
    if (!s && code != 0 && !(code == 1 && text)) /* 1: the op has failed rows */
        give_end(name, code, opts, n_failed);
    free(text);
    clef__os_remove(rows);
    return s;
}
