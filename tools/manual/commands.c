/* The table of the commands, from commands.def. */
#include <string.h>

#include "tools/manual/manual.h"

#define GROUP(title) {title, NULL},
#define COMMAND(name) {NULL, &cli_command_##name},
/* clang-format off */
const cli_command_row cli_commands[] = {
#include "tools/cli/commands.def"
    {NULL, NULL},
};
/* clang-format on */
#undef COMMAND

const cli_command *cli_command_find(const char *name)
{
    for (const cli_command_row *row = cli_commands; row->group || row->command; row++)
        if (row->command && strcmp(row->command->name, name) == 0)
            return row->command;
    return NULL;
}
