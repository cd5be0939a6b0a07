/* clef ops: the ops that graphs are made of, with their formulas. */
#include <string.h>

#include "tools/cli/common.h"

typedef struct ops_options {
    int32_t none;
} ops_options;

static const ops_options ops_defaults = {0};
static const cli_option ops_option_table[] = {{.names = NULL}};

static int ops_run(const void *options, int32_t n_args, char **args)
{
    (void)options, (void)n_args, (void)args;
    int width = 0;
    for (int32_t i = 0; clef_op_name(i); i++)
        if ((int)strlen(clef_op_name(i)) > width)
            width = (int)strlen(clef_op_name(i));
    for (int32_t i = 0; clef_op_name(i); i++)
        printf("%-*s  %s\n", width, clef_op_name(i), clef_op_formula(i));
    return CLI_OK;
}

const cli_command cli_command_ops = {
    .name = "ops",
    .usage = "",
    .summary = "List the graph ops and their formulas",
    .options = ops_option_table,
    .defaults = &ops_defaults,
    .options_bytes = sizeof ops_defaults,
    .run = ops_run,
};
