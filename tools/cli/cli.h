/* The command line: each command has a table of its options, from which argv is parsed and the help is
 * printed. */
#ifndef CLEF_TOOLS_CLI_CLI_H
#define CLEF_TOOLS_CLI_CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clef/status.h"

/** Marks a function whose arguments are those of printf(): the number of the format, and of the first value.
 *  Under MinGW "printf" means Microsoft's, with other letters for long numbers. */
#if defined(__MINGW32__) && defined(__GNUC__)
#  define CLI_PRINTF(format_at, first) __attribute__((format(gnu_printf, format_at, first)))
#elif defined(__GNUC__)
#  define CLI_PRINTF(format_at, first) __attribute__((format(printf, format_at, first)))
#else
#  define CLI_PRINTF(format_at, first)
#endif

/** Exit codes of the process. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };
/** What cli_parse() returns when the command should run. */
enum { CLI_GO_ON = -1 };

enum { CLI_MAX_LIST = 64 };

/** The values of a flag that may be repeated, in order, borrowed from argv. */
typedef struct cli_list {
    const char *items[CLI_MAX_LIST];
    int32_t     n;
} cli_list;

typedef enum cli_type {
    CLI_SWITCH, /* int32_t: 1 when given; takes no value */
    CLI_INT,    /* int32_t in [lo, hi] */
    CLI_SEED,   /* cli_seed */
    CLI_FLOAT,  /* float in [lo, hi] */
    CLI_TEXT,   /* const char *, borrowed */
    CLI_LIST,   /* cli_list */
    CLI_CHOICE, /* int32_t: the index in `choices` */
    CLI_HEADING /* not an option: `help` is the title of the options after it */
} cli_type;

typedef struct cli_seed {
    uint64_t value;
    int32_t  given;
} cli_seed;

typedef struct cli_option {
    const char        *names;   /* "n-predict,predict": the first is shown, the others also work; NULL ends
                                   the table */
    char               letter;  /* 0: none */
    cli_type         type;
    const char        *value;   /* the name of its value in the help: "N"; NULL for a switch */
    const char        *help;    /* NULL: an internal option that no help shows */
    size_t             offset;  /* offset in the command's options struct */
    double             lo, hi;  /* INT, FLOAT */
    const char *const *choices; /* CHOICE: NULL ends them */
    const char *(*choice)(int32_t i); /* TEXT: NULL, or returns value i of a list for help and completions;
                                         NULL ends it */
    const char        *env;     /* an environment variable with the default; NULL: none */
} cli_option;

typedef struct cli_command {
    const char         *name;
    const char         *usage;   /* "[MODEL] -p PROMPT" */
    const char         *summary; /* one line */
    const char         *notes;   /* more lines for its help; NULL: none */
    const cli_option *options;
    const char         *first;   /* "model n-predict": the flags of the first page of its help, 18 at most;
                                    NULL: all */
    int32_t             min_args, max_args;
    int32_t             apart;    /* 1: under a launcher of ranks each of them runs the command by itself */
    const void         *defaults; /* an options struct with the defaults */
    size_t              options_bytes;
    int (*run)(const void *options, int32_t n_args, char **args); /* returns the exit code */
} cli_command;

#define COMMAND(name) extern const cli_command cli_command_##name;
#include "tools/cli/commands.def"
#undef COMMAND

/** Parses argv[0 .. argc-1] (after the command's name) into `options`, which already hold the defaults.
 *  Arguments that are not options are moved to the front of argv, *n_args of them. `--` ends the options; "-"
 *  alone is an argument. Returns CLI_GO_ON; CLI_OK when help was asked for and printed; CLI_USAGE after one
 *  line on stderr. */
int cli_parse(const cli_command *command, int argc, char **argv, void *options, int32_t *n_args);

/** Prints a command's help: the first page, with the flags that people use, or all of it. */
typedef enum cli_page { CLI_FIRST_PAGE, CLI_ALL } cli_page;
void cli_help(const cli_command *command, cli_page page, FILE *to);

/** The name that `word` most likely means, copied to `out`; NULL when none is close. `names` ends with NULL;
 *  each entry may be a list with commas. It is read with a stride, so that it may be a member of an array of
 *  structs. */
const char *cli_nearest(const char *word, const void *names, size_t stride, char out[64]);

/** Prints "clef: " and the sentence as one line on stderr. */
CLI_PRINTF(2, 3)
int cli_fail(int exit_code, const char *format, ...);
/** From now on cli_fail() prints nothing, and writes the sentence to `text`. */
void cli_hold_messages(char *text, size_t n_bytes);
/** Prints an error of the library; returns CLI_FAILED (CLI_INTERRUPTED for CLEF_E_CANCELLED). */
int cli_report(const clef_error *err);

#endif
