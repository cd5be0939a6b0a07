/* clef selftest: runs every op and variant on a device against the reference. With --prove, it is the program
 * that a plan starts to prove kernels. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/prove/prover.h"
#include "tools/cli/common.h"
#include "tools/cli/progress.h"

typedef struct selftest_options {
    const char *device, *op, *prove, *rows, *then_from;
    int32_t all, first, quiet;
} selftest_options;

static const selftest_options selftest_defaults = {0};

/* clang-format off */
static const cli_option selftest_option_table[] = {
    DEVICE_OPTION(selftest_options),
    {.names = "all", .type = CLI_SWITCH, .offset = offsetof(selftest_options, all),
     .help = "also test variants that would not be used"},
    {.names = "op", .type = CLI_TEXT, .value = "OP[,OP]", .offset = offsetof(selftest_options, op),
     .help = "test only these ops"},
    {.names = "rows", .type = CLI_TEXT, .value = "FILE", .offset = offsetof(selftest_options, rows),
     .help = "write the results to a file, for the process that tests several ops"},
    {.names = "prove", .type = CLI_TEXT, .value = "FILE", .offset = offsetof(selftest_options, prove),
     .help = "run the cases of a file that clef wrote to prove a plan's kernels, and nothing else"},
    {.names = "first", .type = CLI_INT, .value = "N", .offset = offsetof(selftest_options, first), .lo = 0,
     .hi = 1000000, .help = "with --prove: begin with this case"},
    {.names = "then-from", .type = CLI_TEXT, .value = "FILE", .offset = offsetof(selftest_options, then_from),
     .help = "with --prove: then wait until this file names another one"},
    QUIET_OPTION(selftest_options),
    {.names = NULL},
};
/* clang-format on */

typedef struct table {
    cli_progress progress;
    int32_t n_rows;
    FILE *rows; /* NULL: the table is printed */
} table;

static void write_row(FILE *to, const clef_selftest_row *r)
{
    fprintf(to, "%s %d %d %d %d %.9g %.*s\n", r->variant[0] ? r->variant : "-", (int)r->state, (int)r->used,
            (int)r->cases, (int)r->failed, r->worst, (int)strcspn(r->why, "\n"), r->why);
    fflush(to);
}

static void print_row(void *user, const clef_selftest_row *r)
{
    table *t = user;
    const char *verdict = r->state == CLEF_SELFTEST_UNFIT    ? "unfit"
                          : r->state == CLEF_SELFTEST_FAILED ? "FAILED"
                          : r->cases                         ? "ok"
                                                             : "no case";
    if (t->rows) {
        write_row(t->rows, r);
        return;
    }
    cli_progress_finish(&t->progress);
    if (!t->n_rows++)
        printf("%-17s %-9s %-5s %6s  %-10s %s\n", "op", "variant", "used", "cases", "worst", "verdict");
    printf("%-17s %-9s %-5s %6" PRId32 "  %-10.3g %s%s%.400s\n", r->op, r->variant[0] ? r->variant : "-",
           r->used ? "yes" : "no", r->cases, r->worst, verdict, r->why[0] ? ": " : "", r->why);
    fflush(stdout);
}

static clef_status test_device(const selftest_options *o, clef_device *device, FILE *rows, int32_t *n_failed,
                               clef_error *err)
{
    table t = {.rows = rows};
    cli_progress_init(&t.progress, o->quiet);
    if (!o->quiet)
        cli_say_device(device);
    const clef_status s = clef_selftest(device,
                                        &(clef_selftest_opts){.all = o->all,
                                                              .op = o->op,
                                                              .apart = !o->rows,
                                                              .row = print_row,
                                                              .user = &t,
                                                              .progress = cli_progress_step,
                                                              .progress_user = &t.progress},
                                        n_failed, err);
    cli_progress_finish(&t.progress);
    return s;
}

static int selftest_run(const void *options, int32_t n_args, char **args)
{
    const selftest_options *o = options;
    clef_error err = {0};
    clef_device *device = NULL;
    int32_t n_failed = 0;
    (void)n_args, (void)args;
    FILE *rows = o->rows ? fopen(o->rows, "w") : NULL;
    if (o->rows && !rows)
        return cli_fail(CLI_FAILED, "%s: cannot be written", o->rows);
    clef_status s = o->prove ? clef_prove(o->device, o->prove, o->first, o->then_from, &err)
                             : clef_device_open(o->device, NULL, &device, &err);
    if (!s && !o->prove)
        s = test_device(o, device, rows, &n_failed, &err);
    if (rows)
        fclose(rows);
    clef_device_close(device);
    if (s && o->prove) /* the caller reads the journal, and reports what matters */
        return CLI_FAILED;
    if (s)
        return cli_report(&err);
    return n_failed ? cli_fail(CLI_FAILED, "%" PRId32 " variants that this device would use failed", n_failed)
                    : CLI_OK;
}

const cli_command cli_command_selftest = {
    .name = "selftest",
    .usage = "[-d DEVICE] [--all] [--op OP[,OP]]",
    .summary = "Test every op on a device against a reference",
    .notes =
        "worst: the largest error, as a share of the op's tolerance. used: this device uses the variant, "
        "by default or by measurement. The exit code is 1 when such a variant fails.\n"
        "Each of several ops is tested in a process of its own. The test takes minutes where kernels compile "
        "slowly.\n",
    .options = selftest_option_table,
    .defaults = &selftest_defaults,
    .options_bytes = sizeof selftest_defaults,
    .run = selftest_run,
};
