/* The flags of a constraint, the same for every command that has them. */
#ifndef CLEF_TOOLS_CONSTRAINT_H
#define CLEF_TOOLS_CONSTRAINT_H

#include "clef/constrain.h"
#include "clef/model.h"
#include "clef/tools.h"
#include "tools/cli/cli.h"

typedef struct cli_constraint {
    const char *grammar, *schema, *regex, *choice;
    int32_t     json, strict;
} cli_constraint;

/** One entry of a command's option table; `at` is the offset of its cli_constraint. */
#define CLI_CONSTRAINT_FLAG(flag, kind, arg, at, member, text)                                      \
    {.names = flag, .type = kind, .value = arg, .offset = (at) + offsetof(cli_constraint, member),  \
     .help = text}

/** All of them. */
#define CLI_CONSTRAINT_OPTIONS(at)                                                                  \
    {.type = CLI_HEADING, .names = "", .help = "A constraint that the text must fit"},              \
    CLI_CONSTRAINT_FLAG("json-schema", CLI_TEXT, "FILE|TEXT", at, schema,                           \
                        "JSON of this schema: a file, or the schema itself"),                       \
    CLI_CONSTRAINT_FLAG("json", CLI_SWITCH, NULL, at, json, "any JSON value"),                      \
    CLI_CONSTRAINT_FLAG("grammar", CLI_TEXT, "FILE", at, grammar, "a grammar in GBNF"),             \
    CLI_CONSTRAINT_FLAG("regex", CLI_TEXT, "RE", at, regex,                                         \
                        "a text that this regular expression (ECMA-262) matches as a whole"),       \
    CLI_CONSTRAINT_FLAG("choice", CLI_TEXT, "A,B", at, choice, "one of these texts"),               \
    CLI_CONSTRAINT_FLAG("strict-schema", CLI_SWITCH, NULL, at, strict,                                     \
                        "an unknown format in a schema is an error")

/** "auto", "required" or the name of a function. */
void cli_tool_choice(const char *text, clef_tool_constraint_opts *opts);
/** Compiles a constraint on calls, and reports on stderr what is left out of schemas. As
 *  cli_constraint_open(). */
int cli_tool_constraint_open(const clef_tool_constraint_opts *opts, clef_constraint **out);

/** Compiles the constraint that the flags name; *out is NULL if they name none. tok NULL, or the model's.
 *  Returns CLI_GO_ON, or the exit code after a message. */
int cli_constraint_open(const cli_constraint *flags, const char *command, const clef_tokenizer *tok,
                        clef_constraint **out);

/** 1 if the flags name a constraint. */
int cli_constraint_given(const cli_constraint *flags);

/** A constraint with the vocabulary of a model; zeroed: none. */
typedef struct cli_guide {
    clef_constraint *constraint;
    clef_token_trie *trie;
} cli_guide;
/** Compiles the constraint that the flags name, if any, for a model that outlives it. As
 *  cli_constraint_open(). */
int  cli_guide_open(const cli_constraint *flags, const char *command, clef_model *model, cli_guide *out);
/** The tokens of a model that end a text; returns their number. */
enum { CLI_END_TOKENS = 48 };
int32_t cli_end_tokens(clef_model *model, int32_t ids[CLI_END_TOKENS]);
void cli_guide_finish(cli_guide *guide);

#endif
