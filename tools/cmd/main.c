/* The command `clef`: finds the subcommand, reads its options, runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "tools/cli/terminal.h"
#include "tools/manual/manual.h"
#include "tools/ranks.h"

static const char *const command_names[] = {
#define COMMAND(name) #name,
#include "tools/cli/commands.def"
#undef COMMAND
    "help", NULL};

static int no_command(const char *name)
{
    char near_name[64];
    if (cli_nearest(name, command_names, sizeof *command_names, near_name))
        return cli_fail(CLI_USAGE, "no command '%s'; did you mean '%s'?", name, near_name);
    return cli_fail(CLI_USAGE, "no command '%s'; `clef help` lists them", name);
}

/* `clef help [COMMAND [--all]]`. The build also calls `clef help --man DATE [COMMAND]` and `clef help
 * --completion SHELL` (cmake/manual.cmake). */
static int print_help(int argc, char **argv)
{
    const int is_man = argc > 1 && strcmp(argv[0], "--man") == 0, n = is_man ? 2 : 0;
    const int is_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    if (argc == 2 && strcmp(argv[0], "--completion") == 0)
        return cli_completion(argv[1], stdout);
    const cli_command *command = argc > n ? cli_command_find(argv[n]) : NULL;
    if (argc > n && !command)
        return no_command(argv[n]);
    if (is_man)
        cli_man_page(command, argv[1], stdout);
    else if (command)
        cli_help(command, is_all ? CLI_ALL : CLI_FIRST_PAGE, stdout);
    else
        cli_help_all(stdout);
    return CLI_OK;
}

static int run_command(const cli_command *command, int argc, char **argv)
{
    int32_t n_args = 0;
    void *options = malloc(command->options_bytes);
    if (!options)
        return cli_fail(CLI_FAILED, "out of host memory");
    memcpy(options, command->defaults, command->options_bytes);
    int rc = cli_parse(command, argc, argv, options, &n_args);
    if (rc == CLI_GO_ON)
        rc = cli_ranks_start(command, options);
    if (rc == CLI_GO_ON)
        rc = command->run(options, n_args, argv);
    free(options);
    return rc;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        cli_help_all(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("clef %s\n", clef_version());
        return CLI_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_help(argc - 2, argv + 2);
    const cli_command *command = cli_command_find(name);
    return command ? run_command(command, argc - 2, argv + 2) : no_command(name);
}

int main(int argc, char **argv)
{
    cli_terminal_start();
    cli_terminal_offer_prover();
    cli_ranks_command_line(argc, argv);
    int rc = dispatch(argc, argv);
    cli_ranks_end(rc);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == CLI_OK) {
        rc = CLI_FAILED;
        if (errno != EPIPE) /* the reader of the output has gone, so there is nobody to tell */
            cli_fail(rc, "cannot write to stdout: %s", errno ? strerror(errno) : "a write failed");
    }
    return rc;
}
