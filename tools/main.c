/* The command `clef`: finds the subcommand, reads its options, runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clef/clef.h"
#include "tools/cli.h"
#include "tools/terminal.h"

static const cli_command *const commands[] = {
#define COMMAND(name) &cli_command_##name,
#include "tools/commands.def"
#undef COMMAND
};
static const char *const command_names[] = {
#define COMMAND(name) #name,
#include "tools/commands.def"
#undef COMMAND
    "help", NULL};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *to)
{
    fputs("usage: clef COMMAND [ARGUMENTS]\n\nTransformers on any OpenCL device.\n\n", to);
    for (int32_t i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("  help       Print this text, or with a command's name its flags\n\n"
          "`clef --version` prints the version. Results go to stdout, all else to stderr.\n"
          "Exit code: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted.\n",
          to);
}

static const cli_command *find_command(const char *name)
{
    for (int32_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int no_command(const char *name)
{
    char near_name[64];
    if (cli_nearest(name, command_names, sizeof *command_names, near_name))
        return cli_fail(CLI_USAGE, "no command '%s'; did you mean '%s'?", name, near_name);
    return cli_fail(CLI_USAGE, "no command '%s'; `clef help` lists them", name);
}

static int help(int argc, char **argv)
{
    const cli_command *command = argc > 0 ? find_command(argv[0]) : NULL;
    if (argc > 0 && !command)
        return no_command(argv[0]);
    if (command)
        cli_help(command, stdout);
    else
        print_help(stdout);
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
        rc = command->run(options, n_args, argv);
    free(options);
    return rc;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        printf("clef %s\n", clef_version());
        return CLI_OK;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 2, argv + 2);
    const cli_command *command = find_command(name);
    return command ? run_command(command, argc - 2, argv + 2) : no_command(name);
}

int main(int argc, char **argv)
{
    cli_terminal_offer_prover();
    int rc = dispatch(argc, argv);
    errno = 0;
    if ((fflush(stdout) != 0 || ferror(stdout)) && rc == CLI_OK) {
        rc = CLI_FAILED;
        if (errno != EPIPE) /* whoever read our output has gone: nothing to tell */
            cli_fail(rc, "cannot write to stdout: %s", errno ? strerror(errno) : "a write failed");
    }
    return rc;
}
