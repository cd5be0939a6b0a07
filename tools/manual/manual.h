/* Texts made from the tables of commands and options: help, man pages and completions. */
#ifndef CLEF_TOOLS_MANUAL_H
#define CLEF_TOOLS_MANUAL_H

#include "tools/cli/cli.h"

/** A row of commands.def: a group's title, or a command of the group above it. Both NULL end the table. */
typedef struct cli_command_row {
    const char        *group;
    const cli_command *command;
} cli_command_row;
extern const cli_command_row cli_commands[];

/** The command with that name, NULL if there is none. */
const cli_command *cli_command_find(const char *name);

/** Prints the list of all commands. */
void cli_help_all(FILE *to);

/** Prints a man page, in man(7), of one command, or of clef itself if `command` is NULL. date:
 *  "2026-01-31". */
void cli_man_page(const cli_command *command, const char *date, FILE *to);

/** Prints the completions of a shell: "bash", "zsh" or "fish". CLI_OK, or CLI_USAGE after a message. */
int cli_completion(const char *shell, FILE *to);

#endif
