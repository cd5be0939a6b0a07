#include "clef/ranks.h"

#include "tools/absent/absent.h"
#include "tools/bench/bench.h"
#include "tools/graph/graph_ranks.h"
#include "tools/ranks.h"
#include "tools/scaling.h"

static clef_status no_ranks(clef_error *err)
{
    return CLI_ABSENT(err, "several ranks", "CLEF_RANKS");
}

/* ---- the command ----------------------------------------------------------------------------- */

void cli_ranks_command_line(int argc, char **argv)
{
    (void)argc, (void)argv;
}

int cli_ranks_start(const cli_command *command, const void *options)
{
    clef_error err = {0};
    (void)command, (void)options;
    if (clef_ranks_started() == 1)
        return CLI_GO_ON;
    no_ranks(&err);
    return cli_report(&err);
}

clef_status cli_ranks_device(const char *which, char *own, size_t n_own, clef_device_opts *opts,
                             clef_error *err)
{
    (void)which, (void)own, (void)n_own, (void)opts;
    return no_ranks(err);
}

clef_status cli_ranks_begin(clef_status status, clef_device *device, clef_error *err)
{
    (void)device, (void)err;
    return status;
}

clef_status cli_ranks_sent(uint64_t **out, int32_t *n, clef_error *err)
{
    (void)err;
    *out = NULL;
    *n = 0;
    return CLEF_OK;
}

void cli_ranks_before_end(void (*call)(void *user), void *user)
{
    (void)call, (void)user;
}

void cli_ranks_end(int rc)
{
    (void)rc;
}

int cli_ranks_join_apart(const char *command, int32_t n, clef_ranks **out)
{
    clef_error err = {0};
    (void)command;
    *out = NULL;
    if (!n && clef_ranks_started() == 1)
        return CLI_GO_ON;
    no_ranks(&err);
    return cli_report(&err);
}

int cli_ranks_agree(int code)
{
    return code;
}

int cli_ranks_compare(const char *text)
{
    (void)text;
    return CLI_GO_ON;
}

/* ---- what commands call with ranks that they have joined --------------------------------------- */

void clef_ranks_describe(const clef_ranks *ranks, clef_ranks_info *out)
{
    (void)ranks;
    *out = (clef_ranks_info){.n = 1, .n_local = 1, .n_nodes = 1, .width = 1, .stages = 1};
}

clef_status clef_ranks_sum(clef_ranks *ranks, double *values, int32_t n, clef_error *err)
{
    (void)ranks, (void)values, (void)n;
    return no_ranks(err);
}

int cli_bench_network(const bench *b)
{
    clef_error err = {0};
    (void)b;
    no_ranks(&err);
    return cli_report(&err);
}

/* ---- prediction and graphs --------------------------------------------------------------------- */

clef_status cli_link_read(const char *flag, const char *text, cli_link *out, clef_error *err)
{
    (void)flag, (void)text, (void)out;
    return no_ranks(err);
}

clef_status cli_device_profile_read(const char *path, cli_device_profile *out, clef_error *err)
{
    (void)path, (void)out;
    return no_ranks(err);
}

clef_status cli_device_profile_measure(clef_device *device, int32_t again, cli_device_profile *out,
                                       clef_error *err)
{
    (void)device, (void)again, (void)out;
    return no_ranks(err);
}

void cli_device_profile_write(const cli_device_profile *profile, FILE *to)
{
    (void)profile, (void)to;
}

clef_status cli_scaling_predict(const clef_graph *graph, int32_t width, int32_t stages, cli_scaling *s,
                                clef_error *err)
{
    (void)graph, (void)width, (void)stages, (void)s;
    return no_ranks(err);
}

clef_status cli_scaling_text(void *s, FILE *to, clef_error *err)
{
    (void)s, (void)to;
    return no_ranks(err);
}

clef_status cli_scaling_json(void *s, FILE *to, clef_error *err)
{
    (void)s, (void)to;
    return no_ranks(err);
}

clef_status cli_rank_graphs_make(const cli_rank_choice *choice, const clef_graph *graph, cli_rank_graphs *out,
                                 clef_error *err)
{
    (void)graph;
    *out = (cli_rank_graphs){.n = 0};
    return choice->rank || choice->width || choice->stages ? CLI_ABSENT(err, "graphs of ranks", "CLEF_RANKS")
                                                           : CLEF_OK;
}

void cli_rank_graphs_finish(cli_rank_graphs *graphs)
{
    (void)graphs;
}
