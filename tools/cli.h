/* The command line: each command has a table of its options; this reads argv by it and prints the help from it. */
#ifndef CLEF_TOOLS_CLI_H
#define CLEF_TOOLS_CLI_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "clef/status.h"

/** Exit codes of the process. */
enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };
/** What clef__cli_parse() returns when the command should go on. */
enum { CLI_GO_ON = -1 };

enum { CLI_MAX_LIST = 64 };

/** A flag that may be repeated: the texts in order, borrowed from argv. */
typedef struct clef__list {
    const char *items[CLI_MAX_LIST];
    int32_t     n;
} clef__list;

typedef enum clef__type {
    CLI_SWITCH, /* int32_t: 1 when given; takes no value */
    CLI_INT,    /* int32_t in [lo, hi] */
    CLI_SEED,   /* clef__seed */
    CLI_FLOAT,  /* float in [lo, hi] */
    CLI_TEXT,   /* const char *, borrowed */
    CLI_LIST,   /* clef__list */
    CLI_CHOICE  /* int32_t: the index in `choices` */
} clef__type;

typedef struct clef__seed {
    uint64_t value;
    int32_t  given;
} clef__seed;

typedef struct clef__option {
    const char        *names;   /* "n-predict,predict": the first is shown, the others are taken too; NULL ends the table */
    char               letter;  /* 0: none */
    clef__type         type;
    const char        *value;   /* how the help calls its value: "N"; NULL for a switch */
    const char        *help;
    size_t             offset;  /* in the command's options struct */
    double             lo, hi;  /* INT, FLOAT */
    const char *const *choices; /* CHOICE: NULL ends them */
    const char        *env;     /* a variable that gives the default; NULL: none */
} clef__option;

typedef struct clef__command {
    const char         *name;
    const char         *usage;   /* "[MODEL] -p PROMPT" */
    const char         *summary; /* one line */
    const char         *notes;   /* further lines of its help; NULL: none */
    const clef__option *options;
    int32_t             min_args, max_args;
    const void         *defaults; /* of the options struct */
    size_t              options_bytes;
    int (*run)(const void *options, int32_t n_args, char **args); /* returns the exit code */
} clef__command;

#define COMMAND(name) extern const clef__command clef__command_##name;
#include "tools/commands.def"
#undef COMMAND

/** Reads argv[0 .. argc-1] (what follows the command's name) into `options`, which already hold the defaults. What is no option is moved
 *  to the front of argv, *n_args of it. `--` ends the options; "-" alone is an argument.
 *  CLI_GO_ON; CLI_OK when help was asked for and printed; CLI_USAGE after one line on stderr. */
int clef__cli_parse(const clef__command *command, int argc, char **argv, void *options, int32_t *n_args);

/** Prints a command's help. */
void clef__cli_help(const clef__command *command, FILE *to);

/** Of `names` (NULL ends them; each may be a list with commas) the one that `word` most likely meant, in `out`; NULL when none is near.
 *  names is read with a stride, so that it may be a member of an array of structs. */
const char *clef__cli_nearest(const char *word, const void *names, size_t stride, char out[64]);

/** Prints "clef: " and the sentence, one line, on stderr. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
int clef__cli_fail(int exit_code, const char *format, ...);
/** The same for what the library reported; returns CLI_FAILED (CLI_INTERRUPTED for CLEF_E_CANCELLED). */
int clef__cli_report(const clef_error *err);

#endif
